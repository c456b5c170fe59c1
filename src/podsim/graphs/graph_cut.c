/* Moves of single ops between devices (Fiduccia and Mattheyses), and the best consecutive runs. */
#include "graphs/graph_cut.h"

static const int PASSES = 12;

/* Fill in the loads and counts of a division. */
static void count_cut(const struct Cut *cut, const struct Nets *nets) {
    memset(cut->counts, 0, (size_t)(nets->nets * cut->devices) * sizeof *cut->counts);
    memset(cut->load, 0, (size_t)cut->devices * sizeof *cut->load);
    for (int64_t op = 0; op < cut->ops; op++) cut->load[cut->part[op]] += cut->work[op];
    for (int64_t j = 0; j < nets->nets; j++)
        for (int64_t i = nets->first[j]; i < nets->first[j + 1]; i++)
            cut->counts[j * cut->devices + cut->part[nets->members[i]]] += 1;
}

static int64_t fullest_device(const struct Cut *cut) {
    int64_t full = 0;
    for (int64_t p = 1; p < cut->devices; p++)
        if (cut->load[p] > cut->load[full]) full = p;
    return full;
}

/* B saved by moving an op. */
static double gain_bytes(int64_t op, int64_t to, const struct Cut *cut, const struct Nets *nets) {
    double gain = 0.0;
    for (int64_t i = nets->begin[op]; i < nets->begin[op + 1]; i++) {
        int64_t j = nets->at[i];
        const int64_t *counts = &cut->counts[j * cut->devices];
        if (counts[cut->part[op]] == 1) gain += nets->size[j];
        if (counts[to] == 0) gain -= nets->size[j];
    }
    return gain;
}

/* Move an op to another device. */
static void move_op(int64_t op, int64_t to, const struct Cut *cut, const struct Nets *nets) {
    int64_t here = cut->part[op];
    for (int64_t i = nets->begin[op]; i < nets->begin[op + 1]; i++) {
        int64_t *counts = &cut->counts[nets->at[i] * cut->devices];
        counts[here] -= 1;
        counts[to] += 1;
    }
    cut->load[here] -= cut->work[op];
    cut->load[to] += cut->work[op];
    cut->part[op] = to;
}

/* States of an op in a pass: its best move must be looked for again, is known, has been made. */
enum { UNKNOWN, KNOWN, MOVED };

/* Keep the best move of an op in `gains` and `targets`; -1 where no device has room. */
static void find_move(int64_t op, double slack, const struct Cut *cut, const struct Nets *nets) {
    cut->gains[op] = -INFINITY;
    cut->targets[op] = -1;
    cut->locked[op] = KNOWN;
    for (int64_t p = 0; p < cut->devices; p++) {
        if (p == cut->part[op] || cut->load[p] + cut->work[op] > slack) continue;
        double gain = gain_bytes(op, p, cut, nets);
        if (gain > cut->gains[op]) {
            cut->gains[op] = gain;
            cut->targets[op] = p;
        }
    }
}

/* The op whose move saves most, -1 if none may move. */
static int64_t choose_op(double slack, const struct Cut *cut, const struct Nets *nets) {
    int64_t chosen = -1;
    double most = -INFINITY;
    for (int64_t op = 0; op < cut->ops; op++) {
        if (cut->locked[op] == MOVED) continue;
        if (cut->locked[op] == UNKNOWN) find_move(op, slack, cut, nets);
        int64_t to = cut->targets[op];
        if (to < 0 || cut->load[to] + cut->work[op] > slack || cut->gains[op] <= most) continue;
        chosen = op;
        most = cut->gains[op];
    }
    return chosen;
}

/* The best moves of ops that share a net with a moved one must be looked for again. */
static void unlock_neighbours(int64_t op, const struct Cut *cut, const struct Nets *nets) {
    for (int64_t i = nets->begin[op]; i < nets->begin[op + 1]; i++)
        for (int64_t k = nets->first[nets->at[i]]; k < nets->first[nets->at[i] + 1]; k++)
            if (cut->locked[nets->members[k]] == KNOWN) cut->locked[nets->members[k]] = UNKNOWN;
    cut->locked[op] = MOVED;
}

/* Move each op at most once, the best first, then return to the best state. The B that it sends.
 * A device may exceed the limit by one op meanwhile, since two ops can swap only one after the other. */
