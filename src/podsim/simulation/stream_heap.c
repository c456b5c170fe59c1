/* A heap of streams by the time of their next event, in which a stream can be moved or taken out.
 * Streams of one time come in the order of their numbers. */
#include "simulation/events.h"

static int is_earlier(double time, int64_t stream, double other, int64_t other_stream) {
    return time < other || (time == other && stream < other_stream);
}

static void move_entry(int64_t from, int64_t to, struct State *st) {
    st->heap_time[to] = st->heap_time[from];
    st->heap_stream[to] = st->heap_stream[from];
    st->heap_index[st->heap_stream[to]] = to;
}

/* Move a hole towards the root as long as its parent comes later; where it ends. */
static int64_t move_up(int64_t at, double time, int64_t stream, struct State *st) {
    while (at > 0) {
        int64_t parent = (at - 1) >> 2;
        if (!is_earlier(time, stream, st->heap_time[parent], st->heap_stream[parent])) break;
        move_entry(parent, at, st);
        at = parent;
    }
    return at;
}

/* Move a hole away from the root as long as a child comes earlier; where it ends. */
static int64_t move_down(int64_t at, double time, int64_t stream, struct State *st) {
    const double *times = st->heap_time;
    const int64_t *streams = st->heap_stream;
    int64_t count = st->number[HEAP];
    for (;;) {
        int64_t child = 4 * at + 1, end = min_int(child + 4, count), least = child;
        if (child >= count) break;
        for (int64_t other = child + 1; other < end; other++)
            if (is_earlier(times[other], streams[other], times[least], streams[least])) least = other;
        if (!is_earlier(times[least], streams[least], time, stream)) break;
        move_entry(least, at, st);
        at = least;
    }
    return at;
}

static void fill_hole(int64_t at, double time, int64_t stream, struct State *st) {
    at = move_down(move_up(at, time, stream, st), time, stream, st);
    st->heap_time[at] = time;
    st->heap_stream[at] = stream;
    st->heap_index[stream] = at;
}

/* Set the time of a stream's next event, whether it is in the heap or not. */
void put_stream(int64_t stream, double time, struct State *st) {
    int64_t at = st->heap_index[stream];
    if (at < 0) at = st->number[HEAP]++;
    fill_hole(at, time, stream, st);
}

/* Take a stream out of the heap, if it is there. */
void drop_stream(int64_t stream, struct State *st) {
    int64_t at = st->heap_index[stream];
    if (at < 0) return;
    st->heap_index[stream] = -1;
    int64_t count = --st->number[HEAP];
    if (at < count) fill_hole(at, st->heap_time[count], st->heap_stream[count], st);
}
