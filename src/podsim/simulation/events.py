"""The event kernel: ops on streams, after other ops, over links. It knows no GPU.

    ops = Ops(stream=…, seconds=…, before=…, after=…)       # op after[i] waits for op before[i]
    played = play(ops)                                       # start and end of every op, and why it started then

Ops of one stream run in the order of their numbers, one at a time. The play is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints, SmallInts
from podsim.errors import SimulationError
from podsim.native import c_struct
from podsim.simulation.ops import Ops, Streams, Tiled, Transfers, no_ops
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


def _first_problem(wrong: NDArray[np.bool_], text_of: Callable[[int], str]) -> list[str]:
    """The text of the first problem, if there is one."""
    return [text_of(int(i)) for i in np.flatnonzero(wrong)[:1]]


def _problems(ops: Ops, n: int, join: SmallInts, transfer: SmallInts) -> list[str]:
    """What is wrong with the ops, the first of each kind named."""
    sizes = [(name, len(getattr(ops, name))) for name in ("seconds", "join", "transfer")]
    problems = [
        f"{size} {name} for {n} ops; give one of each an op"
        for name, size in sizes
        if size != n and (size or name == "seconds")
    ]
    if len(ops.before) != len(ops.after):
        problems.append(f"{len(ops.before)} ops before and {len(ops.after)} after; an edge has one of each")
    if problems:
        return problems
    for ends in (ops.before, ops.after):
        problems += _first_problem(
            (ends < 0) | (ends >= n),
            lambda e, ends=ends: f"edge {e}: op {ends[e]} does not exist; there are ops 0 to {n - 1}",  # type: ignore[misc]
        )
    seconds, stream, kinds = ops.seconds, ops.stream, len(ops.transfers.peak)
    problems += _first_problem(
        ~((seconds >= 0) & np.isfinite(seconds)),
        lambda i: f"op {i} takes {seconds[i]:g} s; it must be finite and not negative",
    )
    problems += _first_problem(stream < 0, lambda i: f"op {i} is on stream {stream[i]}; streams count from 0")
    problems += _first_problem(
        transfer >= kinds, lambda i: f"op {i} is a transfer of kind {transfer[i]}; there are {kinds} kinds"
    )
    if not problems and ops.streams:
        problems = _stream_problems(ops.streams, stream, transfer)
    return problems + _link_problems(ops.transfers)


def _stream_problems(streams: Streams, stream: SmallInts, transfer: SmallInts) -> list[str]:
    sizes = [len(streams.domain), len(streams.slows), len(streams.slowed)]
    count = int(stream.max(initial=-1)) + 1
    if len(set(sizes)) > 1 or sizes[0] < count:
        return [f"{sizes} domains, slows and slowed for {count} streams; give one of each a stream"]
    problems = _first_problem(
        streams.domain < 0, lambda s: f"stream {s} is of domain {streams.domain[s]}; they count from 0"
    )
    if not 0 <= streams.share < 1:
        problems.append(f"share {streams.share:g}: ops can lose 0 to (less than) 1 of their speed")
    return problems + _first_problem(
        (transfer >= 0) & streams.slowed[stream],
        lambda i: (
            f"op {i} is a transfer on stream {stream[i]}, which others slow; transfers only share links"
        ),
    )


def _link_problems(transfers: Transfers) -> list[str]:
    (pointer, links), use = transfers.routes, transfers.use
    capacity, peak, latency = transfers.capacity, transfers.peak, transfers.latency
    if len(latency) != len(peak) or len(pointer) != len(peak) + 1 or len(use) != len(links):
        return [
            f"{len(peak)} peaks, {len(latency)} latencies, {len(pointer) - 1} routes of {len(links)} links with "
            f"{len(use)} uses; give one of each a kind of transfer, and one use a link of a route"
        ]
    if pointer[0] != 0 or pointer[-1] != len(links) or np.any(np.diff(pointer) < 0):
        return [f"routes must rise from 0 to {len(links)}, the number of their links"]
    outside = (links < 0) | (links >= len(capacity))
    problems = _first_problem(
        outside, lambda i: f"a route uses link {links[i]}; there are {len(capacity)} links"
    )
    if not problems:
        problems = _first_problem(
            ~(capacity[links] > 0),
            lambda i: (
                f"link {links[i]} has a capacity of {capacity[links[i]]:g} B/s and is used; it must be positive"
            ),
        )
    problems += _first_problem(
        ~((latency >= 0) & np.isfinite(latency)),
        lambda k: f"transfer {k} has a latency of {latency[k]:g} s; it must be finite and not negative",
    )
    problems += _first_problem(
        ~((use > 0) & np.isfinite(use)),
        lambda i: f"link {links[i]} of a route is used {use[i]:g} times; it must be positive and finite",
    )
    return problems + _first_problem(
        ~((peak > 0) & np.isfinite(peak)),
        lambda k: f"transfer {k} has a peak of {peak[k]:g} B/s; it must be positive and finite",
    )


def play(ops: Ops) -> Played:
    """When each op runs: as soon as its stream is free and all it waits for has ended.

    Raises SimulationError for ops that cannot be (with what would be), and where ops wait for each other in a circle.
    """
    n = len(ops.stream)
    join, transfer = (
        np.asarray(column, np.int32) if len(column) else np.full(n, -1, np.int32)
        for column in (ops.join, ops.transfer)
    )
    if problems := _problems(ops, n, join, transfer):
        raise SimulationError("; ".join(problems))
    count = max(int(ops.stream.max(initial=-1)) + 1, 1)
    none = np.zeros(count, np.int32)
    return play_tiled(Tiled(
        rows=[replace(ops, join=join, transfer=transfer)], group=[np.zeros(n, np.int32)], row_of=np.zeros(1, np.int64),
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
