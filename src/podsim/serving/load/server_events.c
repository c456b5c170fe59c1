/* The clock of a server: arrivals, ends of steps and transfers, until all requests are answered. */
#include "server_state.h"

/* why server_advance returned, as in server_state.py */
enum { ALL_DONE, PAUSE, STUCK };

static bool is_before(const struct Event *a, const struct Event *b) {
    return a->when < b->when || (a->when == b->when && a->order < b->order);
}

/* Add an event to the heap. */
void add_event(const Server *s, double when, int64_t kind, int64_t target) {
    struct Event *heap = s->state->event, made = {when, s->state->number[ORDER]++, kind, target};
    int64_t at = s->state->number[EVENTS]++;
    while (at > 0 && is_before(&made, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = made;
}

static struct Event next_event(const Server *s) {
    struct Event *heap = s->state->event, top = heap[0];
    int64_t count = --s->state->number[EVENTS], at = 0;
    struct Event last = heap[count];
    for (int64_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && is_before(&heap[child + 1], &heap[child])) child++;
        if (!is_before(&heap[child], &last)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

/* A replica may have something to do at this time. */
void mark_dirty(const Server *s, int64_t r) {
    struct Replica *replica = &s->state->replica[r];
    if (replica->dirty) return;
    replica->dirty = 1;
    s->state->dirty[s->state->number[DIRTY]++] = r;
}

static void arrive(const Server *s, int64_t q, double now) {
    s->state->request[q].arrived = now;
    s->state->number[OPEN]++;
    s->state->time[LAST_ARRIVAL] = now;
    if (s->requests->patience[q] < INFINITY) add_event(s, now + s->requests->patience[q], PATIENCE_END, q);
    route_request(s, q);
}

static void process(const Server *s, const struct Event *event) {
    int64_t target = event->target;
    switch (event->kind) {
    case STEP_END: end_step(s, target / FLIGHTS, target % FLIGHTS); break;
    case STAGE_FREE: mark_dirty(s, target); break;
    case TRANSFER_END: end_transfer(s, target); break;
    case PATIENCE_END: give_up(s, target); break;
    case LOADED: finish_loading(s, target); break;
    case SCALE: scale_pool(s); break;
    default: arrive(s, target, event->when);
    }
}

/* The time of the next arrival of an open system, infinity if there is none. */
static double next_arrival(const Server *s) {
    int64_t next = s->state->number[NEXT];
    if (s->requests->clients > 0 || next >= s->requests->rows) return INFINITY;
    return s->requests->arrival[next];
}

/* The time of the next event, infinity if there is none. */
double next_time(const Server *s) {
    double coming = next_arrival(s);
    return s->state->number[EVENTS] > 0 ? min_double(coming, s->state->event[0].when) : coming;
}

/* Everything that happens at the next time; false if nothing is left. */
static bool advance_once(const Server *s) {
    const struct State *state = s->state;
    double coming = next_arrival(s), now = coming;
    if (state->number[EVENTS] > 0) now = min_double(now, state->event[0].when);
    if (now == INFINITY) return false;
    state->time[CLOCK] = now;
    while (state->number[EVENTS] > 0 && state->event[0].when <= now) {
        struct Event event = next_event(s);
        process(s, &event);
    }
    while (next_arrival(s) <= now) arrive(s, state->number[NEXT]++, now);
    while (state->number[DIRTY] > 0) {
        int64_t r = state->dirty[--state->number[DIRTY]];
        state->replica[r].dirty = 0;
        pull_requests(s, r);
        start_steps(s, r);
    }
    return true;
}

static void begin(const Server *s) {
    const struct Requests *requests = s->requests;
    int64_t *next = &s->state->number[NEXT];
    while (*next < min_int(requests->clients, requests->rows)) {
        add_event(s, requests->arrival[*next], ARRIVAL, *next);
        (*next)++;
    }
    if (s->pool->interval > 0.0) add_event(s, s->pool->interval, SCALE, 0);
}

/* Advance by a number of steps of replicas; why it stopped. */
EXPORT int64_t server_advance(const struct Requests *requests, const struct Pool *pool, const struct State *state,
                              int64_t steps) {
    Server server = {requests, pool, state};
    if (state->number[ORDER] == 0) begin(&server);
    int64_t until = state->number[STEPS] + steps;
    while (state->number[FINISHED] < requests->rows) {
        if (state->number[STEPS] >= until) return PAUSE;
        if (!advance_once(&server)) return STUCK;
    }
    return ALL_DONE;
}
