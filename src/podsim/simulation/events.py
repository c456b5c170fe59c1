"""The event kernel: ops on streams, after other ops, over links. It knows no GPU.

    ops = Ops(stream=…, seconds=…, before=…, after=…)       # op after[i] waits for op before[i]
    played = play(ops)                                       # start and end of every op, and why it started then

Ops of one stream run in the order of their numbers, one at a time. The play is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints, SmallInts
from podsim.errors import SimulationError, raise_all
from podsim.native import c_function, c_struct
from podsim.simulation.state import (
    EVENTS,
    HEAP,
    SOLVED,
    Program,
    new_state,
    run,
    typed_program,
)  # fmt: skip


def _none() -> SmallInts:
    return np.empty(0, np.int32)


@dataclass(frozen=True, kw_only=True, eq=False)
class Transfers:
    """Kinds of transfer: how fast each is alone, and which links it uses. L links, T kinds."""

    peak: Floats
    """B/s. The rate at full speed, [T]."""
    latency: Floats
    """s. The time before the first byte moves, [T]."""
    routes: tuple[Ints, Ints]
    """The routes, as (indptr [T + 1], links)."""
    use: Floats
    """factor. The bytes over each link of a route for each byte of the transfer."""
    capacity: Floats
    """B/s. The capacity of each link, [L]."""


NO_TRANSFERS = Transfers(
    peak=np.empty(0), latency=np.empty(0), routes=(np.zeros(1, np.int64), np.empty(0, np.int64)), use=np.empty(0),
    capacity=np.empty(0),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Streams:
    """How streams slow each other: a stream that `slows` takes `share` of the speed of ops on `slowed` streams."""

    domain: NDArray[np.int32]
    """The domain of each stream, [S]; streams of one domain share processors."""
    slows: NDArray[np.bool_]
    slowed: NDArray[np.bool_]
    share: float
    """share. The share of its speed that an op loses while another slows it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ops:
    """N ops, E edges: op after[e] starts when op before[e] has ended."""

    stream: SmallInts
    """The stream of each op, from 0, [N]; ops of one stream run in the order of their numbers."""
    seconds: Floats
    """s. The work without slowdown, [N]; for a transfer, its bytes over its peak."""
    before: SmallInts
    """The op before of each edge, [E]."""
    after: SmallInts
    """The op after of each edge, [E]."""
    join: SmallInts = field(default_factory=_none)
    """The join of each op, [N]: ops with the same number start together (a collective); -1: alone; empty: all alone."""
    transfer: SmallInts = field(default_factory=_none)
    """The kind of transfer of each op, [N]; -1: none; empty: no op is one."""
    transfers: Transfers = NO_TRANSFERS
    streams: Streams | None = None
    """The streams; None: no stream slows another."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Played:
    """When each op ran."""

    start: Floats
    """s. The start of each op, [N]."""
    end: Floats
    """s. The end of each op, [N]."""
    why: SmallInts
    """The op whose end let it start, [N]; -1: it could start at once."""
    seconds: float
    """s. The end of the last op."""
    solved: int
    """The number of times that shares of links were computed."""


_by_key = c_function("values_by_key", SmallInts, SmallInts, int, int, SmallInts, SmallInts)
PAUSE = 1_000_000
"""The ended ops between two checks for Ctrl-C."""


def values_by_key(key: SmallInts, value: SmallInts, keys: int) -> tuple[SmallInts, SmallInts]:
    """(pointer [keys + 1], the values of each key, in order)."""
    if np.all(key[1:] >= key[:-1]):
        pointer = np.zeros(keys + 1, np.int32)
        np.cumsum(np.bincount(key, minlength=keys), out=pointer[1:])
        return pointer, value
    pointer, rows = np.empty(keys + 1, np.int32), np.empty(len(key), np.int32)
    _by_key(np.ascontiguousarray(key, np.int32), value, len(key), keys, pointer, rows)
    return pointer, rows


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
            lambda e, ends=ends: (  # type: ignore[misc]
                f"edge {e}: op {ends[e]} does not exist; there are ops 0 to {n - 1}"
            ),
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


def _program(ops: Ops, join: SmallInts, transfer: SmallInts) -> tuple[Program, SmallInts]:
    """(what the kernel is given, how many ops each op waits for)."""
    streams = int(ops.stream.max(initial=-1)) + 1
    if ops.streams is not None:
        streams = max(streams, len(ops.streams.domain))
    n, t = len(ops.stream), ops.transfers
    pointer, after = values_by_key(ops.before, np.ascontiguousarray(ops.after, np.int32), n)
    order_ptr, order = values_by_key(ops.stream, np.arange(n, dtype=np.int32), streams)
    effect = ops.streams or Streams(
        domain=np.zeros(streams, np.int32),
        slows=np.zeros(streams, bool),
        slowed=np.zeros(streams, bool),
        share=0.0,
    )
    domains = int(effect.domain.max(initial=-1)) + 1
    slowed = np.flatnonzero(effect.slowed)
    slowed = slowed[np.argsort(effect.domain[slowed], kind="stable")]
    bounds = np.searchsorted(effect.domain[slowed], np.arange(domains + 1))
    return typed_program(Program(
        stream=ops.stream, order_ptr=order_ptr, order=order, seconds=ops.seconds, next_ptr=pointer,
        after=after, join=join, join_size=np.bincount(join[join >= 0]).astype(np.int32),
        transfer=transfer, peak=t.peak, latency=t.latency, link_ptr=t.routes[0], link=t.routes[1], use=t.use,
        capacity=t.capacity, domain=effect.domain, slows=effect.slows.astype(np.uint8),
        slowed=effect.slowed.astype(np.uint8), domain_ptr=bounds, domain_stream=slowed, share=effect.share,
        streams=streams, links=len(t.capacity), room=int(np.diff(t.routes[0]).max(initial=0)) + 1,
    )), np.bincount(ops.after, minlength=n).astype(np.int32)  # fmt: skip


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
    program, need = _program(ops, join, transfer)
    state = new_state(program, need)
    structs, seconds = (c_struct(program), c_struct(state)), -1.0
    while seconds < 0.0 or state.number[HEAP]:
        seconds = run(*structs, seconds, PAUSE)
    if state.number[EVENTS] < n:
        raise SimulationError(_find_cycle(ops, state.end, join))
    return Played(
        start=state.start, end=state.end, why=state.why, seconds=seconds, solved=int(state.number[SOLVED])
    )


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
