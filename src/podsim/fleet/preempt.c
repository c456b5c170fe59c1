/* Preempting decisions: they hand out all GPUs again, in the order of the queue. */
#include "queue_state.h"

/* Whether a running job can keep its GPUs. If so, takes them from `trial`. */
static bool keeps_gpus(const Queue *queue, int64_t j) {
    const struct State *state = queue->state;
    if (queue->rules->moves) return false;
    for (int64_t piece = state->job[j].piece; piece >= 0; piece = state->piece_next[piece]) {
        if (state->trial[state->piece_node[piece]] < state->piece_gpus[piece]) return false;
    }
    for (int64_t piece = state->job[j].piece; piece >= 0; piece = state->piece_next[piece]) {
        state->trial[state->piece_node[piece]] -= state->piece_gpus[piece];
    }
    return true;
}

/* Choose nodes for a job: free ones if possible, else those of later jobs. */
static int64_t choose_any(const Queue *queue, int64_t j, double now) {
    const struct State *state = queue->state;
    if (queue->rules->moves) {
        return_gpus(state, j);
        return choose_for(queue, state->trial, j, now);
    }
    int64_t gpus = queue->work->job[j].gpus;
    int64_t count = gpus <= state->number[FREE] ? choose_for(queue, state->free, j, now) : 0;
    return count ? count : choose_for(queue, state->trial, j, now);
}

/* Start a job on the chosen nodes, or move it to them. */
static void start_or_move(const Queue *queue, Walk *walk, int64_t j, int64_t count, double now) {
    const struct State *state = queue->state;
    state->job[j].turn = state->number[DECISIONS];
    for (int64_t position = 0; position < count; position++) {
        state->trial[state->picked[position]] -= state->taken[position];
    }
    if (state->job[j].status == RUNNING) {
        take_gpus(state, j, count);
        return;
    }
    if (walk->is_waiting) {
        leave_queue(queue, walk, j);
        state->active[state->number[ACTIVE]++] = (struct Entry){0.0, j};
    }
    begin_job(queue, j, count, now);
}

/* Stop the running jobs that got no GPUs in this decision. */
static void stop_others(const Queue *queue, double now) {
    const struct State *state = queue->state;
    for (int64_t position = state->number[BUSY] - 1; position >= 0; position--) {
        int64_t j = state->busy[position].job;
        if (state->job[j].turn != state->number[DECISIONS]) stop_job(queue, j, now);
    }
}

/* Give GPUs to the first jobs of the queue that fit. A running job keeps its GPUs if no earlier job took them.
 *
 * `trial` has the GPUs that would be free without the running jobs that have not had their turn. The order alone
 * decides who comes first: if jobs of a level may not stop each other, running ones come first in it (`by_level`).
 */
void serve_preempting(const Queue *queue, double now) {
    const struct Plant *plant = queue->plant;
    const struct Rules *rules = queue->rules;
    const struct State *state = queue->state;
    if (rules->elastic) set_allotments(queue, now);
    Walk walk = start_walk(queue);
    int64_t room = plant->nodes * plant->size, blocked = 0;
    reset_sizes(queue);
    for (int64_t node = 0; node < plant->nodes; node++) state->trial[node] = plant->size;
    while (room > 0 && !(blocked && rules->backfill == STRICT)) {
        int64_t j = next_job(queue, &walk);
        if (j < 0) break;
        int64_t gpus = queue->work->job[j].gpus;
        bool runs = state->job[j].status == RUNNING;
        if (gpus <= room && runs && keeps_gpus(queue, j)) {
            state->job[j].turn = state->number[DECISIONS];
            room -= gpus;
            continue;
        }
        bool may_start = gpus <= room && (rules->elastic || !is_too_large(queue, j));
        if (runs && !(rules->moves && may_start)) stop_job(queue, j, now);
        int64_t count = may_start ? choose_any(queue, j, now) : 0;
        while (may_start && !count && rules->elastic && shrink_wish(queue, j)) count = choose_any(queue, j, now);
        if (count) {
            start_or_move(queue, &walk, j, count, now);
            room -= queue->work->job[j].gpus;
        } else {
            if (may_start) note_no_room(queue, &walk, j, now);
            if (!blocked) blocked = gpus;
        }
        if (blocked) hide_sizes(queue, room);
    }
    stop_others(queue, now);
    bool is_scattered = blocked && blocked <= state->number[FREE];
    state->time[SCATTERED] = is_scattered ? (double)state->number[FREE] : 0.0;
}
