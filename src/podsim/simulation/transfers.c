/* Transfers on links: max-min shares, solved again only for those connected by links that may be full. */
#include "network/flow.h"
#include "simulation/events.h"

static int is_tight(int64_t link, const struct Program *p, const struct State *st) {
    return st->demand[link] > p->capacity[link] * TIGHT;
}

/* Remember a link that a transfer joins or leaves, and whether it was full before. */
static void mark_link(int64_t link, const struct Program *p, struct State *st) {
    if (st->marked[link]) return;
    st->marked[link] = 1;
    st->was_tight[link] = (uint8_t)is_tight(link, p, st);
    st->dirty[st->number[DIRTY]++] = link;
}

/* Put the transfer of a stream on its links. */
void enter_links(int64_t s, int64_t kind, const struct Program *p, struct State *st) {
    int64_t at = st->starts[s];
    st->flowing[s] = (int32_t)kind;
    st->lane[at] = p->links + s;
    st->lane_use[at] = 1.0;
    st->capacity[p->links + s] = p->peak[kind];
    for (int64_t i = p->link_ptr[kind]; i < p->link_ptr[kind + 1]; i++) {
        int64_t link = p->link[i];
        at += 1;
        mark_link(link, p, st);
        st->lane[at] = link;
        st->lane_use[at] = p->use[i];
        st->following[at] = st->head[link];
        st->previous[at] = -1;
        if (st->head[link] >= 0) st->previous[st->head[link]] = at;
        st->head[link] = at;
        st->demand[link] += p->use[i] * p->peak[kind];
    }
    st->ends[s] = at + 1;
    st->fresh[st->number[FRESH]++] = s;
}

/* Take the transfer of a stream off its links. */
void leave_links(int64_t s, const struct Program *p, struct State *st) {
    double peak = p->peak[st->flowing[s]];
    st->flowing[s] = -1;
    for (int64_t at = st->starts[s] + 1; at < st->ends[s]; at++) {
        int64_t link = st->lane[at], before = st->previous[at], behind = st->following[at];
        mark_link(link, p, st);
        if (before >= 0)
            st->following[before] = behind;
        else
            st->head[link] = behind;
        if (behind >= 0) st->previous[behind] = before;
        st->demand[link] = st->head[link] >= 0 ? st->demand[link] - st->lane_use[at] * peak : 0.0;
    }
}

/* The transfers that share with that of a stream over links that may be full, as members; how many. */
static int64_t find_members(int64_t s, const struct Program *p, struct State *st) {
    int64_t stamp = st->number[STAMP], count = 1;
    st->members[0] = s;
    st->seen[s] = stamp;
    for (int64_t done = 0; done < count; done++) {
        int64_t other = st->members[done];
        for (int64_t at = st->starts[other] + 1; at < st->ends[other]; at++) {
            int64_t link = st->lane[at];
            if (st->seen_link[link] == stamp || !is_tight(link, p, st)) continue;
            st->seen_link[link] = stamp;
            for (int64_t entry = st->head[link]; entry >= 0; entry = st->following[entry]) {
                int64_t member = entry / p->room;
                if (st->seen[member] == stamp) continue;
                st->seen[member] = stamp;
                st->members[count++] = member;
            }
        }
    }
    return count;
}

/* The rate of the members: by max-min sharing, or of one alone by its links. */
static void solve(int64_t count, const struct Program *p, struct State *st) {
    if (count > 1) {
        memcpy(st->todo, st->members, (size_t)count * sizeof *st->todo);
        struct Flows flows = {st->starts, st->ends, st->lane, st->lane_use, st->ones, st->capacity};
        struct Scratch scratch = {st->left_over, st->load, st->users, st->busy};
        flow_fill(st->todo, count, &flows, st->flow_rate, &scratch);
        st->number[SOLVED] += 1;
        return;
    }
    int64_t s = st->members[0];
    double rate = p->peak[st->flowing[s]];
    for (int64_t at = st->starts[s] + 1; at < st->ends[s]; at++)
        rate = min_double(rate, p->capacity[st->lane[at]] / st->lane_use[at]);
    st->flow_rate[s] = rate;
}

/* New rates for the transfer of a stream and all that share with it. */
static void share(int64_t s, double now, const struct Program *p, struct State *st) {
    if (st->seen[s] == st->number[STAMP] || st->flowing[s] < 0) return;
    int64_t count = find_members(s, p, st);
    solve(count, p, st);
    for (int64_t i = 0; i < count; i++) {
        int64_t member = st->members[i];
        double rate = st->flow_rate[member] / p->peak[st->flowing[member]];
        if (rate == st->rate[member]) continue;
        st->left[member] = max_double(0.0, st->left[member] - (now - st->since[member]) * st->rate[member]);
        st->since[member] = now;
        st->rate[member] = rate;
        put_stream(member, now + st->left[member] / rate, st);
    }
}

/* After all events of one time: new shares wherever a transfer joined or left. */
void settle_links(double now, const struct Program *p, struct State *st) {
    if (st->number[DIRTY] == 0 && st->number[FRESH] == 0) return;
    st->number[STAMP] += 1;
    for (int64_t i = 0; i < st->number[DIRTY]; i++) {
        int64_t link = st->dirty[i];
        st->marked[link] = 0;
        if (!st->was_tight[link] && !is_tight(link, p, st)) continue;
        for (int64_t entry = st->head[link]; entry >= 0; entry = st->following[entry])
            share(entry / p->room, now, p, st);
    }
    for (int64_t i = 0; i < st->number[FRESH]; i++) share(st->fresh[i], now, p, st);
    st->number[DIRTY] = 0;
    st->number[FRESH] = 0;
}
