/* The simulation of flows on links: time in buckets, rates by max-min sharing, nothing solved twice.
 *
 * - Flows that end at the same time share a bucket; a heap holds the buckets. A batch is all that happens at one time.
 * - A flow that ends and starts its next transfer in the same batch leaves its links as they were: it keeps its rate.
 * - Otherwise only flows joined to it by links that may be full (their active flows could use more than there is) get
 *   new rates. What such a set of lanes gets is remembered, under the sum of random numbers of its lanes.
 * - Transfers in the latency of links need no heap: those of one latency arrive in the order in which they left.
 */
#include "network/play.h"

/* The ended transfers, and the solved sets of flows, between two checks for Ctrl-C. */
static const int64_t PAUSE_EVENTS = 2000000, PAUSE_SOLVED = 2000;

/* The bytes of a flow's next transfer. */
static double next_bytes(int64_t f, const struct Program *p, const struct State *s) {
    const struct Flow *flow = &s->flows[f];
    if (flow->bytes >= 0.0) return flow->bytes;
    const struct Course *course = &s->courses[f];
    int64_t first = course->chunk, count = course->width;
    if (course->turn != 0) {
        int64_t base = first / course->wheel * course->wheel;
        first = base + floor_mod(first - base + course->turn * count * flow->sent, course->wheel);
    }
    if (count == 1) return p->chunk_bytes[first];
    return p->chunk_ends[first + count] - p->chunk_ends[first];
}

/* Whether the flow before, if there is one, has left. */
static int is_first(int64_t f, const struct State *s) {
    if (s->courses[f].before < 0) return 1;
    const struct Flow *before = &s->flows[s->courses[f].before];
    return before->sent >= before->repeat;
}

/* Start the next transfer of a flow if the flow is free and its inputs have arrived. */
static void try_start(int64_t f, struct State *s) {
    struct Flow *flow = &s->flows[f];
    if ((flow->mode != IDLE && flow->mode != ENDED) || flow->sent >= flow->repeat) return;
    if (flow->sent == 0 && !is_first(f, s)) return;
    if (flow->gate >= 0 && flow->sent >= s->gates[flow->gate].open) return;
    if (flow->mode == ENDED) {
        flow->mode = AGAIN;
    } else {
        flow->mode = NEW;
        s->touched[s->number[TOUCHED]++] = (int32_t)f;
    }
}

/* The number of transfers that a gate admits on each of its flows so far. */
static int64_t open_count(const struct Gate *gate, const struct State *s) {
    int64_t opened = MANY;
    if (gate->waits == 0) return opened;
    for (int64_t i = gate->deps; i < gate->deps_end; i++) {
        const struct Group *group = &s->groups[s->deps[i].group];
        if (group->done < group->repeat) opened = min_int(opened, group->done + s->deps[i].lag);
    }
    return opened;
}

/* Start the flows that waited for a group's latest transfers. */
static void wake_gates(const struct Group *group, struct State *s) {
    for (int64_t i = group->wakes; i < group->wakes_end; i++) {
        if (group->done < group->repeat && group->done + s->wakes[i].lag <= 0) continue;
        struct Gate *gate = &s->gates[s->wakes[i].gate];
        int is_over = group->done == group->repeat;
        gate->waits -= is_over;
        int64_t opened = gate->waits == 1 && !is_over ? group->done + s->wakes[i].lag : open_count(gate, s);
        if (opened == gate->open) continue;
        gate->open = (int32_t)opened;
        for (int64_t j = gate->flows; j < gate->flows_end; j++) try_start(s->items[j], s);
    }
}

/* Record the arrival of a transfer, and start the flows that waited for its group. */
static void arrive(int64_t f, double now, struct State *s) {
    struct Flow *flow = &s->flows[f];
    flow->got += 1;
    if (flow->got == flow->repeat) s->courses[f].last = now;
    if (flow->group < 0) return;
    struct Group *group = &s->groups[flow->group];
    if (flow->got - 1 != group->done) return;
    int32_t size = group->flows_end - group->flows, ahead = group->ahead + 1;
    group->ahead = ahead;
    if (ahead < size) return;
    if (size == 1) {
        group->done += 1;
        ahead = 0;
    }
    while (ahead == size) {
        group->done += 1;
        ahead = 0;
        for (int64_t i = group->flows; i < group->flows_end; i++)
            if (s->flows[s->items[i]].got > group->done) ahead += 1;
    }
    group->ahead = ahead;
    wake_gates(group, s);
}

/* Put a transfer among those of its delay that are in the latency of links: a ring of cells. */
static void send_off(int64_t f, double arrival, struct Wave *wave, struct State *s) {
    int64_t at = wave->first + wave->count++;
    if (at >= wave->room) at -= wave->room;
    s->cells[wave->start + at].time = arrival;
    s->cells[wave->start + at].flow = (int32_t)f;
    s->cells[wave->start + at].group = s->flows[f].group;
}

/* End the transmission of a transfer; it arrives after the latency of its links. */
static void end_transfer(int64_t f, double now, const struct Program *p, struct State *s) {
    struct Flow *flow = &s->flows[f];
    flow->sent += 1;
    flow->mode = ENDED;
    flow->bucket = -1;
    s->touched[s->number[TOUCHED]++] = (int32_t)f;
    s->number[EVENTS] += 1;
    double delay = p->delays[flow->delay];
    if (delay == 0.0)
        arrive(f, now, s);
    else
        send_off(f, now + delay, &s->waves[flow->delay], s);
    try_start(f, s);
    if (flow->sent == flow->repeat && s->courses[f].after >= 0) try_start(s->courses[f].after, s);
}

