/* Colour refinement. Sums, as the order of what is touched means nothing; they wrap around, so they are unsigned. */
#include "network/hash.h"
#include "network/play.h"
#include "network/play_fold.h"

static int64_t sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t times(int64_t factor, int64_t a) { return (int64_t)((uint64_t)factor * (uint64_t)a); }

/* New colours of lanes and links: from the flows on each lane, the lanes on each link, the links of each lane. */
static void colour_lanes(const struct Colours *c, const struct Program *p) {
    for (int64_t a = 0; a < c->lane_count; a++) {
        c->lane[a] = hash_pair(c->lane[a], 1);
        for (int64_t i = p->start[a]; i < p->end[a]; i++) {
            int64_t *link = &c->link[p->link[i]];
            *link = sum(*link, c->lane[a]);
        }
    }
    for (int64_t x = 0; x < c->link_count; x++) c->link[x] = hash_pair(c->link[x], 2);
    for (int64_t a = 0; a < c->lane_count; a++) {
        int64_t lane = c->lane[a];
        for (int64_t i = p->start[a]; i < p->end[a]; i++) lane = sum(lane, times(3, c->link[p->link[i]]));
        c->lane[a] = hash_pair(lane, 3);
    }
}

/* New colours of groups and gates. */
static void colour_gates(const struct Colours *c, const struct Program *p) {
    for (int64_t k = 0; k < c->group_count; k++) c->group[k] = hash_pair(c->group[k], 4);
    for (int64_t g = 0; g < c->gate_count; g++) {
        int64_t gate = 0;
        for (int64_t i = p->dep_ptr[g]; i < p->dep_ptr[g + 1]; i++)
            gate = sum(gate, hash_pair(c->group[p->dep_group[i]], p->dep_lag[i]));
        c->gate[g] = gate;
    }
}

/* One round: colours of lanes, links, gates and groups from the flows' colours, and from these the flows' next, in
 * `next`. The base colours are those of lanes and links by themselves. */
EXPORT void fold_refine(const int64_t *base_lane, const int64_t *base_link, const struct Colours *c,
                        const struct Program *p, int64_t *next) {
    const int64_t *flow = c->flow;
    memcpy(c->lane, base_lane, (size_t)c->lane_count * sizeof *c->lane);
    memcpy(c->link, base_link, (size_t)c->link_count * sizeof *c->link);
    memset(c->group, 0, (size_t)c->group_count * sizeof *c->group);
    for (int64_t f = 0; f < c->flow_count; f++) {
        c->lane[p->lane[f]] = sum(c->lane[p->lane[f]], flow[f]);
        if (p->group[f] >= 0) c->group[p->group[f]] = sum(c->group[p->group[f]], flow[f]);
    }
    colour_lanes(c, p);
    colour_gates(c, p);
    for (int64_t f = 0; f < c->flow_count; f++) { /* odd factors tell apart what a colour comes from */
        int64_t touched = p->before[f] >= 0 ? times(5, flow[p->before[f]]) : 0;
        if (p->after[f] >= 0) touched = sum(touched, times(7, flow[p->after[f]]));
        if (p->gate[f] >= 0) touched = sum(touched, times(9, c->gate[p->gate[f]]));
        if (p->group[f] >= 0) touched = sum(touched, times(11, c->group[p->group[f]]));
        next[f] = hash_pair(flow[f], sum(touched, c->lane[p->lane[f]]));
    }
}
