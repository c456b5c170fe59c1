/* Plays a schedule table for each set of durations, walks its longest paths back, and counts what lies on them. */
#include <stdlib.h>

#include "training/path_counts.h"

enum { FORWARD, BACKWARD, INPUT, WEIGHT, WORKS };
enum { SHARINGS = 4 };
static const int64_t BESIDE[SHARINGS] = {2, 4, 8, 16}; /* ranks that may share a node */
static const double SAME = 1e-9; /* share of each other within which two times are the same */

/* nodes: an action, or those that a rank runs side by side; and cells to play them in */
struct Nodes {
    int64_t count;
    int32_t *lead;   /* the first action of each node, and the number of actions */
    int32_t *rank;   /* the rank of each node */
    int32_t *first;  /* the first node of each rank, and the number of nodes */
    int32_t *node;   /* the node of each action */
    int32_t *need;   /* the action whose output each action needs, -1 for none */
    int32_t *before; /* the node before each on its longest path, -1 for none */
    int32_t *next;   /* the next node of each rank */
    uint8_t *done;
    double *end;
    double *free; /* s when each rank is free */
    int32_t *last_gradient; /* the last action of each stage that computes gradients of weights, -1 for none */
};

static int64_t action_count(const struct Pipeline *pipe) { return pipe->pointer[pipe->ranks]; }

/* Fill in the action that each action needs: ScheduleTable.need. */
static int find_needs(const struct Pipeline *pipe, struct Nodes *nodes) {
    int64_t actions = action_count(pipe), m = pipe->micro_batches, stages = pipe->stages;
    int32_t *home = malloc((size_t)(WORKS * stages * m + 1) * sizeof *home);
    if (!home) return 0;
    for (int64_t i = 0; i < WORKS * stages * m; i++) home[i] = -1;
    for (int64_t a = 0; a < actions; a++) {
        int64_t kind = pipe->work[a] == BACKWARD ? INPUT : pipe->work[a];
        home[(kind * stages + pipe->stage[a]) * m + pipe->micro[a]] = (int32_t)a;
    }
    for (int64_t a = 0; a < actions; a++) {
        int64_t kind = pipe->work[a] == BACKWARD ? INPUT : pipe->work[a];
        int64_t source = pipe->stage[a], source_kind = FORWARD;
        if (kind == FORWARD) {
            source = pipe->before[source];
        } else if (kind == WEIGHT) {
            source_kind = INPUT;
        } else if (pipe->after[source] >= 0) {
            source = pipe->after[source];
            source_kind = INPUT;
        }
        nodes->need[a] = source < 0 ? -1 : home[(source_kind * stages + source) * m + pipe->micro[a]];
    }
    free(home);
    return 1;
}

/* Group actions into nodes. */
static void join_actions(const struct Pipeline *pipe, struct Nodes *nodes) {
    nodes->count = 0;
    for (int64_t s = 0; s < pipe->stages; s++) nodes->last_gradient[s] = -1;
    for (int64_t rank = 0; rank < pipe->ranks; rank++) {
        nodes->first[rank] = (int32_t)nodes->count;
        for (int64_t a = pipe->pointer[rank]; a < pipe->pointer[rank + 1]; a++) {
            if (!pipe->beside[a]) {
                nodes->lead[nodes->count] = (int32_t)a;
                nodes->rank[nodes->count++] = (int32_t)rank;
            }
            nodes->node[a] = (int32_t)nodes->count - 1;
            if (pipe->work[a] == BACKWARD || pipe->work[a] == WEIGHT)
                nodes->last_gradient[pipe->stage[a]] = (int32_t)a;
        }
    }
    nodes->first[pipe->ranks] = (int32_t)nodes->count;
    nodes->lead[nodes->count] = (int32_t)action_count(pipe);
}