/* Take the flows that have ended off their links; the others of the touched stay in the list. */
static int64_t leave_links(double now, const struct Program *p, struct State *s) {
    int64_t kept = 0;
    for (int64_t i = 0; i < s->number[TOUCHED]; i++) {
        int32_t f = s->touched[i];
        if (s->flows[f].mode != ENDED) {
            s->touched[kept++] = f;
            continue;
        }
        s->flows[f].mode = IDLE;
        occupy_links(f, now, -1, p, s);
    }
    return kept;
}

/* Start a transfer; a flow whose links cannot limit it is scheduled at once. */
static void start_transfer(int64_t f, double now, const struct Program *p, struct State *s) {
    struct Flow *flow = &s->flows[f];
    double bytes = next_bytes(f, p, s);
    int is_new = flow->mode == NEW;
    if (flow->lone) {
        flow->mode = ACTIVE;
        schedule(f, bytes, now, s);
    } else {
        s->courses[f].left = bytes;
        s->courses[f].since = now;
        if (is_new) flow->rate = s->courses[f].limit;
    }
    if (is_new) occupy_links(f, now, 1, p, s);
}

/* After a batch, update the links, solve the sets that changed, and schedule the ends. */
static void settle(double now, const struct Program *p, struct State *s) {
    int64_t touched = leave_links(now, p, s);
    for (int64_t i = 0; i < touched; i++) start_transfer(s->touched[i], now, p, s);
    if (s->number[DIRTY]) share_links(now, touched, p, s);
    for (int64_t i = 0; i < touched; i++) {
        struct Flow *flow = &s->flows[s->touched[i]];
        if (flow->lone) continue;
        flow->mode = ACTIVE;
        schedule(s->touched[i], s->courses[s->touched[i]].left, now, s);
    }
    s->number[TOUCHED] = 0;
}

/* Ask for what the arrivals after these will touch: records lie far apart, and each tells where the next is. */
static void prefetch_arrivals(const struct Cell *cell, const struct State *s) {
    const struct Group *group = &s->groups[cell[8].group < 0 ? 0 : cell[8].group];
    __builtin_prefetch(&s->flows[cell[16].flow], 1);
    __builtin_prefetch(&s->groups[cell[16].group < 0 ? 0 : cell[16].group], 1);
    __builtin_prefetch(&s->gates[group->gate], 1);
    __builtin_prefetch(&s->wakes[group->wakes], 0);
}

/* Process all arrivals of a wave up to a time. */
static void land_wave(struct Wave *wave, double now, double limit, struct State *s) {
    while (wave->count > 0 && s->cells[wave->start + wave->first].time <= limit) {
        const struct Cell *cell = &s->cells[wave->start + wave->first];
        int64_t f = cell->flow;
        if (wave->count > 16 && wave->first + 16 < wave->room) prefetch_arrivals(cell, s);
        wave->count -= 1;
        wave->first += 1;
        if (wave->first == wave->room || wave->count == 0) wave->first = 0;
        arrive(f, now, s);
    }
}

/* Process all ends and arrivals at one time. */
static void process_batch(double now, const struct Program *p, struct State *s) {
    double limit = now + SAME * now;
    while (s->number[HEAP] > 0 && s->heap[0].time <= limit) {
        int64_t bucket = pop_bucket(s), f = s->buckets[bucket].head;
        s->buckets[bucket].time = -1.0;
        s->free[s->number[FREE_BUCKETS]++] = bucket;
        while (f >= 0) {
            int64_t following = s->flows[f].next;
            end_transfer(f, now, p, s);
            f = following;
        }
    }
    for (int64_t w = 0; w < s->wave_count; w++) land_wave(&s->waves[w], now, limit, s);
}

/* The next time at which something happens, infinite when nothing will; and whether a wave may lack room until then. */
static double next_time(const struct State *s, int64_t *lacks_room) {
    double time = s->number[HEAP] > 0 ? s->heap[0].time : INFINITY;
    for (int64_t w = 0; w < s->wave_count; w++) {
        const struct Wave *wave = &s->waves[w];
        if (wave->count == 0) continue;
        time = min_double(time, s->cells[wave->start + wave->first].time);
        if (wave->count + wave->flows > wave->room) *lacks_room = 1;
    }
    return time;
}

/* Play on from `now` (below zero: from the start): the time reached; number[DONE] says whether it is the end.
 *
 * It is not the end if transfers under way might outgrow their room (number[ROOM]: call again with `more_room(s)`), or
 * after a second or so, as Python heeds Ctrl-C between calls only. All flows must be able to end: every link has capacity. */
EXPORT double play_run(const struct Program *p, struct State *s, double now) {
    int64_t *number = s->number;
    if (now < 0.0) {
        now = 0.0;
        for (int64_t gate = 0; gate < s->gate_count; gate++)
            s->gates[gate].open = (int32_t)open_count(&s->gates[gate], s);
        for (int64_t f = 0; f < s->flow_count; f++) try_start(f, s);
        settle(now, p, s);
    }
    int64_t events = number[EVENTS] + PAUSE_EVENTS, solved = number[SOLVED] + PAUSE_SOLVED;
    for (;;) {
        number[ROOM] = 0;
        double time = next_time(s, &number[ROOM]);
        number[DONE] = time == INFINITY;
        if (number[DONE] || number[ROOM] || number[EVENTS] > events || number[SOLVED] > solved) return now;
        now = max_double(now, time);
        process_batch(now, p, s);
        settle(now, p, s);
    }
}
