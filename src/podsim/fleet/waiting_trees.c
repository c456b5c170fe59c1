/* The waiting jobs of one size as a treap in the order of the queue.
 *
 * A node also knows the shortest expected run below it, so that backfill passes all jobs that run too long at once.
 * Adding, removing and searching take a time that grows with the logarithm of the number of jobs.
 */
#include "queue_state.h"

/* The priority of a job: a fixed hash of its number (splitmix64), so that equal inputs make equal trees. */
static uint64_t priority(int64_t j) {
    uint64_t mixed = ((uint64_t)j + 1) * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return mixed ^ (mixed >> 31);
}

static struct Entry entry_of(const struct State *state, int64_t j) {
    return (struct Entry){state->node[j].key, j};
}

/* Update the shortest run at and below a job. */
static void settle(const struct State *state, int64_t j) {
    struct Node *node = &state->node[j];
    node->lowest = node->least;
    if (node->left >= 0) node->lowest = min_double(node->lowest, state->node[node->left].lowest);
    if (node->right >= 0) node->lowest = min_double(node->lowest, state->node[node->right].lowest);
}

/* Split a tree into the jobs before an entry and those after it. */
static void split(const struct State *state, int64_t at, struct Entry entry, int64_t *before, int64_t *after) {
    if (at < 0) {
        *before = *after = -1;
    } else if (comes_before(entry_of(state, at), entry)) {
        *before = at;
        split(state, state->node[at].right, entry, &state->node[at].right, after);
        settle(state, at);
    } else {
        *after = at;
        split(state, state->node[at].left, entry, before, &state->node[at].left);
        settle(state, at);
    }
}

/* Join two trees, of which all jobs of the first come before those of the second: the root. */
static int64_t join(const struct State *state, int64_t first, int64_t second) {
    if (first < 0) return second;
    if (second < 0) return first;
    if (priority(first) > priority(second)) {
        state->node[first].right = join(state, state->node[first].right, second);
        settle(state, first);
        return first;
    }
    state->node[second].left = join(state, first, state->node[second].left);
    settle(state, second);
    return second;
}

/* Add a job, whose node has its key and its shortest run. */
void tree_insert(const struct State *state, int64_t *root, int64_t j) {
    struct Entry entry = entry_of(state, j);
    if (*root < 0 || priority(j) > priority(*root)) {
        split(state, *root, entry, &state->node[j].left, &state->node[j].right);
        *root = j;
    } else if (comes_before(entry, entry_of(state, *root))) {
        tree_insert(state, &state->node[*root].left, j);
    } else {
        tree_insert(state, &state->node[*root].right, j);
    }
    settle(state, *root);
}

/* Remove a job. */
void tree_remove(const struct State *state, int64_t *root, int64_t j) {
    struct Node *node = &state->node[*root];
    if (*root == j) {
        *root = join(state, node->left, node->right);
        return;
    }
    tree_remove(state, comes_before(entry_of(state, j), entry_of(state, *root)) ? &node->left : &node->right, j);
    settle(state, *root);
}

/* The first job after an entry whose run from now could end by `latest`; -1 if there is none. */
int64_t tree_after(const struct State *state, int64_t at, struct Entry last, double now, double latest) {
    if (at < 0 || now + state->node[at].lowest > latest) return -1;
    const struct Node *node = &state->node[at];
    if (comes_before(last, entry_of(state, at))) {
        int64_t before = tree_after(state, node->left, last, now, latest);
        if (before >= 0) return before;
        if (now + node->least <= latest) return at;
    }
    return tree_after(state, node->right, last, now, latest);
}
