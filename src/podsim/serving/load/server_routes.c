/* Requests between clients and replicas: routing, queues, transfers of caches, clients that give up, autoscaling. */
#include "server_state.h"

/* Uniform from 0 to 1 (splitmix64). */
double draw(const Server *s) {
    uint64_t x = (uint64_t)s->pool->seed + (uint64_t)(++s->state->number[DRAWS]) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

/* Put a request into the queue of a replica. */
void queue_request(const Server *s, int64_t r, int64_t q, bool in_front) {
    struct Replica *replica = &s->state->replica[r];
    struct Request *request = &s->state->request[q], *all = s->state->request;
    request->replica = r;
    request->status = QUEUED;
    request->next = in_front ? replica->head : -1;
    request->prior = in_front ? -1 : replica->tail;
    if (request->next >= 0) all[request->next].prior = q;
    else replica->tail = q;
    if (request->prior >= 0) all[request->prior].next = q;
    else replica->head = q;
    replica->waiting++;
    ++*asked_of(s, r, s->requests->adapter[q]);
    if (in_front) replica->visible++;
    mark_dirty(s, r);
}

/* Take a request out of the queue of a replica. */
void unqueue_request(const Server *s, int64_t r, int64_t q) {
    struct Replica *replica = &s->state->replica[r];
    struct Request *request = &s->state->request[q], *all = s->state->request;
    if (request->next >= 0) all[request->next].prior = request->prior;
    else replica->tail = request->prior;
    if (request->prior >= 0) all[request->prior].next = request->next;
    else replica->head = request->next;
    request->next = request->prior = -1;
    replica->waiting--;
    --*asked_of(s, r, s->requests->adapter[q]);
    replica->visible = max_int(0, min_int(replica->visible - 1, replica->waiting));
}

/* A request has ended: answered, given up or refused. A client of a closed loop thinks, and asks again. */
void settle(const Server *s, int64_t q, int64_t status) {
    const struct Requests *requests = s->requests;
    int64_t *number = s->state->number;
    double now = s->state->time[CLOCK];
    s->state->request[q].status = status;
    s->state->request[q].done = now;
    number[FINISHED]++;
    number[OPEN]--;
    if (requests->clients > 0 && number[NEXT] < requests->rows) {
        add_event(s, now + requests->arrival[number[NEXT]], ARRIVAL, number[NEXT]);
        number[NEXT]++;
    }
}

static int64_t load_of(const struct Replica *replica) { return replica->waiting + replica->running; }

static bool takes(const Server *s, int64_t r, int64_t q, bool is_computed) {
    const struct Kind *kind = kind_of(s, r);
    if (s->state->replica[r].status != READY || kind->model != s->requests->model[q]) return false;
    return is_computed ? kind->role == DECODE : kind->role != DECODE;
}

/* A replica that holds the longest beginning of a prompt; else, or where loads differ much, the least loaded. */
static int64_t prefix_replica(const Server *s, int64_t q, int64_t least, int64_t least_load, int64_t most_load) {
    int64_t best = least, longest = 0;
    if (most_load - least_load > 32) return least;
    for (int64_t r = 0; r < s->pool->replicas; r++) {
        int64_t units = takes(s, r, q, false) ? cached_units(s, r, q) : 0;
        if (units > longest) {
            longest = units;
            best = r;
        }
    }
    return best;
}

/* The replica for a request, -1 if none takes it now. */
static int64_t choose_replica(const Server *s, int64_t q, bool is_computed) {
    int64_t routing = s->pool->routing, count = 0, least = -1, least_load = 0, most_load = 0;
    int64_t turn = s->state->number[TURN]++;
    for (int64_t k = 0; k < s->pool->replicas; k++) {
        int64_t r = (k + turn) % s->pool->replicas;
        if (!takes(s, r, q, is_computed)) continue;
        int64_t load = load_of(&s->state->replica[r]);
        if (routing == ROUND_ROBIN && !is_computed) return r;
        if (least < 0 || load < least_load) {
            least = r;
            least_load = load;
        }
        most_load = max_int(most_load, load);
        count++;
    }
    if (routing == PREFIX_AWARE && !is_computed && count > 1) return prefix_replica(s, q, least, least_load, most_load);
    if (routing == RANDOM && count > 1) {
        int64_t chosen = (int64_t)(draw(s) * (double)count);
        for (int64_t r = 0; r < s->pool->replicas; r++) {
            if (takes(s, r, q, is_computed) && chosen-- == 0) return r;
        }
    }
    return least;
}

static bool can_hold(const Server *s, int64_t q) {
    bool prompt = false, answer = false;
    for (int64_t r = 0; r < s->pool->replicas; r++) {
        const struct Kind *kind = kind_of(s, r);
        if (kind->model != s->requests->model[q]) continue;
        int64_t tokens = s->requests->input[q] + (kind->role == PREFILL ? 0 : s->requests->output[q] + kind->draft);
        bool is_enough = blocks_needed(s, r, q, tokens) <= kind->blocks;
        prompt = prompt || (is_enough && kind->role != DECODE);
        answer = answer || (is_enough && kind->role != PREFILL);
    }
    return prompt && answer;
}

/* The common queue of a model: (first, last). */
static int64_t *line_of(const Server *s, int64_t q) { return s->state->line + 2 * s->requests->model[q]; }

static void join_line(const Server *s, int64_t q) {
    int64_t *line = line_of(s, q);
    struct Request *request = &s->state->request[q];
    request->status = QUEUED;
    request->replica = request->next = -1;
    request->prior = line[1];
    if (line[1] >= 0) s->state->request[line[1]].next = q;
    else line[0] = q;
    line[1] = q;
}

static void leave_line(const Server *s, int64_t q) {
    int64_t *line = line_of(s, q);
    struct Request *request = &s->state->request[q], *all = s->state->request;
    if (request->next >= 0) all[request->next].prior = request->prior;
    else line[1] = request->prior;
    if (request->prior >= 0) all[request->prior].next = request->next;
    else line[0] = request->next;
    request->next = request->prior = -1;
}

static bool has_slot(const Server *s, int64_t r) {
    return load_of(&s->state->replica[r]) < kind_of(s, r)->sequences;
}

/* Send a request that arrives to a replica, or into the common queue. */
void route_request(const Server *s, int64_t q) {
    if (!can_hold(s, q)) {
        s->state->number[TURNED_AWAY]++;
        settle(s, q, REFUSED);
        return;
    }
    int64_t r = choose_replica(s, q, false);
    bool is_common = s->pool->routing == ONE_QUEUE;
    if (r < 0 || (is_common && (line_of(s, q)[0] >= 0 || !has_slot(s, r)))) join_line(s, q);
    else queue_request(s, r, q, false);
}

/* Take requests from the common queue, as long as sequences are free. */
void pull_requests(const Server *s, int64_t r) {
    int64_t *line = s->state->line + 2 * kind_of(s, r)->model;
    if (s->state->replica[r].status != READY || kind_of(s, r)->role == DECODE) return;
    while (line[0] >= 0 && (s->pool->routing != ONE_QUEUE || has_slot(s, r))) {
        int64_t q = line[0];
        leave_line(s, q);
        queue_request(s, r, q, false);
    }
}

/* A prompt is computed where no answers are: its request goes to a replica that decodes. */
void hand_over(const Server *s, int64_t q) {
    struct Request *request = &s->state->request[q];
    s->state->replica[request->replica].reserved -= request->reserved;
    request->source = request->replica;
    request->source_own = request->own;
    request->source_shared = request->shared;
    request->own = request->shared = request->reserved = request->room = 0;
    int64_t r = choose_replica(s, q, true);
    queue_request(s, r, q, false);
}

static void release_source(const Server *s, int64_t q) {
    struct Request *request = &s->state->request[q];
    release_blocks(s, request->source, q, request->source_own, request->source_shared);
    mark_dirty(s, request->source);
    request->source = -1;
}

/* Move a cache to the replica that decodes: one transfer at a time leaves a replica, and one enters. */
void begin_transfer(const Server *s, int64_t r, int64_t q) {
    struct Request *request = &s->state->request[q];
    struct Replica *from = &s->state->replica[request->source], *to = &s->state->replica[r];
    const struct Kind *kind = kind_of(s, r);
    double size = (double)request->computed * kind->token_bytes + kind->state_bytes;
    double begin = max_double(s->state->time[CLOCK], max_double(from->link_free, to->link_free));
    from->link_free = to->link_free = begin + size / kind->link_rate;
    to->sent += size;
    request->arriving = 1;
    add_event(s, from->link_free + kind->link_latency, TRANSFER_END, q);
}

static void drop_running(const Server *s, int64_t r, int64_t q) {
    int64_t *running = running_of(s, r), kept = 0;
    for (int64_t k = 0; k < s->state->replica[r].running; k++) {
        if (running[k] != q) running[kept++] = running[k];
    }
    s->state->replica[r].running = kept;
    release_request(s, r, q);
    leave_adapter(s, r, s->requests->adapter[q]);
    settle(s, q, GIVEN_UP);
    mark_dirty(s, r);
}

/* A cache has arrived. */
void end_transfer(const Server *s, int64_t q) {
    struct Request *request = &s->state->request[q];
    request->arriving = 0;
    release_source(s, q);
    if (request->leaving) drop_running(s, request->replica, q);
    else mark_dirty(s, request->replica);
}

/* A client gives up: at once where the request waits, else at the end of its step or transfer. */
void give_up(const Server *s, int64_t q) {
    struct Request *request = &s->state->request[q];
    if (request->status == QUEUED) {
        if (request->source >= 0) release_source(s, q);
        if (request->replica < 0) {
            leave_line(s, q);
        } else {
            unqueue_request(s, request->replica, q);
            mark_dirty(s, request->replica);
        }
        settle(s, q, GIVEN_UP);
    } else if (request->status == ADMITTED) {
        request->leaving = 1;
        if (request->flight < 0 && !request->arriving) drop_running(s, request->replica, q);
    }
}

static void start_replica(const Server *s, int64_t r) {
    struct Replica *replica = &s->state->replica[r];
    replica->status = LOADING;
    replica->on_since = s->state->time[CLOCK];
    add_event(s, replica->on_since + kind_of(s, r)->load_seconds, LOADED, r);
}

/* The weights of a replica are loaded. */
void finish_loading(const Server *s, int64_t r) {
    s->state->replica[r].status = READY;
    mark_dirty(s, r);
}

/* Keep as many replicas as the open requests of a model need; one is stopped after the cooldown only. */
static void scale_model(const Server *s, int64_t model) {
    int64_t open = 0, active = 0, off = -1, idlest = -1;
    double now = s->state->time[CLOCK];
    for (int64_t q = s->state->line[2 * model]; q >= 0; q = s->state->request[q].next) open++;
    for (int64_t r = 0; r < s->pool->replicas; r++) {
        const struct Replica *replica = &s->state->replica[r];
        if (kind_of(s, r)->model != model) continue;
        open += load_of(replica);
        if (replica->status == OFF) off = off < 0 ? r : off;
        if (replica->status != LOADING && replica->status != READY) continue;
        active++;
        if (replica->status == READY && (idlest < 0 || load_of(replica) < load_of(&s->state->replica[idlest]))) idlest = r;
    }
    int64_t wanted = max_int(s->pool->least, (int64_t)ceil((double)open / s->pool->target));
    for (int64_t r = off; r >= 0 && active < wanted && r < s->pool->replicas; r++) {
        if (kind_of(s, r)->model != model || s->state->replica[r].status != OFF) continue;
        start_replica(s, r);
        active++;
    }
    double *quiet = &s->state->replica[idlest < 0 ? 0 : idlest].quiet_since;
    for (int64_t r = 0; r < s->pool->replicas; r++) {
        if (kind_of(s, r)->model == model) {
            quiet = &s->state->replica[r].quiet_since; /* the first replica's stands for its model */
            break;
        }
    }
    if (wanted >= active) *quiet = now;
    else if (idlest >= 0 && now - *quiet >= s->pool->cooldown) {
        s->state->replica[idlest].status = DRAINING;
        mark_dirty(s, idlest);
        *quiet = now;
    }
}

/* Start and stop replicas, and look again after the interval. */
void scale_pool(const Server *s) {
    for (int64_t model = 0; model < s->pool->models; model++) scale_model(s, model);
    if (s->state->number[FINISHED] < s->requests->rows) {
        add_event(s, s->state->time[CLOCK] + s->pool->interval, SCALE, 0);
    }
}
