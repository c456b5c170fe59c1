/* Decisions without preemption, in order: jobs behind a blocked one wait, skip it or backfill. */
#include "queue_state.h"

/* The blocked job's latest start. */
typedef struct {
    int64_t gpus;
    double when; /* s. Its start; State.trial has the GPUs that are free then. */
} Shadow;

/* Free the GPUs of a running job in `trial`, and count idle nodes and GPUs. Whether a node then has room for `gpus`. */
static bool free_in_trial(const Queue *queue, int64_t j, int64_t gpus, int64_t *idle, int64_t *total) {
    const struct State *state = queue->state;
    bool is_enough = false;
    for (int64_t piece = state->job[j].piece; piece >= 0; piece = state->piece_next[piece]) {
        int64_t *free = &state->trial[state->piece_node[piece]];
        *free += state->piece_gpus[piece];
        *total += state->piece_gpus[piece];
        *idle += *free == queue->plant->size;
        is_enough = is_enough || *free >= gpus;
    }
    return is_enough;
}

/* The latest start of the blocked job. Sets `trial` to the GPUs that are free then, before its start. */
static Shadow find_shadow(const Queue *queue, int64_t gpus, double now) {
    const struct Plant *plant = queue->plant;
    const struct State *state = queue->state;
    int64_t full = gpus / plant->size, idle = 0, total = 0;
    for (int64_t node = 0; node < plant->nodes; node++) {
        state->trial[node] = state->free[node];
        idle += state->free[node] == plant->size;
        total += state->free[node];
    }
    bool is_known = false;
    double when = now;
    for (int64_t position = 0; position < state->number[BUSY]; position++) {
        double due = state->busy[position].key;
        if (is_known && due > when) break;
        bool is_enough = free_in_trial(queue, state->busy[position].job, gpus, &idle, &total);
        if (is_known) continue;
        if (plant->rule == SPREAD) {
            is_enough = total >= gpus;
        } else if (gpus > plant->size) {
            is_enough = idle >= full && has_room(plant, state->trial, gpus);
        }
        if (is_enough) {
            is_known = true;
            when = max_double(due, now);
        }
    }
    return (Shadow){gpus, when};
}

/* Whether the chosen nodes do not delay the blocked job. If so, takes them from `trial`. */
static bool is_harmless(const Queue *queue, int64_t count, int64_t gpus) {
    const struct State *state = queue->state;
    for (int64_t position = 0; position < count; position++) {
        state->trial[state->picked[position]] -= state->taken[position];
    }
    if (has_room(queue->plant, state->trial, gpus)) return true;
    for (int64_t position = 0; position < count; position++) {
        state->trial[state->picked[position]] += state->taken[position];
    }
    return false;
}

/* Whether a job behind the blocked one may start on its chosen nodes. */
static bool may_overtake(const Queue *queue, int64_t j, int64_t count, Shadow shadow, double now) {
    if (queue->rules->backfill != EASY) return true;
    double speed = queue->work->slow_JS[3 * j + node_reach(queue, count)];
    return now + expected_seconds(queue, j, speed) <= shadow.when || is_harmless(queue, count, shadow.gpus);
}

/* Start the jobs that may start, in the order of the queue. */
void serve_in_order(const Queue *queue, double now) {
    const struct Rules *rules = queue->rules;
    const struct Plant *plant = queue->plant;
    const struct State *state = queue->state;
    Walk walk = start_walk(queue);
    Shadow shadow = {0, now};
    int64_t head = -1, looked = 0, small = INT64_MAX, large = INT64_MAX;
    while (state->number[FREE] > 0 && !(rules->depth && looked >= rules->depth)) {
        int64_t j = next_job(queue, &walk), count = 0;
        if (j < 0) break;
        int64_t gpus = queue->work->job[j].gpus;
        if (gpus <= state->number[FREE] && gpus < (gpus <= plant->size ? small : large)) {
            count = choose_nodes(queue, state->free, gpus);
            if (count == 0 && gpus <= plant->size) small = gpus;
            if (count == 0 && gpus > plant->size) large = gpus;
        }
        looked += head >= 0;
        if (count && (head < 0 || may_overtake(queue, j, count, shadow, now))) {
            leave_queue(queue, &walk, j);
            begin_job(queue, j, count, now);
        } else if (head < 0) {
            head = j;
            if (rules->backfill == STRICT) break;
            if (rules->backfill == EASY) shadow = find_shadow(queue, gpus, now);
        } else if (count && !rules->depth) {
            hide_longer(queue, &walk, j, now, shadow.when);
        }
        if (head >= 0 && !rules->depth) hide_sizes(queue, state->number[FREE], small, large);
    }
    bool is_scattered = head >= 0 && queue->work->job[head].gpus <= state->number[FREE];
    state->time[SCATTERED] = is_scattered ? (double)state->number[FREE] : 0.0;
}
