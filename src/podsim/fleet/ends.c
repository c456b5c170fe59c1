/* The ends of running jobs as a binary heap: the next end comes first, and a preempted job can leave. */
#include "queue_state.h"

static void put_end(const struct State *state, int64_t position, struct Entry entry) {
    state->ends[position] = entry;
    state->job[entry.job].heap = position;
}

/* Move an entry up from a free position to where no parent comes after it. */
static void rise(const struct State *state, int64_t position, struct Entry entry) {
    while (position > 0 && comes_before(entry, state->ends[(position - 1) / 2])) {
        put_end(state, position, state->ends[(position - 1) / 2]);
        position = (position - 1) / 2;
    }
    put_end(state, position, entry);
}

/* Move an entry down from a free position to where no child comes before it. */
static void sink(const struct State *state, int64_t position, int64_t count, struct Entry entry) {
    for (;;) {
        int64_t child = 2 * position + 1;
        if (child >= count) break;
        if (child + 1 < count && comes_before(state->ends[child + 1], state->ends[child])) child++;
        if (!comes_before(state->ends[child], entry)) break;
        put_end(state, position, state->ends[child]);
        position = child;
    }
    put_end(state, position, entry);
}

/* Add the end of a job to `count` others. */
void add_end(const struct State *state, int64_t j, int64_t count) {
    rise(state, count, (struct Entry){state->job[j].end, j});
}

/* Remove the end of a job, which is one of `count`. */
void remove_end(const struct State *state, int64_t j, int64_t count) {
    int64_t position = state->job[j].heap;
    struct Entry last = state->ends[count - 1];
    if (last.job == j) return;
    if (position > 0 && comes_before(last, state->ends[(position - 1) / 2])) {
        rise(state, position, last);
    } else {
        sink(state, position, count - 1, last);
    }
}