/* Run one node if what it needs is done; whether it ran. */
static int run_node(const struct Pipeline *pipe, struct Nodes *nodes, int64_t at, int64_t duration) {
    int64_t rank = nodes->rank[at];
    double own = nodes->free[rank], begin = own, seconds = 0.0;
    for (int64_t a = nodes->lead[at]; a < nodes->lead[at + 1]; a++) {
        int32_t need = nodes->need[a];
        seconds += pipe->seconds[(pipe->work[a] * pipe->stages + pipe->stage[a]) * pipe->durations + duration];
        if (need < 0) continue;
        int64_t needed = nodes->node[need];
        if (!nodes->done[needed]) return 0;
        begin = max_double(begin, nodes->end[needed] + (nodes->rank[needed] != rank) * pipe->send[duration]);
    }
    double same = SAME * max_double(1.0, begin);
    int32_t last = -1;
    for (int64_t a = nodes->lead[at]; a < nodes->lead[at + 1]; a++) {
        if (nodes->need[a] < 0) continue;
        int32_t needed = nodes->node[nodes->need[a]];
        double arrival = nodes->end[needed] + (nodes->rank[needed] != rank) * pipe->send[duration];
        if (begin - arrival <= same) last = needed;
    }
    /* the rank's own work first: its sends are then not waited for */
    nodes->before[at] = begin - own <= same && at > nodes->first[rank] ? (int32_t)at - 1 : last;
    nodes->end[at] = nodes->free[rank] = begin + seconds;
    nodes->done[at] = 1;
    return 1;
}

/* Play all nodes for one duration; 0 if ranks wait for each other. */
static int play(const struct Pipeline *pipe, struct Nodes *nodes, int64_t duration) {
    int64_t left = nodes->count;
    memset(nodes->done, 0, (size_t)nodes->count);
    for (int64_t rank = 0; rank < pipe->ranks; rank++) {
        nodes->next[rank] = nodes->first[rank];
        nodes->free[rank] = 0.0;
    }
    while (left > 0) {
        int64_t before = left;
        for (int64_t rank = 0; rank < pipe->ranks; rank++)
            while (nodes->next[rank] < nodes->first[rank + 1] && run_node(pipe, nodes, nodes->next[rank], duration)) {
                nodes->next[rank]++;
                left--;
            }
        if (left == before) return 0;
    }
    return 1;
}

/* The node that ends last, of all or of those on ranks that hold the first part. */
static int64_t last_node(const struct Pipeline *pipe, const struct Nodes *nodes, int only_first) {
    int64_t last = 0;
    double latest = -INFINITY;
    for (int64_t at = 0; at < nodes->count; at++) {
        double end = only_first && !pipe->holds_first[nodes->rank[at]] ? -1.0 : nodes->end[at];
        if (end > latest) {
            latest = end;
            last = at;
        }
    }
    return last;
}

/* the columns of a row of counts, in the order of PathCounts */
struct Row {
    double *works, *paired, *actions, *far_sends;
    double *forward_sends, *backward_sends, *charges, *closing, *staying, *passes_after, *pairs, *ends_first;
};

static struct Row row_at(double *start, int64_t width) {
    double *tail = start + 2 * WORKS * width + WORKS + SHARINGS;
    return (struct Row){start, start + WORKS * width, start + 2 * WORKS * width, start + 2 * WORKS * width + WORKS,
                        tail, tail + 1, tail + 2, tail + 3, tail + 4, tail + 5, tail + 6, tail + 7};
}

/* Count the send from one node of a path to the one after it. */
static void count_send(const struct Pipeline *pipe, const struct Nodes *nodes, int64_t cause, int64_t at,
                       struct Row *row) {
    int is_forward = 0;
    if (nodes->rank[at] == nodes->rank[cause]) return;
    for (int64_t a = nodes->lead[at]; a < nodes->lead[at + 1]; a++)
        if (nodes->need[a] >= 0 && nodes->node[nodes->need[a]] == cause) is_forward = pipe->work[a] == FORWARD;
    *(is_forward ? row->forward_sends : row->backward_sends) += 1;
    for (int64_t i = 0; i < SHARINGS; i++)
        row->far_sends[i] += nodes->rank[at] / BESIDE[i] != nodes->rank[cause] / BESIDE[i];
}

