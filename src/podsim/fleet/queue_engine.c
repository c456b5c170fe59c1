/* The clock of the queue: arrivals, ends and decisions, in order, until all jobs end. */
#include "queue_state.h"

/* why queue_advance returned, as in queue_engine.py */
enum { ALL_ENDED, ROOM, STUCK, PAUSE, MORE };

/* The time of the next decision without further events: now if something changed, else the planned time. */
static double decision_time(const Queue *queue) {
    const struct Rules *rules = queue->rules;
    const struct State *state = queue->state;
    double when = state->time[CLOCK];
    if (!state->number[DIRTY]) {
        when = state->time[PLANNED];
        bool can_start = rules->preempt || state->number[FREE] > 0;
        if (rules->refresh > 0.0 && state->number[QUEUE] > 0 && can_start) {
            when = min_double(when, state->time[LOOKED] + rules->refresh);
        }
    }
    if (rules->interval > 0.0 && when < INFINITY) when = ceil(when / rules->interval - 1e-9) * rules->interval;
    return when;
}

/* The time of the next arrival, end or decision. */
static double next_time(const Queue *queue) {
    const struct State *state = queue->state;
    double when = decision_time(queue);
    if (state->number[NEXT] < queue->work->jobs) {
        when = min_double(when, queue->work->job[state->number[NEXT]].submit);
    }
    if (queue->plant->changes) when = min_double(when, next_change_time(queue));
    return state->number[BUSY] > 0 ? min_double(when, state->ends[0].key) : when;
}

/* End the jobs whose time has come, by due time. True if a job ended early. */
static bool end_jobs(const Queue *queue, double now) {
    const struct State *state = queue->state;
    bool is_early = false;
    while (state->number[BUSY] > 0 && state->ends[0].key <= now) {
        int64_t j = state->ends[0].job, others = state->number[BUSY];
        bool is_alone = true;
        for (int64_t child = 1; child <= 2 && child < others; child++) {
            is_alone = is_alone && state->ends[child].key > now;
        }
        for (int64_t position = 0; !is_alone; position++) { /* several at once: the first of them by due time */
            j = state->busy[position].job;
            if (state->job[j].end <= now) break;
        }
        if (queue->rules->backfill == CONSERVATIVE && give_up_rest(queue, j, now)) is_early = true;
        end_job(queue, j, now);
    }
    return is_early;
}

/* End jobs, then add arrivals. True if a job ended early. */
static bool process_events(const Queue *queue, double now) {
    const struct Work *work = queue->work;
    const struct State *state = queue->state;
    bool is_early = end_jobs(queue, now);
    if (queue->plant->changes) process_changes(queue, now);
    while (state->number[NEXT] < work->jobs && work->job[state->number[NEXT]].submit <= now) {
        int64_t j = state->number[NEXT]++;
        if (state->job[j].waits_for == 0) release_job(state, j, now);
    }
    return is_early;
}

/* The time at which the next running job falls by a level. */
static double next_fall_time(const Queue *queue, double now) {
    const struct State *state = queue->state;
    double when = INFINITY;
    for (int64_t position = 0; position < state->number[BUSY]; position++) {
        int64_t j = state->busy[position].job;
        const struct Standing *job = &state->job[j];
        if (job->level >= queue->rules->bounds) continue;
        double service = queue->rules->levels[job->level] - job->attained;
        when = min_double(when, job->begun + service / (double)queue->work->job[j].gpus);
    }
    return max_double(when, now + 1e-6);
}

/* Decide who runs from now on. */
static void make_decision(const Queue *queue, bool is_early, double now) {
    const struct Rules *rules = queue->rules;
    const struct State *state = queue->state;
    state->number[DECISIONS]++;
    state->number[STARTED] = 0;
    state->number[DIRTY] = 0;
    state->time[PLANNED] = INFINITY;
    state->time[LOOKED] = now;
    if (state->number[FREE] <= 0 && !rules->preempt && !rules->tiers && rules->backfill != CONSERVATIVE) return;
    update_queue(queue, now);
    if (rules->preempt) {
        serve_preempting(queue, now);
    } else if (rules->backfill == CONSERVATIVE) {
        serve_reserved(queue, is_early, now);
    } else {
        serve_in_order(queue, now);
    }
    if (state->number[STARTED]) close_gaps(state);
    if (rules->order == BY_LEVEL && rules->preempt && state->number[QUEUE] > 0) {
        state->time[PLANNED] = next_fall_time(queue, now);
    }
    state->number[DIRTY] = 0;
}

/* Advance until all jobs end, the spans are full, no event can follow, `rounds` are over, or more outages are
 * to be drawn. The reason. */
EXPORT int64_t queue_advance(
    const struct Work *work, const struct Plant *plant, const struct Rules *rules, const struct State *state,
    int64_t rounds
) {
    const Queue queue = {work, plant, rules, state};
    int64_t most = 2 * plant->nodes * plant->size;
    while (state->number[ENDED] < work->jobs) {
        if (rounds-- == 0) return PAUSE;
        if (state->number[SPANS] + most > state->room) return ROOM;
        double now = next_time(&queue);
        if (now > plant->horizon) return MORE;
        if (now == INFINITY) return STUCK;
        state->time[AWAY] += (double)state->number[CLOSED] * (now - state->time[CLOCK]);
        state->time[SPLIT] += state->time[SCATTERED] * (now - state->time[CLOCK]);
        state->time[CLOCK] = now;
        if (rules->order == MULTIFACTOR) charge_users(&queue, now);
        bool is_early = process_events(&queue, now);
        if (decision_time(&queue) <= now) make_decision(&queue, is_early, now);
    }
    return ALL_ENDED;
}
