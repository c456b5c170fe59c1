/* Two chains of ops; podsim/simulation/pairs.py describes them. */
#ifndef PODSIM_PAIRS_H
#define PODSIM_PAIRS_H

#include "native.h"

struct Chains {
    const double *done;
    const int64_t *stream;
    const double *other;
    const int64_t *other_stream;
    double *best;
    int64_t *came;
    int64_t ops;
    int64_t other_ops;
};

#endif
