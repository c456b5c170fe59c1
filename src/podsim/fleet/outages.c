/* Changes of the machine: nodes that fail, are drained or come back, windows of time, and the nodes that a job may use. */
#include "queue_state.h"

/* The time of the next change. */
double next_change_time(const Queue *queue) {
    const struct Plant *plant = queue->plant;
    const struct State *state = queue->state;
    double when = state->time[REOPEN];
    if (state->number[OUTAGE] < plant->outages) {
        when = min_double(when, plant->outage[state->number[OUTAGE]].start);
    } else if (plant->horizon < INFINITY) {
        when = min_double(when, nextafter(plant->horizon, INFINITY)); /* the next outages are not drawn yet */
    }
    return state->number[BELL] < plant->bells ? min_double(when, plant->bell[state->number[BELL]]) : when;
}

/* Whether a job has GPUs on a node. */
bool has_piece(const struct State *state, int64_t j, int64_t node) {
    int64_t piece = state->job[j].piece;
    while (piece >= 0 && state->piece_node[piece] != node) piece = state->piece_next[piece];
    return piece >= 0;
}

/* Bring nodes back whose time has come, and look for the next. */
static void reopen_nodes(const Queue *queue, double now) {
    const struct State *state = queue->state;
    state->time[REOPEN] = INFINITY;
    for (int64_t node = 0; node < queue->plant->nodes; node++) {
        if (!is_closed(state, node)) continue;
        if (state->until[node] > now) {
            state->time[REOPEN] = min_double(state->time[REOPEN], state->until[node]);
            continue;
        }
        state->until[node] = 0.0;
        state->free[node] += queue->plant->size;
        state->number[FREE] += state->free[node];
        state->number[CLOSED]--;
        state->number[DIRTY] = 1;
    }
}

/* Take a node out of service. One that fails loses its jobs and its cached image; a drained one ends its jobs first. */
static void begin_outage(const Queue *queue, const struct Outage *outage, double now) {
    const struct State *state = queue->state;
    int64_t node = outage->node;
    for (int64_t position = state->number[BUSY] - 1; outage->fails && position >= 0; position--) {
        int64_t j = state->busy[position].job;
        if (has_piece(state, j, node)) fail_job(queue, j, now);
    }
    if (outage->end <= now) return; /* a restart is enough */
    if (outage->fails) state->warm[node] = 0;
    if (!is_closed(state, node)) {
        state->number[FREE] -= state->free[node];
        state->free[node] -= queue->plant->size;
        state->number[CLOSED]++;
    }
    state->until[node] = max_double(state->until[node], outage->end);
    state->time[REOPEN] = min_double(state->time[REOPEN], outage->end);
}

/* Apply the changes until now. */
void process_changes(const Queue *queue, double now) {
    const struct Plant *plant = queue->plant;
    const struct State *state = queue->state;
    if (state->time[REOPEN] <= now) reopen_nodes(queue, now);
    while (state->number[OUTAGE] < plant->outages && plant->outage[state->number[OUTAGE]].start <= now) {
        begin_outage(queue, plant->outage + state->number[OUTAGE]++, now);
    }
    while (state->number[BELL] < plant->bells && plant->bell[state->number[BELL]] <= now) {
        state->number[BELL]++;
        state->number[DIRTY] = 1;
    }
}

/* The GPUs among `free` that a job may use if it begins at a time and holds them for a length; -1 on other nodes. */
int64_t *open_gpus(const Queue *queue, const int64_t *free, int64_t j, double begin, double length) {
    const struct Plant *plant = queue->plant;
    const struct State *state = queue->state;
    int64_t access = queue->work->job[j].access;
    const uint8_t *allowed = plant->allowed + access * plant->nodes;
    for (int64_t node = 0; node < plant->nodes; node++) {
        state->open[node] = allowed[node] && !is_closed(state, node) ? free[node] : -1;
    }
    for (int64_t position = 0; position < plant->windows; position++) {
        const struct Window *window = plant->window + position;
        bool is_apart = window->end <= begin || (window->start > begin && window->start >= begin + length);
        if (is_apart || plant->opens[position * plant->accesses + access]) continue;
        for (int64_t node = window->first; node <= window->last; node++) state->open[node] = -1;
    }
    return state->open;
}

/* Choose nodes for a job that begins now, among those that it may use. */
int64_t choose_for(const Queue *queue, int64_t *free, int64_t j, double now) {
    int64_t gpus = queue->work->job[j].gpus;
    if (!queue->plant->changes) return choose_nodes(queue, free, gpus);
    return choose_nodes(queue, open_gpus(queue, free, j, now, longest_seconds(queue, j)), gpus);
}

/* Whether a job that begins at a time fits the `free` GPUs that it may use. */
bool has_room_for(const Queue *queue, const int64_t *free, int64_t j, double when) {
    int64_t gpus = queue->work->job[j].gpus;
    if (queue->plant->changes) free = open_gpus(queue, free, j, when, longest_seconds(queue, j));
    return has_room(queue->plant, free, gpus);
}
