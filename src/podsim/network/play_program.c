/* What the flows of a table wait for: equal rows numbered, and pairs of flows of which one reads what the other wrote. */
#include "network/hash.h"

/* Columns of a table that say which chunks a flow touches when; podsim/network/play_program.py describes them. */
struct Trains {
    const int64_t *source;
    const int64_t *step;
    const int64_t *repeat;
    const int64_t *chunk;
    const int64_t *chunks;
    const int64_t *turn;
    const int64_t *wheel;
};

/* A random-looking number for each value. */
EXPORT void mix_values(const int64_t *values, int64_t count, int64_t *out) {
    for (int64_t i = 0; i < count; i++) out[i] = hash_pair(values[i], 0);
}

/* Whether rows a and b agree in all columns. */
static int is_same(const int64_t *columns, int64_t fields, int64_t rows, int64_t a, int64_t b) {
    for (int64_t c = 0; c < fields; c++)
        if (columns[c * rows + a] != columns[c * rows + b]) return 0;
    return 1;
}

/* Number equal rows: member[r] is the group of row r, first[g] the first row of group g; the number of groups.
 * `columns` is [fields, rows], `keys` is scratch, [rows]; `slots` is a hash table of -1s, [size], a power of two. */
EXPORT int64_t number_rows(const int64_t *columns, int64_t fields, int64_t rows, int64_t *keys, int64_t *slots,
                           int64_t size, int64_t *member, int64_t *first) {
    int64_t count = 0;
    memset(keys, 0, (size_t)rows * sizeof *keys);
    for (int64_t c = 0; c < fields; c++)
        for (int64_t r = 0; r < rows; r++) keys[r] = hash_pair(keys[r], columns[c * rows + r]);
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = keys[r] & (size - 1);
        while (slots[at] >= 0 && (keys[first[slots[at]]] != keys[r] || !is_same(columns, fields, rows, first[slots[at]], r)))
            at = (at + 1) & (size - 1);
        if (slots[at] < 0) {
            slots[at] = count;
            first[count++] = r;
        }
        member[r] = slots[at];
    }
    return count;
}

/* How flow a reads what flow b wrote, their chunks meeting. */
enum { NEVER, BY_ONE_LAG, NOT_BY_ONE_LAG };

/* `lag_of` of two trains whose wheels meet: one lag if they turn alike. */
static int lag_of_trains(int64_t a, int64_t b, const struct Trains *t, int64_t *lag) {
    if (t->turn[a] != t->turn[b] || t->wheel[a] != t->wheel[b] || t->chunks[a] != t->chunks[b]) return NOT_BY_ONE_LAG;
    int64_t units = t->wheel[a] / t->chunks[a];
    int64_t least = max_int(t->step[b] - t->step[a] + 1, 1 - t->repeat[b]);
    int64_t ahead = floor_div(t->turn[a] * (t->chunk[b] - t->chunk[a]), t->chunks[a]);
    *lag = least + floor_mod(ahead - least, units);
    return *lag < t->repeat[a] ? BY_ONE_LAG : NEVER;
}

/* `lag_of` of a train and a single transfer that meets its wheel: when the train comes past it. */
static int lag_of_train(int64_t a, int64_t b, const struct Trains *t, int64_t *lag) {
    int backward = t->repeat[b] > 1;
    int64_t train = backward ? b : a, still = backward ? a : b;
    int64_t chunk = t->chunk[train], count = t->chunks[train], wheel = t->wheel[train];
    int64_t base = chunk / wheel * wheel, units = wheel / count;
    int64_t low = max_int(t->chunk[still] - base, 0) / count;
    int64_t high = floor_div(min_int(t->chunk[still] + t->chunks[still] - base, wheel) - 1, count);
    int64_t at = backward ? min_int(t->repeat[b] - 1, t->step[a] - t->step[b] - 1)
                          : max_int(0, t->step[b] - t->step[a] + 1);
    int64_t position = floor_mod(floor_div(chunk - base, count) + t->turn[train] * at, units), away = 0;
    if (position < low || position > high) {
        int falling = (t->turn[train] > 0) == backward;
        away = floor_mod(falling ? position - high : low - position, units);
    }
    at += backward ? -away : away;
    if (at < 0 || at >= t->repeat[train]) return NEVER;
    *lag = backward ? -at : at;
    return BY_ONE_LAG;
}

/* Whether flow a reads what flow b wrote, and with what lag.
 * Only the latest transfer of b that the kth of a reads matters, as b's come in order; and only the least lag, as a's go
 * in order. */
static int lag_of(int64_t a, int64_t b, const struct Trains *t, int64_t *lag) {
    *lag = 0;
    if (t->step[b] >= t->step[a] + t->repeat[a] - 1) return NEVER;
    if (t->repeat[a] > 1 && t->repeat[b] > 1) return lag_of_trains(a, b, t, lag);
    if (t->repeat[a] == 1 && t->repeat[b] == 1) return BY_ONE_LAG;
    return lag_of_train(a, b, t, lag);
}

/* First chunk that a flow may touch, and the one after the last. */
static int64_t low_chunk(int64_t r, const struct Trains *t) {
    return t->repeat[r] > 1 ? t->chunk[r] / t->wheel[r] * t->wheel[r] : t->chunk[r];
}
static int64_t high_chunk(int64_t r, const struct Trains *t) {
    return low_chunk(r, t) + (t->repeat[r] > 1 ? t->wheel[r] : t->chunks[r]);
}

/* All (gate, group, lag), gate by gate; returns how many. Writers lie by node and first chunk.
 * begin[g] is the first writer that can meet reader g. `pairs` is [3, room], and takes as many as it has room for.
 * `is_split` marks flows of pairs without one lag. */
EXPORT int64_t pair_waits(const int64_t *readers, int64_t reader_count, const int64_t *writers, const int64_t *begin,
                          const int64_t *node_ptr, const struct Trains *t, int64_t *pairs, int64_t room,
                          int64_t *is_split) {
    int64_t count = 0, lag = 0;
    for (int64_t g = 0; g < reader_count; g++) {
        int64_t a = readers[g], low = low_chunk(a, t), high = high_chunk(a, t);
        for (int64_t w = begin[g]; w < node_ptr[t->source[a] + 1]; w++) {
            int64_t b = writers[w];
            if (low_chunk(b, t) >= high) break;
            if (high_chunk(b, t) <= low) continue;
            int kind = lag_of(a, b, t, &lag);
            if (kind == NOT_BY_ONE_LAG) is_split[a] = is_split[b] = 1;
            if (kind != BY_ONE_LAG) continue;
            if (count < room) {
                pairs[count] = g;
                pairs[room + count] = w;
                pairs[2 * room + count] = lag;
            }
            count += 1;
        }
    }
    return count;
}
