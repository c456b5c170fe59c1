/* Classes of the elements of a program; podsim/network/play_fold.py says what they are for. */
#ifndef PODSIM_PLAY_FOLD_H
#define PODSIM_PLAY_FOLD_H

#include "native.h"

struct Classes {
    int32_t *member;
    int32_t *size;
    int64_t *sign;
    int32_t *listed;
    int32_t *changed;
    int32_t *group;
    int32_t *first;
    int32_t *sums;
    int32_t *hits;
    int32_t *largest;
    int32_t *slots;
    uint8_t *marked;
    int32_t *lane_ptr;
    int32_t *lane_flow;
    int32_t *link_ptr;
    int32_t *link_lane;
    int64_t flows;
    int64_t lanes;
    int64_t links;
    int64_t gates;
    int64_t groups;
};

#endif
