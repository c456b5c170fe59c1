/* The waiting jobs in the order of the queue, and the walk of a decision through them.
 *
 * Jobs whose keys stay while they wait are kept in a tree for each size, so that a decision passes all jobs of a size
 * that cannot start at once. Where time changes the keys, and for reservations, they form a sorted line. Running jobs
 * of preempting policies are sorted at every decision, and the walk merges them in.
 */
#include "queue_state.h"

/* Seconds that a waiting job runs at least, on the nodes that are best for it. */
static double shortest_seconds(const Queue *queue, int64_t j) {
    const double *speed = queue->work->slow + 3 * j;
    return expected_seconds(queue, j, max_double(max_double(speed[0], speed[1]), speed[2]));
}

/* Add the jobs that joined the queue since the last decision to their trees. */
static void plant_fresh(const Queue *queue, double now) {
    const struct State *state = queue->state;
    for (int64_t position = 0; position < state->number[FRESH]; position++) {
        int64_t j = state->fresh[position];
        if (state->job[j].status != WAITING) continue;
        state->node[j].key = order_key(queue, j, now);
        state->node[j].least = shortest_seconds(queue, j);
        tree_insert(state, &state->root[state->job[j].kind], j);
    }
}

/* Sort the line again if time moves its keys, and merge the jobs that joined since the last decision. */
static void sort_line(const Queue *queue, double now) {
    const struct State *state = queue->state;
    int64_t kept = state->number[LINE], count = kept;
    if (!queue->rules->still) {
        for (int64_t position = 0; position < kept; position++) {
            state->line[position].key = order_key(queue, state->line[position].job, now);
        }
        sort_entries(state->line, state->spare, kept);
    }
    for (int64_t position = 0; position < state->number[FRESH]; position++) {
        int64_t j = state->fresh[position];
        if (state->job[j].status == WAITING) state->line[count++] = (struct Entry){order_key(queue, j, now), j};
    }
    sort_entries(state->line + kept, state->spare, count - kept);
    merge_entries(state->line, state->spare, kept, count);
    state->number[LINE] = count;
}

/* Sort the running jobs by their current keys. */
static void sort_active(const Queue *queue, double now) {
    const struct State *state = queue->state;
    int64_t kept = 0;
    for (int64_t position = 0; position < state->number[ACTIVE]; position++) {
        int64_t j = state->active[position].job;
        if (state->job[j].status == RUNNING) state->active[kept++] = (struct Entry){order_key(queue, j, now), j};
    }
    sort_entries(state->active, state->spare, kept);
    state->number[ACTIVE] = kept;
}

/* Put all jobs of the queue into their current order. */
void update_queue(const Queue *queue, double now) {
    if (has_trees(queue->rules)) {
        plant_fresh(queue, now);
    } else {
        sort_line(queue, now);
    }
    queue->state->number[FRESH] = 0;
    if (queue->rules->preempt) sort_active(queue, now);
}

/* Drop the jobs that have started from the line, and from those that joined the queue. */
void close_gaps(const struct State *state) {
    int64_t kept = 0, fresh = 0, position = 0, started = state->number[STARTED], line = state->number[LINE];
    for (int64_t other = 0; other < state->number[FRESH]; other++) {
        if (state->job[state->fresh[other]].status == WAITING) state->fresh[fresh++] = state->fresh[other];
    }
    state->number[FRESH] = fresh;
    for (; position < line && position < kept + started; position++) {
        if (state->job[state->line[position].job].status == WAITING) state->line[kept++] = state->line[position];
    }
    memmove(state->line + kept, state->line + position, sizeof *state->line * (size_t)(line - position));
    state->number[LINE] = kept + line - position;
}

/* A walk from the first job of the queue. */
Walk start_walk(const Queue *queue) {
    const struct State *state = queue->state;
    Walk walk = {.last = {-INFINITY, -1}, .actives = queue->rules->preempt ? state->number[ACTIVE] : 0};
    for (int64_t kind = 0; kind < state->kinds; kind++) {
        state->ahead[kind] = tree_after(state, state->root[kind], walk.last, 0.0, INFINITY);
        state->narrow[kind] = 0;
    }
    return walk;
}

/* The first waiting job of all trees; no job if none waits. */
static struct Entry first_ahead(const struct State *state) {
    struct Entry first = {INFINITY, INT64_MAX};
    for (int64_t kind = 0; kind < state->kinds; kind++) {
        int64_t j = state->ahead[kind];
        if (j >= 0 && comes_before((struct Entry){state->node[j].key, j}, first)) {
            first = (struct Entry){state->node[j].key, j};
        }
    }
    return first;
}

