"""The simulation of a collective on links: when every transfer starts and ends, sharing what it crosses.

A transfer starts when the data it sends on have arrived, and the one before it on the same ends and channel has left.
While under way it gets its max-min share of its links; the last byte arrives the route's latency after it
left. In a lockstep table a step starts when all of the step before has arrived.

    table ── waits ──▶ flows ──┐
    fabric ── routes ─▶ lanes ─┴─▶ Prepared (for any size) ── run ──▶ Played

With `fold`, flows that cannot be told apart are simulated once (podsim.network.play_fold); the results are unfolded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podsim.axes import Floats, Ints
from podsim.errors import ClusterError, TableError
from podsim.network.collectives.cost import windows
from podsim.network.collectives.prove import check_rows
from podsim.network.collectives.table import ROW_FIELDS, Table, position, row_share
from podsim.network.play_fold import fold_program
from podsim.network.play_links import Fabric, Routes
from podsim.network.play_program import Waits, mix, number_rows, rows_of, waits
from podsim.network.play_state import EVENTS, SOLVED, TIGHT, Program, State, typed_program
from podsim.network.play_trains import end_state


@dataclass(frozen=True, kw_only=True, eq=False)
class Played:
    """When a collective ended, and what its links carried."""

    seconds: float
    """s. The last arrival."""
    finish: Floats
    """s. The time at which each rank has received all and sent all, [ranks]."""
    link_bytes: Floats
    """B. The bytes over each link, [links]."""
    link_busy: Floats
    """s. The time in which each link carried something, [links]."""
    events: int
    """The number of transfers that ended."""
    simulated: int
    """The number of simulated transfers; fewer than `events` if folded."""
    solved: int
    """The number of times that shares were computed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """Flows that start together, and what waits for them; a table is one stage, unless it is in lockstep."""

    times: int
    """The number of repetitions, one after the other."""
    table: Table
    program: Program
    """The program for size 1."""
    flow: Ints
    """The simulated flow of each row of `table`."""
    link: Ints
    """The position of a link's busy time; -1 if nothing crosses it, [links]."""
    link_share: Floats
    """share. The bytes over each link relative to `size`, [links]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A table on a fabric, ready to be played with any size."""

    name: str
    ranks: int
    links: int
    stages: tuple[Stage, ...]


def _check_routes(routes: Routes, fabric: Fabric, source: Ints, destination: Ints) -> None:
    indptr, links = routes
    capacity, latency = fabric.capacity, fabric.latency
    if (
        len(indptr) != len(source) + 1
        or indptr[0] != 0
        or indptr[-1] != len(links)
        or np.any(np.diff(indptr) < 0)
    ):
        raise ClusterError(f"routes: indptr must rise from 0 to {len(links)} in {len(source) + 1} values")
    if len(capacity) != len(latency):
        raise ClusterError(
            f"fabric: {len(capacity)} capacities and {len(latency)} latencies; one of each a link"
        )
    outside = (links < 0) | (links >= len(capacity))
    for entry in np.flatnonzero(outside)[:1]:
        raise ClusterError(
            f"routes: link {links[entry]} does not exist; there are links 0 to {len(capacity) - 1}"
        )
    bad = ~(capacity[links] > 0.0) | ~((latency[links] >= 0.0) & np.isfinite(latency[links]))
    for entry in np.flatnonzero(bad)[:1]:
        lane = int(np.searchsorted(indptr, entry, side="right")) - 1
        raise ClusterError(
            f"link {links[entry]}, on the way from {source[lane]} to {destination[lane]}, has capacity "
            f"{capacity[links[entry]]:g} B/s and latency {latency[links[entry]]:g} s; a link in use needs a positive "
            "capacity and a latency that is not negative"
        )


