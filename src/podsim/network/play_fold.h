/* Classes of the elements of a program; podsim/network/play_fold.py says what they are for. */
#ifndef PODSIM_PLAY_FOLD_H
#define PODSIM_PLAY_FOLD_H

#include "native.h"

struct Classes {
    int64_t *member;
    int64_t *size;
    int64_t *sign;
    int64_t *listed;
    int64_t *changed;
    int64_t *group;
    int64_t *first;
    int64_t *sums;
    int64_t *hits;
    int64_t *largest;
    int64_t *slots;
    uint8_t *marked;
    int64_t *lane_ptr;
    int64_t *lane_flow;
    int64_t *link_ptr;
    int64_t *link_lane;
    int64_t flows;
    int64_t lanes;
    int64_t links;
    int64_t gates;
    int64_t groups;
};

#endif
