/* The memory of a replica: paged blocks, prefixes that requests share, slots of adapters. */
#include "server_state.h"

static struct Unit *units_of(const Server *s, int64_t r) { return s->state->unit + r * s->pool->units; }

static int64_t unit_blocks(const Server *s, int64_t r) {
    return ceil_div(s->pool->unit_tokens, kind_of(s, r)->block_tokens);
}

/* Blocks of a sequence of so many tokens that it does not share. */
int64_t blocks_needed(const Server *s, int64_t r, int64_t q, int64_t tokens) {
    const struct Kind *kind = kind_of(s, r);
    int64_t shared = s->state->request[q].shared;
    int64_t rest = tokens - shared * s->pool->unit_tokens;
    return kind->state_blocks + (rest > 0 ? ceil_div(rest, kind->block_tokens) : 0);
}

/* Blocks that are free, or hold prefixes that nobody uses now. */
int64_t available_blocks(const Server *s, int64_t r) {
    const struct Replica *replica = &s->state->replica[r];
    return replica->free + (replica->idle > 0 ? replica->idle * unit_blocks(s, r) : 0);
}

static int64_t request_units(const Server *s, int64_t q) {
    if (s->pool->units == 0) return 0;
    const struct Requests *requests = s->requests;
    int64_t listed = requests->prefix_first[q + 1] - requests->prefix_first[q];
    return min_int(listed, (requests->input[q] - 1) / s->pool->unit_tokens);
}

/* Leading units of a prompt that a replica holds. */
int64_t cached_units(const Server *s, int64_t r, int64_t q) {
    if (s->pool->units == 0 || !kind_of(s, r)->caching) return 0;
    const int64_t *ids = s->requests->prefix + s->requests->prefix_first[q];
    int64_t most = request_units(s, q), count = 0;
    while (count < most && units_of(s, r)[ids[count]].users >= 0) count++;
    return count;
}

static void unlink_unit(const Server *s, int64_t r, int64_t u) {
    struct Unit *units = units_of(s, r), *unit = &units[u];
    struct Replica *replica = &s->state->replica[r];
    if (unit->older >= 0) units[unit->older].newer = unit->newer;
    else replica->oldest = unit->newer;
    if (unit->newer >= 0) units[unit->newer].older = unit->older;
    else replica->newest = unit->older;
    replica->idle--;
}

static void pin_unit(const Server *s, int64_t r, int64_t u) {
    struct Unit *unit = &units_of(s, r)[u];
    if (unit->users == 0) unlink_unit(s, r, u);
    unit->users++;
}

static void unpin_unit(const Server *s, int64_t r, int64_t u) {
    struct Unit *units = units_of(s, r), *unit = &units[u];
    struct Replica *replica = &s->state->replica[r];
    if (--unit->users > 0) return;
    unit->older = (int32_t)replica->newest;
    unit->newer = -1;
    if (replica->newest >= 0) units[replica->newest].newer = (int32_t)u;
    else replica->oldest = u;
    replica->newest = u;
    replica->idle++;
}

/* Take blocks, evicting prefixes that were not used for longest. False, and nothing taken, if there are too few. */
static bool take_blocks(const Server *s, int64_t r, int64_t count) {
    struct Replica *replica = &s->state->replica[r];
    if (count > available_blocks(s, r)) return false;
    while (replica->free < count) {
        int64_t u = replica->oldest;
        unlink_unit(s, r, u);
        units_of(s, r)[u].users = -1;
        replica->free += unit_blocks(s, r);
    }
    replica->free -= count;
    return true;
}

static void set_room(const Server *s, int64_t r, int64_t q) {
    struct Request *request = &s->state->request[q];
    int64_t paged = request->own - kind_of(s, r)->state_blocks;
    request->room = request->shared * s->pool->unit_tokens + paged * kind_of(s, r)->block_tokens;
}

/* Give a request the first blocks, for `tokens`, with `hits` units of its prompt that the replica holds already. */
bool admit_blocks(const Server *s, int64_t r, int64_t q, int64_t hits, int64_t tokens) {
    struct Request *request = &s->state->request[q];
    struct Replica *replica = &s->state->replica[r];
    const struct Kind *kind = kind_of(s, r);
    const int64_t *ids = hits ? s->requests->prefix + s->requests->prefix_first[q] : NULL;
    int64_t idle = 0;
    for (int64_t k = 0; k < hits; k++) idle += units_of(s, r)[ids[k]].users == 0;
    request->shared = hits;
    int64_t now = blocks_needed(s, r, q, tokens), later = now;
    if (kind->reserve > 0.0) {
        int64_t goal = s->requests->input[q] + (int64_t)ceil(kind->reserve * (double)s->requests->output[q]);
        later = max_int(now, blocks_needed(s, r, q, max_int(goal, tokens)));
    }
    if (later > available_blocks(s, r) - (idle ? idle * unit_blocks(s, r) : 0) - replica->reserved) {
        request->shared = 0;
        return false;
    }
    for (int64_t k = 0; k < hits; k++) pin_unit(s, r, ids[k]);
    take_blocks(s, r, now);
    request->own = now;
    request->reserved = later - now;
    replica->reserved += later - now;
    set_room(s, r, q);
    return true;
}

