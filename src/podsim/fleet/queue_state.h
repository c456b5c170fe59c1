/* The inputs of a simulated queue (struct Work, Plant, Rules) and its State, as queue_state.py declares them,
 * and the functions that the sources of the queue share.
 *
 * Times are s, sizes are GPUs, j is a job, -1 stands for none.
 */
#ifndef PODSIM_FLEET_QUEUE_STATE_H
#define PODSIM_FLEET_QUEUE_STATE_H

#include <stdbool.h>

#include "native.h"

/* the status of a job: not submitted or waiting for dependencies, in the queue, on GPUs, ended */
enum { HELD, WAITING, RUNNING, DONE };

/* positions in State.number */
enum {
    QUEUE, LINE, FRESH, ACTIVE, BUSY, TICKET, NEXT, SPANS, PIECE, FREE, ENDED, DIRTY, DECISIONS, STEPS, STARTED, LATE,
    OUTAGE, BELL, CLOSED, FAILED, RESERVED, SHORT
};

/* positions in State.time */
enum { CLOCK, LOOKED, PLANNED, CHARGED, USED, SPLIT, SCATTERED, REOPEN, AWAY, LOST, SPENT, TOUCHED };

/* the rule for jobs behind a blocked one */
enum { STRICT, SKIP, EASY, CONSERVATIVE };

/* the placement of jobs */
enum { FIRST_FIT, BEST_FIT, SPREAD };

/* the orders, by their position in ORDERS of orders.py */
enum {
    FIRST_COME, SHORTEST, SMALLEST, SHORTEST_REMAINING, SMALLEST_REMAINING, LEAST_ATTAINED, BY_LEVEL, WORST_OFF,
    WORST_OFF_KNOWN, MULTIFACTOR
};

/* records, field by field as the dtypes of queue_state.py */
struct Job {
    double submit;
    double seconds;
    double guess;
    double limit;
    int64_t gpus;
    int64_t user;
    double rank;
    int64_t parents;
    int64_t access;
    int64_t tier;
};

struct Outage {
    double start;
    double end;
    int64_t node;
    int64_t fails;
};

struct Window {
    double start;
    double end;
    int64_t first;
    int64_t last;
};

struct Standing {
    int64_t status;
    int64_t waits_for;
    double released;
    int64_t ticket;
    double remaining;
    double attained;
    double begun;
    double extra;
    double speed;
    double end;
    double due;
    int64_t level;
    double entered;
    int64_t runs;
    int64_t turn;
    int64_t span;
    double plan;
    double held_for;
    int64_t piece;
    int64_t kind;
    int64_t heap;
    int64_t notch;
    int64_t wish;
};

struct Entry {
    double key;
    int64_t job;
};

struct Node {
    double key;
    double least;
    double lowest;
    int64_t left;
    int64_t right;
};

struct Work {
    struct Job *job;
    double *shares;
    int64_t *child_ptr;
    int64_t *child;
    double *slow;
    double *pace;
    double *goodput;
    int64_t jobs;
    int64_t users;
};

struct Plant {
    int64_t size;
    int64_t *leaf;
    int64_t rule;
    int64_t nodes;
    int64_t leaves;
    int64_t changes;
    int64_t accesses;
    uint8_t *allowed;
    struct Window *window;
    int64_t windows;
    uint8_t *opens;
    double *bell;
    int64_t bells;
    struct Outage *outage;
    int64_t outages;
    double horizon;
};

struct Rules {
    double total;
    int64_t order;
    int64_t still;
    int64_t preempt;
    int64_t backfill;
    double interval;
    double refresh;
    int64_t depth;
    double checkpoint;
    double restart;
    double start;
    int64_t moves;
    double *levels;
    int64_t bounds;
    double age;
    double max_age;
    double fair;
    double half_life;
    double big;
    double site;
    int64_t tiers;
    double saves;
    int64_t elastic;
    double lease;
    double mount;
    double pull;
    double pull_each;
};

struct State {
    int64_t *number;
    double *time;
    struct Standing *job;
    struct Entry *line;
    struct Entry *spare;
    int64_t *fresh;
    struct Node *node;
    int64_t *size;
    int64_t *root;
    int64_t *ahead;
    uint8_t *narrow;
    double *latest;
    int64_t *kind_access;
    int64_t kinds;
    struct Entry *active;
    struct Entry *busy;
    struct Entry *ends;
    int64_t *free;
    int64_t *trial;
    int64_t *picked;
    int64_t *taken;
    int64_t *leaf_idle;
    int64_t *piece_node;
    int64_t *piece_gpus;
    int64_t *piece_next;
    double *usage;
    double *rate;
    double *step_time;
    int64_t *step_free;
    int64_t *span_job;
    double *span_start;
    double *span_end;
    int64_t *span_node;
    int64_t *span_reach;
    int64_t *span_gpus;
    double *until;
    uint8_t *warm;
    int64_t *open;
    int64_t *small;
    int64_t *large;
    int64_t *head;
    double *when;
    int64_t room;
};

