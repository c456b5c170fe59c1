/* The orders of the queue, each a function from the known figures of a job to a key (smaller first), and the sort.
 *
 * A new order is one function, one name in ORDERS (orders.py), one in the enum of queue_state.h, and one case of
 * order_key. Jobs with equal keys run in order of submission.
 */
#include "queue_state.h"

#define LEVEL_WEIGHT 1e10 /* s. The weight of a level, more than any time in a queue: 317 years. */
#define RUNS_WEIGHT 4e9   /* s. The weight of running, more than any time in a queue. */
#define TIER_WEIGHT 1e13  /* s. The weight of a tier, more than any key within it. */
#define LN_2 0.6931471805599453

/* The scheduler's knowledge of a job. */
typedef struct {
    const struct Job *job;
    const struct Standing *standing;
    double left;    /* s. The assumed remaining length at full speed. */
    double service; /* The GPU-seconds that it has held. */
    double usage;   /* share. Its user's share of recent usage. */
    double share;   /* share. The share promised to its user. */
    double now;     /* s. The current time. */
} Seen;

/* Levels of attained service (Tiresias).
 *
 * Within a level running jobs come first, then stopped ones, the latest first, then others by arrival at the level. A
 * job that falls comes last on its new level.
 */
static double by_level(const Seen *seen) {
    const struct Standing *job = seen->standing;
    double base = (double)job->level * LEVEL_WEIGHT;
    bool runs = job->status == RUNNING;
    if (runs && job->entered < seen->now) return base - RUNS_WEIGHT + max_double(job->begun, job->entered);
    if (!runs && job->begun > job->entered) return base - job->begun;
    return base + job->entered;
}

/* Finish-time fairness for unknown lengths (Themis): the largest age over attained service first.
 *
 * This is the time of a job on the shared machine over its time alone, as far as both are known. Jobs without service
 * come first, in order of submission.
 */
static double worst_off(const Seen *seen) {
    return seen->service > 0.0 ? -(seen->now - seen->job->submit) / seen->service : -INFINITY;
}

/* Finish-time fairness for known lengths: the job with the largest loss of time over its length first.
 *
 * The loss counts to a job that runs from now on. It is rounded to microseconds, so that jobs without a loss are equal.
 */
static double worst_off_known(const Seen *seen) {
    double length = seen->job->guess;
    double lost = floor((seen->now - seen->job->submit + seen->left - length) * 1e6 + 0.5) / 1e6;
    return -1.0 - lost / max_double(length, 1e-9);
}

/* Slurm's multifactor priority: age, classic fair share 2^(-usage/share), size and the site's rank. */
static double multifactor(const Seen *seen, const struct Rules *rules) {
    double age = min_double((seen->now - seen->standing->released) / rules->max_age, 1.0);
    double fair = exp2(-seen->usage / seen->share), gpus = (double)seen->job->gpus;
    return -(rules->age * age + rules->fair * fair + rules->big * gpus / rules->total + rules->site * seen->job->rank);
}

/* Let a job with enough service fall by a level. */
static void set_level(const struct Rules *rules, struct Standing *job, double service, double now) {
    int64_t level = 0;
    while (level < rules->bounds && service >= rules->levels[level] * (1.0 - 1e-12)) level++;
    if (level == job->level) return;
    job->level = level;
    job->entered = now;
}

/* The key of a job within its tier. A job with enough service falls by a level. */
static double tier_key(const Queue *queue, int64_t j, double now) {
    const struct Job *job = &queue->work->job[j];
    const struct State *state = queue->state;
    struct Standing *standing = &state->job[j];
    if (queue->rules->order == FIRST_COME) return (double)standing->ticket;
    double remaining = standing->remaining, service = standing->attained, used = state->time[USED];
    if (standing->status == RUNNING) {
        double useful = max_double(now - standing->begun - standing->extra, 0.0);
        remaining = max_double(remaining - useful * standing->speed, 0.0);
        service += (now - standing->begun) * (double)job->gpus;
    }
    if (queue->rules->order == LEAST_ATTAINED) return service;
    set_level(queue->rules, standing, service, now);
    Seen seen = {
        .job = job, .standing = standing, .service = service, .now = now,
        .left = max_double(remaining + (job->guess - job->seconds), 0.0),
        .usage = used > 0.0 ? state->usage[job->user] / used : 0.0, .share = queue->work->shares[job->user],
    };
    switch (queue->rules->order) {
    case SHORTEST: return job->guess;
    case SMALLEST: return job->guess * (double)job->gpus; /* with predicted lengths this is QSSF */
    case SHORTEST_REMAINING: return seen.left;
    case SMALLEST_REMAINING: return seen.left * (double)job->gpus;
    case BY_LEVEL: return by_level(&seen);
    case WORST_OFF: return worst_off(&seen);
    case WORST_OFF_KNOWN: return worst_off_known(&seen);
    default: return multifactor(&seen, queue->rules);
    }
}

