/* The start, stop and end of jobs, after the decision of a policy. */
#include "queue_state.h"

/* Seconds that a starting job needs on its GPUs before useful work. */
static double lead_seconds(const Queue *queue, int64_t j) {
    const struct Rules *rules = queue->rules;
    const struct Standing *job = &queue->state->job[j];
    if (job->runs == 0) return rules->start;
    return job->extra < 0.0 ? rules->restart : rules->checkpoint + rules->restart; /* a failed job saves nothing */
}

/* Seconds that the scheduler must expect a starting job to hold its GPUs: its limit, or longer for a slow job. */
double expected_seconds(const Queue *queue, int64_t j, double speed) {
    const struct Job *job = &queue->work->job[j];
    double remaining = queue->state->job[j].remaining, done = job->seconds - remaining;
    return lead_seconds(queue, j) + max_double(job->limit - done, remaining / speed);
}

/* The speed of a job at its size and distance class, with periodic checkpoints. */
static double job_speed(const Queue *queue, int64_t j, int64_t reach) {
    const struct Rules *rules = queue->rules;
    double speed = queue->work->slow[3 * j + reach];
    if (rules->elastic) speed *= queue->work->pace[NOTCHES * j + queue->state->job[j].notch];
    return rules->saves > 0.0 ? speed * rules->saves / (rules->saves + rules->checkpoint) : speed;
}

/* Seconds that a job holds its GPUs at most, wherever it starts. */
double longest_seconds(const Queue *queue, int64_t j) {
    const struct Rules *rules = queue->rules;
    double speed = min_double(job_speed(queue, j, 0), min_double(job_speed(queue, j, 1), job_speed(queue, j, 2)));
    double nodes = ceil((double)queue->work->job[j].gpus / (double)queue->plant->size);
    return expected_seconds(queue, j, speed) + rules->mount + max_double(rules->pull, nodes * rules->pull_each);
}

/* Seconds that the container of a job on the chosen nodes needs: to mount its image, and to pull it to new nodes. */
double pull_seconds(const Queue *queue, int64_t count) {
    const struct Rules *rules = queue->rules;
    int64_t cold = 0;
    if (rules->pull == 0.0) return rules->mount;
    for (int64_t position = 0; position < count; position++) cold += !queue->state->warm[queue->state->picked[position]];
    return rules->mount + (cold ? max_double(rules->pull, (double)cold * rules->pull_each) : 0.0);
}

/* Open the span of a starting job. */
static void open_span(const struct State *state, int64_t j, int64_t gpus, int64_t reach, double now) {
    int64_t span = state->number[SPANS]++;
    state->span_job[span] = j;
    state->span_start[span] = now;
    state->span_reach[span] = reach;
    state->span_node[span] = state->picked[0];
    state->span_gpus[span] = gpus;
    state->job[j].span = span;
}

