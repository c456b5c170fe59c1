/* The event kernel: ops start when what they wait for has ended and their stream is free.
 *
 * Classes of ops are made of rows: op i of a class is that of its row, with its own mark. A stream runs its ops in order,
 * one at a time. Ops of a join start together. While an op of a stream that slows others
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

static const struct Class *class_of(int64_t s, const struct Program *p) { return &p->classes[s / p->width]; }

/* The kind of transfer of the op under way on a stream; -1 for none. */
static int64_t kind_of(int64_t s, const struct Program *p, const struct State *st) {
    const struct Class *c = class_of(s, p);
    int64_t kind = p->ops[c->row + st->running[s]].transfer;
    return kind < 0 ? -1 : (c - p->classes) * p->kinds + kind;
}

/* Start the op that an idle stream has come to. */
static void start_op(int64_t s, int64_t cause, double now, const struct Program *p, struct State *st) {
    const struct Class *c = class_of(s, p);
    int64_t op = p->order[st->at[s]];
    st->running[s] = (int32_t)op;
    st->marks[c->base + op].why = (int32_t)cause;
    st->left[s] = p->seconds[c->seconds + op];
    st->since[s] = now;
    int64_t kind = kind_of(s, p, st);
    if (kind >= 0 && st->left[s] > 0.0) {
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

/* Start the next op of a stream, if it can: its join's other ops with it, whose streams have all come to it. */
static void try_start(int64_t s, int64_t cause, double now, const struct Program *p, struct State *st) {
    if (st->running[s] >= 0 || st->held[s]) return;
    const struct Class *c = class_of(s, p);
    int64_t op = p->order[st->at[s]];
    if (op < 0 || st->marks[c->base + op].need > 0) return;
    int64_t place = p->ops[c->row + op].join, join = -1;
    if (place >= 0) join = p->joins[(c - p->classes) * p->groups + place % p->groups];
    if (join < 0) {
        start_op(s, cause, now, p, st);
        return;
    }
    join += place / p->groups;
    st->held[s] = 1;
    st->join_next[s] = st->join_head[join];
    st->join_head[join] = (int32_t)s;
    st->join_need[join] -= 1;
    while (st->join_need[join] == 0 && s >= 0) {
        int64_t following = st->join_next[s];
        st->held[s] = 0;
        start_op(s, cause, now, p, st);
        s = following;
    }
}

/* An op waits for one op less; it may start, unless its stream is `but`. */
static void release(int64_t class, int64_t op, int64_t but, int64_t cause, double now, const struct Program *p,
                    struct State *st) {
    const struct Class *c = &p->classes[class];
    struct Mark *mark = &st->marks[c->base + op];
    mark->need -= 1;
    int64_t s = class * p->width + p->ops[c->row + op].stream;
    if (mark->need == 0 && s != but) try_start(s, cause, now, p, st);
}

/* The op of a stream has ended: those that waited for it may start, and the next one of the stream. */
static void finish_op(int64_t s, double now, const struct Program *p, struct State *st) {
    const struct Class *c = class_of(s, p);
    const struct Op *op = &p->ops[c->row + st->running[s]];
    int64_t cause = c->base + st->running[s];
    st->marks[cause].end = now;
    st->running[s] = -1;
    st->number[EVENTS] += 1;
    if (st->flowing[s] >= 0) leave_links(s, p, st);
    if (p->slows[s]) slow_others(s, -1, now, p, st);
    st->at[s] += 1;
    for (int64_t i = op->next; i < op->next_end; i++) release(c - p->classes, p->after[i], s, cause, now, p, st);
    if (op->send >= 0)
        for (int64_t i = p->send_ptr[c->sends + op->send]; i < p->send_ptr[c->sends + op->send + 1]; i++)
            release(p->sent_class[i], p->sent_op[i], s, cause, now, p, st);
    try_start(s, cause, now, p, st);
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
            int64_t s = st->heap_stream[0];
            drop_stream(s, st);
            if (st->flowing[s] < 0 && st->left[s] > 0.0 && st->rate[s] == 0.0) {
                enter_links(s, kind_of(s, p, st), p, st); /* its latency is over */
                st->since[s] = now;
            } else {
                finish_op(s, now, p, st);
            }
        }
        settle_links(now, p, st);
    }
    return now;
}