/* Count the actions of a path back from its last node. */
static void count_path(const struct Pipeline *pipe, const struct Nodes *nodes, int64_t last, struct Row row) {
    int64_t position = 0, broken = 0, rank_before = -1;
    double least = INFINITY;
    for (int64_t at = last; at >= 0; at = nodes->before[at]) {
        int64_t rank = nodes->rank[at];
        int is_paired = nodes->lead[at + 1] - nodes->lead[at] > 1;
        for (int64_t a = nodes->lead[at]; a < nodes->lead[at + 1]; a++, position++) {
            int64_t work = pipe->work[a], stage = pipe->stage[a];
            int is_closing = nodes->last_gradient[stage] == a;
            for (int64_t block = 0; block < pipe->width; block++) {
                double held = pipe->blocks[stage * pipe->width + block];
                row.works[work * pipe->width + block] += held;
                if (is_paired) row.paired[work * pipe->width + block] += held;
            }
            row.actions[work] += 1;
            *row.pairs += is_paired * 0.5;
            *row.charges += pipe->is_sending[stage] && work != WEIGHT;
            *row.closing += is_closing;
            /* the passes that follow end where the rank changes, another closing pass comes, or the path ends */
            if (position > 0 && rank != rank_before) broken = position - 1;
            if (position > 0 && is_closing && rank == rank_before) {
                *row.staying += 1;
                least = min_double(least, (double)(position - broken));
            }
            if (position == 0 || is_closing) broken = position;
            rank_before = rank;
        }
        if (nodes->before[at] >= 0) count_send(pipe, nodes, nodes->before[at], at, &row);
    }
    *row.charges -= *row.forward_sends + *row.backward_sends;
    *row.closing = max_double(*row.closing - 1, 0.0);
    *row.passes_after = *row.staying > 0 ? least : 0.0;
    *row.ends_first = pipe->holds_first[nodes->rank[last]];
}

static int play_paths(const struct Pipeline *pipe, struct Nodes *nodes, double *counts, int64_t columns) {
    if (!find_needs(pipe, nodes)) return 0;
    join_actions(pipe, nodes);
    for (int64_t duration = 0; duration < pipe->durations; duration++) {
        if (!play(pipe, nodes, duration)) return 0;
        for (int64_t end = 0; end < pipe->ends; end++, counts += columns)
            count_path(pipe, nodes, last_node(pipe, nodes, end > 0), row_at(counts, pipe->width));
    }
    return 1;
}

/* Add the counts of the longest path of each duration and end to zeroed rows; 0 if ranks wait for each other. */
EXPORT int64_t path_counts(const struct Pipeline *pipe, double *counts, int64_t columns) {
    size_t actions = (size_t)action_count(pipe), ranks = (size_t)pipe->ranks, stages = (size_t)pipe->stages;
    int32_t *numbers = malloc((5 * actions + 2 * ranks + stages + 2) * sizeof *numbers);
    double *times = malloc((actions + ranks) * sizeof *times);
    uint8_t *done = malloc(actions + 1);
    int is_played = 0;
    if (numbers && times && done) {
        struct Nodes nodes = {.lead = numbers, .done = done, .end = times, .free = times + actions};
        nodes.rank = nodes.lead + actions + 1;
        nodes.node = nodes.rank + actions;
        nodes.need = nodes.node + actions;
        nodes.before = nodes.need + actions;
        nodes.first = nodes.before + actions;
        nodes.next = nodes.first + ranks + 1;
        nodes.last_gradient = nodes.next + ranks;
        is_played = play_paths(pipe, &nodes, counts, columns);
    }
    free(numbers);
    free(times);
    free(done);
    return is_played;
}
