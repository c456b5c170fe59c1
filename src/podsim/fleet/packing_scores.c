/* The scores that choose a node for a request, smaller first. Request r is a kind of request, n a node, g a GPU of it.
 *
 * Source of the rules: Weng et al. 2023 (FGD, USENIX ATC), section 3 for fragmentation, section 6 for the others.
 */
#include "packing_kernels.h"

static int64_t *free_of(const struct NodesNow *now, int64_t n) { return now->free + n * now->gpus; }

/* Whether a request of kind r fits node n. */
static bool request_fits(const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n) {
    if (wanted->cpu[r] > now->cpu[n] || wanted->memory[r] > now->memory[n]) return false;
    if (wanted->gpus[r] == 0) return true;
    if (!wanted->allowed[r * wanted->models + now->model[n]]) return false;
    const int64_t *free = free_of(now, n);
    int64_t need = wanted->gpus[r];
    for (int64_t g = 0; g < now->gpus && need > 0; g++) need -= free[g] >= wanted->share[r];
    return need <= 0;
}

/* The free GPU thousandths of a node that are useless to a request, in the mean over requests for GPUs.
 *
 * All free thousandths are useless to a request that does not fit the node. For one that fits, those on GPUs with less
 * room than it needs are useless.
 */
double node_fragmentation(const struct Wanted *wanted, const struct NodesNow *now, int64_t n) {
    const int64_t *free = free_of(now, n);
    int64_t all = 0, most = 0, least = INT64_MAX;
    for (int64_t g = 0; g < now->gpus; g++) {
        if (free[g] <= 0) continue;
        all += free[g];
        most = max_int(most, free[g]);
        least = min_int(least, free[g]);
    }
    double total = 0.0;
    for (int64_t position = 0; position < wanted->sharers && all > 0; position++) {
        int64_t r = wanted->kinds[position], share = wanted->share[r], lost = 0;
        if (share > most || !request_fits(wanted, now, r, n)) {
            lost = all;
        } else if (share > least) {
            for (int64_t g = 0; g < now->gpus; g++) lost += free[g] > 0 && free[g] < share ? free[g] : 0;
        }
        total += wanted->weight[position] * (double)lost;
    }
    return total;
}

/* The GPU with the least room, but enough for a request of a part of a GPU. */
static int64_t fullest_gpu(const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n) {
    const int64_t *free = free_of(now, n);
    int64_t best = -1;
    for (int64_t g = 0; g < now->gpus; g++) {
        if (free[g] >= wanted->share[r] && (best < 0 || free[g] < free[best])) best = g;
    }
    return best;
}

/* A random GPU among those with enough room. */
static int64_t random_gpu(
    const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n, double chance
) {
    const int64_t *free = free_of(now, n);
    int64_t count = 0, last = -1;
    for (int64_t g = 0; g < now->gpus; g++) count += free[g] >= wanted->share[r];
    for (int64_t g = 0; g < now->gpus; g++) {
        if (free[g] < wanted->share[r]) continue;
        last = g;
        chance -= 1.0 / (double)count;
        if (chance <= 0.0) break;
    }
    return last;
}

/* Take the resources of a request from a node: a part of `gpu`, or the first full GPUs. */
void take_resources(const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n, int64_t gpu) {
    int64_t *free = free_of(now, n), need = wanted->gpus[r];
    now->cpu[n] -= wanted->cpu[r];
    now->memory[n] -= wanted->memory[r];
    if (need == 1) {
        free[gpu] -= wanted->share[r];
        return;
    }
    for (int64_t g = 0; g < now->gpus && need > 0; g++) {
        if (free[g] < wanted->share[r]) continue;
        free[g] -= wanted->share[r];
        need--;
    }
}

/* The growth of a node's fragmentation with a request. */
static double growth(const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n, int64_t gpu) {
    double cpu = now->cpu[n], memory = now->memory[n];
    size_t bytes = sizeof *now->spare * (size_t)now->gpus;
    memcpy(now->spare, free_of(now, n), bytes);
    take_resources(wanted, now, r, n, gpu);
    double after = node_fragmentation(wanted, now, n);
    now->cpu[n] = cpu;
    now->memory[n] = memory;
    memcpy(free_of(now, n), now->spare, bytes);
    return after - now->useless[n];
}

