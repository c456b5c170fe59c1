/* Requests for parts of GPUs and the nodes that take them, as packing_kernels.py declares them. */
#ifndef PODSIM_FLEET_PACKING_KERNELS_H
#define PODSIM_FLEET_PACKING_KERNELS_H

#include <stdbool.h>

#include "native.h"

#define WHOLE 1000  /* the thousandths of a GPU in a GPU */
#define SAME 1e-9   /* scores within this of each other are equal */

/* the packers, by their position in PACKERS of packing.py */
enum { RANDOM, DOT, CLUSTERING, PACKING, BEST, FGD };

struct Wanted {
    const double *cpu;
    const double *memory;
    const int64_t *gpus;
    const int64_t *share;
    const uint8_t *allowed;
    const int64_t *kinds;
    const double *weight;
    int64_t requests;
    int64_t models;
    int64_t sharers;
};

struct NodesNow {
    double *cpu;
    double *memory;
    int64_t *free;
    const int64_t *model;
    const double *most;
    int64_t *version;
    int64_t *seen;
    double *score;
    int64_t *held;
    int64_t *spare;
    double *useless;
    int64_t nodes;
    int64_t gpus;
};

/* packing_scores.c */
double node_fragmentation(const struct Wanted *wanted, const struct NodesNow *now, int64_t n);
int64_t choose_gpu(
    const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n, int64_t packer, double chance
);
void take_resources(const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n, int64_t gpu);
double node_score(const struct Wanted *wanted, const struct NodesNow *now, int64_t r, int64_t n, int64_t packer);

#endif
