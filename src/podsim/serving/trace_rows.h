/* Request traces as text, and their rows; podsim/serving/trace_file.py describes them. */
#ifndef PODSIM_TRACE_ROWS_H
#define PODSIM_TRACE_ROWS_H

#include "native.h"

struct TraceText {
    const uint8_t *text;
    int64_t size;
    int64_t room;          /* rows */
    int64_t block_room;    /* ids of blocks */
    const int64_t *column; /* of a CSV: the column of time, input, output */
    const uint8_t *keys;   /* of JSON: the names of time, input, output, blocks, each ended by a zero byte */
    double most;           /* tokens */
};

struct TraceRows {
    double *time;
    int64_t *input;
    int64_t *output;
    int64_t *blocks; /* ids */
    int64_t *block_count;
    int64_t *state; /* bytes read, ids, and of a bad line: problem, field, start, end */
};

#endif