/* Give a running request blocks for `tokens` in all. False if there are too few. */
bool grow_blocks(const Server *s, int64_t r, int64_t q, int64_t tokens) {
    struct Request *request = &s->state->request[q];
    if (tokens <= request->room) return true;
    int64_t more = blocks_needed(s, r, q, tokens) - request->own;
    int64_t mine = min_int(more, request->reserved);
    if (more > mine && more - mine > available_blocks(s, r) - s->state->replica[r].reserved) return false;
    if (!take_blocks(s, r, more)) return false;
    request->reserved -= mine;
    s->state->replica[r].reserved -= mine;
    request->own += more;
    set_room(s, r, q);
    return true;
}

/* Keep the units of a computed prompt for others; a unit that another request computed meanwhile is shared. */
void keep_prefix(const Server *s, int64_t r, int64_t q) {
    if (s->pool->units == 0 || !kind_of(s, r)->caching) return;
    struct Request *request = &s->state->request[q];
    const int64_t *ids = s->requests->prefix + s->requests->prefix_first[q];
    int64_t each = unit_blocks(s, r), paged = request->own - kind_of(s, r)->state_blocks;
    for (int64_t most = request_units(s, q); request->shared < most && paged >= each; paged -= each) {
        int64_t u = ids[request->shared];
        struct Unit *unit = &units_of(s, r)[u];
        if (unit->users < 0) {
            unit->users = 1;
        } else {
            pin_unit(s, r, u);
            s->state->replica[r].free += each;
        }
        request->own -= each;
        request->shared++;
    }
    set_room(s, r, q);
}

/* Give blocks back; the end of a shared prefix is evicted before its beginning. */
void release_blocks(const Server *s, int64_t r, int64_t q, int64_t own, int64_t shared) {
    s->state->replica[r].free += own;
    if (shared == 0) return;
    const int64_t *ids = s->requests->prefix + s->requests->prefix_first[q];
    for (int64_t k = shared - 1; k >= 0; k--) unpin_unit(s, r, ids[k]);
}

/* Give back the blocks that a request holds on its replica. */
void release_request(const Server *s, int64_t r, int64_t q) {
    struct Request *request = &s->state->request[q];
    release_blocks(s, r, q, request->own, request->shared);
    s->state->replica[r].reserved -= request->reserved;
    request->own = request->shared = request->reserved = request->room = 0;
}

/* Hold the slot of an adapter, and add the seconds of loading it. False if other adapters use all slots. */
bool hold_adapter(const Server *s, int64_t r, int64_t adapter, double *seconds) {
    const struct Kind *kind = kind_of(s, r);
    if (adapter < 0 || kind->adapters == 0) return true;
    struct Adapter *slots = s->state->adapter + r * s->pool->adapter_slots, *best = NULL;
    for (int64_t k = 0; k < kind->adapters; k++) {
        if (slots[k].number == adapter) {
            slots[k].users++;
            slots[k].used = ++s->state->number[USES];
            return true;
        }
        if (slots[k].users == 0 && (best == NULL || slots[k].used < best->used)) best = &slots[k];
    }
    if (best == NULL) return false;
    best->number = adapter;
    best->users = 1;
    best->used = ++s->state->number[USES];
    *seconds += kind->adapter_seconds;
    return true;
}

/* The number of waiting requests of an adapter, -1 for those without one. */
int32_t *asked_of(const Server *s, int64_t r, int64_t adapter) {
    return s->state->asked + r * (s->pool->adapters + 1) + adapter + 1;
}

/* Whether a request waits that needs no adapter, or one in a slot; all slots are in use. */
bool is_asked(const Server *s, int64_t r) {
    const struct Adapter *slots = s->state->adapter + r * s->pool->adapter_slots;
    bool is_any = *asked_of(s, r, -1) > 0;
    for (int64_t k = 0; k < kind_of(s, r)->adapters; k++) is_any = is_any || *asked_of(s, r, slots[k].number) > 0;
    return is_any;
}

/* One request fewer uses an adapter; it stays until another needs its slot. */
void leave_adapter(const Server *s, int64_t r, int64_t adapter) {
    struct Adapter *slots = s->state->adapter + r * s->pool->adapter_slots;
    for (int64_t k = 0; adapter >= 0 && k < kind_of(s, r)->adapters; k++) {
        if (slots[k].number == adapter) slots[k].users--;
    }
}
