/* How long the parts of a step take: tables of each kind of replica, interpolated. */
#include "server_state.h"

/* The position before x in at least two ascending values, and how far x is to the next; above 1 beyond the last. */
static int64_t segment(const double *values, int64_t count, double x, double *share) {
    int64_t low = 0, high = count - 1;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (values[middle] <= x) low = middle;
        else high = middle;
    }
    *share = max_double((x - values[low]) / (values[high] - values[low]), 0.0);
    return low;
}

static double interpolate(const double *values, int64_t count, const double *seconds, double x) {
    if (count == 1) return seconds[0];
    double share;
    int64_t at = segment(values, count, x, &share);
    return seconds[at] + share * (seconds[at + 1] - seconds[at]);
}

/* Seconds at (x, y) of a table with a row for each x. */
static double interpolate_grid(const double *xs, int64_t rows, const double *ys, int64_t columns, const double *seconds,
                               double x, double y) {
    if (rows == 1) return interpolate(ys, columns, seconds, y);
    double share;
    int64_t at = segment(xs, rows, x, &share);
    double low = interpolate(ys, columns, seconds + at * columns, y);
    double high = interpolate(ys, columns, seconds + (at + 1) * columns, y);
    return low + share * (high - low);
}

/* Seconds of what the tokens of a step decide, in a step of decoding sequences alone or in one with prompts. */
double tokens_seconds(const Server *s, const struct Kind *kind, double tokens, bool has_prompts) {
    const double *table = s->pool->table + kind->table;
    return interpolate(table, kind->tokens, table + (has_prompts ? 2 : 1) * kind->tokens, tokens);
}

/* Seconds of the attention of decoding requests with a mean context. */
double decode_seconds(const Server *s, const struct Kind *kind, double requests, double context) {
    const double *first = s->pool->table + kind->table + 3 * kind->tokens;
    const double *second = first + kind->decode_requests, *table = second + kind->decode_contexts;
    return interpolate_grid(first, kind->decode_requests, second, kind->decode_contexts, table, requests, context);
}

/* Seconds of the attention of a part of a prompt, with tokens before it in the cache. */
double prompt_seconds(const Server *s, const struct Kind *kind, double new_tokens, double past) {
    const double *first = s->pool->table + kind->table + 3 * kind->tokens + kind->decode_requests +
                          kind->decode_contexts + kind->decode_requests * kind->decode_contexts;
    const double *second = first + kind->prompt_news, *table = second + kind->prompt_pasts;
    return interpolate_grid(first, kind->prompt_news, second, kind->prompt_pasts, table, new_tokens, past);
}
