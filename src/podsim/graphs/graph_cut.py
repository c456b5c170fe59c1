"""The division of a graph of ops over devices, with little communication and balanced work.

Each op's output goes once to every other device with a reader (the connectivity of a hypergraph, whose nets are an op
and its readers). Two steps:

1. the best division of the topological order into consecutive runs, by dynamic programming: exact for chains, where
   the border of a run cuts the tensors that cross it;
2. moves of single ops, the best first, each op once per pass, then back to the best state (Fiduccia and Mattheyses, A
   linear-time heuristic for improving network partitions, 1982), until a pass gains nothing; from several starts.

No device gets more than (1 + tolerance) times the mean. If consecutive runs exceed this limit, the cheapest ops move
off the fullest device first. If that fails too, the limit is the load that it reached.
Tests compare small graphs with all divisions (tests/training/test_graph_cut.py).

Axes: O ops, N nets, P devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.errors import PlanError
from podsim.jit import njit

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

_PASSES = 12
_STARTS, _MOST_STARTS, _TRIED = 8, 256, 16_384
"""The numbers of starts (more for small graphs), and of ops over all starts."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Division:
    """The device of each op, with loads and traffic."""

    part: Ints
    """The device of each op, [ops]."""
    load: Floats
    """s. The work of each device, [devices]."""
    sent: Floats
    """B. The bytes that each device sends, [devices]."""
    tensors: int
    """The number of tensors that are sent, once for each device that they go to."""
    limit: float
    """s. The work that no device exceeds."""


