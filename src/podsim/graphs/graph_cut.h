/* Graphs as nets of ops, and divisions that moves change; podsim/graphs/graph_cut.py describes them. */
#ifndef PODSIM_GRAPH_CUT_H
#define PODSIM_GRAPH_CUT_H

#include "native.h"

struct Nets {
    const int64_t *first;
    const int64_t *members;
    const double *size;
    const int64_t *begin;
    const int64_t *at;
    int64_t nets;
};

struct Cut {
    int64_t *part;
    const double *work;
    double *load;
    int64_t *counts;
    int64_t *moved_op;
    int64_t *moved_from;
    double *gains;
    int64_t *targets;
    int64_t *locked;
    int64_t ops;
    int64_t devices;
};

#endif