/* The next job of the queue, waiting or running; -1 at its end. */
int64_t next_job(const Queue *queue, Walk *walk) {
    const struct State *state = queue->state;
    struct Entry none = {INFINITY, INT64_MAX}, waiting = none, active = none;
    if (has_trees(queue->rules)) {
        if (walk->is_waiting) {
            int64_t kind = state->job[walk->last.job].kind;
            if (state->ahead[kind] == walk->last.job) {
                state->ahead[kind] = tree_after(state, state->root[kind], walk->last, 0.0, INFINITY);
            }
        }
        waiting = first_ahead(state);
    } else if (walk->position < state->number[LINE]) {
        waiting = state->line[walk->position];
    }
    if (walk->active < walk->actives) active = state->active[walk->active];
    walk->is_waiting = comes_before(waiting, active);
    walk->last = walk->is_waiting ? waiting : active;
    walk->position += walk->is_waiting;
    walk->active += !walk->is_waiting;
    return walk->last.job == INT64_MAX ? -1 : walk->last.job;
}

/* Remove the job of the last step, which starts. The walk returns to those that it passed by: they may be harmless. */
void leave_queue(const Queue *queue, Walk *walk, int64_t j) {
    const struct State *state = queue->state;
    if (has_trees(queue->rules)) tree_remove(state, &state->root[state->job[j].kind], j);
    for (int64_t kind = 0; kind < state->kinds; kind++) {
        if (!state->narrow[kind]) continue;
        state->ahead[kind] = tree_after(state, state->root[kind], walk->last, 0.0, INFINITY);
        state->narrow[kind] = 0;
    }
}

/* Forget the sizes that found no room in the last decision. */
void reset_sizes(const Queue *queue) {
    const struct State *state = queue->state;
    for (int64_t access = 0; access < queue->plant->accesses; access++) {
        state->small[access] = state->large[access] = INT64_MAX;
        state->head[access] = -1;
    }
}

static int64_t *size_limit(const Queue *queue, int64_t gpus, int64_t access) {
    return (gpus <= queue->plant->size ? queue->state->small : queue->state->large) + access;
}

/* Whether a smaller job with access to the same nodes found no room in this decision. */
bool is_too_large(const Queue *queue, int64_t j) {
    const struct Job *job = &queue->work->job[j];
    return job->gpus >= *size_limit(queue, job->gpus, job->access);
}

/* Note that a job found no room: larger ones need not try, or if the next window stopped it, longer ones. */
void note_no_room(const Queue *queue, Walk *walk, int64_t j, double now) {
    const struct Job *job = &queue->work->job[j];
    bool is_long = false;
    if (queue->plant->windows) {
        is_long = choose_nodes(queue, open_gpus(queue, queue->state->free, j, now, 0.0), job->gpus) > 0;
    }
    if (!is_long) {
        *size_limit(queue, job->gpus, job->access) = job->gpus;
    } else if (walk->is_waiting && !queue->rules->depth) {
        hide_longer(queue, walk, j, now, now + longest_seconds(queue, j));
    }
}

/* Pass by all jobs of more than `most` GPUs, and those that are too large for the nodes that they may use. */
void hide_sizes(const Queue *queue, int64_t most) {
    const struct State *state = queue->state;
    for (int64_t kind = 0; kind < state->kinds; kind++) {
        int64_t gpus = state->size[kind];
        if (gpus <= most && gpus < *size_limit(queue, gpus, state->kind_access[kind])) continue;
        state->ahead[kind] = -1;
        state->narrow[kind] = 0;
    }
}

/* Whether a job of the line is one that the decision passes by, as it runs too long. */
bool is_hidden(const Queue *queue, int64_t j, double now) {
    const struct State *state = queue->state;
    int64_t kind = state->job[j].kind;
    return !has_trees(queue->rules) && state->narrow[kind] && now + shortest_seconds(queue, j) > state->latest[kind];
}

/* Pass by the next jobs of the size of j that cannot end by `latest`. */
void hide_longer(const Queue *queue, Walk *walk, int64_t j, double now, double latest) {
    const struct State *state = queue->state;
    int64_t kind = state->job[j].kind;
    state->latest[kind] = latest;
    state->ahead[kind] = tree_after(state, state->root[kind], walk->last, now, latest);
    state->narrow[kind] = 1;
}
