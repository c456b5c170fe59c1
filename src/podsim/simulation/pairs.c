/* The job shop of two jobs: the way that ends soonest around the places where both chains want the same stream. */
#include "native.h"

/* Two chains of ops; podsim/simulation/pairs.py describes them. */
struct Chains {
    const double *done;
    const int64_t *stream;
    const double *other;
    const int64_t *other_stream;
    double *best;
    int64_t *came;
    int64_t ops;
    int64_t other_ops;
};

/* Both chains go on without a pause from corner (i, j) until one waits for the other: where, and when. */
static void run_on(const struct Chains *c, int64_t *i, int64_t *j, double *x, double *y, double *time) {
    while (*i < c->ops && *j < c->other_ops && c->stream[*i] != c->other_stream[*j]) {
        double step = c->done[*i + 1] - *x, step_other = c->other[*j + 1] - *y;
        *time += min_double(step, step_other);
        if (step <= step_other) {
            *i += 1;
            *x = c->done[*i];
            *y += step;
        }
        if (step_other <= step) {
            *j += 1;
            *x = step == step_other ? c->done[*i] : *x + step_other;
            *y = c->other[*j];
        }
    }
}

static void improve(const struct Chains *c, int64_t at, double time, int64_t from) {
    if (time < c->best[at]) {
        c->best[at] = time;
        c->came[at] = from;
    }
}

/* The least time at each corner that can follow (i0, j0), by way of it. */
static void leave_corner(const struct Chains *c, int64_t i0, int64_t j0) {
    int64_t n = c->ops, m = c->other_ops, wide = m + 1, here = i0 * wide + j0, i = i0, j = j0;
    double time = c->best[here], x = c->done[i], y = c->other[j];
    if (time == INFINITY) return;
    run_on(c, &i, &j, &x, &y, &time);
    if (i == n || j == m) {
        double end = time + (j == m ? c->done[n] - x : c->other[m] - y);
        if (i0 < n || j0 < m) improve(c, n * wide + m, end, here);
        return;
    }
    /* one of the two goes first; the other stops before the op that they meet at */
    double begun = c->done[i0], other_begun = c->other[j0];
    improve(c, (i + 1) * wide + j, c->best[here] + max_double(c->done[i + 1] - begun, c->other[j] - other_begun), here);
    improve(c, i * wide + j + 1, c->best[here] + max_double(c->done[i] - begun, c->other[j + 1] - other_begun), here);
}

/* The corners of the way that ends soonest, last to first, as rows of `way` (ops of the first chain done, of the second,
 * s); how many. `best` starts infinite but for its first cell, 0. */
EXPORT int64_t pair_corners(const struct Chains *c, double *way) {
    int64_t wide = c->other_ops + 1, at = c->ops * wide + c->other_ops, length = 0;
    for (int64_t i = 0; i <= c->ops; i++)
        for (int64_t j = 0; j <= c->other_ops; j++) leave_corner(c, i, j);
    for (;; at = c->came[at]) {
        way[3 * length] = (double)(at / wide);
        way[3 * length + 1] = (double)(at % wide);
        way[3 * length + 2] = c->best[at];
        length += 1;
        if (at == 0) return length;
    }
}
