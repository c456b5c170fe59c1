/* Conservative backfill: every job of the queue has a reservation in a profile of future free GPUs.
 *
 * A new job takes the earliest slot that delays no other job. When a job ends early, all reservations are made again,
 * in order. The profile counts GPUs. If they are too scattered at the reserved time, the job tries again at the next
 * time of the profile.
 */
#include "queue_state.h"

/* The position of the step at a time, a new one if necessary. */
static int64_t step_at(const struct State *state, double time) {
    int64_t low = 0, high = state->number[STEPS];
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (state->step_time[middle] < time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < state->number[STEPS] && state->step_time[low] == time) return low;
    if (low == 0) return 0; /* before the first step: the profile has no past */
    size_t later = (size_t)(state->number[STEPS] - low);
    memmove(state->step_time + low + 1, state->step_time + low, sizeof *state->step_time * later);
    memmove(state->step_free + low + 1, state->step_free + low, sizeof *state->step_free * later);
    state->step_time[low] = time;
    state->step_free[low] = state->step_free[low - 1];
    state->number[STEPS]++;
    return low;
}

/* Add free GPUs to the profile from start to stop. */
static void change_profile(const struct State *state, double start, double stop, int64_t gpus) {
    int64_t first = step_at(state, start), last = step_at(state, stop);
    for (int64_t position = first; position < last; position++) state->step_free[position] += gpus;
}

/* Drop the past steps of the profile, and those without a change. */
static void forget_past(const struct State *state, double now) {
    int64_t past = 0, kept = 1, steps = state->number[STEPS];
    while (past + 1 < steps && state->step_time[past + 1] <= now) past++;
    state->step_time[0] = now;
    state->step_free[0] = state->step_free[past];
    for (int64_t position = past + 1; position < steps; position++) {
        if (state->step_free[position] == state->step_free[kept - 1]) continue;
        state->step_time[kept] = state->step_time[position];
        state->step_free[kept++] = state->step_free[position];
    }
    state->number[STEPS] = kept;
}

/* Reserve the first interval of the profile with room for a job. */
static void reserve(const Queue *queue, int64_t j, double earliest) {
    const struct State *state = queue->state;
    int64_t gpus = queue->work->job[j].gpus, steps = state->number[STEPS];
    double length = state->job[j].held_for, begin = earliest;
    for (int64_t position = 0; position < steps; position++) {
        if (state->step_free[position] < gpus) {
            begin = state->step_time[position + 1]; /* the last step has the whole machine free */
        } else if (position + 1 == steps || state->step_time[position + 1] >= begin + length) {
            break;
        }
    }
    state->job[j].plan = begin;
    change_profile(state, begin, begin + length, -gpus);
}

/* Start a job at its reserved time, or make another reservation if its GPUs are too scattered. */
static void start_reserved(const Queue *queue, int64_t j, double now) {
    const struct State *state = queue->state;
    struct Standing *job = &state->job[j];
    int64_t gpus = queue->work->job[j].gpus;
    int64_t count = gpus <= state->number[FREE] ? choose_nodes(queue, state->free, gpus) : 0;
    change_profile(state, job->plan, job->plan + job->held_for, gpus);
    if (count) {
        job->held_for = expected_seconds(queue, j, queue->work->slow[3 * j + node_reach(queue, count)]);
        begin_job(queue, j, count, now);
        change_profile(state, now, job->due, -gpus);
        return;
    }
    state->time[SCATTERED] = (double)state->number[FREE];
    state->number[LATE]++;
    reserve(queue, j, state->number[STEPS] > 1 ? state->step_time[1] : now + 1.0);
}

/* Make missing reservations (all of them, if `again`), and start the jobs whose reservation is due. */
void serve_reserved(const Queue *queue, bool again, double now) {
    const struct State *state = queue->state;
    forget_past(state, now);
    for (int64_t position = 0; position < state->number[LINE]; position++) {
        int64_t j = state->line[position].job;
        struct Standing *job = &state->job[j];
        if (job->plan < INFINITY) {
            if (!again) continue;
            change_profile(state, job->plan, job->plan + job->held_for, queue->work->job[j].gpus);
        }
        job->held_for = expected_seconds(queue, j, queue->work->slow[3 * j]);
        reserve(queue, j, now);
    }
    state->time[PLANNED] = INFINITY;
    state->time[SCATTERED] = 0.0;
    for (int64_t position = 0; position < state->number[LINE]; position++) {
        int64_t j = state->line[position].job;
        if (state->job[j].plan <= now) start_reserved(queue, j, now);
        if (state->job[j].status != WAITING) continue;
        state->time[PLANNED] = min_double(state->time[PLANNED], state->job[j].plan);
    }
}

/* Free the reservation of an ending job beyond now. True if the job ends early. */
bool give_up_rest(const Queue *queue, int64_t j, double now) {
    double due = queue->state->job[j].due;
    if (due <= now) return false;
    change_profile(queue->state, now, due, queue->work->job[j].gpus);
    return true;
}