def _lanes(routes: Routes, fabric: Fabric, channels: Ints) -> tuple[dict[str, Any], Ints]:
    """The columns of Program about lanes, and where each link's busy time is kept.

    A lane's entries: its own limit (1); links that can bind it together with others (2); other links that
    it shares, which only carry it (3). Links of one lane alone are in its own limit. channels: of each lane.
    """
    indptr, links = routes
    lanes = len(indptr) - 1
    lane_of = np.repeat(np.arange(lanes), np.diff(indptr))
    limit = np.full(lanes, np.inf)
    np.minimum.at(limit, lane_of, fabric.capacity[links])
    where = np.full(len(fabric.capacity), -1)
    where[links] = lane_of
    shared = np.flatnonzero(np.bincount(links, minlength=len(where)) > 1)
    where[where >= 0] += len(shared)
    where[shared] = np.arange(len(shared))
    link = where[links]
    some = link < len(shared)
    lane_of, link, capacity = lane_of[some], link[some], fabric.capacity[shared]
    demand = np.bincount(link, np.minimum(limit[lane_of], 1e300), len(shared))
    kind = np.where((demand > capacity * TIGHT)[link], 2, 3)
    kind = np.concatenate([np.ones(lanes, np.int64), kind])
    lane_of, link = (
        np.concatenate([np.arange(lanes), lane_of]),
        np.concatenate([len(shared) + np.arange(lanes), link]),
    )
    order = np.argsort(lane_of * 4 + kind, kind="stable")
    start = np.cumsum(np.bincount(lane_of + 1, minlength=lanes + 1))
    bound = np.bincount(lane_of, kind < 3, lanes).astype(np.int64)
    columns: dict[str, Any] = {
        "start": start[:-1], "first": start[:-1] + (channels == 1), "middle": start[:-1] + bound, "end": start[1:],
        "link": link[order], "use": np.ones(len(order)), "capacity": np.concatenate([capacity, limit]),
        "key": mix(np.arange(lanes)), "ones": np.ones(lanes),
    }  # fmt: skip
    return columns, where


def _channels(lane: Ints, channel: Ints, lanes: int) -> Ints:
    """How many channels each lane has."""
    if not np.any(channel):
        return np.ones(lanes, np.int64)
    _, first = number_rows(np.stack([lane, channel]))
    return np.bincount(lane[first], minlength=lanes).astype(np.int64)


def _program(table: Table, wait: Waits, lane: Ints, delay: Floats, lanes: dict[str, Any]) -> Program:
    """All of it as the simulation wants it, for size 1."""
    flows, gates, groups = len(lane), len(wait.dep_ptr) - 1, len(wait.group_repeat)
    after = np.full(flows, -1)
    after[wait.before[wait.before >= 0]] = np.flatnonzero(wait.before >= 0)
    gate_ptr, gate_flow = rows_of(wait.gate, gates)
    group_ptr, group_flow = rows_of(wait.group, groups)
    wake_ptr, wake = rows_of(wait.dep_group, groups)
    wake_gate = np.repeat(np.arange(gates), np.diff(wait.dep_ptr))[wake]
    delays, which = np.unique(delay, return_inverse=True)  # of lanes: far fewer than flows
    rows: dict[str, Any] = {key: getattr(table, key) for key in ("repeat", "chunk", "turn", "channel")}
    return typed_program(Program(
        **rows, width=table.count, wheel=np.maximum(table.wheel, 1), chunk_bytes=table.sizes,
        chunk_ends=np.concatenate([[0.0], np.cumsum(table.sizes)]), lane=lane, delay=which[lane], delays=delays,
        before=wait.before, after=after, gate=wait.gate, dep_ptr=wait.dep_ptr, dep_group=wait.dep_group,
        dep_lag=wait.dep_lag, gate_ptr=gate_ptr, gate_flow=gate_flow, group=wait.group, group_repeat=wait.group_repeat,
        group_ptr=group_ptr, group_flow=group_flow, wake_ptr=wake_ptr, wake_gate=wake_gate,
        wake_lag=wait.dep_lag[wake], **lanes,
    ))  # fmt: skip


def _sent_share(table: Table) -> Floats:
    """Bytes that each row sends in all, as a share of `size`."""
    if not np.ptp(table.sizes):
        return np.asarray(table.count * table.repeat * table.sizes[0], np.float64)
    share = row_share(table, np.arange(len(table.step)), np.zeros(len(table.step), np.int64))
    for row in np.flatnonzero(table.repeat > 1):
        times = np.arange(table.repeat[row])
        share[row] = row_share(table, np.full(len(times), row), times).sum()
    return share


def _stage(table: Table, fabric: Fabric, fold: bool, times: int = 1) -> Stage:
    table, wait = waits(table)
    lane, first = number_rows(np.stack([table.source, table.destination]))
    source, destination = table.source[first], table.destination[first]
    routes = fabric.routes(source, destination)
    _check_routes(routes, fabric, source, destination)
    indptr, links = routes
    hops = np.repeat(np.arange(len(first)), np.diff(indptr))
    delay = np.bincount(hops, fabric.latency[links], len(first)).astype(np.float64)
    lanes, link = _lanes(routes, fabric, _channels(lane, table.channel, len(first)))
    program = _program(table, wait, lane, delay, lanes)
    lane_share = np.bincount(lane, _sent_share(table), len(first))
    flow = np.arange(len(lane))
    if fold:
        program, flow, link_number = fold_program(program)
        link = np.where(link >= 0, link_number[link], -1)
    return Stage(
        times=times, table=table, program=program, flow=flow, link=link,
        link_share=np.bincount(links, lane_share[hops], len(fabric.capacity)).astype(np.float64),
    )  # fmt: skip


