/* A step of a replica: which requests compute how many tokens, how long it takes, and what it gives. */
#include "server_state.h"

/* why a request at the head of a queue had to wait */
enum { NOTHING, SEQUENCES, BLOCKS, TOKENS, ADAPTERS };

typedef struct {
    int64_t flight;
    int64_t left; /* tokens that may still join */
    int64_t tokens;
    int64_t sequences;
    int64_t decodes;
    int64_t contexts;
    int64_t reason;
    double prompt_seconds;
    double moved; /* s of swapped sequences and loaded adapters */
    bool has_preempted;
} Batch;

static inline int64_t tokens_left(const Server *s, int64_t q) {
    const struct Request *request = &s->state->request[q];
    return s->requests->input[q] + request->made - request->computed;
}

static inline bool is_decoding(const Server *s, int64_t q) {
    return s->state->request[q].made > 0 && tokens_left(s, q) == 1;
}

static inline bool is_free(const struct Request *request) { return request->flight < 0 && !request->arriving; }

static inline void join(const Server *s, int64_t r, int64_t q, int64_t tokens, bool decoding, Batch *batch) {
    struct Request *request = &s->state->request[q];
    request->planned = tokens;
    request->flight = batch->flight;
    batch->sequences++;
    batch->tokens += tokens;
    batch->left -= tokens;
    if (decoding) {
        batch->decodes++;
        batch->contexts += request->computed;
        s->state->replica[r].decode_tokens += tokens;
    } else {
        batch->prompt_seconds += prompt_seconds(s, kind_of(s, r), (double)tokens, (double)request->computed);
        s->state->replica[r].prompt_tokens += tokens;
    }
}

static void remove_running(const Server *s, int64_t r, int64_t position) {
    struct Replica *replica = &s->state->replica[r];
    int64_t *running = running_of(s, r);
    for (int64_t k = position; k + 1 < replica->running; k++) running[k] = running[k + 1];
    replica->running--;
}

/* Send a running request back to the front of the queue: swapped to the host, or to be computed again. */
static void preempt(const Server *s, int64_t r, int64_t position, double *seconds) {
    int64_t q = running_of(s, r)[position];
    struct Request *request = &s->state->request[q];
    const struct Kind *kind = kind_of(s, r);
    if (kind->host_rate > 0.0 && request->computed > 0) {
        *seconds += ((double)request->computed * kind->token_bytes + kind->state_bytes) / kind->host_rate;
        request->swapped = 1;
    } else request->computed = 0;
    release_request(s, r, q);
    leave_adapter(s, r, s->requests->adapter[q]);
    remove_running(s, r, position);
    request->preempted++;
    s->state->replica[r].preempted++;
    queue_request(s, r, q, true);
}

/* Make room for the next tokens of a running request, at the cost of those behind it. False if it had to go itself. */
static bool make_room(const Server *s, int64_t r, int64_t position, int64_t tokens, Batch *batch) {
    const struct Replica *replica = &s->state->replica[r];
    while (!grow_blocks(s, r, running_of(s, r)[position], tokens)) {
        int64_t victim = replica->running - 1;
        while (victim > position && !is_free(&s->state->request[running_of(s, r)[victim]])) victim--;
        preempt(s, r, victim, &batch->moved);
        batch->has_preempted = true;
        if (victim == position) return false;
    }
    return true;
}

/* Let running requests join: those that decode, those with the rest of a prompt, or both. */
static void join_running(const Server *s, int64_t r, bool decodes, bool prompts, Batch *batch) {
    const struct Kind *kind = kind_of(s, r);
    const struct Replica *replica = &s->state->replica[r];
    int64_t most = kind->stages > 1 ? ceil_div(replica->running, kind->stages) : replica->running;
    for (int64_t k = 0; k < replica->running && batch->left > 0; k++) {
        int64_t q = running_of(s, r)[k], left = tokens_left(s, q), tokens = left;
        const struct Request *request = &s->state->request[q];
        bool decoding = is_decoding(s, q);
        if (!is_free(request) || !(decoding ? decodes : prompts)) continue;
        if (decoding && batch->decodes >= most) continue;
        if (decoding) tokens = min_int(min_int(1 + kind->draft, s->requests->output[q] - request->made), batch->left);
        else if (kind->chunked) tokens = min_int(left, batch->left);
        else if (left > batch->left && batch->tokens > 0) continue;
        bool has_room = request->computed + tokens <= request->room;
        if (!has_room && !make_room(s, r, k, request->computed + tokens, batch)) break;
        join(s, r, q, tokens, decoding, batch);
    }
}

