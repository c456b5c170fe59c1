/* Who shares links with whom, and at what rates; what sets of active lanes got is remembered, so that the same set is
 * never solved twice. */
#include "network/flow.h"
#include "network/play.h"

/* Remember a link that a flow joins or leaves, and what its flows could use before. */
static void mark_dirty(int64_t on, struct State *s) {
    struct Link *link = &s->links[on];
    if (link->dirty) return;
    link->dirty = 1;
    link->was = link->demand;
    s->dirty[s->number[DIRTY]++] = (int32_t)on;
}

/* Count a flow in (step 1) or out (step -1) of the links that it crosses. */
static void count_users(const struct Lane *lane, double now, int32_t step, const struct Program *p, struct State *s) {
    for (int64_t i = lane->first; i < lane->end; i++) {
        struct Link *link = &s->links[p->link[i]];
        int32_t users = link->users;
        link->users = users + step;
        if (users == 0)
            link->since = now;
        else if (users + step == 0)
            link->busy += now - link->since;
    }
}

/* Put a flow on a link that may limit it (step 1), or take it off (step -1). */
static void join_link(int64_t f, int64_t slot, int64_t on, double demand, int32_t step, struct State *s) {
    struct Link *link = &s->links[on];
    struct OnLink *here = &s->on_link[link->room];
    int32_t count = link->flows;
    mark_dirty(on, s);
    if (step > 0) {
        here[count].flow = (int32_t)f;
        here[count].slot = (int32_t)slot;
        s->slots[slot] = count;
        link->demand += demand;
    } else {
        here[s->slots[slot]] = here[count - 1];
        s->slots[here[count - 1].slot] = s->slots[slot];
        link->demand = count > 1 ? link->demand - demand : 0.0;
    }
    link->flows = count + step;
}

/* Put a flow on its links (step 1) or take it off (step -1). */
void occupy_links(int64_t f, double now, int32_t step, const struct Program *p, struct State *s) {
    struct Lane *lane = &s->lanes[s->flows[f].lane];
    if (step > 0)
        lane->began = now;
    else
        lane->busy += now - lane->began;
    if (lane->first == lane->end) return;
    count_users(lane, now, step, p, s);
    const struct Course *course = &s->courses[f];
    for (int64_t i = lane->first; i < lane->middle; i++)
        join_link(f, course->slots + i - lane->first, p->link[i], p->use[i] * course->limit, step, s);
}

/* Where a set of active lanes is remembered, or would be. */
static int64_t memo_slot(int64_t sign, const struct State *s) {
    int64_t mask = s->memo_size - 1, at = (sign ^ (sign >> 32)) & mask;
    while (s->memo[at].at > 0 && s->memo[at].sign != sign) at = (at + 1) & mask;
    return at;
}

/* Keep the rates of the members; when memory is full, forget all others. */
static void remember(int64_t count, int64_t sign, struct State *s) {
    int64_t *number = s->number;
    if (number[STORED] + count > s->memo_room || 2 * number[MEMO] >= s->memo_size) {
        number[STORED] = 1; /* position 0 is never used: it marks an empty slot */
        number[MEMO] = 0;
        memset(s->memo, 0, (size_t)s->memo_size * sizeof *s->memo);
    }
    if (count >= s->memo_room) return;
    struct MemoSlot *slot = &s->memo[memo_slot(sign, s)];
    slot->sign = sign;
    slot->at = (int32_t)number[STORED];
    slot->lanes = (int32_t)count;
    for (int64_t i = 0; i < count; i++) {
        int64_t lane = s->flows[s->members[i]].lane;
        s->memo_rates[slot->at + i].lane = lane;
        s->memo_rates[slot->at + i].rate = s->lane_rate[lane];
    }
    number[STORED] += count;
    number[MEMO] += 1;
}

