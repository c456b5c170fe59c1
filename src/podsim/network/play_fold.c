/* Colour refinement: elements of one class are told apart by the classes of what they touch, until nothing splits.
 *
 * Elements are numbered in one row: flows, lanes, links, gates, groups. After the first round only elements that touch
 * one that changed its class are looked at again. When a class splits, those not looked at keep its number, or else its
 * largest part does, so a split far away costs little. */
#include "network/hash.h"
#include "network/play.h"

/* Classes of the elements of a program; podsim/network/play_fold.py says what they are for. */
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

/* where each kind of element starts in the row */
static int64_t lane_at(const struct Classes *c) { return c->flows; }
static int64_t link_at(const struct Classes *c) { return c->flows + c->lanes; }
static int64_t gate_at(const struct Classes *c) { return c->flows + c->lanes + c->links; }
static int64_t group_at(const struct Classes *c) { return c->flows + c->lanes + c->links + c->gates; }
static int64_t element_count(const struct Classes *c) { return group_at(c) + c->groups; }

/* What touching an element of a class adds to a sign, by how it is touched; sums, as the order means nothing. */
static uint64_t touch(int64_t way, int64_t element, const struct Classes *c) {
    return (uint64_t)hash_pair(c->member[element], way);
}

static uint64_t flow_sign(int64_t f, const struct Classes *c, const struct Program *p) {
    uint64_t sign = touch(1, lane_at(c) + p->lane[f], c);
    if (p->before[f] >= 0) sign += touch(2, p->before[f], c);
    if (p->after[f] >= 0) sign += touch(3, p->after[f], c);
    if (p->gate[f] >= 0) sign += touch(4, gate_at(c) + p->gate[f], c);
    if (p->group[f] >= 0) sign += touch(5, group_at(c) + p->group[f], c);
    return sign;
}

static uint64_t lane_sign(int64_t a, const struct Classes *c, const struct Program *p) {
    uint64_t sign = 0;
    for (int64_t i = c->lane_ptr[a]; i < c->lane_ptr[a + 1]; i++) sign += touch(1, c->lane_flow[i], c);
    for (int64_t i = p->start[a]; i < p->end[a]; i++)
        if (p->link[i] < c->links) sign += touch(2, link_at(c) + p->link[i], c);
    return sign;
}

/* All that an element touches, as one number. */
static uint64_t sign_of(int64_t element, const struct Classes *c, const struct Program *p) {
    uint64_t sign = 0;
    if (element < lane_at(c)) return flow_sign(element, c, p);
    if (element < link_at(c)) return lane_sign(element - lane_at(c), c, p);
    if (element < gate_at(c)) {
        int64_t x = element - link_at(c);
        for (int64_t i = c->link_ptr[x]; i < c->link_ptr[x + 1]; i++) sign += touch(1, lane_at(c) + c->link_lane[i], c);
    } else if (element < group_at(c)) {
        int64_t g = element - gate_at(c);
        for (int64_t i = p->dep_ptr[g]; i < p->dep_ptr[g + 1]; i++)
            sign += touch(p->dep_lag[i], group_at(c) + p->dep_group[i], c);
    } else {
        int64_t k = element - group_at(c);
        for (int64_t i = p->group_ptr[k]; i < p->group_ptr[k + 1]; i++) sign += touch(1, p->group_flow[i], c);
    }
    return sign;
}

/* List an element: at the end, for when all others are stable, if it is a single transfer; trains tell more of these
 * apart than the other way round. listed: the number at the beginning, and at the end. */
static void list_element(int64_t element, int64_t *listed, const struct Classes *c, const struct Program *p) {
    if (c->marked[element]) return;
    c->marked[element] = 1;
    int is_late = element < c->flows && p->repeat[element] == 1;
    c->listed[is_late ? element_count(c) - ++listed[1] : listed[0]++] = (int32_t)element;
}

/* List what touches a flow, a lane or a link. */
static void list_around_lane(int64_t element, int64_t *listed, const struct Classes *c, const struct Program *p) {
    if (element < lane_at(c)) {
        list_element(lane_at(c) + p->lane[element], listed, c, p);
        if (p->group[element] >= 0) list_element(group_at(c) + p->group[element], listed, c, p);
        if (p->before[element] >= 0) list_element(p->before[element], listed, c, p);
        if (p->after[element] >= 0) list_element(p->after[element], listed, c, p);
    } else if (element < link_at(c)) {
        int64_t a = element - lane_at(c);
        for (int64_t i = c->lane_ptr[a]; i < c->lane_ptr[a + 1]; i++) list_element(c->lane_flow[i], listed, c, p);
        for (int64_t i = p->start[a]; i < p->end[a]; i++)
            if (p->link[i] < c->links) list_element(link_at(c) + p->link[i], listed, c, p);
    } else {
        int64_t x = element - link_at(c);
        for (int64_t i = c->link_ptr[x]; i < c->link_ptr[x + 1]; i++)
            list_element(lane_at(c) + c->link_lane[i], listed, c, p);
    }
}