/* The current key of a job: the higher tier comes first. */
double order_key(const Queue *queue, int64_t j, double now) {
    return tier_key(queue, j, now) - (double)queue->work->job[j].tier * TIER_WEIGHT;
}

/* Update the usage of every user: past usage decays, held GPUs add to it. */
void charge_users(const Queue *queue, double now) {
    const struct State *state = queue->state;
    double passed = now - state->time[CHARGED], half_life = queue->rules->half_life, total = 0.0;
    if (passed <= 0.0) return;
    double decay = exp2(-passed / half_life);
    double grown = half_life / LN_2 * (1.0 - decay); /* the integral of the decay over the time */
    for (int64_t user = 0; user < queue->work->users; user++) {
        state->usage[user] = state->usage[user] * decay + state->rate[user] * grown;
        total += state->usage[user];
    }
    state->time[USED] = total;
    state->time[CHARGED] = now;
}

/* Merge two sorted neighbours: start to middle, middle to stop. */
static void merge(struct Entry *entry, struct Entry *spare, int64_t start, int64_t middle, int64_t stop) {
    while (start < middle && !comes_before(entry[middle], entry[start])) start++;
    memcpy(spare, entry + start, sizeof *entry * (size_t)(middle - start));
    int64_t left = 0, lefts = middle - start, right = middle, out = start;
    while (left < lefts && right < stop) {
        entry[out++] = comes_before(entry[right], spare[left]) ? entry[right++] : spare[left++];
    }
    memcpy(entry + out, spare + left, sizeof *entry * (size_t)(lefts - left));
}

/* The end of the sorted run that begins at start. */
static int64_t run_end(const struct Entry *entry, int64_t start, int64_t count) {
    int64_t end = start + 1;
    while (end < count && !comes_before(entry[end], entry[end - 1])) end++;
    return end;
}

/* Sort by insertion if the entries are nearly in order, else by merging runs pair by pair. */
void sort_entries(struct Entry *entry, struct Entry *spare, int64_t count) {
    int64_t effort = 4 * count, runs = 2;
    for (int64_t position = 1; position < count && effort >= 0; position++) {
        struct Entry moved = entry[position];
        int64_t to = position;
        while (to > 0 && comes_before(moved, entry[to - 1])) {
            entry[to] = entry[to - 1];
            to--;
        }
        entry[to] = moved;
        effort -= position - to;
    }
    if (effort >= 0) return;
    while (runs > 1) {
        runs = 0;
        for (int64_t start = 0, stop; start < count; start = stop, runs++) {
            int64_t middle = stop = run_end(entry, start, count);
            if (middle == count) continue;
            stop = run_end(entry, middle, count);
            merge(entry, spare, start, middle, stop);
        }
    }
}

/* Merge the few sorted entries from middle to stop into those before them. */
void merge_entries(struct Entry *entry, struct Entry *spare, int64_t middle, int64_t stop) {
    memcpy(spare, entry + middle, sizeof *entry * (size_t)(stop - middle));
    int64_t last = middle, out = stop;
    for (int64_t position = stop - middle - 1; position >= 0; position--) {
        int64_t low = 0, high = last;
        while (low < high) {
            int64_t half = (low + high) / 2;
            if (comes_before(spare[position], entry[half])) {
                high = half;
            } else {
                low = half + 1;
            }
        }
        out -= last - low;
        memmove(entry + out, entry + low, sizeof *entry * (size_t)(last - low));
        last = low;
        entry[--out] = spare[position];
    }
}
