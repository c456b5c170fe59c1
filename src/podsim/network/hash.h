/* 64-bit hashes of numbers, the same every time. */
#ifndef PODSIM_HASH_H
#define PODSIM_HASH_H

#include "native.h"

/* A hash of two numbers (splitmix64's finaliser). */
static inline int64_t hash_pair(int64_t x, int64_t y) {
    uint64_t z = (uint64_t)x * 0x9E3779B97F4A7C15u + (uint64_t)y + 0x632BE59BD9B4E019u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (int64_t)(z ^ (z >> 31));
}

#endif