/* The position in `busy` of the first running job with a due time of at least `due`, or above it with `after`. */
static int64_t due_position(const struct State *state, double due, bool after) {
    int64_t low = 0, high = state->number[BUSY];
    while (low < high) {
        int64_t middle = (low + high) / 2;
        double other = state->busy[middle].key;
        if (other < due || (after && other == due)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The position of a running job in `busy`. */
int64_t busy_position(const struct State *state, int64_t j) {
    int64_t position = due_position(state, state->job[j].due, false);
    while (state->busy[position].job != j) position++;
    return position;
}

/* Start a job on its chosen nodes. */
void begin_job(const Queue *queue, int64_t j, int64_t count, double now) {
    const struct State *state = queue->state;
    struct Standing *job = &state->job[j];
    int64_t reach = node_reach(queue, count), gpus = queue->work->job[j].gpus;
    double pulled = pull_seconds(queue, count);
    for (int64_t position = 0; position < count; position++) state->warm[state->picked[position]] = 1;
    take_gpus(state, j, count);
    job->status = RUNNING;
    job->begun = now;
    job->speed = job_speed(queue, j, reach);
    double expected = expected_seconds(queue, j, job->speed);
    job->extra = lead_seconds(queue, j) + pulled;
    job->end = now + job->extra + job->remaining / job->speed;
    job->due = now + expected + pulled;
    job->runs++;
    state->number[QUEUE]--;
    state->rate[queue->work->job[j].user] += (double)gpus;
    state->number[STARTED]++;
    open_span(state, j, gpus, reach, now);
    int64_t position = due_position(state, job->due, true);
    struct Entry *slot = state->busy + position;
    memmove(slot + 1, slot, sizeof *slot * (size_t)(state->number[BUSY] - position));
    *slot = (struct Entry){job->due, j};
    add_end(state, j, state->number[BUSY]++);
}

/* Close the span of a job and free its GPUs. */
static void free_gpus(const Queue *queue, int64_t j, double now) {
    const struct State *state = queue->state;
    const struct Job *job = &queue->work->job[j];
    state->span_end[state->job[j].span] = now;
    double held = now - state->job[j].begun;
    state->job[j].attained += held * (double)job->gpus;
    state->time[SPENT] += min_double(state->job[j].extra, held) * (double)job->gpus;
    state->rate[job->user] -= (double)job->gpus;
    return_gpus(state, j);
    remove_end(state, j, state->number[BUSY]);
    struct Entry *slot = state->busy + busy_position(state, j);
    state->number[BUSY]--;
    memmove(slot, slot + 1, sizeof *slot * (size_t)(state->busy + state->number[BUSY] - slot));
    state->number[DIRTY] = 1;
}

/* Put a job into the queue, in which the next decision orders it. */
static void join_queue(const struct State *state, int64_t j) {
    state->job[j].status = WAITING;
    state->fresh[state->number[FRESH]++] = j;
    state->number[QUEUE]++;
}

/* Put a running job back into the queue with the progress of its first `kept` useful seconds. */
static void put_back(const Queue *queue, int64_t j, double kept, double now) {
    struct Standing *job = &queue->state->job[j];
    job->remaining = max_double(job->remaining - kept * job->speed, 0.0);
    free_gpus(queue, j, now);
    join_queue(queue->state, j);
    job->begun = now;
}

/* Preempt a job, which keeps its progress. */
void stop_job(const Queue *queue, int64_t j, double now) {
    const struct Standing *job = &queue->state->job[j];
    put_back(queue, j, max_double(now - job->begun - job->extra, 0.0), now);
}

/* Stop a job whose node has failed. It falls back to its last checkpoint, or to the start of this run. */
void fail_job(const Queue *queue, int64_t j, double now) {
    const struct State *state = queue->state;
    struct Standing *job = &state->job[j];
    double useful = max_double(now - job->begun - job->extra, 0.0);
    double cycle = queue->rules->saves + queue->rules->checkpoint;
    double kept = queue->rules->saves > 0.0 ? floor(useful / cycle) * cycle : 0.0;
    state->time[LOST] += (useful - kept) * (double)queue->work->job[j].gpus;
    state->number[FAILED]++;
    put_back(queue, j, kept, now);
    job->extra = -1.0;
}

/* End a job and release the jobs that waited for it alone. */
void end_job(const Queue *queue, int64_t j, double now) {
    const struct Work *work = queue->work;
    const struct State *state = queue->state;
    free_gpus(queue, j, now);
    state->job[j].status = DONE;
    state->job[j].remaining = 0.0;
    state->number[ENDED]++;
    for (int64_t position = work->child_ptr[j]; position < work->child_ptr[j + 1]; position++) {
        int64_t child = work->child[position];
        state->job[child].waits_for--;
        if (state->job[child].waits_for == 0 && work->job[child].submit <= now) release_job(state, child, now);
    }
}

/* Put a job at the end of the queue. */
void release_job(const struct State *state, int64_t j, double now) {
    if (state->job[j].status != HELD) return;
    state->job[j].released = now;
    state->job[j].entered = now;
    state->job[j].ticket = state->number[TICKET]++;
    join_queue(state, j);
    state->number[DIRTY] = 1;
}
