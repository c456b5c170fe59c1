/* Elastic jobs: at every decision, goodput sets the number of GPUs of each job.
 *
 * In the order of the queue, each job first gets its least size. The other GPUs then go where one more GPU adds most
 * goodput, as a share of the job's goodput at the size that it asks for. A job keeps its GPUs for the time of a lease.
 */
#include "queue_state.h"

/* The GPUs of a job at a notch. */
static int64_t notch_gpus(const Queue *queue, int64_t j, int64_t notch) {
    int64_t now = queue->state->job[j].notch, gpus = queue->work->job[j].gpus;
    return notch >= now ? gpus << (notch - now) : gpus >> (now - notch);
}

static void set_notch(const Queue *queue, int64_t j, int64_t notch) {
    queue->work->job[j].gpus = notch_gpus(queue, j, notch);
    queue->state->job[j].notch = notch;
}

static int64_t least_notch(const double *goodput) {
    int64_t notch = 0;
    while (goodput[notch] <= 0.0) notch++;
    return notch;
}

/* Give a waiting job the next smaller size. False if there is none. */
bool shrink_wish(const Queue *queue, int64_t j) {
    struct Standing *job = &queue->state->job[j];
    if (job->notch <= least_notch(queue->work->goodput + NOTCHES * j)) return false;
    set_notch(queue, j, job->notch - 1);
    return true;
}

/* Admit jobs in the order of the queue at their least size, and list what each larger size adds; (the free GPUs). */
static int64_t admit_jobs(const Queue *queue, int64_t *gains, double now) {
    const struct State *state = queue->state;
    int64_t room = (queue->plant->nodes - state->number[CLOSED]) * queue->plant->size, j;
    Walk walk = start_walk(queue);
    while ((j = next_job(queue, &walk)) >= 0) {
        struct Standing *job = &state->job[j];
        const double *goodput = queue->work->goodput + NOTCHES * j;
        bool stays = job->status == RUNNING && now < job->begun + queue->rules->lease;
        job->wish = stays ? job->notch : least_notch(goodput);
        if (notch_gpus(queue, j, job->wish) > room) continue;
        room -= notch_gpus(queue, j, job->wish);
        for (int64_t notch = job->wish + 1; !stays && notch < NOTCHES && goodput[notch] > goodput[notch - 1]; notch++) {
            double more = (double)(notch_gpus(queue, j, notch) - notch_gpus(queue, j, notch - 1));
            state->spare[(*gains)++] = (struct Entry){(goodput[notch - 1] - goodput[notch]) / more, NOTCHES * j + notch};
        }
    }
    return room;
}

/* Set the size of each job. Running jobs whose size changes stop, and this decision starts them again. */
void set_allotments(const Queue *queue, double now) {
    const struct State *state = queue->state;
    int64_t gains = 0, room = admit_jobs(queue, &gains, now);
    sort_entries(state->spare, state->spare + gains, gains);
    for (int64_t position = 0; position < gains; position++) {
        int64_t j = state->spare[position].job / NOTCHES, notch = state->spare[position].job % NOTCHES;
        int64_t more = notch_gpus(queue, j, notch) - notch_gpus(queue, j, notch - 1);
        if (state->job[j].wish != notch - 1 || more > room) continue;
        state->job[j].wish = notch;
        room -= more;
    }
    for (int64_t position = 0; position < state->number[ACTIVE]; position++) {
        int64_t j = state->active[position].job;
        if (state->job[j].wish == state->job[j].notch) continue;
        stop_job(queue, j, now);
        set_notch(queue, j, state->job[j].wish);
    }
    for (int64_t position = 0; position < state->number[LINE]; position++) {
        int64_t j = state->line[position].job;
        set_notch(queue, j, state->job[j].wish);
    }
}
