/* Conservative backfill: every job of the queue has a reservation in a profile of future free GPUs.
 *
 * A new job takes the earliest slot that delays no other job. When a job ends early, all reservations are made again,
 * in order; one that cannot begin earlier stays as it is. The profile counts GPUs. If they are too scattered at the
 * reserved time, the job tries again at the next time of the profile. With a depth, only so many jobs behind the first
 * have reservations.
 */
#include "queue_state.h"

/* The position of the first step at or after a time, not before the position `low`. */
static int64_t step_after(const struct State *state, int64_t low, double time) {
    int64_t width = 1, high = state->number[STEPS];
    for (; low + width < high && state->step_time[low + width] < time; width *= 2) low += width;
    high = min_int(high, low + width);
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (state->step_time[middle] < time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The position of the step at a time, a new one if necessary. */
static int64_t step_at(const struct State *state, double time) {
    int64_t low = step_after(state, 0, time);
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

/* Add free GPUs to the profile from start to stop. A slow job may take GPUs that others have reserved. */
static void change_profile(const struct State *state, double start, double stop, int64_t gpus) {
    int64_t first = step_at(state, start), last = step_at(state, stop), least = 0;
    for (int64_t position = first; position < last; position++) {
        state->step_free[position] += gpus;
        least = min_int(least, state->step_free[position]);
    }
    if (least < 0) state->number[SHORT] = 1;
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

/* The first begin of an interval with room for a job, at or after `earliest`. At `latest` it has room for certain.
 *
 * An interval is looked at from its end: it leaps past the last step that has too few GPUs.
 */
static double first_begin(const Queue *queue, int64_t j, double earliest, double latest) {
    const struct State *state = queue->state;
    int64_t gpus = queue->work->job[j].gpus, first = step_after(state, 0, earliest), seen;
    double length = state->job[j].held_for, begin = earliest;
    if (first == state->number[STEPS] || state->step_time[first] > earliest) first--;
    seen = first;
    while (begin < latest) {
        int64_t stop = step_after(state, first, min_double(begin + length, latest)), last = stop - 1;
        while (last >= seen && state->step_free[last] >= gpus) last--;
        if (last < seen) return begin;
        first = last + 1; /* the last step has the whole machine free */
        begin = state->step_time[first];
        seen = stop;
    }
    return latest;
}

/* Reserve the first interval of the profile with room for a job, not before `earliest`. */
static void reserve(const Queue *queue, int64_t j, double earliest) {
    struct Standing *job = &queue->state->job[j];
    job->plan = first_begin(queue, j, earliest, INFINITY);
    change_profile(queue->state, job->plan, job->plan + job->held_for, -queue->work->job[j].gpus);
}

/* Move the reservation of a waiting job to the first interval with room for it. */
static void renew(const Queue *queue, int64_t j, double now) {
    const struct State *state = queue->state;
    double plan = state->job[j].plan, stop = plan + state->job[j].held_for, begin = now;
    state->time[TOUCHED] = min_double(state->time[TOUCHED], plan > now ? plan : stop);
    if (!state->number[SHORT] && (begin = first_begin(queue, j, now, plan)) >= plan) return;
    change_profile(state, plan, stop, queue->work->job[j].gpus);
    reserve(queue, j, begin);
}

/* Start a job at its reserved time, or make another reservation if its GPUs are too scattered. */
static void start_reserved(const Queue *queue, int64_t j, double now) {
    const struct State *state = queue->state;
    struct Standing *job = &state->job[j];
    int64_t gpus = queue->work->job[j].gpus;
    int64_t count = gpus <= state->number[FREE] ? choose_nodes(queue, state->free, gpus) : 0;
    change_profile(state, job->plan, job->plan + job->held_for, gpus);
    if (count) {
        state->number[RESERVED]--;
        job->held_for = expected_seconds(queue, j, queue->work->slow[3 * j + node_reach(queue, count)]);
        begin_job(queue, j, count, now);
        change_profile(state, now, job->due, -gpus);
        return;
    }
    state->time[SCATTERED] = (double)state->number[FREE];
    state->number[LATE]++;
    double next = min_double(state->number[STEPS] > 1 ? state->step_time[1] : INFINITY, state->time[TOUCHED]);
    reserve(queue, j, next < INFINITY ? next : now + 1.0);
}

/* Make missing reservations (all of them, if `again`), and start the jobs whose reservation is due. */
void serve_reserved(const Queue *queue, bool again, double now) {
    const struct State *state = queue->state;
    int64_t most = queue->rules->depth ? queue->rules->depth + 1 : INT64_MAX, left = state->number[RESERVED];
    forget_past(state, now);
    state->time[TOUCHED] = INFINITY;
    for (int64_t position = 0; position < state->number[LINE] && (position < most || left); position++) {
        int64_t j = state->line[position].job;
        bool is_reserved = state->job[j].plan < INFINITY;
        left -= is_reserved;
        if (is_reserved && again) renew(queue, j, now);
        if (is_reserved || position >= most) continue;
        state->number[RESERVED]++;
        state->job[j].held_for = expected_seconds(queue, j, queue->work->slow[3 * j]);
        reserve(queue, j, now);
    }
    state->time[PLANNED] = INFINITY;
    state->time[SCATTERED] = 0.0;
    left = state->number[RESERVED];
    for (int64_t position = 0; left > 0; position++) {
        int64_t j = state->line[position].job;
        if (state->job[j].plan == INFINITY) continue;
        left--;
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