/* Admit a request from the queue. False if it must wait, for the reason in the batch. */
static bool admit(const Server *s, int64_t r, int64_t q, Batch *batch) {
    struct Request *request = &s->state->request[q];
    const struct Kind *kind = kind_of(s, r);
    bool is_remote = request->source >= 0, is_kept = is_remote || request->swapped;
    int64_t hits = is_kept ? 0 : cached_units(s, r, q);
    int64_t past = is_kept ? request->computed : hits * s->pool->unit_tokens;
    int64_t left = s->requests->input[q] + request->made - past, tokens = left;
    if (!is_remote && left > batch->left) {
        if (kind->chunked) tokens = batch->left;
        else if (batch->tokens > 0) tokens = 0;
        if (tokens <= 0) {
            batch->reason = TOKENS;
            return false;
        }
    }
    if (!admit_blocks(s, r, q, hits, past + tokens)) {
        batch->reason = BLOCKS;
        return false;
    }
    if (!hold_adapter(s, r, s->requests->adapter[q], &batch->moved)) {
        release_request(s, r, q);
        batch->reason = ADAPTERS;
        return false;
    }
    unqueue_request(s, r, q);
    request->status = ADMITTED;
    if (request->admitted < 0.0) {
        request->admitted = s->state->time[CLOCK];
        request->cached = past;
    }
    running_of(s, r)[s->state->replica[r].running++] = q;
    if (is_remote) {
        begin_transfer(s, r, q);
        return true;
    }
    if (request->swapped) batch->moved += ((double)past * kind->token_bytes + kind->state_bytes) / kind->host_rate;
    request->swapped = 0;
    request->computed = past;
    join(s, r, q, tokens, is_decoding(s, q), batch);
    return true;
}

/* Admit requests in the order of the queue; only those that lack a slot for their adapter are passed over. */
static void admit_waiting(const Server *s, int64_t r, Batch *batch) {
    const struct Kind *kind = kind_of(s, r);
    const struct Replica *replica = &s->state->replica[r];
    int64_t q = replica->head;
    while (q >= 0 && replica->visible > 0) {
        int64_t next = s->state->request[q].next;
        if (replica->running >= kind->sequences) batch->reason = SEQUENCES;
        else if (batch->left <= 0) batch->reason = TOKENS;
        else if (admit(s, r, q, batch) || (batch->reason == ADAPTERS && is_asked(s, r))) {
            q = next;
            continue;
        }
        return;
    }
}

/* The scheduler looks for requests each `poll` decoding steps and after steps of prompts, or when nothing runs. One that
 * plans ahead takes in the next step those that it sees now. */
static void look_for_requests(const Server *s, int64_t r, bool is_planned) {
    const struct Kind *kind = kind_of(s, r);
    struct Replica *replica = &s->state->replica[r];
    bool is_idle = replica->running == 0;
    if (is_idle ? is_planned : (bool)kind->ahead != is_planned) return;
    if (!is_idle && (kind->together || replica->iterations < kind->poll)) return;
    replica->visible = replica->waiting;
    replica->iterations = 0;
}

/* Whether new requests wait for others: fewer than asked for, not yet long enough, and others decode. */
static bool holds_requests(const Server *s, int64_t r) {
    const struct Kind *kind = kind_of(s, r);
    struct Replica *replica = &s->state->replica[r];
    if (replica->running == 0 || replica->waiting == 0 || replica->waiting >= kind->hold_requests ||
        replica->held >= kind->hold_steps) {
        replica->held = 0;
        return false;
    }
    return true;
}

static void compose(const Server *s, int64_t r, Batch *batch) {
    const struct Kind *kind = kind_of(s, r);
    look_for_requests(s, r, false);
    const struct Replica *replica = &s->state->replica[r];
    bool may_admit = (!kind->together || replica->running == 0 || !replica->began) && !holds_requests(s, r);
    join_running(s, r, kind->mixed, true, batch);
    if (may_admit && !batch->has_preempted) admit_waiting(s, r, batch);
    if (!may_admit) batch->reason = SEQUENCES;
    if (batch->sequences == 0 && !kind->mixed) join_running(s, r, true, false, batch);
}

