/* Time in buckets: flows that end at the same time share one, a heap holds the buckets. */
#include "network/play.h"

static void push_bucket(int64_t bucket, double time, struct State *s) {
    struct Due *heap = s->heap;
    int64_t at = s->number[HEAP]++;
    while (at > 0) {
        int64_t up = (at - 1) >> 2;
        if (heap[up].time <= time) break;
        heap[at] = heap[up];
        at = up;
    }
    heap[at].time = time;
    heap[at].bucket = bucket;
}

/* Take the earliest bucket off the heap (four children to a parent). */
int64_t pop_bucket(struct State *s) {
    struct Due *heap = s->heap;
    int64_t top = heap[0].bucket, count = --s->number[HEAP], at = 0;
    struct Due last = heap[count];
    for (;;) {
        int64_t child = 4 * at + 1;
        if (child >= count) break;
        int64_t least = child, end = min_int(child + 4, count);
        for (int64_t other = child + 1; other < end; other++)
            if (heap[other].time < heap[least].time) least = other;
        if (heap[least].time >= last.time) break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = last;
    return top;
}

/* Drop empty buckets from the heap, when room for new ones runs out. */
static void drop_empty(struct State *s) {
    int64_t count = s->number[HEAP];
    s->number[HEAP] = 0;
    for (int64_t i = 0; i < count; i++) {
        struct Due due = s->heap[i];
        if (s->buckets[due.bucket].head >= 0) {
            push_bucket(due.bucket, due.time, s);
        } else {
            s->buckets[due.bucket].time = -1.0;
            s->free[s->number[FREE_BUCKETS]++] = due.bucket;
        }
    }
}

/* A bucket that nothing is in, used before if there is one. */
static int64_t new_bucket(struct State *s) {
    int64_t *number = s->number;
    if (number[FREE_BUCKETS] == 0 && number[BUCKETS] < s->bucket_room) return number[BUCKETS]++;
    if (number[FREE_BUCKETS] == 0) drop_empty(s);
    return s->free[--number[FREE_BUCKETS]];
}

/* The bucket of a time: one of the last eight made, or a new one. */
static int64_t bucket_of(double due, struct State *s) {
    int64_t *number = s->number;
    for (int64_t back = 1; back < 9; back++) {
        const struct Due *recent = &s->recent[(number[RECENT] - back) & 7];
        if (fabs(recent->time - due) <= SAME * due && s->buckets[recent->bucket].time == recent->time)
            return recent->bucket;
    }
    int64_t bucket = new_bucket(s);
    s->buckets[bucket].time = due;
    s->buckets[bucket].head = -1;
    push_bucket(bucket, due, s);
    s->recent[number[RECENT] & 7].time = due;
    s->recent[number[RECENT] & 7].bucket = bucket;
    number[RECENT] += 1;
    return bucket;
}

/* Put a flow with so many bytes left into the bucket of the time it will end at. */
void schedule(int64_t f, double left, double now, struct State *s) {
    struct Flow *flow = &s->flows[f];
    double due = left > 0.0 ? now + left / flow->rate : now;
    int64_t bucket = bucket_of(due, s), head = s->buckets[bucket].head;
    flow->bucket = (int32_t)bucket;
    flow->next = (int32_t)head;
    flow->previous = -1;
    if (head >= 0) s->flows[head].previous = (int32_t)f;
    s->buckets[bucket].head = f;
}

/* Take a flow out of its bucket, which may stay behind empty. */
void unschedule(int64_t f, struct State *s) {
    struct Flow *flow = &s->flows[f];
    if (flow->previous >= 0)
        s->flows[flow->previous].next = flow->next;
    else
        s->buckets[flow->bucket].head = flow->next;
    if (flow->next >= 0) s->flows[flow->next].previous = flow->previous;
    flow->bucket = -1;
}