def _window(table: Table, rows: Ints, position: Ints) -> Table:
    """One step of a table, as a table."""
    columns = {key: getattr(table, key)[rows] for key in ROW_FIELDS}
    still = np.zeros(len(rows), np.int64)
    columns.update(step=still, chunk=position, repeat=still + 1, turn=still, wheel=still + 1)
    return replace(table, lockstep=False, **columns)


def prepare(table: Table, fabric: Fabric, *, fold: bool = False) -> Prepared:
    """A table on a fabric, ready for `play` with any size: dependencies and shared links.

    Equal steps of a table in lockstep are one stage with a repeat count. fold: flows that nothing tells apart are
    simulated once. Raises TableError for a row that no table may have (run `check` or `prove` for what it does
    to data) and ClusterError for a route over a link that does not exist or cannot carry anything.
    """
    check_rows(table)
    if table.lockstep:
        stages = [
            _stage(_window(table, rows, first), fabric, fold, times)
            for times, rows, first in _equal_steps(table)
        ]
    else:
        stages = [_stage(table, fabric, fold)] if len(table.step) else []
    return Prepared(name=table.name, ranks=table.ranks, links=len(fabric.capacity), stages=tuple(stages))


def _equal_steps(table: Table) -> Iterator[tuple[int, Ints, Ints]]:
    """Runs of equal steps: (number, rows, first chunks in the first of these steps)."""
    for step, times, rows, _ in windows(table):
        yield times, rows, position(table, rows, step - table.step[rows])


def play(table: Table | Prepared, size: float, fabric: Fabric | None = None, *, fold: bool = False) -> Played:
    """The table played on the fabric (or as prepared before) with a buffer of `size` bytes."""
    if isinstance(table, Table):
        if fabric is None:
            raise TableError(f"{table.name}: no fabric to play on; give one, or a Prepared table")
        table = prepare(table, fabric, fold=fold)
    if not (size >= 0.0 and np.isfinite(size)):
        raise TableError(f"{table.name}: size {size} B; it must be finite and not negative")
    now, finish = 0.0, np.zeros(table.ranks)
    link_bytes, link_busy = np.zeros(table.links), np.zeros(table.links)
    events = simulated = solved = 0
    for stage in table.stages:
        state = _run(stage.program, size)
        last, ends = _end_seconds(stage, state)
        last_start = now + (stage.times - 1) * last
        finish = np.where(ends[: table.ranks] > 0.0, last_start + ends[: table.ranks], finish)
        now = last_start + last
        link_bytes += stage.times * size * stage.link_share
        link_busy += stage.times * _busy_seconds(stage, state)
        events += stage.times * stage.table.transfers
        simulated += int(state.number[EVENTS])
        solved += int(state.number[SOLVED])
    return Played(
        seconds=now, finish=finish, link_bytes=link_bytes, link_busy=link_busy, events=events, simulated=simulated,
        solved=solved,
    )  # fmt: skip


def _run(p: Program, size: float) -> State:
    """The end of a simulation with `size` bytes."""
    p = p._replace(chunk_bytes=p.chunk_bytes * size, chunk_ends=p.chunk_ends * size)
    state = end_state(p)
    assert np.array_equal(state.flows["sent"], p.repeat)
    assert np.array_equal(state.flows["got"], p.repeat)
    return state


def _end_seconds(stage: Stage, state: State) -> tuple[float, Floats]:
    """(last arrival, s; when each node has received all and sent all, s, [nodes])."""
    last = state.courses["last"][stage.flow]
    ends = np.zeros(stage.table.nodes)
    np.maximum.at(ends, stage.table.destination, last)
    np.maximum.at(ends, stage.table.source, last - stage.program.delays[stage.program.delay][stage.flow])
    return float(last.max()), ends


def _busy_seconds(stage: Stage, state: State) -> Floats:
    """Seconds in which each link carried something; a link of one lane with one channel is busy when its flows are."""
    p, busy = stage.program, state.links["busy"].copy()
    busy[len(p.capacity) - len(p.start) :] += np.where(p.first > p.start, state.lanes["busy"], 0.0)
    return np.where(stage.link >= 0, busy[stage.link], 0.0)