static double decode_step_seconds(const Server *s, const struct Kind *kind, const Batch *batch, int64_t later) {
    double decodes = (double)batch->decodes, context = (double)batch->contexts / decodes + (double)later;
    return kind->step + kind->request * decodes + tokens_seconds(s, kind, (double)batch->tokens, false) +
           decode_seconds(s, kind, decodes, context);
}

/* How many decoding steps follow in which nothing changes but the length of the caches; at least 1. */
static int64_t equal_steps(const Server *s, int64_t r, const Batch *batch) {
    const struct Kind *kind = kind_of(s, r);
    const struct Replica *replica = &s->state->replica[r];
    if (kind->merge < 1 || kind->stages > 1 || batch->decodes < batch->sequences || batch->has_preempted) return 1;
    int64_t steps = INT64_MAX, blocks = available_blocks(s, r) - replica->reserved;
    for (int64_t k = 0; k < replica->running; k++) {
        int64_t q = running_of(s, r)[k];
        if (s->state->request[q].arriving) continue;
        if (s->state->request[q].flight != batch->flight) return 1;
        steps = min_int(steps, ceil_div(s->requests->output[q] - s->state->request[q].made, 1 + kind->draft));
    }
    steps = max_int(steps, kind->merge);
    if (replica->waiting > replica->visible) steps = min_int(steps, max_int(1, kind->poll - replica->iterations));
    if (replica->waiting > 0 && kind->hold_steps > 0) steps = min_int(steps, max_int(1, kind->hold_steps - replica->held));
    if (kind->reserve < 1.0 && replica->running * (steps * (1 + kind->draft) / kind->block_tokens + 2) > blocks) return 1;
    double left = next_time(s) - s->state->time[CLOCK];
    if (left < 1e9) {
        double slowest = decode_step_seconds(s, kind, batch, steps);
        steps = min_int(steps, max_int(kind->merge, (int64_t)(left / slowest) + 1));
    }
    return steps;
}

/* Make a step several equal ones, and return the seconds of the others. */
static double merge_steps(const Server *s, int64_t r, Batch *batch, int64_t steps) {
    for (int64_t k = 0; k < s->state->replica[r].running; k++) {
        int64_t q = running_of(s, r)[k];
        struct Request *request = &s->state->request[q];
        if (request->arriving) continue;
        request->planned = steps * (1 + kind_of(s, r)->draft);
        int64_t most = s->requests->output[q] - request->made;
        grow_blocks(s, r, q, request->computed + min_int(request->planned, most));
    }
    double last = decode_step_seconds(s, kind_of(s, r), batch, steps - 1);
    return (decode_step_seconds(s, kind_of(s, r), batch, 1) + last) / 2 * (double)(steps - 1);
}

static void count_step(struct Replica *replica, const Batch *batch, double seconds, int64_t used) {
    replica->busy += seconds;
    replica->steps++;
    replica->sequences += batch->sequences;
    replica->block_seconds += seconds * (double)used;
    replica->most_blocks = max_int(replica->most_blocks, used);
    if (replica->waiting == 0) return;
    double *full[] = {&replica->full_sequences, &replica->full_blocks, &replica->full_tokens, &replica->full_adapters};
    if (batch->reason != NOTHING) *full[batch->reason - SEQUENCES] += seconds;
}

static void launch(const Server *s, int64_t r, Batch *batch) {
    const struct Kind *kind = kind_of(s, r);
    struct Replica *replica = &s->state->replica[r];
    double now = s->state->time[CLOCK], stages = (double)kind->stages, decode = 0.0;
    double fixed = kind->step + kind->request * (double)batch->sequences;
    double products = tokens_seconds(s, kind, (double)batch->tokens, batch->sequences > batch->decodes);
    if (batch->decodes > 0)
        decode = decode_seconds(s, kind, (double)batch->decodes, (double)batch->contexts / (double)batch->decodes);
    int64_t steps = equal_steps(s, r, batch);
    if (steps > 1) decode += merge_steps(s, r, batch, steps);
    double seconds = fixed + products + decode + batch->prompt_seconds + batch->moved;
    replica->part_step += fixed / stages;
    replica->part_tokens += products / stages;
    replica->part_decode += decode / stages;
    replica->part_prompt += batch->prompt_seconds / stages;
    replica->part_moved += batch->moved / stages;
    count_step(replica, batch, seconds / stages, kind->blocks - available_blocks(s, r));
    replica->last_end = max_double(replica->last_end, now + seconds);
    replica->stage_free = now + seconds / stages;
    replica->flights++;
    replica->began = batch->decodes > 0;
    if (batch->sequences > batch->decodes) replica->iterations = kind->poll;
    else replica->iterations = (replica->iterations + steps - 1) % kind->poll + 1;
    if (replica->waiting > 0) replica->held += steps;
    look_for_requests(s, r, true);
    s->state->number[STEPS]++;
    add_event(s, replica->last_end, STEP_END, r * FLIGHTS + batch->flight);
    if (kind->stages > 1) add_event(s, replica->stage_free, STAGE_FREE, r);
}

