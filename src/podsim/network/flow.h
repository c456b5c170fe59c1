/* Max-min fair sharing of links; podsim/network/flow.py says what it is. */
#ifndef PODSIM_FLOW_H
#define PODSIM_FLOW_H

#include "native.h"

/* flows on links: flow f uses links[starts[f]] to links[ends[f] - 1] */
struct Flows {
    const int64_t *starts;
    const int64_t *ends;
    const int64_t *links;
    const double *use;      /* B of a link that a unit of a flow's rate takes, by entry */
    const double *weights;
    const double *capacity; /* B/s, by link */
};

/* cells of each link for flow_fill to write in */
struct Scratch {
    double *left;   /* B/s that no flow has taken yet */
    double *load;   /* what the rising flows put on the link per unit of rate; below 0 once it is full */
    int64_t *users; /* the number of rising flows; 0 on entry and exit */
    int64_t *busy;  /* the links that have rising flows, in a list */
};

EXPORT void flow_fill(int64_t *todo, int64_t count, const struct Flows *flows, double *rates,
                      const struct Scratch *scratch);

#endif
