/* What the event kernel is given (Program) and where it stands (State); podsim/simulation/state.py describes them. */
#ifndef PODSIM_EVENTS_H
#define PODSIM_EVENTS_H

#include "native.h"

/* positions of counters in State.number */
enum { HEAP, DIRTY, FRESH, STAMP, SOLVED, EVENTS };

static const double TIGHT = 1.0 + 1e-10; /* a link asked for more than this times its capacity may hold transfers back */
static const double SAME = 1e-12;        /* times within this share of each other are one: rounding tells them apart */

struct Op {
    int32_t stream;
    int32_t next;
    int32_t next_end;
    int32_t join;
    int32_t transfer;
    int32_t send;
};

struct Class {
    int64_t row;
    int64_t base;
    int64_t seconds;
    int64_t sends;
};

struct Mark {
    double end;
    int32_t why;
    int32_t need;
};

struct Program {
    const struct Op *ops;
    const int32_t *order;
    const double *seconds;
    const int32_t *after;
    const struct Class *classes;
    const int32_t *joins;
    const int32_t *send_ptr;
    const int32_t *sent_class;
    const int32_t *sent_op;
    const double *peak;
    const double *latency;
    const int64_t *link_ptr;
    const int64_t *link;
    const double *use;
    const double *capacity;
    const int32_t *domain;
    const uint8_t *slows;
    const uint8_t *slowed;
    const int64_t *domain_ptr;
    const int64_t *domain_stream;
    double share;
    int64_t width;
    int64_t groups;
    int64_t kinds;
    int64_t streams;
    int64_t links;
    int64_t room;
};

struct State {
    struct Mark *marks;
    int32_t *join_need;
    int32_t *join_head;
    int32_t *join_next;
    uint8_t *held;
    int64_t *at;
    int32_t *running;
    double *left;
    double *since;
    double *rate;
    int32_t *flowing;
    int32_t *active;
    double *heap_time;
    int64_t *heap_stream;
    int64_t *heap_index;
    int64_t *lane;
    double *lane_use;
    int64_t *starts;
    int64_t *ends;
    int64_t *following;
    int64_t *previous;
    int64_t *head;
    double *demand;
    uint8_t *was_tight;
    uint8_t *marked;
    int64_t *dirty;
    int64_t *fresh;
    int64_t *seen;
    int64_t *seen_link;
    int64_t *members;
    int64_t *todo;
    double *capacity;
    double *ones;
    double *flow_rate;
    double *left_over;
    double *load;
    int64_t *users;
    int64_t *busy;
    int64_t *number;
};

/* stream_heap.c: the time of each stream's next event */
void put_stream(int64_t stream, double time, struct State *st);
void drop_stream(int64_t stream, struct State *st);

/* transfers.c: transfers on links */
void enter_links(int64_t s, int64_t kind, const struct Program *p, struct State *st);
void leave_links(int64_t s, const struct Program *p, struct State *st);
void settle_links(double now, const struct Program *p, struct State *st);

#endif
