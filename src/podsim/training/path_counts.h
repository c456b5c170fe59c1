/* The longest paths of one schedule table, as counts; podsim/training/pipeline_paths.py says what each is. */
#ifndef PODSIM_PATH_COUNTS_H
#define PODSIM_PATH_COUNTS_H

#include "native.h"

/* one pipeline schedule, and what its stages hold and take */
struct Pipeline {
    const int64_t *pointer; /* the first action of each rank, and the number of all */
    const int64_t *work;    /* by action, as the next three */
    const int64_t *stage;
    const int64_t *micro;
    const uint8_t *beside;
    const int64_t *before; /* the stage whose output a stage needs, -1 for none; by stage, as the next four */
    const int64_t *after;
    const uint8_t *is_sending;
    const double *blocks;  /* copies of each block: stages x width */
    const double *seconds; /* works x stages x durations */
    const double *send;    /* s from rank to rank, by duration */
    const uint8_t *holds_first; /* whether a rank holds the model's first part */
    int64_t ranks;
    int64_t stages;
    int64_t micro_batches;
    int64_t width;
    int64_t durations;
    int64_t ends; /* 1: the last node of all; 2: also the last on a rank that holds the first part */
};

EXPORT int64_t path_counts(const struct Pipeline *pipe, double *counts, int64_t columns);

#endif
