/* The placement of jobs: how to choose nodes (for all GPUs of a job at once), take GPUs and give them back. */
#include "queue_state.h"

/* The first node with enough GPUs, or with `best` the fullest (on `leaf` among equals); -1 for none. */
static int64_t choose_node(const struct Plant *plant, const int64_t *free, int64_t gpus, bool best, int64_t leaf) {
    int64_t chosen = -1, least = INT64_MAX;
    bool is_near = false;
    for (int64_t node = 0; node < plant->nodes; node++) {
        if (free[node] < gpus || free[node] > least) continue;
        if (!best) return node;
        if (free[node] < least || (!is_near && plant->leaf[node] == leaf)) {
            chosen = node;
            least = free[node];
            is_near = plant->leaf[node] == leaf;
        }
        if (least == gpus && (is_near || leaf < 0)) break; /* no node can be better */
    }
    return chosen;
}

/* The leaf with the fewest idle nodes, but enough of them; else the leaf with the most. */
static int64_t next_leaf(const Queue *queue, int64_t nodes) {
    const int64_t *idle = queue->state->leaf_idle;
    int64_t tight = -1, most = 0;
    for (int64_t leaf = 0; leaf < queue->plant->leaves; leaf++) {
        if (idle[leaf] >= nodes && (tight < 0 || idle[leaf] < idle[tight])) tight = leaf;
        if (idle[leaf] > idle[most]) most = leaf;
    }
    return tight >= 0 ? tight : most;
}

/* Count the idle nodes of each leaf; the number of all. */
static int64_t count_idle(const Queue *queue, const int64_t *free) {
    const struct Plant *plant = queue->plant;
    int64_t *leaf_idle = queue->state->leaf_idle, idle = 0;
    memset(leaf_idle, 0, sizeof *leaf_idle * (size_t)plant->leaves);
    for (int64_t node = 0; node < plant->nodes; node++) {
        if (free[node] == plant->size) {
            leaf_idle[plant->leaf[node]]++;
            idle++;
        }
    }
    return idle;
}

/* Choose idle nodes and a part of a node: under one leaf if it has enough of them, else under few leaves. */
static int64_t choose_full_nodes(const Queue *queue, int64_t *free, int64_t gpus) {
    const struct Plant *plant = queue->plant;
    const struct State *state = queue->state;
    int64_t full = gpus / plant->size, rest = gpus % plant->size, count = 0, node = -2;
    if (count_idle(queue, free) < full) return 0;
    while (count < full) {
        int64_t leaf = plant->rule == BEST_FIT ? next_leaf(queue, full - count) : -1;
        for (int64_t other = 0; other < plant->nodes && count < full; other++) {
            if (free[other] == plant->size && (leaf < 0 || plant->leaf[other] == leaf)) {
                state->picked[count] = other;
                state->taken[count++] = plant->size;
                free[other] = 0;
            }
        }
        if (leaf >= 0) state->leaf_idle[leaf] = 0;
    }
    if (rest) node = choose_node(plant, free, rest, plant->rule == BEST_FIT, plant->leaf[state->picked[count - 1]]);
    for (int64_t position = 0; position < count; position++) free[state->picked[position]] = plant->size;
    if (node == -1) return 0;
    if (node >= 0) {
        state->picked[count] = node;
        state->taken[count++] = rest;
    }
    return count;
}

/* Choose GPUs anywhere: on the fullest node with enough of them, else on nodes in order of their free GPUs. */
static int64_t spread_gpus(const Queue *queue, const int64_t *free, int64_t gpus) {
    const struct Plant *plant = queue->plant;
    const struct State *state = queue->state;
    int64_t node = choose_node(plant, free, gpus, true, -1), count = 0, need = gpus, total = 0;
    if (node >= 0) {
        state->picked[0] = node;
        state->taken[0] = gpus;
        return 1;
    }
    for (node = 0; node < plant->nodes; node++) total += max_int(free[node], 0);
    if (total < gpus) return 0;
    for (int64_t want = plant->size; want > 0 && need > 0; want--) {
        for (node = 0; node < plant->nodes && need > 0; node++) {
            if (free[node] != want) continue;
            state->picked[count] = node;
            state->taken[count] = min_int(want, need);
            need -= state->taken[count++];
        }
    }
    return count;
}

/* Choose nodes for a job among `free` GPUs, into picked and taken. The number of nodes; 0 if the job does not fit.
 *
 * SPREAD takes GPUs anywhere, on as few nodes as possible. The other rules keep a job that fits a node on one node. A
 * larger job gets full nodes (and a part of a node for the rest): the first ones, or the best by leaf.
 */
int64_t choose_nodes(const Queue *queue, int64_t *free, int64_t gpus) {
    const struct Plant *plant = queue->plant;
    if (plant->rule == SPREAD) return spread_gpus(queue, free, gpus);
    if (gpus > plant->size) return choose_full_nodes(queue, free, gpus);
    int64_t node = choose_node(plant, free, gpus, plant->rule == BEST_FIT, -1);
    if (node < 0) return 0;
    queue->state->picked[0] = node;
    queue->state->taken[0] = gpus;
    return 1;
}

/* Whether a job fits the `free` GPUs. */
bool has_room(const struct Plant *plant, const int64_t *free, int64_t gpus) {
    int64_t total = 0, full = gpus / plant->size, rest = gpus % plant->size, parts = 0;
    if (plant->rule == SPREAD) {
        for (int64_t node = 0; node < plant->nodes; node++) total += max_int(free[node], 0);
        return total >= gpus;
    }
    for (int64_t node = 0; node < plant->nodes; node++) {
        full -= free[node] == plant->size;
        parts += free[node] != plant->size && free[node] >= rest;
    }
    return full < 0 || (full == 0 && (rest == 0 || parts > 0));
}

/* The distance class of the chosen nodes: 0 for one node, 1 under one leaf, 2 under several leaves. */
int64_t node_reach(const Queue *queue, int64_t count) {
    const int64_t *leaf = queue->plant->leaf, *picked = queue->state->picked;
    for (int64_t position = 1; position < count; position++) {
        if (leaf[picked[position]] != leaf[picked[0]]) return 2;
    }
    return count > 1;
}

/* Give a job its chosen GPUs. */
void take_gpus(const struct State *state, int64_t j, int64_t count) {
    for (int64_t position = 0; position < count; position++) {
        int64_t piece = state->number[PIECE];
        state->number[PIECE] = state->piece_next[piece];
        state->piece_node[piece] = state->picked[position];
        state->piece_gpus[piece] = state->taken[position];
        state->piece_next[piece] = state->job[j].piece;
        state->job[j].piece = piece;
        state->free[state->picked[position]] -= state->taken[position];
        state->number[FREE] -= state->taken[position];
    }
}

/* Take the GPUs of a job back. */
void return_gpus(const struct State *state, int64_t j) {
    int64_t piece = state->job[j].piece;
    while (piece >= 0) {
        int64_t after = state->piece_next[piece];
        state->free[state->piece_node[piece]] += state->piece_gpus[piece];
        if (!is_closed(state, state->piece_node[piece])) state->number[FREE] += state->piece_gpus[piece];
        state->piece_next[piece] = state->number[PIECE];
        state->number[PIECE] = piece;
        piece = after;
    }
    state->job[j].piece = -1;
}
