/* Max-min fair sharing by progressive filling: a round fills at least one link, so there are at most as many rounds as
 * links. */
#include "network/flow.h"

/* links that fill within this factor of each other fill together: rounding, not sharing, tells them apart */
static const double LEVEL = 1.0 + 1e-12;

/* Fix one flow's rate, and take it off its links. */
static void freeze_flow(int64_t f, double level, const struct Flows *flows, double *rates,
                        const struct Scratch *scratch) {
    double weight = flows->weights[f];
    rates[f] = level * weight;
    for (int64_t i = flows->starts[f]; i < flows->ends[f]; i++) {
        int64_t link = flows->links[i];
        scratch->left[link] = max_double(0.0, scratch->left[link] - rates[f] * flows->use[i]);
        scratch->load[link] -= weight * flows->use[i];
        scratch->users[link] -= 1;
    }
}

/* Add up what the flows ask of their links, and list those links; how many they are. */
static int64_t enter_flows(const int64_t *todo, int64_t count, const struct Flows *flows, double *rates,
                           const struct Scratch *scratch) {
    int64_t busy = 0;
    for (int64_t t = 0; t < count; t++) {
        int64_t f = todo[t];
        rates[f] = INFINITY;
        for (int64_t i = flows->starts[f]; i < flows->ends[f]; i++) {
            int64_t link = flows->links[i];
            if (scratch->users[link] == 0) {
                scratch->busy[busy++] = link;
                scratch->left[link] = flows->capacity[link];
                scratch->load[link] = 0.0;
            }
            scratch->users[link] += 1;
            scratch->load[link] += flows->weights[f] * flows->use[i];
        }
    }
    return busy;
}

/* Drop links without rising flows from the list, and mark those that fill first by a negative load; the level at which
 * they fill. */
static double raise_level(int64_t *busy_count, const struct Scratch *scratch) {
    double level = INFINITY;
    int64_t kept = 0;
    for (int64_t b = 0; b < *busy_count; b++) {
        int64_t link = scratch->busy[b];
        if (scratch->users[link] > 0) {
            scratch->busy[kept++] = link;
            level = min_double(level, scratch->left[link] / scratch->load[link]);
        }
    }
    *busy_count = kept;
    for (int64_t b = 0; b < kept; b++) {
        int64_t link = scratch->busy[b];
        if (scratch->left[link] / scratch->load[link] <= level * LEVEL) scratch->load[link] = -INFINITY;
    }
    return level;
}

static int is_full(int64_t f, const struct Flows *flows, const double *load) {
    for (int64_t i = flows->starts[f]; i < flows->ends[f]; i++)
        if (load[flows->links[i]] < 0.0) return 1;
    return 0;
}

/* Max-min rates of the flows in `todo`, written to `rates`; others are taken as absent. `todo` is used up.
 * A flow listed twice counts twice. */
EXPORT void flow_fill(int64_t *todo, int64_t count, const struct Flows *flows, double *rates,
                      const struct Scratch *scratch) {
    int64_t busy = enter_flows(todo, count, flows, rates, scratch);
    while (busy > 0) {
        double level = raise_level(&busy, scratch);
        int64_t kept = 0;
        for (int64_t t = 0; t < count; t++) {
            int64_t f = todo[t];
            if (is_full(f, flows, scratch->load))
                freeze_flow(f, level, flows, rates, scratch);
            else
                todo[kept++] = f;
        }
        count = kept;
    }
}
