/* A placement of tables that grows and shrinks table by table. */
#include "placement.h"

/* The seconds of a step with this peak of each part. */
static double peak_seconds(const struct Ways *ways, const double *peak) {
    return peak[0] + peak[1] + peak[2] + max_double(peak[3] - ways->hidden, 0.0);
}

/* Raise the peaks of the parts to those of some GPUs. */
static void raise_peak(const double *loads, int64_t gpus, double *peak) {
    for (int64_t n = 0; n < gpus * PARTS; n++) peak[n % PARTS] = max_double(peak[n % PARTS], loads[n]);
}

/* The time that the tables add to a step. */
EXPORT double placed_seconds(const struct Ways *ways, const struct Placed *placed) {
    double peak[PARTS] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    raise_peak(placed->loads, ways->gpus, peak);
    return peak_seconds(ways, peak) + placed->shared[0];
}

/* The GPUs where a part of a table lets the step grow least, and of equals the least busy; -1 if it has no room. */
static int64_t find_position(const struct Ways *ways, const struct Placed *placed, int64_t way) {
    int64_t scope = ways->scope[way], count = ways->gpus / scope, tier = ways->tier[way], pool = ways->pool[tier];
    const double *load = ways->load + way * PARTS;
    double *seconds = placed->seconds, most = -INFINITY;
    double all[PARTS] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    placed->trials[0]++;
    raise_peak(placed->loads, ways->gpus, all);
    for (int64_t n = 0; n < count; n++) {
        double peak[PARTS] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, sum = 0.0;
        raise_peak(placed->loads + n * scope * PARTS, scope, peak);
        for (int64_t part = 0; part < PARTS; part++) {
            peak[part] += load[part];
            sum += peak[part];
            peak[part] = max_double(peak[part], all[part]);
        }
        seconds[n] = peak_seconds(ways, peak) + 1e-3 * sum;
        most = max_double(most, seconds[n]);
    }
    int64_t best = -1;
    double least = INFINITY;
    for (int64_t n = 0; n < count; n++) {
        double memory = placed->memory[n * scope];
        for (int64_t gpu = n * scope; gpu < (n + 1) * scope; gpu++) memory = max_double(memory, placed->memory[gpu]);
        if (memory + ways->memory[way] > ways->room) continue;
        if (pool > 0) {
            double held = placed->far[tier * ways->gpus + n * scope / pool];
            if (held + ways->far[way] * (double)min_int(scope, pool) > ways->capacity[tier]) continue;
        }
        double found = seconds[n] + 1e-4 * most * memory / max_double(ways->room, 1.0);
        if (found < least) {
            least = found;
            best = n;
        }
    }
    return best;
}

/* Add a part of a table to its GPUs, or take it off with a sign of -1. */
static void add_part(const struct Ways *ways, const struct Placed *placed, int64_t way, int64_t position, double sign) {
    int64_t scope = ways->scope[way], start = position * scope, tier = ways->tier[way], pool = ways->pool[tier];
    for (int64_t gpu = start; gpu < start + scope; gpu++) {
        for (int64_t part = 0; part < PARTS; part++) {
            placed->loads[gpu * PARTS + part] += sign * ways->load[way * PARTS + part];
        }
        placed->memory[gpu] += sign * ways->memory[way];
    }
    if (pool == 0) return;
    double more = sign * ways->far[way] * (double)min_int(scope, pool);
    int64_t end = max_int((start + scope) / pool, start / pool + 1);
    for (int64_t n = start / pool; n < end; n++) placed->far[tier * ways->gpus + n] += more;
}

/* Take a table off its GPUs. */
static void take_table(const struct Ways *ways, const struct Placed *placed, int64_t table) {
    int64_t way = placed->way[table], *position = placed->position + table * ways->most;
    for (int64_t n = 0; n < ways->blocks[way] && position[n] >= 0; n++) add_part(ways, placed, way, position[n], -1.0);
    placed->shared[0] -= ways->shared[way];
    placed->way[table] = -1;
}

/* Place a table where the step grows least; false, with nothing changed, if it has no room. */
EXPORT int64_t put_table(const struct Ways *ways, const struct Placed *placed, int64_t table, int64_t way) {
    int64_t *position = placed->position + table * ways->most;
    placed->way[table] = way;
    placed->shared[0] += ways->shared[way];
    for (int64_t n = 0; n < ways->blocks[way]; n++) {
        position[n] = find_position(ways, placed, way);
        if (position[n] < 0) {
            take_table(ways, placed, table);
            return 0;
        }
        add_part(ways, placed, way, position[n], 1.0);
    }
    return 1;
}

/* Keep where a table lies. */
static void keep(const struct Ways *ways, const struct Placed *placed, int64_t table, int64_t *kept) {
    kept[0] = placed->way[table];
    memcpy(kept + 1, placed->position + table * ways->most, (size_t)ways->most * sizeof *kept);
}

/* Place a table on the GPUs where it was kept. */
static void put_back(const struct Ways *ways, const struct Placed *placed, int64_t table, const int64_t *kept) {
    placed->way[table] = kept[0];
    memcpy(placed->position + table * ways->most, kept + 1, (size_t)ways->most * sizeof *kept);
    placed->shared[0] += ways->shared[kept[0]];
    for (int64_t n = 0; n < ways->blocks[kept[0]]; n++) add_part(ways, placed, kept[0], kept[n + 1], 1.0);
}

/* Whether taking a table, or a pair, off and putting it back in the best way and order gains; it stays so.
   Each goes back in any of its ways, or unless `is_free` in its own. */
EXPORT int64_t move_tables(
    const struct Ways *ways, const struct Placed *placed, const int64_t *moved, int64_t count, int64_t is_free
) {
    double best = placed_seconds(ways, placed) * (1 - 1e-9);
    int64_t size = ways->most + 1, *old = placed->kept, *better = placed->kept + 2 * size;
    int64_t first[2] = {0, 0}, number[2] = {1, 1}, winner = -1;
    for (int64_t n = 0; n < count; n++) {
        keep(ways, placed, moved[n], old + n * size);
        first[n] = is_free ? ways->first[moved[n]] : placed->way[moved[n]];
        number[n] = is_free ? ways->first[moved[n] + 1] - first[n] : 1;
        take_table(ways, placed, moved[n]);
    }
    for (int64_t trial = 0; trial < number[0] * number[1] * count; trial++) {
        int64_t pair = trial / count, start = trial % count, done = 0;
        int64_t way[2] = {first[0] + pair / number[1], first[1] + pair % number[1]};
        while (done < count && put_table(ways, placed, moved[start ^ done], way[start ^ done])) done++;
        double seconds = done == count ? placed_seconds(ways, placed) : INFINITY;
        if (seconds < best) {
            best = seconds;
            winner = start;
            for (int64_t n = 0; n < count; n++) keep(ways, placed, moved[n], better + n * size);
        }
        for (int64_t n = 0; n < done; n++) take_table(ways, placed, moved[start ^ n]);
    }
    for (int64_t n = 0; n < count; n++) {
        int64_t turn = winner > 0 ? n ^ 1 : n;
        put_back(ways, placed, moved[turn], (winner < 0 ? old : better) + turn * size);
    }
    return winner >= 0;
}
