/* Ways to place tables on GPUs, and a placement, as placement.py declares them. */
#ifndef PODSIM_EMBEDDINGS_PLACEMENT_H
#define PODSIM_EMBEDDINGS_PLACEMENT_H

#include "native.h"

#define PARTS 4  /* the seconds of a GPU: forward, backward, sent, fetched */

struct Ways {
    const double *load;
    const double *memory;
    const double *far;
    const double *shared;
    const int64_t *scope;
    const int64_t *blocks;
    const int64_t *tier;
    const int64_t *first;
    const int64_t *pool;
    const double *capacity;
    int64_t gpus;
    int64_t most;
    double room;
    double hidden;
};

struct Placed {
    double *loads;
    double *memory;
    double *far;
    double *shared;
    int64_t *trials;
    int64_t *way;
    int64_t *position;
    int64_t *kept;
    double *seconds;
};

#endif