/* List what touches any element. */
static void list_around(int64_t element, int64_t *listed, const struct Classes *c, const struct Program *p) {
    if (element < gate_at(c)) {
        list_around_lane(element, listed, c, p);
    } else if (element < group_at(c)) {
        int64_t g = element - gate_at(c);
        for (int64_t i = p->gate_ptr[g]; i < p->gate_ptr[g + 1]; i++) list_element(p->gate_flow[i], listed, c, p);
    } else {
        int64_t k = element - group_at(c);
        for (int64_t i = p->group_ptr[k]; i < p->group_ptr[k + 1]; i++) list_element(p->group_flow[i], listed, c, p);
        for (int64_t i = p->wake_ptr[k]; i < p->wake_ptr[k + 1]; i++)
            list_element(gate_at(c) + p->wake_gate[i], listed, c, p);
    }
}

/* Group the listed elements by class and sign; how many groups there are. */
static int64_t group_listed(int64_t listed, const struct Classes *c) {
    int64_t size = 16, groups = 0;
    while (size < 2 * listed) size *= 2;
    memset(c->slots, 0xff, (size_t)size * sizeof *c->slots);
    for (int64_t i = 0; i < listed; i++) {
        int64_t element = c->listed[i], member = c->member[element], sign = c->sign[element];
        int64_t at = hash_pair(member, sign) & (size - 1);
        for (; c->slots[at] >= 0; at = (at + 1) & (size - 1)) {
            int64_t other = c->first[c->slots[at]];
            if (c->member[other] == member && c->sign[other] == sign) break;
        }
        if (c->slots[at] < 0) {
            c->slots[at] = (int32_t)groups;
            c->first[groups] = (int32_t)element;
            c->sums[groups++] = 0;
        }
        c->group[i] = c->slots[at];
        c->sums[c->group[i]] += 1;
        c->hits[member] += 1;
    }
    return groups;
}

/* Number the parts of classes that split: count[g] becomes the class of group g; the number of classes. */
static int64_t number_parts(int64_t groups, int64_t classes, const struct Classes *c) {
    for (int64_t g = 0; g < groups; g++) {
        int32_t member = c->member[c->first[g]], *largest = &c->largest[member];
        if (c->hits[member] < c->size[member]) continue; /* those not looked at keep the number */
        if (*largest < 0 || c->sums[g] > c->sums[*largest]) *largest = (int32_t)g;
    }
    for (int64_t g = 0; g < groups; g++) {
        int32_t member = c->member[c->first[g]];
        c->sums[g] = c->largest[member] == g ? member : (int32_t)classes++;
    }
    return classes;
}

/* Split the classes of the listed elements by their signs; how many elements changed their class, in `changed`. */
static int64_t split_listed(int64_t listed, int64_t *classes, const struct Classes *c, const struct Program *p) {
    int64_t changed = 0;
    for (int64_t i = 0; i < listed; i++) c->sign[c->listed[i]] = (int64_t)sign_of(c->listed[i], c, p);
    int64_t groups = group_listed(listed, c);
    *classes = number_parts(groups, *classes, c);
    for (int64_t i = 0; i < listed; i++) {
        c->hits[c->member[c->listed[i]]] = 0;
        c->largest[c->member[c->listed[i]]] = -1;
    }
    for (int64_t i = 0; i < listed; i++) {
        int32_t element = c->listed[i], member = c->sums[c->group[i]];
        c->marked[element] = 0;
        if (member == c->member[element]) continue;
        c->size[c->member[element]] -= 1;
        c->size[member] += 1;
        c->member[element] = member;
        c->changed[changed++] = element;
    }
    return changed;
}

/* The entries of each value, in order: pointer [values + 1], entries [count]; values outside are left out. */
static void list_by_value(const int64_t *value, int64_t count, int64_t values, int32_t *pointer, int32_t *entries) {
    memset(pointer, 0, (size_t)(values + 1) * sizeof *pointer);
    for (int64_t i = 0; i < count; i++)
        if (value[i] < values) pointer[value[i]] += 1;
    for (int64_t v = 0; v < values; v++) pointer[v + 1] += pointer[v];
    for (int64_t i = count - 1; i >= 0; i--)
        if (value[i] < values) entries[--pointer[value[i]]] = (int32_t)i;
}

/* Refine classes [0, classes) until they are stable; how many there are. `entry_lane`: the lane of each entry of
 * Program.link, [entries]. */
EXPORT int64_t fold_classes(const struct Classes *c, const struct Program *p, const int64_t *entry_lane,
                            int64_t entries, int64_t classes) {
    int64_t count = element_count(c), listed[2] = {0, 0};
    list_by_value(p->lane, c->flows, c->lanes, c->lane_ptr, c->lane_flow);
    list_by_value(p->link, entries, c->links, c->link_ptr, c->link_lane);
    for (int64_t i = 0; i < c->link_ptr[c->links]; i++) c->link_lane[i] = (int32_t)entry_lane[c->link_lane[i]];
    for (int64_t v = 0; v < count; v++) c->largest[v] = -1;
    for (int64_t v = 0; v < count; v++) c->size[c->member[v]] += 1;
    for (int64_t v = 0; v < count; v++) list_element(v, listed, c, p);
    while (listed[0] + listed[1] > 0) {
        if (listed[0] == 0) {
            memmove(c->listed, c->listed + count - listed[1], (size_t)listed[1] * sizeof *c->listed);
            listed[0] = listed[1];
            listed[1] = 0;
        }
        int64_t changed = split_listed(listed[0], &classes, c, p);
        listed[0] = 0;
        for (int64_t i = 0; i < changed; i++) list_around(c->changed[i], listed, c, p);
    }
    return classes;
}
