/* The inputs of a simulated server (struct Requests, Pool) and its State, as server_state.py declares them, and the
 * functions that the sources of the server share.
 *
 * Times are s since the start, sizes B, q is a request, r a replica, -1 stands for none.
 */
#ifndef PODSIM_SERVING_SERVER_STATE_H
#define PODSIM_SERVING_SERVER_STATE_H

#include <stdbool.h>

#include "native.h"

/* the status of a request */
enum { TO_COME, QUEUED, ADMITTED, ANSWERED, GIVEN_UP, REFUSED };

/* the role of a replica */
enum { BOTH, PREFILL, DECODE };

/* the status of a replica */
enum { OFF, LOADING, READY, DRAINING };

/* how requests are routed to replicas */
enum { ROUND_ROBIN, LEAST_LOADED, PREFIX_AWARE, ONE_QUEUE, RANDOM };

/* the kinds of events */
enum { STEP_END, STAGE_FREE, TRANSFER_END, PATIENCE_END, LOADED, SCALE, ARRIVAL };

/* positions in State.number */
enum { NEXT, EVENTS, ORDER, DIRTY, FINISHED, TURN, DRAWS, STEPS, OPEN, USES, TURNED_AWAY };

/* positions in State.time */
enum { CLOCK, FIRST_IDLE, LAST_ARRIVAL };

enum { GROUPS = 64, BINS = 1024, FLIGHTS = 64, DEPTHS = 8 };

/* records, field by field as the dtypes of server_state.py */
struct Kind {
    int64_t model;
    int64_t role;
    int64_t stages;
    double step;
    double request;
    int64_t tokens;
    int64_t decode_requests;
    int64_t decode_contexts;
    int64_t prompt_news;
    int64_t prompt_pasts;
    int64_t table;
    int64_t block_tokens;
    int64_t blocks;
    int64_t state_blocks;
    double token_bytes;
    double state_bytes;
    int64_t sequences;
    int64_t batch_tokens;
    int64_t chunked;
    int64_t mixed;
    int64_t together;
    double reserve;
    double host_rate;
    int64_t draft;
    double acceptance[DEPTHS];
    int64_t poll;
    int64_t ahead;
    int64_t merge;
    int64_t hold_steps;
    int64_t hold_requests;
    int64_t caching;
    int64_t adapters;
    double adapter_seconds;
    double link_rate;
    double link_latency;
    double load_seconds;
};

struct Request {
    double arrived;
    double admitted;
    double first;
    double done;
    double last;
    int32_t made;
    int32_t computed;
    int32_t room;
    int32_t own;
    int32_t shared;
    int32_t reserved;
    int32_t source;
    int32_t source_own;
    int32_t source_shared;
    int32_t replica;
    int32_t planned;
    int32_t preempted;
    int32_t cached;
    int32_t next;
    int32_t prior;
    int8_t flight;
    int8_t status;
    int8_t swapped;
    int8_t arriving;
    int8_t leaving;
};

struct Replica {
    int64_t kind;
    int64_t status;
    int64_t head;
    int64_t tail;
    int64_t waiting;
    int64_t running;
    int64_t flights;
    int64_t steps;
    int64_t free;
    int64_t oldest;
    int64_t newest;
    int64_t idle;
    int64_t reserved;
    int64_t dirty;
    int64_t preempted;
    int64_t sequences;
    int64_t prompt_tokens;
    int64_t decode_tokens;
    int64_t most_blocks;
    int64_t visible;
    int64_t iterations;
    int64_t held;
    int64_t began;
    double stage_free;
    double last_end;
    double link_free;
    double on_since;
    double quiet_since;
    double on;
    double busy;
    double full_sequences;
    double full_blocks;
    double full_tokens;
    double full_adapters;
    double part_step;
    double part_tokens;
    double part_decode;
    double part_prompt;
    double part_moved;
    double block_seconds;
    double sent;
};