/* Set lane_rate for the members, whose lanes' keys add up to `sign`. */
static void solve(int64_t count, int64_t sign, const struct Program *p, struct State *s) {
    const struct MemoSlot *slot = &s->memo[memo_slot(sign, s)];
    if (slot->at > 0) {
        for (int64_t i = slot->at; i < slot->at + slot->lanes; i++)
            s->lane_rate[s->memo_rates[i].lane] = s->memo_rates[i].rate;
        return;
    }
    for (int64_t i = 0; i < count; i++) s->todo[i] = s->flows[s->members[i]].lane;
    struct Flows flows = {p->start, p->middle, p->link, p->use, p->ones, p->capacity};
    struct Scratch scratch = {s->left, s->load, s->users, s->full};
    flow_fill(s->todo, count, &flows, s->lane_rate, &scratch);
    s->number[SOLVED] += 1;
    remember(count, sign, s);
}

/* The flows connected to a flow by links that may be full now, as members: their number; the sum of their lanes' keys.
 */
static int64_t find_members(int64_t f, int64_t *sign, const struct Program *p, struct State *s) {
    int32_t stamp = (int32_t)s->number[STAMP];
    int64_t count = 1;
    s->members[0] = (int32_t)f;
    s->courses[f].seen = stamp;
    for (int64_t done = 0; done < count; done++) {
        const struct Lane *lane = &s->lanes[s->flows[s->members[done]].lane];
        *sign = (int64_t)((uint64_t)*sign + (uint64_t)lane->key);
        for (int64_t i = lane->first; i < lane->middle; i++) {
            struct Link *link = &s->links[p->link[i]];
            if (link->seen == stamp || link->demand <= link->capacity * TIGHT) continue;
            link->seen = stamp;
            for (int64_t j = link->room; j < link->room + link->flows; j++) {
                int32_t other = s->on_link[j].flow;
                if (s->courses[other].seen == stamp) continue;
                s->courses[other].seen = stamp;
                s->members[count++] = other;
            }
        }
    }
    return count;
}

/* Go on at another rate. */
static void change_rate(int64_t f, double rate, double now, struct State *s) {
    struct Flow *flow = &s->flows[f];
    struct Course *course = &s->courses[f];
    course->left = max_double(0.0, course->left - flow->rate * (now - course->since));
    course->since = now;
    flow->rate = rate;
    unschedule(f, s);
    schedule(f, course->left, now, s);
}

/* Set new rates for a flow and all flows that share links with it. */
static void share(int64_t f, double now, const struct Program *p, struct State *s) {
    struct Flow *flows = s->flows;
    if (s->courses[f].seen == (int32_t)s->number[STAMP]) return;
    int64_t sign = 0, count = find_members(f, &sign, p, s);
    if (count == 1)
        s->lane_rate[flows[f].lane] = s->courses[f].limit;
    else
        solve(count, sign, p, s);
    for (int64_t i = 0; i < count; i++) {
        int64_t member = s->members[i];
        double rate = s->lane_rate[flows[member].lane];
        if (flows[member].bucket < 0)
            flows[member].rate = rate;
        else if (fabs(rate - flows[member].rate) > SAME * rate)
            change_rate(member, rate, now, s);
    }
}

/* Set new rates for all flows that may share a link with one that started or ended in this batch. */
void share_links(double now, int64_t touched, const struct Program *p, struct State *s) {
    s->number[STAMP] += 1;
    for (int64_t d = 0; d < s->number[DIRTY]; d++) {
        struct Link *link = &s->links[s->dirty[d]];
        link->dirty = 0;
        if (max_double(link->demand, link->was) > link->capacity * TIGHT)
            for (int64_t j = link->room; j < link->room + link->flows; j++) share(s->on_link[j].flow, now, p, s);
    }
    for (int64_t i = 0; i < touched; i++) {
        int64_t f = s->touched[i];
        if (s->flows[f].mode == NEW && !s->flows[f].lone) share(f, now, p, s);
    }
    s->number[DIRTY] = 0;
}
