/* What all C sources of podsim share.
 *
 * A struct of pointers mirrors a NamedTuple of arrays in Python, field by field and in the same order
 * (podsim.native fills it; tests/test_native.py compares the declarations). Every field takes 8 bytes: a pointer,
 * int64_t or double. Numbers are int64_t, double and uint8_t; int32_t only in large arrays.
 */
#ifndef PODSIM_NATIVE_H
#define PODSIM_NATIVE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* functions that Python calls; all others stay inside the library */
#define EXPORT __attribute__((visibility("default")))

static inline double min_double(double a, double b) { return b < a ? b : a; }
static inline double max_double(double a, double b) { return b > a ? b : a; }
static inline int64_t min_int(int64_t a, int64_t b) { return b < a ? b : a; }
static inline int64_t max_int(int64_t a, int64_t b) { return b > a ? b : a; }

/* quotient and remainder as Python has them: rounded down, the remainder with the sign of the divisor */
static inline int64_t floor_div(int64_t a, int64_t b) {
    int64_t quotient = a / b;
    return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}
static inline int64_t floor_mod(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

#endif
