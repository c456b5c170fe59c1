/* Colours of the elements of a program; podsim/network/play_fold.py says what they are for. */
#ifndef PODSIM_PLAY_FOLD_H
#define PODSIM_PLAY_FOLD_H

#include "native.h"

struct Colours {
    int64_t *flow;
    int64_t *lane;
    int64_t *link;
    int64_t *gate;
    int64_t *group;
    int64_t flow_count;
    int64_t lane_count;
    int64_t link_count;
    int64_t gate_count;
    int64_t group_count;
};

#endif