static double run_pass(double limit, double cost, const struct Cut *cut, const struct Nets *nets) {
    double largest = 0.0, best_cost = cost;
    int64_t moves = 0, best_moves = 0;
    for (int64_t op = 0; op < cut->ops; op++) largest = max_double(largest, cut->work[op]);
    memset(cut->locked, 0, (size_t)cut->ops * sizeof *cut->locked);
    while (moves < cut->ops && moves - best_moves < 60 + cut->ops / 8) {
        int64_t op = choose_op(limit + largest, cut, nets);
        if (op < 0) break;
        cut->moved_op[moves] = op;
        cut->moved_from[moves] = cut->part[op];
        move_op(op, cut->targets[op], cut, nets);
        cost -= cut->gains[op];
        moves += 1;
        unlock_neighbours(op, cut, nets);
        if (cost < best_cost * (1 - 1e-12) && cut->load[fullest_device(cut)] <= limit) {
            best_cost = cost;
            best_moves = moves;
        }
    }
    while (moves-- > best_moves) move_op(cut->moved_op[moves], cut->moved_from[moves], cut, nets);
    return best_cost;
}

/* Improve a division in place by passes of moves. The B that it sends then. */
EXPORT double refine_cut(double limit, const struct Cut *cut, const struct Nets *nets) {
    double cost = 0.0;
    count_cut(cut, nets);
    for (int64_t j = 0; j < nets->nets; j++) {
        int64_t devices = 0;
        for (int64_t p = 0; p < cut->devices; p++) devices += cut->counts[j * cut->devices + p] != 0;
        cost += nets->size[j] * (double)(devices - 1);
    }
    for (int pass = 0; pass < PASSES; pass++) {
        double before = cost;
        cost = run_pass(limit, cost, cut, nets);
        if (!(cost < before * (1 - 1e-12))) break;
    }
    return cost;
}

/* Move ops off the fullest device until none exceeds the limit, or no move helps. The limit that holds then. */
EXPORT double balance_cut(double limit, const struct Cut *cut, const struct Nets *nets) {
    count_cut(cut, nets);
    for (;;) {
        int64_t full = fullest_device(cut), best_op = -1, best_to = -1;
        double most = cut->load[full], best = -INFINITY;
        for (int64_t op = 0; most > limit && op < cut->ops; op++) {
            double work = cut->work[op];
            if (cut->part[op] != full || work <= 0) continue;
            for (int64_t p = 0; p < cut->devices; p++) {
                if (p == full || cut->load[p] + work > max_double(limit, most - work)) continue;
                double gain = gain_bytes(op, p, cut, nets);
                if (gain <= best) continue;
                best_op = op;
                best_to = p;
                best = gain;
            }
        }
        if (best_op < 0) return max_double(limit, most * (1 + 1e-9));
        move_op(best_op, best_to, cut, nets);
    }
}

/* B over a border before op j, none at the ends. */
static double border_bytes(const double *crossing, int64_t j, int64_t ops) {
    return 0 < j && j < ops ? crossing[j] : 0.0;
}

/* The consecutive runs with the fewest bytes over their borders, within the limit, written to `part`; some may be empty.
 * total: the work before each op, [ops + 1]. cost: infinite but for its first cell, 0, [devices + 1, ops + 1]. border: the
 * same shape; queue: [ops + 1]. */
EXPORT void consecutive_runs(const double *total, const double *crossing, int64_t ops, int64_t devices, double limit,
                             double *cost, int64_t *border, int64_t *queue, int64_t *part) {
    int64_t wide = ops + 1;
    for (int64_t p = 1; p <= devices; p++) {
        const double *before = &cost[(p - 1) * wide];
        int64_t head = 0, tail = 0;
        for (int64_t j = 0; j <= ops; j++) {
            double value = before[j] + border_bytes(crossing, j, ops);
            while (tail > head && before[queue[tail - 1]] + border_bytes(crossing, queue[tail - 1], ops) >= value) tail--;
            queue[tail++] = j;
            while (total[j] - total[queue[head]] > limit) head++;
            int64_t i = queue[head];
            cost[p * wide + j] = before[i] + (i < j ? border_bytes(crossing, i, ops) : 0.0);
            border[p * wide + j] = i;
        }
    }
    int64_t end = ops;
    for (int64_t p = devices; p > 0; p--) {
        int64_t start = border[p * wide + end];
        for (int64_t i = start; i < end; i++) part[i] = p - 1;
        end = start;
    }
}
