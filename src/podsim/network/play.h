/* What a simulation of flows on links is given (Program), and where it stands (State).
 * podsim/network/play_state.py describes every field. */
#ifndef PODSIM_PLAY_H
#define PODSIM_PLAY_H

#include "native.h"

enum { IDLE, ACTIVE, ENDED, AGAIN, NEW }; /* modes of a flow; ENDED, AGAIN and NEW only within a batch */

/* positions of counters in State.number */
enum { HEAP, TOUCHED, DIRTY, MEMO, STORED, BUCKETS, FREE_BUCKETS, ROOM, EVENTS, RECENT, SOLVED, STAMP, DONE };

static const double SAME = 1e-12;         /* see play_state.py */
static const double TIGHT = 1.0 + 1e-10;
static const int64_t MANY = 1 << 30;

struct Program {
    const int64_t *repeat;
    const int64_t *chunk;
    const int64_t *width;
    const int64_t *turn;
    const int64_t *wheel;
    const int64_t *lane;
    const int64_t *channel;
    const int64_t *delay;
    const int64_t *before;
    const int64_t *after;
    const int64_t *gate;
    const int64_t *group;
    const double *chunk_bytes;
    const double *chunk_ends;
    const double *delays;
    const int64_t *dep_ptr;
    const int64_t *dep_group;
    const int64_t *dep_lag;
    const int64_t *gate_ptr;
    const int64_t *gate_flow;
    const int64_t *group_repeat;
    const int64_t *group_ptr;
    const int64_t *group_flow;
    const int64_t *wake_ptr;
    const int64_t *wake_gate;
    const int64_t *wake_lag;
    const int64_t *start;
    const int64_t *first;
    const int64_t *middle;
    const int64_t *end;
    const int64_t *link;
    const double *use;
    const double *capacity;
    const int64_t *key;
    const double *ones;
};

/* one record for each thing, so that what is used together lies together; a flow in use fills one cache line */
struct Flow {
    int32_t mode;
    int32_t sent;
    int32_t got;
    int32_t repeat;
    int32_t gate;
    int32_t group;
    int32_t lane;
    int32_t delay;
    int32_t bucket;
    int32_t next;
    int32_t previous;
    int32_t lone;
    double rate;
    double bytes;
};

/* what is seldom needed of a flow */
struct Course {
    double limit;
    double left;
    double since;
    double last;
    int32_t before;
    int32_t after;
    int32_t slots;
    int32_t seen;
    int32_t chunk;
    int32_t width;
    int32_t turn;
    int32_t wheel;
};

struct Group {
    int32_t done;
    int32_t ahead;
    int32_t repeat;
    int32_t flows;
    int32_t flows_end;
    int32_t wakes;
    int32_t wakes_end;
    int32_t gate;
};

struct Gate {
    int32_t open;
    int32_t deps;
    int32_t deps_end;
    int32_t flows;
    int32_t flows_end;
    int32_t waits;
};

struct Dep {
    int32_t group;
    int32_t lag;
};

struct Wake {
    int32_t gate;
    int32_t lag;
};

struct Lane {
    int32_t first;
    int32_t middle;
    int32_t end;
    int64_t key;
    double began;
    double busy;
};

struct Link {
    int32_t users;
    int32_t flows;
    int32_t room;
    int32_t dirty;
    int64_t seen;
    double since;
    double busy;
    double demand;
    double was;
    double capacity;
};

struct OnLink {
    int32_t flow;
    int32_t slot;
};

struct Bucket {
    double time;
    int64_t head;
};

struct Due {
    double time;
    int64_t bucket;
};

struct Cell {
    double time;
    int32_t flow;
    int32_t group;
};

struct Wave {
    int64_t first;
    int64_t count;
    int64_t start;
    int64_t room;
    int64_t flows;
};

struct MemoSlot {
    int64_t sign;
    int32_t at;
    int32_t lanes;
};

struct MemoRate {
    double rate;
    int64_t lane;
};

struct State {
    struct Flow *flows;
    struct Course *courses;
    struct Group *groups;
    struct Gate *gates;
    const struct Dep *deps;
    const struct Wake *wakes;
    const int32_t *items;
    struct Lane *lanes;
    struct Link *links;
    struct OnLink *on_link;
    int32_t *slots;
    struct Bucket *buckets;
    struct Due *heap;
    int64_t *free;
    struct Due *recent;
    struct Wave *waves;
    struct Cell *cells;
    int32_t *touched;
    int32_t *dirty;
    int32_t *members;
    struct MemoSlot *memo;
    struct MemoRate *memo_rates;
    double *lane_rate;
    double *left;
    double *load;
    int64_t *users;
    int64_t *full;
    int64_t *todo;
    int64_t *number;
    int64_t flow_count;
    int64_t gate_count;
    int64_t wave_count;
    int64_t bucket_room;
    int64_t memo_size;
    int64_t memo_room;
};

/* play_time.c: time in buckets */
int64_t pop_bucket(struct State *s);
void schedule(int64_t f, double left, double now, struct State *s);
void unschedule(int64_t f, struct State *s);

/* play_share.c: rates */
void occupy_links(int64_t f, double now, int32_t step, const struct Program *p, struct State *s);
void share_links(double now, int64_t touched, const struct Program *p, struct State *s);

#endif
