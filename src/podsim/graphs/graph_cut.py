"""The division of a graph of ops over devices, with little communication and balanced work.

Each op's output goes once to every other device with a reader (the connectivity of a hypergraph, whose nets are an op
and its readers). Two steps:

1. the best division of the topological order into consecutive runs, by dynamic programming: exact for chains, where
   the border of a run cuts the tensors that cross it;
2. moves of single ops, the best first, each op once per pass, then back to the best state (Fiduccia and Mattheyses, A
   linear-time heuristic for improving network partitions, 1982), until a pass gains nothing; from several starts.

No device gets more than (1 + tolerance) times the mean. If consecutive runs exceed this limit, the cheapest ops move
off the fullest device first. If that fails too, the limit is the load that it reached.
Tests compare small graphs with all divisions (tests/graphs/test_graph_cut.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from podsim.axes import Floats, Ints
from podsim.errors import PlanError, raise_all
from podsim.native import c_function

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
    work: Floats, nets: tuple[Ints, Ints, Floats], devices: int, *, tolerance: float = 0.1
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
    raise_all(problems, PlanError)
    first, members, size = nets
    asked = (1 + tolerance) * work.sum() / devices * (1 + 1e-9)
    limit = max(asked, _least_bottleneck(work, devices) * (1 + 1e-9))
    both = Nets(first, members, size, *_incidence(first, members, len(work)), len(size))
    start = _consecutive_runs(work, _crossing_bytes(first, members, size, len(work)), devices, limit)
    if limit > asked:
        limit = _balance(asked, _cut_of(start, work, both, devices), both)
    random = np.random.default_rng(0)
    best, best_cost = start, np.inf
    starts = int(np.clip(_TRIED // max(len(work), 1), _STARTS, _MOST_STARTS))
    for trial in range(starts if devices > 1 else 1):
        part = start.copy() if trial == 0 else _shake(best, random, work, devices, limit)
        cost = _refine(limit, _cut_of(part, work, both, devices), both)
        if cost < best_cost:
            best, best_cost = part, cost
    return _division(best, work, first, members, size, devices, limit)


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


_runs = c_function("consecutive_runs", Floats, Floats, int, int, float, Floats, Ints, Ints, Ints)


def _consecutive_runs(work: Floats, crossing: Floats, devices: int, limit: float) -> Ints:
    """The consecutive runs with the fewest bytes over their borders, within the limit; some may be empty."""
    n = len(work)
    cost = np.full((devices + 1, n + 1), np.inf)
    cost[0, 0] = 0.0
    total, part = np.concatenate([[0.0], np.cumsum(work)]), np.zeros(n, np.int64)
    border, queue = np.zeros(cost.shape, np.int64), np.empty(n + 1, np.int64)
    _runs(total, crossing, n, devices, limit, cost, border, queue, part)
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
    nets: int


class Cut(NamedTuple):
    """A division that moves change in place, with room for one pass of moves."""

    part: Ints
    """The device of each op, [ops]."""
    work: Floats
    """s. The work of each op, [ops]."""
    load: Floats
    """s. The work of each device, [devices]."""
    counts: Ints
    """The number of ops of each net on each device, [nets, devices]."""
    moved_op: Ints
    """The moved ops, in order."""
    moved_from: Ints
    gains: Floats
    """B. The saving of the best move of each op, [ops]."""
    targets: Ints
    """The device of the best move of each op; -1 for none, [ops]."""
    locked: Ints
    ops: int
    devices: int


def _cut_of(part: Ints, work: Floats, nets: Nets, devices: int) -> Cut:
    """A division, whose loads and counts are not yet filled in."""
    n = len(work)
    ints = (np.empty(n, np.int64) for _ in range(4))
    counts = np.empty((nets.nets, devices), np.int64)
    return Cut(
        part=part, work=work, load=np.empty(devices), counts=counts, moved_op=next(ints), moved_from=next(ints),
        gains=np.empty(n), targets=next(ints), locked=next(ints), ops=n, devices=devices,
    )  # fmt: skip


_refine = c_function("refine_cut", float, Cut, Nets, result=float)
"""Improve a division in place, within a limit, by passes of moves. The B that it sends then."""
_balance = c_function("balance_cut", float, Cut, Nets, result=float)
"""Move ops off the fullest device until none exceeds the limit, or no move helps. The limit that holds then."""