/* The GPU whose node's fragmentation grows least with a request of a part of a GPU, and that growth in `least`.
 *
 * GPUs with equal room grow equally, and the first of them counts.
 */
static int64_t least_growing_gpu(
    const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n, double *least
) {
    const int64_t *free = free_of(now, n);
    int64_t best = -1;
    *least = INFINITY;
    for (int64_t g = 0; g < now->gpus; g++) {
        bool is_new = free[g] >= wanted->share[r];
        for (int64_t other = 0; other < g; other++) is_new = is_new && free[other] != free[g];
        if (!is_new) continue;
        double grown = growth(wanted, now, r, n, g);
        if (grown < *least - SAME) {
            best = g;
            *least = grown;
        }
    }
    return best;
}

/* The GPU of a node for a request of a part of a GPU: the fullest, a random one, or by least growth. */
int64_t choose_gpu(
    const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n, int64_t packer, double chance
) {
    double least;
    if (wanted->gpus[r] != 1) return -1;
    if (packer == RANDOM) return random_gpu(wanted, now, r, n, chance);
    return packer == FGD ? least_growing_gpu(wanted, now, r, n, &least) : fullest_gpu(wanted, now, r, n);
}

/* The least growth of a node's fragmentation with a request. */
static double least_growth(const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n) {
    double least;
    if (wanted->gpus[r] != 1) return growth(wanted, now, r, n, -1);
    least_growing_gpu(wanted, now, r, n, &least);
    return least;
}

/* The free GPU thousandths of a node. */
static double free_thousandths(const struct NodesNow *now, int64_t n) {
    const int64_t *free = free_of(now, n);
    double total = 0.0;
    for (int64_t g = 0; g < now->gpus; g++) total += (double)max_int(free[g], 0);
    return total;
}

/* The product of free and requested resources, each as a share of the largest node's. */
static double dot_product(const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n) {
    const double *most = now->most;
    double asked = (double)(wanted->gpus[r] * wanted->share[r]);
    return now->cpu[n] * wanted->cpu[r] / (most[0] * most[0]) + now->memory[n] * wanted->memory[r] / (most[1] * most[1])
         + free_thousandths(now, n) * asked / (most[2] * most[2]);
}

/* The sum of the remaining resources of the node, each as a share of the largest node's. */
static double left_score(const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n) {
    const double *most = now->most;
    double asked = (double)(wanted->gpus[r] * wanted->share[r]);
    return (now->cpu[n] - wanted->cpu[r]) / most[0] + (now->memory[n] - wanted->memory[r]) / most[1]
         + (free_thousandths(now, n) - asked) / most[2];
}

/* A score that falls with the node's requests of the same GPU share; among equals the best fit. */
static double unlike_score(const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n) {
    int64_t alike = 0;
    for (int64_t other = 0; other < wanted->requests; other++) {
        if (wanted->gpus[other] == wanted->gpus[r] && wanted->share[other] == wanted->share[r]) {
            alike += now->held[other * now->nodes + n];
        }
    }
    return left_score(wanted, now, r, n) - 4.0 * (double)alike; /* the remaining resources sum to less than 3 */
}

/* 0 if a GPU in use has room, 1 if the node is in use, 2 if it is idle; then by idle GPUs. */
static double unused_score(const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n) {
    const int64_t *free = free_of(now, n);
    int64_t idle = 0, gpus = 0;
    bool is_shared = false;
    for (int64_t g = 0; g < now->gpus; g++) {
        gpus += free[g] >= 0;
        idle += free[g] == WHOLE;
        is_shared = is_shared || (free[g] < WHOLE && free[g] >= wanted->share[r]);
    }
    double tier = is_shared && wanted->gpus[r] == 1 ? 0.0 : idle < gpus ? 1.0 : 2.0;
    return tier * 100.0 + (double)idle;
}

/* The score of a node, smaller first; infinite if the request does not fit. */
double node_score(const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n, int64_t packer) {
    if (!request_fits(wanted, now, r, n)) return INFINITY;
    switch (packer) {
    case DOT: return dot_product(wanted, now, r, n);
    case CLUSTERING: return unlike_score(wanted, now, r, n);
    case PACKING: return unused_score(wanted, now, r, n);
    case BEST: return left_score(wanted, now, r, n);
    case FGD: return least_growth(wanted, now, r, n);
    default: return 0.0;
    }
}