/* Start as many steps as the stages of a replica take. */
void start_steps(const Server *s, int64_t r) {
    struct Replica *replica = &s->state->replica[r];
    while (replica->status >= READY && replica->flights < kind_of(s, r)->stages &&
           (replica->flights == 0 || s->state->time[CLOCK] >= replica->stage_free)) {
        Batch batch = {.flight = replica->steps % FLIGHTS, .left = kind_of(s, r)->batch_tokens};
        compose(s, r, &batch);
        if (batch.sequences == 0) break;
        launch(s, r, &batch);
    }
    if (replica->status == DRAINING && replica->running == 0 && replica->waiting == 0) {
        replica->status = OFF;
        replica->on += s->state->time[CLOCK] - replica->on_since;
    }
}

/* Count the time since the last token: 32 bins an octave from 2^-20 s. */
static inline void count_gap(const Server *s, int64_t q, double gap, int64_t count) {
    uint64_t bits, base = (uint64_t)(1023 - 20) << 5;
    memcpy(&bits, &gap, sizeof bits);
    int64_t bin = (int64_t)(bits >> 47) - (int64_t)base;
    int64_t group = (int64_t)((double)(q * GROUPS) / (double)s->requests->rows); /* faster than of whole numbers */
    s->state->gaps[group * BINS + max_int(0, min_int(bin, BINS - 1))] += count;
}

static inline void answer_tokens(const Server *s, int64_t r, int64_t q, bool was_decoding) {
    struct Request *request = &s->state->request[q];
    const struct Kind *kind = kind_of(s, r);
    double now = s->state->time[CLOCK];
    int64_t tokens = 1, gaps = 1, drafted = 1 + kind->draft, most = s->requests->output[q] - request->made;
    if (was_decoding) {
        gaps = max_int(1, kind->draft ? request->planned / drafted : request->planned);
        tokens = kind->draft ? 0 : min_int(gaps, most);
        for (int64_t k = 0; kind->draft && k < gaps && tokens < most; k++) {
            int64_t given = 1, limit = min_int(min_int(drafted, request->planned), most - tokens);
            while (given < limit && draw(s) < kind->acceptance[min_int(given, DEPTHS) - 1]) given++;
            tokens += given;
        }
    }
    if (request->made == 0) request->first = now;
    else count_gap(s, q, gaps == 1 ? now - request->last : (now - request->last) / (double)gaps, gaps);
    request->last = now;
    request->made += tokens;
    request->computed = s->requests->input[q] + request->made - 1;
}

/* The end of a step for a request that was in it. True if it leaves the replica. */
static inline bool end_part(const Server *s, int64_t r, int64_t q) {
    struct Request *request = &s->state->request[q];
    bool was_decoding = is_decoding(s, q);
    request->flight = -1;
    if (!request->leaving) {
        if (!was_decoding) request->computed += request->planned;
        if (!was_decoding && tokens_left(s, q) > 0) return false;
        if (!was_decoding) keep_prefix(s, r, q);
        answer_tokens(s, r, q, was_decoding);
        if (request->made < s->requests->output[q]) {
            if (kind_of(s, r)->role != PREFILL) return false;
            leave_adapter(s, r, s->requests->adapter[q]);
            hand_over(s, q);
            return true;
        }
    }
    release_request(s, r, q);
    leave_adapter(s, r, s->requests->adapter[q]);
    settle(s, q, request->leaving ? GIVEN_UP : ANSWERED);
    return true;
}

/* End a step: its requests have their tokens. */
void end_step(const Server *s, int64_t r, int64_t flight) {
    struct Replica *replica = &s->state->replica[r];
    int64_t *running = running_of(s, r), kept = 0;
    replica->flights--;
    for (int64_t k = 0; k < replica->running; k++) {
        int64_t q = running[k];
        if (s->state->request[q].flight != flight || !end_part(s, r, q)) running[kept++] = q;
    }
    replica->running = kept;
    mark_dirty(s, r);
}
