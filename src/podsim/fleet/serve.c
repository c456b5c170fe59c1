/* Decisions without preemption, in order: jobs behind a blocked one wait, skip it or backfill. */
#include "queue_state.h"

/* The free GPUs at the latest start of the first blocked job among those with access to the same nodes. */
static int64_t *trial_of(const Queue *queue, int64_t access) {
    return queue->state->trial + access * queue->plant->nodes;
}

/* Free the GPUs of a running job in `trial`, and count idle nodes and GPUs. Whether a node then has room for `gpus`. */
static bool free_in_trial(const Queue *queue, int64_t j, int64_t *trial, int64_t gpus, int64_t *idle, int64_t *total) {
    const struct State *state = queue->state;
    bool is_enough = false;
    for (int64_t piece = state->job[j].piece; piece >= 0; piece = state->piece_next[piece]) {
        int64_t *free = trial + state->piece_node[piece];
        *free += state->piece_gpus[piece];
        *total += state->piece_gpus[piece];
        *idle += *free == queue->plant->size;
        is_enough = is_enough || *free >= gpus;
    }
    return is_enough;
}

/* The time from which a job has room in `trial`, where all running jobs have ended: now, or the end of a window. */
static double open_time(const Queue *queue, int64_t j, const int64_t *trial, double now) {
    const struct Plant *plant = queue->plant;
    if (has_room_for(queue, trial, j, now)) return now;
    for (int64_t bell = queue->state->number[BELL]; bell < plant->bells; bell++) {
        if (has_room_for(queue, trial, j, plant->bell[bell])) return plant->bell[bell];
    }
    return INFINITY; /* not before nodes come back, at a time that no scheduler knows */
}

/* Make a job the first blocked one of its access: find its latest start, and the GPUs in `trial` that are free then. */
static void find_shadow(const Queue *queue, int64_t j, double now) {
    const struct Plant *plant = queue->plant;
    const struct State *state = queue->state;
    int64_t gpus = queue->work->job[j].gpus, access = queue->work->job[j].access;
    int64_t full = gpus / plant->size, idle = 0, total = 0, *trial = trial_of(queue, access);
    for (int64_t node = 0; node < plant->nodes; node++) {
        trial[node] = state->free[node];
        idle += state->free[node] == plant->size;
        total += state->free[node];
    }
    bool is_known = false;
    double when = now;
    for (int64_t position = 0; position < state->number[BUSY]; position++) {
        double due = state->busy[position].key;
        if (is_known && due > when) break;
        bool is_enough = free_in_trial(queue, state->busy[position].job, trial, gpus, &idle, &total);
        if (is_known) continue;
        if (plant->rule == SPREAD) {
            is_enough = total >= gpus;
        } else if (gpus > plant->size) {
            is_enough = idle >= full && has_room(plant, trial, gpus);
        }
        if (is_enough && plant->changes) is_enough = has_room_for(queue, trial, j, max_double(due, now));
        if (is_enough) {
            is_known = true;
            when = max_double(due, now);
        }
    }
    state->when[access] = is_known || !plant->changes ? when : open_time(queue, j, trial, now);
}

/* Take the chosen nodes from the trial of an access (sign -1), or give them back. */
static void move_trial(const Queue *queue, int64_t access, int64_t count, int64_t sign) {
    int64_t *trial = trial_of(queue, access);
    for (int64_t position = 0; position < count; position++) {
        trial[queue->state->picked[position]] += sign * queue->state->taken[position];
    }
}

/* Whether the chosen nodes do not delay the blocked job of an access. If so, takes them from its trial. */
static bool is_harmless(const Queue *queue, int64_t access, int64_t count) {
    const struct State *state = queue->state;
    move_trial(queue, access, count, -1);
    if (has_room_for(queue, trial_of(queue, access), state->head[access], state->when[access])) return true;
    move_trial(queue, access, count, 1);
    return false;
}

/* The access whose blocked job would be delayed if a job behind it started on its chosen nodes; -1: it may start. */
static int64_t delayed_access(const Queue *queue, int64_t j, int64_t count, double now) {
    const struct State *state = queue->state;
    if (queue->rules->backfill != EASY) return -1;
    double speed = queue->work->slow[3 * j + node_reach(queue, count)];
    double end = now + expected_seconds(queue, j, speed) + pull_seconds(queue, count);
    int64_t access = 0, accesses = queue->plant->accesses;
    for (; access < accesses; access++) {
        if (state->head[access] >= 0 && end > state->when[access] && !is_harmless(queue, access, count)) break;
    }
    if (access == accesses) return -1;
    for (int64_t other = 0; other < access; other++) {
        if (state->head[other] >= 0 && end > state->when[other]) move_trial(queue, other, count, 1);
    }
    return access;
}

/* Block a job that is the first of its access to find no room: the others with the same access wait or backfill. */
static void block_job(const Queue *queue, int64_t j, double now) {
    const struct State *state = queue->state;
    int64_t access = queue->work->job[j].access;
    state->head[access] = j;
    if (queue->rules->backfill == STRICT) state->small[access] = state->large[access] = 0;
    if (queue->rules->backfill == EASY) find_shadow(queue, j, now);
}

/* Choose nodes for a job, if need be those of jobs of lower tiers, which then have stopped. */
static int64_t find_nodes(const Queue *queue, Walk *walk, int64_t j, double now, bool *has_stopped) {
    const struct State *state = queue->state;
    const struct Job *job = &queue->work->job[j];
    int64_t count = 0;
    if (job->gpus <= state->number[FREE] && !is_too_large(queue, j)) {
        count = choose_for(queue, state->free, j, now);
        if (!count) note_no_room(queue, walk, j, now);
    }
    bool may_stop = !count && queue->rules->tiers && state->head[job->access] < 0;
    if (may_stop) count = make_room(queue, j, now);
    *has_stopped = may_stop && count;
    return count;
}

/* Start the jobs that may start, in the order of the queue. */
void serve_in_order(const Queue *queue, double now) {
    const struct Rules *rules = queue->rules;
    const struct State *state = queue->state;
    Walk walk = start_walk(queue);
    int64_t first = -1, looked = 0, heads = 0, accesses = queue->plant->accesses;
    reset_sizes(queue);
    while (!(rules->depth && looked >= rules->depth)) {
        if (state->number[FREE] <= 0 && (!rules->tiers || heads == accesses)) break;
        int64_t j = next_job(queue, &walk);
        if (j < 0) break;
        if (is_hidden(queue, j, now)) continue;
        bool has_stopped = false;
        int64_t access = queue->work->job[j].access, count = find_nodes(queue, &walk, j, now, &has_stopped);
        looked += heads > 0;
        int64_t delayed = count && heads && !has_stopped ? delayed_access(queue, j, count, now) : -1;
        if (count && delayed < 0) {
            leave_queue(queue, &walk, j);
            begin_job(queue, j, count, now);
        } else if (state->head[access] < 0) {
            if (first < 0) first = j;
            heads++;
            block_job(queue, j, now);
            if (rules->backfill == STRICT && heads == accesses) break;
        } else if (count && !rules->depth) {
            hide_longer(queue, &walk, j, now, state->when[delayed]);
        }
        if (heads && !rules->depth) hide_sizes(queue, rules->tiers && heads < accesses ? INT64_MAX : state->number[FREE]);
    }
    bool is_scattered = first >= 0 && queue->work->job[first].gpus <= state->number[FREE];
    state->time[SCATTERED] = is_scattered ? (double)state->number[FREE] : 0.0;
}