struct Unit {
    int32_t users;
    int32_t older;
    int32_t newer;
};

struct Adapter {
    int64_t number;
    int64_t users;
    int64_t used;
};

struct Event {
    double when;
    int64_t order;
    int64_t kind;
    int64_t target;
};

struct Requests {
    const double *arrival;
    const int64_t *input;
    const int64_t *output;
    const int64_t *model;
    const int64_t *adapter;
    const double *patience;
    const int64_t *prefix;
    const int64_t *prefix_first;
    int64_t rows;
    int64_t clients;
};

struct Pool {
    const struct Kind *kind;
    const double *table;
    int64_t replicas;
    int64_t models;
    int64_t units;
    int64_t unit_tokens;
    int64_t slots;
    int64_t adapter_slots;
    int64_t adapters;
    int64_t routing;
    int64_t least;
    double interval;
    double target;
    double cooldown;
    int64_t seed;
};

struct State {
    struct Request *request;
    struct Replica *replica;
    struct Unit *unit;
    struct Adapter *adapter;
    int32_t *asked;
    struct Event *event;
    int64_t *running;
    int64_t *dirty;
    int64_t *line;
    int64_t *gaps;
    int64_t *number;
    double *time;
};

typedef struct {
    const struct Requests *requests;
    const struct Pool *pool;
    const struct State *state;
} Server;

static inline const struct Kind *kind_of(const Server *s, int64_t r) {
    return &s->pool->kind[s->state->replica[r].kind];
}
static inline int64_t *running_of(const Server *s, int64_t r) { return s->state->running + r * s->pool->slots; }
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* server_blocks.c: the memory of a replica */
int64_t blocks_needed(const Server *s, int64_t r, int64_t q, int64_t tokens);
int64_t available_blocks(const Server *s, int64_t r);
int64_t cached_units(const Server *s, int64_t r, int64_t q);
bool admit_blocks(const Server *s, int64_t r, int64_t q, int64_t hits, int64_t tokens);
bool grow_blocks(const Server *s, int64_t r, int64_t q, int64_t tokens);
void keep_prefix(const Server *s, int64_t r, int64_t q);
void release_blocks(const Server *s, int64_t r, int64_t q, int64_t own, int64_t shared);
void release_request(const Server *s, int64_t r, int64_t q);
bool hold_adapter(const Server *s, int64_t r, int64_t adapter, double *seconds);
void leave_adapter(const Server *s, int64_t r, int64_t adapter);
int32_t *asked_of(const Server *s, int64_t r, int64_t adapter);
bool is_asked(const Server *s, int64_t r);

/* server_times.c: the seconds of a step's parts */
double tokens_seconds(const Server *s, const struct Kind *kind, double tokens, bool has_prompts);
double decode_seconds(const Server *s, const struct Kind *kind, double requests, double context);
double prompt_seconds(const Server *s, const struct Kind *kind, double new_tokens, double past);

/* server_steps.c: a step of a replica */
void start_steps(const Server *s, int64_t r);
void end_step(const Server *s, int64_t r, int64_t flight);

/* server_routes.c: requests between replicas */
void queue_request(const Server *s, int64_t r, int64_t q, bool in_front);
void unqueue_request(const Server *s, int64_t r, int64_t q);
void route_request(const Server *s, int64_t q);
void pull_requests(const Server *s, int64_t r);
void hand_over(const Server *s, int64_t q);
void begin_transfer(const Server *s, int64_t r, int64_t q);
void end_transfer(const Server *s, int64_t q);
void give_up(const Server *s, int64_t q);
void settle(const Server *s, int64_t q, int64_t status);
void scale_pool(const Server *s);
void finish_loading(const Server *s, int64_t r);
double draw(const Server *s);

/* server_events.c: the clock */
void add_event(const Server *s, double when, int64_t kind, int64_t target);
void mark_dirty(const Server *s, int64_t r);
double next_time(const Server *s);

#endif
