"""The placement of jobs: how to choose nodes (for all GPUs of a job at once), take GPUs and give them back."""

from __future__ import annotations

from podsim.fleet.queue_state import BEST_FIT, FREE, PIECE, SPREAD, Ints, Plant, State
from podsim.jit import kernel, part


@part
def choose_nodes(plant: Plant, state: State, free: Ints, gpus: int) -> int:
    """Choose nodes for a job among `free` GPUs, into picked and taken. The number of nodes; 0 if the job does not fit.

    SPREAD takes GPUs anywhere, on as few nodes as possible. The other rules keep a job that fits a node on one node. A
    larger job gets full nodes (and a part of a node for the rest): the first ones, or the best by leaf.
    """
    if plant.rule == SPREAD:
        return _spread_gpus(plant, state, free, gpus)
    if gpus <= plant.size:
        node = _choose_node(plant, free, gpus, plant.rule == BEST_FIT, -1)
        if node < 0:
            return 0
        state.picked[0], state.taken[0] = node, gpus
        return 1
    return _choose_full_nodes(plant, state, free, gpus)


@part
def has_room(plant: Plant, free: Ints, gpus: int) -> bool:
    """Whether a job fits the `free` GPUs."""
    if plant.rule == SPREAD:
        total = 0
        for node in range(len(free)):
            total += max(free[node], 0)
        return total >= gpus
    full, rest, parts = gpus // plant.size, gpus % plant.size, 0
    for node in range(len(free)):
        if free[node] == plant.size:
            full -= 1
        elif free[node] >= rest:
            parts += 1
    if rest == 0:
        return full <= 0
    return full <= 0 and (parts > 0 or full < 0)


@part
def _choose_node(plant: Plant, free: Ints, gpus: int, best: bool, leaf: int) -> int:
    """The first node with enough GPUs, or with `best` the fullest (on `leaf` among equals); -1 for none."""
    chosen = -1
    for node in range(len(free)):
        if free[node] >= gpus:
            if not best:
                return node
            near = plant.leaf[node] == leaf and chosen >= 0 and plant.leaf[chosen] != leaf
            if chosen < 0 or free[node] < free[chosen] or (free[node] == free[chosen] and near):
                chosen = node
    return chosen


@part
def _choose_full_nodes(plant: Plant, state: State, free: Ints, gpus: int) -> int:
    """Choose idle nodes and a part of a node: under one leaf if it has enough of them, else under few leaves."""
    full, rest = gpus // plant.size, gpus % plant.size
    for leaf in range(len(state.leaf_idle)):
        state.leaf_idle[leaf] = 0
    idle = 0
    for node in range(len(free)):
        if free[node] == plant.size:
            state.leaf_idle[plant.leaf[node]] += 1
            idle += 1
    if idle < full:
        return 0
    count = 0
    while count < full:
        leaf = _next_leaf(state, full - count) if plant.rule == BEST_FIT else -1
        for node in range(len(free)):
            if count < full and free[node] == plant.size and (leaf < 0 or plant.leaf[node] == leaf):
                state.picked[count], state.taken[count] = node, plant.size
                free[node] = 0
                count += 1
        if leaf >= 0:
            state.leaf_idle[leaf] = 0
    node = -2
    if rest:
        last = plant.leaf[state.picked[count - 1]]
        node = _choose_node(plant, free, rest, plant.rule == BEST_FIT, last)
    for position in range(count):
        free[state.picked[position]] = plant.size
    if node == -1:
        return 0
    if node >= 0:
        state.picked[count], state.taken[count] = node, rest
        count += 1
    return count


@kernel
def _next_leaf(state: State, nodes: int) -> int:
    """The leaf with the fewest idle nodes, but enough of them; else the leaf with the most."""
    tight, most = -1, 0
    for leaf in range(len(state.leaf_idle)):
        idle = state.leaf_idle[leaf]
        if idle >= nodes and (tight < 0 or idle < state.leaf_idle[tight]):
            tight = leaf
        if idle > state.leaf_idle[most]:
            most = leaf
    return tight if tight >= 0 else most


@kernel
def _spread_gpus(plant: Plant, state: State, free: Ints, gpus: int) -> int:
    """Choose GPUs anywhere: on the fullest node with enough of them, else on nodes in order of their free GPUs."""
    node = _choose_node(plant, free, gpus, True, -1)
    if node >= 0:
        state.picked[0], state.taken[0] = node, gpus
        return 1
    count, need = 0, gpus
    for want in range(plant.size, 0, -1):
        for node in range(len(free)):
            if need > 0 and free[node] == want:
                state.picked[count], state.taken[count] = node, min(want, need)
                need -= state.taken[count]
                count += 1
    return count if need == 0 else 0


@kernel
def reach(plant: Plant, state: State, count: int) -> int:
    """The distance class of the chosen nodes: 0 for one node, 1 under one leaf, 2 under several leaves."""
    for position in range(1, count):
        if plant.leaf[state.picked[position]] != plant.leaf[state.picked[0]]:
            return 2
    return 1 if count > 1 else 0


@kernel
def take(state: State, j: int, count: int) -> None:
    """Give a job its chosen GPUs."""
    for position in range(count):
        piece = state.number[PIECE]
        state.number[PIECE] = state.piece_next[piece]
        state.piece_node[piece], state.piece_gpus[piece] = state.picked[position], state.taken[position]
        state.piece_next[piece] = state.job[j].piece
        state.job[j].piece = piece
        state.free[state.picked[position]] -= state.taken[position]
        state.number[FREE] -= state.taken[position]


@part
def give_back(state: State, j: int) -> None:
    """Take the GPUs of a job back."""
    piece = state.job[j].piece
    while piece >= 0:
        after = state.piece_next[piece]
        state.free[state.piece_node[piece]] += state.piece_gpus[piece]
        state.number[FREE] += state.piece_gpus[piece]
        state.piece_next[piece] = state.number[PIECE]
        state.number[PIECE] = piece
        piece = after
    state.job[j].piece = -1
