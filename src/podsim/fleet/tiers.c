/* Preemption by quality of service: a job of a higher tier stops jobs of lower tiers, the lowest and youngest first. */
#include "queue_state.h"

#define TIER_WEIGHT 1e13 /* s. The weight of a tier, more than any time in a queue. */

/* The running jobs of lower tiers, into `spare`, in the order in which they give way; their number. */
static int64_t list_lower(const Queue *queue, int64_t tier) {
    const struct State *state = queue->state;
    int64_t count = 0;
    for (int64_t position = 0; position < state->number[BUSY]; position++) {
        int64_t j = state->busy[position].job, other = queue->work->job[j].tier;
        if (other < tier) state->spare[count++] = (struct Entry){(double)other * TIER_WEIGHT - state->job[j].begun, j};
    }
    sort_entries(state->spare, state->spare + count, count);
    return count;
}

/* Stop jobs of lower tiers until a blocked job has room, and choose its nodes. The number of nodes; 0 if that is not
 * enough. Only jobs on the chosen nodes stop. The next decision, now, may start them elsewhere.
 */
int64_t make_room(const Queue *queue, int64_t j, double now) {
    const struct Plant *plant = queue->plant;
    const struct State *state = queue->state;
    const struct Job *job = &queue->work->job[j];
    int64_t lower = list_lower(queue, job->tier), stopped = 0, count = 0;
    int64_t *trial = state->trial + job->access * plant->nodes;
    memcpy(trial, state->free, sizeof *trial * (size_t)plant->nodes);
    while (!count && stopped < lower) {
        int64_t piece = state->job[state->spare[stopped++].job].piece;
        for (; piece >= 0; piece = state->piece_next[piece]) trial[state->piece_node[piece]] += state->piece_gpus[piece];
        if (has_room_for(queue, trial, j, now)) count = choose_for(queue, trial, j, now);
    }
    if (!count) return 0;
    for (int64_t victim = 0; victim < stopped; victim++) {
        int64_t other = state->spare[victim].job, position = 0;
        while (position < count && !has_piece(state, other, state->picked[position])) position++;
        if (position < count) stop_job(queue, other, now);
    }
    state->time[PLANNED] = now;
    return choose_for(queue, state->free, j, now);
}
