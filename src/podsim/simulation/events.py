"""The event kernel: ops on streams, after other ops, over links. It knows no GPU.

    ops = Ops(stream=…, seconds=…, before=…, after=…)       # op after[i] waits for op before[i]
    played = play(ops)                                       # start and end of every op, and why it started then

Ops of one stream run in the order of their numbers, one at a time. The play is deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Bools, Floats, Ints, SmallInts
from podsim.errors import SimulationError, raise_all
from podsim.native import c_struct
from podsim.simulation.ops import Ops, Streams, Tiled, no_ops
from podsim.simulation.state import EVENTS, HEAP, SOLVED, new_marks, new_program, new_state, run


@dataclass(frozen=True, kw_only=True, eq=False)
class Played:
    """When each op ran."""

    end: Floats
    """s. The end of each op, [N]."""
    why: SmallInts
    """The op whose end let it start, [N]; -1: it could start at once."""
    seconds: float
    """s. The end of the last op."""
    solved: int
    """The number of times that shares of links were computed."""
    begun: Floats | None = None
    """s. The start of each op, [N]; None: the end of what let it start."""

    @cached_property
    def start(self) -> Floats:
        """s. The start of each op, [N]."""
        return self.starts(np.arange(len(self.end)))

    def starts(self, ops: Ints) -> Floats:
        """s. The start of some ops."""
        if self.begun is not None:
            return self.begun[ops]
        why = self.why[ops]
        return np.where(why >= 0, self.end[why], 0.0)


PAUSE = 1_000_000
"""The ended ops between two checks for Ctrl-C."""


def _problems(ops: Ops, n: int, join: SmallInts, transfer: SmallInts) -> list[str]:
    """What is wrong with the ops, the first of each kind named."""
    t, (pointer, links), streams = ops.transfers, ops.transfers.routes, ops.streams
    sizes: list[tuple[str, NDArray[Any], int]] = [
        ("seconds", ops.seconds, n), ("join", join, n), ("transfer", transfer, n), ("after", ops.after, len(ops.before)),
        ("latency", t.latency, len(t.peak)), ("routes", pointer, len(t.peak) + 1), ("use", t.use, len(links)),
    ]  # fmt: skip
    if streams is not None:
        count = max(int(ops.stream.max(initial=-1)) + 1, len(streams.domain))
        sizes += [(name, getattr(streams, name), count) for name in ("domain", "slows", "slowed")]
    if problems := [
        f"{len(column)} {name}, not {size}" for name, column, size in sizes if len(column) != size
    ]:
        return problems
    rises = bool(pointer[0] == 0 and pointer[-1] == len(links) and np.all(np.diff(pointer) >= 0))
    rules: list[tuple[str, NDArray[Any], Bools, str]] = [
        ("before", ops.before, _is_outside(ops.before, n), "op does not exist"),
        ("after", ops.after, _is_outside(ops.after, n), "op does not exist"),
        ("seconds", ops.seconds, _is_negative(ops.seconds), "must be finite and not negative"),
        ("stream", ops.stream, ops.stream < 0, "streams count from 0"),
        ("transfer", transfer, transfer >= len(t.peak), f"there are {len(t.peak)} kinds"),
        ("routes", pointer[-1:], np.array([not rises]), f"must rise from 0 to {len(links)}"),
        ("link", links, _is_outside(links, len(t.capacity)), f"there are {len(t.capacity)} links"),
        ("latency", t.latency, _is_negative(t.latency), "must be finite and not negative"),
        ("use", t.use, _is_negative(t.use) | (t.use == 0), "must be positive and finite"),
        ("peak", t.peak, _is_negative(t.peak) | (t.peak == 0), "must be positive and finite"),
    ]
    if not _is_outside(links, len(t.capacity)).any():
        rules.append(
            ("capacity", t.capacity[links], ~(t.capacity[links] > 0), "must be positive where it is used")
        )
    if streams is not None and not (ops.stream < 0).any():
        share, slowed = np.array([streams.share]), (transfer >= 0) & streams.slowed[ops.stream]
        rules += [
            ("domain", streams.domain, streams.domain < 0, "domains count from 0"),
            ("share", share, _is_outside(share, 1), "ops can lose 0 to (less than) 1 of their speed"),
            ("stream", ops.stream, slowed, "others slow it; transfers only share links"),
        ]
    return [
        f"{name} {i}: {column[i]:g}; {rule}"
        for name, column, wrong, rule in rules
        for i in np.flatnonzero(wrong)[:1]
    ]


def _is_outside(values: NDArray[Any], count: int) -> Bools:
    return np.asarray((values < 0) | (values >= count))


def _is_negative(values: Floats) -> Bools:
    """Whether values are below zero, infinite or no number."""
    return ~((values >= 0) & np.isfinite(values))


def play(ops: Ops) -> Played:
    """When each op runs: as soon as its stream is free and all it waits for has ended.

    Raises SimulationError for ops that cannot be (with what would be), and where ops wait for each other in a circle.
    """
    n = len(ops.stream)
    join, transfer = (
        np.asarray(column, np.int32) if len(column) else np.full(n, -1, np.int32)
        for column in (ops.join, ops.transfer)
    )
    raise_all(_problems(ops, n, join, transfer), SimulationError)
    count = max(int(ops.stream.max(initial=-1)) + 1, 1)
    none = np.zeros(count, np.int32)
    return play_tiled(Tiled(
        rows=[replace(ops, join=join, transfer=transfer)], row_of=np.zeros(1, np.int64),
        joins=np.zeros((1, 1), np.int32), join_size=np.bincount(join[join >= 0]).astype(np.int32), kinds=0,
        sends=(no_ops(), no_ops()), transfers=ops.transfers,
        streams=ops.streams or Streams(domain=none, slows=none > 0, slowed=none > 0, share=0.0),
    ))  # fmt: skip


def play_tiled(tiled: Tiled) -> Played:
    """When each op runs, as `play` says; the ops are taken as they are."""
    program, at = new_program(tiled)
    marks = new_marks(tiled)
    state = new_state(program, marks, at, tiled.join_size.copy())
    structs, seconds = (c_struct(program), c_struct(state)), -1.0
    while seconds < 0.0 or state.number[HEAP]:
        seconds = run(*structs, seconds, PAUSE)
    if state.number[EVENTS] < len(marks):
        raise SimulationError(_find_cycle(tiled.flat(), marks["end"], tiled.join))
    return Played(end=marks["end"], why=marks["why"], seconds=seconds, solved=int(state.number[SOLVED]))


def _find_cycle(ops: Ops, end: Floats, join: SmallInts) -> str:
    """A circle of ops that wait for each other."""
    waits = np.isnan(end)
    blocking: dict[int, int] = {}
    edges = np.flatnonzero(waits[ops.before] & waits[ops.after])
    for e in edges[::-1].tolist():
        blocking[int(ops.after[e])] = int(ops.before[e])
    last: dict[int, int] = {}
    joined: dict[int, list[int]] = {}
    for i in np.flatnonzero(waits).tolist():
        s = int(ops.stream[i])
        if s in last:
            blocking.setdefault(i, last[s])
        last[s] = i
        if join[i] >= 0:
            joined.setdefault(int(join[i]), []).append(i)
    for members in joined.values():
        held = [i for i in members if i in blocking]
        for i in members:
            if i not in blocking and held:
                blocking[i] = held[0]
    op, seen = int(np.flatnonzero(waits)[0]), dict[int, int]()
    while op not in seen:
        seen[op] = len(seen)
        op = blocking[op]
    circle = list(seen)[seen[op] :]
    text = " waits for ".join(f"op {i} (stream {ops.stream[i]})" for i in [*circle[:8], op])
    return f"{int(waits.sum())} of {len(end)} ops never start: {text}{' …' if len(circle) > 8 else ''}"


def critical_path(played: Played) -> Ints:
    """Ops on the critical path, first to last: each started when the one before it ended."""
    if not len(played.end):
        return np.empty(0, np.int64)
    path = [int(played.end.argmax())]
    while (cause := int(played.why[path[-1]])) >= 0:
        path.append(cause)
    return np.array(path[::-1], np.int64)
