/* Columns of a table that say which chunks a flow touches when; podsim/network/play_program.py describes them. */
#ifndef PODSIM_PLAY_PROGRAM_H
#define PODSIM_PLAY_PROGRAM_H

#include "native.h"

struct Trains {
    const int64_t *source;
    const int64_t *step;
    const int64_t *repeat;
    const int64_t *chunk;
    const int64_t *chunks;
    const int64_t *turn;
    const int64_t *wheel;
};

#endif