def divide(
    work: Floats,
    nets: tuple[Ints, Ints, Floats],
    devices: int,
    *,
    tolerance: float = 0.1,
    seed: int = 0,
) -> Division:
    """The division of ops over devices.

    `work` is that of each op, [ops] in topological order; `nets` are (first, members, bytes) of
    podsim.graphs.op_graph.nets_of. Raises PlanError for fewer ops than devices, and for a negative tolerance.
    """
    problems = []
    if not 1 <= devices <= max(len(work), 1):
        problems.append(f"devices={devices}: a graph of {len(work)} ops can be divided over 1 to {len(work)}")
    if not 0 <= tolerance < np.inf:
        problems.append(f"tolerance={tolerance}: share by which a device may exceed the mean, 0 or more")
    if problems:
        raise PlanError(problems)
    first, members, size = nets
    asked = (1 + tolerance) * work.sum() / devices * (1 + 1e-9)
    limit = max(asked, _least_bottleneck(work, devices) * (1 + 1e-9))
    both = Nets(first, members, size, *_incidence(first, members, len(work)))
    start = _consecutive_runs(work, _crossing_bytes(first, members, size, len(work)), devices, limit)
    if limit > asked:
        limit = _balance(start, work, both, devices, asked)
    random = np.random.default_rng(seed)
    best, best_cost = start, np.inf
    starts = int(np.clip(_TRIED // max(len(work), 1), _STARTS, _MOST_STARTS))
    for trial in range(starts if devices > 1 else 1):
        part = start.copy() if trial == 0 else _shake(best, random, work, devices, limit)
        cost = _refine(part, work, both, devices, limit)
        if cost < best_cost:
            best, best_cost = part, cost
    return _division(best, work, first, members, size, devices, limit)


def sent_bytes(part: Ints, nets: tuple[Ints, Ints, Floats]) -> float:
    """B sent between devices: the bytes of each net, once for every other device with a reader."""
    first, members, size = nets
    return float(
        sum(size[j] * (len(np.unique(part[members[first[j] : first[j + 1]]])) - 1) for j in range(len(size)))
    )


def _division(
    part: Ints, work: Floats, first: Ints, members: Ints, size: Floats, devices: int, limit: float
) -> Division:
    sent, tensors = np.zeros(devices), 0
    for j in range(len(size)):
        away = len(np.unique(part[members[first[j] : first[j + 1]]])) - 1
        sent[part[members[first[j]]]] += away * size[j]
        tensors += away
    return Division(
        part=part,
        load=np.bincount(part, work, devices).astype(float),
        sent=sent,
        tensors=tensors,
        limit=float(limit),
    )


def _incidence(first: Ints, members: Ints, ops: int) -> tuple[Ints, Ints]:
    """(begin, nets): op i is in nets[begin[i] : begin[i + 1]]."""
    order = np.argsort(members, kind="stable")
    which = np.repeat(np.arange(len(first) - 1), np.diff(first))[order]
    begin = np.zeros(ops + 1, dtype=np.int64)
    np.cumsum(np.bincount(members, minlength=ops), out=begin[1:])
    return begin, np.ascontiguousarray(which.astype(np.int64))


def _crossing_bytes(first: Ints, members: Ints, size: Floats, ops: int) -> Floats:
    """B of tensors that are made before each position of the order and read at or after it, [ops + 1]."""
    change = np.zeros(ops + 2)
    if len(size):
        last = np.maximum.reduceat(members, first[:-1])
        np.add.at(change, members[first[:-1]] + 1, size)
        np.add.at(change, last + 1, -size)
    return np.asarray(np.cumsum(change)[: ops + 1])


def _least_bottleneck(work: Floats, devices: int) -> float:
    """The least work of the fullest of a number of consecutive runs."""
    low, high = max(work.max(initial=0.0), work.sum() / devices), float(work.sum())
    total = np.concatenate([[0.0], np.cumsum(work)])
    for _ in range(60):
        middle = (low + high) / 2
        at = 0
        for _ in range(devices):
            at = int(np.searchsorted(total, total[at] + middle * (1 + 1e-12), side="right")) - 1
        low, high = (low, middle) if at >= len(work) else (middle, high)
    return high


@njit
def _consecutive_runs(work: Floats, crossing: Floats, devices: int, limit: float) -> Ints:
    """The consecutive runs with the fewest bytes over their borders, within the limit; some may be empty."""
    n = len(work)
    total = np.zeros(n + 1)
    for i in range(n):
        total[i + 1] = total[i] + work[i]
    cost_PO = np.full((devices + 1, n + 1), np.inf)
    border_PO = np.zeros((devices + 1, n + 1), np.int64)
    cost_PO[0, 0] = 0.0
    queue = np.empty(n + 1, np.int64)
    for p in range(1, devices + 1):
        head, tail = 0, 0
        for j in range(n + 1):
            value = cost_PO[p - 1, j] + (crossing[j] if 0 < j < n else 0.0)
            while (
                tail > head
                and (
                    cost_PO[p - 1, queue[tail - 1]]
                    + (crossing[queue[tail - 1]] if 0 < queue[tail - 1] < n else 0.0)
                )
                >= value
            ):
                tail -= 1
            queue[tail] = j
            tail += 1
            while total[j] - total[queue[head]] > limit:
                head += 1
            i = queue[head]
            cost_PO[p, j] = cost_PO[p - 1, i] + (crossing[i] if 0 < i < n and i < j else 0.0)
            if i == j:
                cost_PO[p, j] = cost_PO[p - 1, j]
            border_PO[p, j] = i
    part = np.zeros(n, np.int64)
    j = n
    for p in range(devices, 0, -1):
        i = border_PO[p, j]
        part[i:j] = p - 1
        j = i
    return part


def _shake(best: Ints, random: np.random.Generator, work: Floats, devices: int, limit: float) -> Ints:
    """A start near the best one: a share of the ops moves to random devices with room."""
    part = best.copy()
    load = np.bincount(part, work, devices)
    share = random.choice((0.1, 0.3, 1.0))
    for op in random.permutation(len(part))[: max(2, int(len(part) * share))]:
        to = int(random.integers(devices))
        if load[to] + work[op] <= limit:
            load[part[op]] -= work[op]
            load[to] += work[op]
            part[op] = to
    return part


class Nets(NamedTuple):
    """Ops by net and nets by op: net j has members[first[j] : first[j + 1]], op i is in at[begin[i] : begin[i + 1]]."""

    first: Ints
    members: Ints
    size: Floats
    """B. The size of each net, [nets]."""
    begin: Ints
    at: Ints


class Cut(NamedTuple):
    """A division that moves change in place."""

    part: Ints
    """The device of each op, [ops]."""
    work: Floats
    """s. The work of each op, [ops]."""
    load: Floats
    """s. The work of each device, [devices]."""
    counts: Ints
    """The number of ops of each net on each device, [nets, devices]."""


@njit
def _cut_of(part: Ints, work: Floats, nets: Nets, devices: int) -> Cut:
    """The loads and counts of a division."""
    counts = np.zeros((len(nets.size), devices), np.int64)
    load = np.zeros(devices)
    for op in range(len(work)):
        load[part[op]] += work[op]
    for j in range(len(nets.size)):
        for at in range(nets.first[j], nets.first[j + 1]):
            counts[j, part[nets.members[at]]] += 1
    return Cut(part, work, load, counts)


@njit
def _gain_bytes(op: int, to: int, cut: Cut, nets: Nets) -> float:
    """B saved by moving an op."""
    gain = 0.0
    here = cut.part[op]
    for at in range(nets.begin[op], nets.begin[op + 1]):
        j = nets.at[at]
        if cut.counts[j, here] == 1:
            gain += nets.size[j]
        if cut.counts[j, to] == 0:
            gain -= nets.size[j]
    return gain


@njit
def _move(op: int, to: int, cut: Cut, nets: Nets) -> int:
    """Move an op to another device. Its previous device."""
    here = cut.part[op]
    for at in range(nets.begin[op], nets.begin[op + 1]):
        cut.counts[nets.at[at], here] -= 1
        cut.counts[nets.at[at], to] += 1
    cut.load[here] -= cut.work[op]
    cut.load[to] += cut.work[op]
    cut.part[op] = to
    return int(here)


@njit
def _choose(cut: Cut, nets: Nets, slack: float, locked: Ints, gains: Floats, devices: Ints) -> int:
    """The op whose move saves most, -1 if none may move; `gains` and `devices` keep the best move of each op.

    `locked`: 0 for an op whose best move must be looked for again, 2 for one that has moved.
    """
    chosen, most = -1, -np.inf
    work, load = cut.work, cut.load
    for op in range(len(work)):
        if locked[op] == 2:
            continue
        if locked[op] == 0:
            gains[op], devices[op] = -np.inf, -1
            for p in range(len(load)):
                if p != cut.part[op] and load[p] + work[op] <= slack:
                    gain = _gain_bytes(op, p, cut, nets)
                    if gain > gains[op]:
                        gains[op], devices[op] = gain, p
            locked[op] = 1
        if devices[op] >= 0 and load[devices[op]] + work[op] <= slack and gains[op] > most:
            chosen, most = op, gains[op]
    return chosen


@njit
def _run_pass(cut: Cut, nets: Nets, limit: float, cost: float) -> float:
    """Move each op at most once, the best first, then return to the best state. The B that it sends."""
    n = len(cut.work)
    slack = limit + cut.work.max()
    moved_op, moved_from = np.empty(n, np.int64), np.empty(n, np.int64)
    gains, devices = np.empty(n), np.empty(n, np.int64)
    locked = np.zeros(n, np.int64)
    moves, best_moves, best_cost = 0, 0, cost
    while moves < n and moves - best_moves < 60 + n // 8:
        op = _choose(cut, nets, slack, locked, gains, devices)
        if op < 0:
            break
        moved_op[moves] = op
        moved_from[moves] = _move(op, devices[op], cut, nets)
        cost -= gains[op]
        moves += 1
        for at in range(nets.begin[op], nets.begin[op + 1]):
            for other in range(nets.first[nets.at[at]], nets.first[nets.at[at] + 1]):
                if locked[nets.members[other]] == 1:
                    locked[nets.members[other]] = 0
        locked[op] = 2
        if cost < best_cost * (1 - 1e-12) and cut.load.max() <= limit:
            best_cost, best_moves = cost, moves
    for at in range(moves - 1, best_moves - 1, -1):
        _move(moved_op[at], moved_from[at], cut, nets)
    return best_cost


@njit
def _balance(part: Ints, work: Floats, nets: Nets, devices: int, limit: float) -> float:
    """Move ops off the fullest device until none exceeds the limit, or no move helps. The limit that holds then."""
    cut = _cut_of(part, work, nets, devices)
    load = cut.load
    while load.max() > limit:
        full = load.argmax()
        best_op, best_to, best = -1, -1, -np.inf
        for op in range(len(work)):
            if part[op] != full or work[op] <= 0:
                continue
            for p in range(devices):
                if p != full and load[p] + work[op] <= max(limit, load[full] - work[op]):
                    gain = _gain_bytes(op, p, cut, nets)
                    if gain > best:
                        best_op, best_to, best = op, p, gain
        if best_op < 0:
            break
        _move(best_op, best_to, cut, nets)
    return max(limit, float(load.max()) * (1 + 1e-9))


@njit
def _refine(part: Ints, work: Floats, nets: Nets, devices: int, limit: float) -> float:
    """Improve a division in place by passes of moves. The B that it sends then.

    During a pass a device may exceed the limit by one op, since two ops can swap only one after the other.
    """
    cut = _cut_of(part, work, nets, devices)
    cost = 0.0
    for j in range(len(nets.size)):
        cost += nets.size[j] * (np.count_nonzero(cut.counts[j]) - 1)
    for _ in range(_PASSES):
        before = cost
        cost = _run_pass(cut, nets, limit, cost)
        if not cost < before * (1 - 1e-12):
            break
    return cost