/* what nearly every function needs; only C knows it */
typedef struct {
    const struct Work *work;
    const struct Plant *plant;
    const struct Rules *rules;
    const struct State *state;
} Queue;

static inline bool comes_before(struct Entry a, struct Entry b) {
    return a.key < b.key || (a.key == b.key && a.job < b.job);
}

/* the sizes of an elastic job: its own, halved and doubled up to four times */
enum { ASKED = 4, NOTCHES = 9 };

/* whether a node is out of service, or may finish its jobs only */
static inline bool is_closed(const struct State *state, int64_t node) {
    return state->until[node] > 0.0;
}

/* whether waiting jobs are kept in trees by size: their keys stay, and reservations do not need them in a line */
static inline bool has_trees(const struct Rules *rules) {
    return rules->still && rules->backfill != CONSERVATIVE;
}

/* orders.c */
double order_key(const Queue *queue, int64_t j, double now);
void charge_users(const Queue *queue, double now);
void sort_entries(struct Entry *entry, struct Entry *spare, int64_t count);
void merge_entries(struct Entry *entry, struct Entry *spare, int64_t middle, int64_t stop);

/* waiting.c, waiting_trees.c */
typedef struct {
    struct Entry last; /* the job of the last step */
    bool is_waiting;   /* whether it waited at the start of the decision */
    int64_t position;  /* of the next job of the line */
    int64_t active;    /* the position of the next running job */
    int64_t actives;   /* the number of running jobs at the start */
} Walk;
void update_queue(const Queue *queue, double now);
Walk start_walk(const Queue *queue);
int64_t next_job(const Queue *queue, Walk *walk);
void leave_queue(const Queue *queue, Walk *walk, int64_t j);
void reset_sizes(const Queue *queue);
bool is_too_large(const Queue *queue, int64_t j);
void note_no_room(const Queue *queue, Walk *walk, int64_t j, double now);
void hide_sizes(const Queue *queue, int64_t most);
bool is_hidden(const Queue *queue, int64_t j, double now);
void hide_longer(const Queue *queue, Walk *walk, int64_t j, double now, double latest);
void close_gaps(const struct State *state);
void tree_insert(const struct State *state, int64_t *root, int64_t j);
void tree_remove(const struct State *state, int64_t *root, int64_t j);
int64_t tree_after(const struct State *state, int64_t root, struct Entry last, double now, double latest);

/* place.c */
int64_t choose_nodes(const Queue *queue, int64_t *free, int64_t gpus);
bool has_room(const struct Plant *plant, const int64_t *free, int64_t gpus);
int64_t node_reach(const Queue *queue, int64_t count);
void take_gpus(const struct State *state, int64_t j, int64_t count);
void return_gpus(const struct State *state, int64_t j);

/* run.c */
void begin_job(const Queue *queue, int64_t j, int64_t count, double now);
double expected_seconds(const Queue *queue, int64_t j, double speed);
double longest_seconds(const Queue *queue, int64_t j);
double pull_seconds(const Queue *queue, int64_t count);
void stop_job(const Queue *queue, int64_t j, double now);
void fail_job(const Queue *queue, int64_t j, double now);
void end_job(const Queue *queue, int64_t j, double now);
void release_job(const struct State *state, int64_t j, double now);
int64_t busy_position(const struct State *state, int64_t j);

/* ends.c */
void add_end(const struct State *state, int64_t j, int64_t count);
void remove_end(const struct State *state, int64_t j, int64_t count);

/* outages.c */
double next_change_time(const Queue *queue);
void process_changes(const Queue *queue, double now);
bool has_piece(const struct State *state, int64_t j, int64_t node);
int64_t *open_gpus(const Queue *queue, const int64_t *free, int64_t j, double begin, double length);
int64_t choose_for(const Queue *queue, int64_t *free, int64_t j, double now);
bool has_room_for(const Queue *queue, const int64_t *free, int64_t j, double when);

/* tiers.c, allotments.c */
int64_t make_room(const Queue *queue, int64_t j, double now);
void set_allotments(const Queue *queue, double now);
bool shrink_wish(const Queue *queue, int64_t j);

/* reserve.c, preempt.c, serve.c */
void serve_reserved(const Queue *queue, bool again, double now);
bool give_up_rest(const Queue *queue, int64_t j, double now);
void serve_preempting(const Queue *queue, double now);
void serve_in_order(const Queue *queue, double now);

#endif
