/* The loop over requests: each goes to the node with the smallest score, and stays. */
#include "packing_kernels.h"

/* The node with the smallest score, a random one among equals; -1 if none has room. */
static int64_t choose_node(
    const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t packer, double chance
) {
    double *score = now->score + r * now->nodes, least = INFINITY;
    int64_t *seen = now->seen + r * now->nodes, equals = 0;
    for (int64_t n = 0; n < now->nodes; n++) {
        if (seen[n] != now->version[n]) {
            score[n] = node_score(wanted, now, r, n, packer);
            seen[n] = now->version[n];
        }
        if (score[n] < least - SAME) {
            least = score[n];
            equals = 1;
        } else if (score[n] <= least + SAME && score[n] < INFINITY) {
            equals++;
        }
    }
    int64_t turn = (int64_t)(chance * (double)equals);
    for (int64_t n = 0; n < now->nodes && equals > 0; n++) {
        if (score[n] <= least + SAME && turn-- == 0) return n;
    }
    return -1;
}

/* Place requests in the order of arrival; `given` says which had room. The useless GPU thousandths at the end. */
EXPORT double pack_requests(
    const struct Wanted *wanted, const struct NodesNow *now, const int64_t *arrivals, int64_t count, int64_t packer,
    const double *chance, uint8_t *given
) {
    for (int64_t n = 0; n < now->nodes; n++) now->useless[n] = node_fragmentation(wanted, now, n);
    for (int64_t position = 0; position < count; position++) {
        int64_t r = arrivals[position], n = choose_node(wanted, now, r, packer, chance[2 * position]);
        given[position] = n >= 0;
        if (n < 0) continue;
        take_resources(wanted, now, r, n, choose_gpu(wanted, now, r, n, packer, chance[2 * position + 1]));
        now->version[n]++;
        if (packer == FGD) now->useless[n] = node_fragmentation(wanted, now, n);
        now->held[r * now->nodes + n]++;
    }
    double useless = 0.0;
    for (int64_t n = 0; n < now->nodes; n++) useless += node_fragmentation(wanted, now, n);
    return useless;
}
