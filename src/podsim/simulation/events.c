/* The event kernel: ops start when what they wait for has ended and their stream is free.
 *
 * A stream runs its ops in order, one at a time. Ops of a join start together. While an op of a stream that slows others
 * is under way, the ops of its domain that can be slowed go on at a smaller rate. A transfer also shares its links.
 * Events of one time are handled together; ties go by the order of streams. */
#include "simulation/events.h"

/* Continue with the op of a stream at another rate. */
static void change_rate(int64_t s, double rate, double now, struct State *st) {
    st->left[s] = max_double(0.0, st->left[s] - (now - st->since[s]) * st->rate[s]);
    st->since[s] = now;
    st->rate[s] = rate;
    put_stream(s, now + st->left[s] / rate, st);
}

/* An op that slows others has started (1) or ended (-1) on a stream. */
static void slow_others(int64_t s, int32_t change, double now, const struct Program *p, struct State *st) {
    int64_t d = p->domain[s];
    int32_t before = st->active[d];
    st->active[d] = before + change;
    if (before > 0 && before + change > 0) return;
    double rate = before + change > 0 ? 1.0 - p->share : 1.0;
    for (int64_t i = p->domain_ptr[d]; i < p->domain_ptr[d + 1]; i++)
        if (st->running[p->domain_stream[i]] >= 0) change_rate(p->domain_stream[i], rate, now, st);
}

/* Start an op on its idle stream. */
static void start_op(int64_t s, int64_t op, int64_t cause, double now, const struct Program *p, struct State *st) {
    int64_t kind = p->transfer[op];
    st->running[s] = (int32_t)op;
    st->start[op] = now;
    st->why[op] = (int32_t)cause;
    st->left[s] = p->seconds[op];
    st->since[s] = now;
    if (kind >= 0 && p->seconds[op] > 0.0) {
        st->rate[s] = 0.0;
        if (p->latency[kind] > 0.0)
            put_stream(s, now + p->latency[kind], st);
        else
            enter_links(s, kind, p, st);
    } else {
        st->rate[s] = p->slowed[s] && st->active[p->domain[s]] > 0 ? 1.0 - p->share : 1.0;
        put_stream(s, now + st->left[s] / st->rate[s], st);
    }
    if (p->slows[s]) slow_others(s, 1, now, p, st);
}

/* Start the ops of a join, whose streams have all come to it. */
static void start_join(int64_t s, int64_t cause, double now, const struct Program *p, struct State *st) {
    while (s >= 0) {
        int64_t following = st->join_next[s];
        st->held[s] = 0;
        start_op(s, p->order[st->at[s]], cause, now, p, st);
        s = following;
    }
}

/* Start the next op of a stream, if it can: its join's other ops with it. */
static void try_start(int64_t s, int64_t cause, double now, const struct Program *p, struct State *st) {
    if (st->running[s] >= 0 || st->held[s] || st->at[s] >= p->order_ptr[s + 1]) return;
    int64_t op = p->order[st->at[s]];
    if (st->need[op] > 0) return;
    int64_t join = p->join[op];
    if (join < 0) {
        start_op(s, op, cause, now, p, st);
        return;
    }
    st->held[s] = 1;
    st->join_next[s] = st->join_head[join];
    st->join_head[join] = (int32_t)s;
    st->join_need[join] -= 1;
    if (st->join_need[join] == 0) start_join(s, cause, now, p, st);
}

/* The op of a stream has ended: those that waited for it may start, and the next one of the stream. */
static void finish_op(int64_t s, double now, const struct Program *p, struct State *st) {
    int64_t op = st->running[s];
    st->end[op] = now;
    st->running[s] = -1;
    st->number[EVENTS] += 1;
    if (st->flowing[s] >= 0) leave_links(s, p, st);
    if (p->slows[s]) slow_others(s, -1, now, p, st);
    st->at[s] += 1;
    for (int64_t i = p->next_ptr[op]; i < p->next_ptr[op + 1]; i++) {
        int64_t other = p->after[i];
        st->need[other] -= 1;
        if (st->need[other] == 0 && p->stream[other] != s) try_start(p->stream[other], op, now, p, st);
    }
    try_start(s, op, now, p, st);
}

/* Play on from `now` (below zero: from the start) for at most `events` ended ops; the time reached, s. Nothing is left to
 * come when the heap is empty: the end, or nothing can continue. */
EXPORT double events_run(const struct Program *p, struct State *st, double now, int64_t events) {
    if (now < 0.0) {
        now = 0.0;
        for (int64_t s = 0; s < p->streams; s++) try_start(s, -1, now, p, st);
        settle_links(now, p, st);
    }
    events += st->number[EVENTS];
    while (st->number[HEAP] > 0 && st->number[EVENTS] < events) {
        now = max_double(now, st->heap_time[0]);
        double limit = now + SAME * now;
        while (st->number[HEAP] > 0 && st->heap_time[0] <= limit) {
            int64_t s = st->heap_stream[0], op = st->running[s];
            drop_stream(s, st);
            if (p->transfer[op] >= 0 && st->flowing[s] < 0 && st->left[s] > 0.0 && st->rate[s] == 0.0) {
                enter_links(s, p->transfer[op], p, st); /* its latency is over */
                st->since[s] = now;
            } else {
                finish_op(s, now, p, st);
            }
        }
        settle_links(now, p, st);
    }
    return now;
}

/* The values of each key, in order: pointer [keys + 1], rows [count]. */
EXPORT void values_by_key(const int32_t *key, const int32_t *value, int64_t count, int64_t keys, int32_t *pointer,
                          int32_t *rows) {
    memset(pointer, 0, (size_t)(keys + 1) * sizeof *pointer);
    for (int64_t i = 0; i < count; i++) pointer[key[i]] += 1;
    for (int64_t k = 0; k < keys; k++) pointer[k + 1] += pointer[k];
    for (int64_t i = count - 1; i >= 0; i--) rows[--pointer[key[i]]] = value[i];
}

/* Mark all that can be reached: after[pointer[k]] to after[pointer[k + 1] - 1] follow k. `stack` holds the first `depth`,
 * which are marked, and has room for all. */
EXPORT void mark_reachable(const int64_t *pointer, const int64_t *after, uint8_t *marked, int64_t *stack,
                           int64_t depth) {
    while (depth > 0) {
        int64_t k = stack[--depth];
        for (int64_t i = pointer[k]; i < pointer[k + 1]; i++) {
            if (marked[after[i]]) continue;
            marked[after[i]] = 1;
            stack[depth++] = after[i];
        }
    }
}
