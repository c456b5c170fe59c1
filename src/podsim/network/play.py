"""The simulation of a collective on links: when every transfer starts and ends, sharing what it crosses.

A transfer starts when the data it sends on have arrived, and the one before it on the same ends and channel has left.
While under way it gets its max-min share of its links; the last byte arrives the route's latency after it
left. In a lockstep table a step starts when all of the step before has arrived.

    table ── waits ──▶ flows ──┐
    fabric ── routes ─▶ lanes ─┴─▶ Prepared (for any size) ── run ──▶ Played

With `fold`, flows that cannot be told apart are simulated once (podsim.network.play_fold); the results are unfolded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.errors import ClusterError, TableError
from podsim.network.collectives.prove import check_rows
from podsim.network.collectives.table import Floats, Ints, Table, row_share
from podsim.network.play_engine import run
from podsim.network.play_fold import fold_program
from podsim.network.play_links import Fabric, Routes
from podsim.network.play_program import Waits, mix, waits
from podsim.network.play_state import EVENTS, SOLVED, TIGHT, Program, State, more_room, new_state, typed

__all__ = ["Played", "Prepared", "play", "prepare"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Played:
    """When a collective ended, and what its links carried."""

    seconds: float
    """last arrival, s"""
    finish: Floats
    """when each rank has received all and sent all, s, [ranks]"""
    link_bytes: Floats
    """B over each link, [links]"""
    link_busy: Floats
    """s in which each link carried something, [links]"""
    events: int
    """transfers that ended, all counted"""
    simulated: int
    """transfers that were simulated: fewer than `events` if folded"""
    solved: int
    """times that shares had to be worked out"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A table on a fabric, ready to be played with any size."""

    table: Table
    program: Program
    """for size 1"""
    flow: Ints
    """the simulated flow of each row of `table`"""
    link: Ints
    """where a link's busy time is kept, -1 if nothing crosses it, [links]"""
    link_share: Floats
    """bytes over each link as a share of `size`, [links]"""


def _check_routes(routes: Routes, fabric: Fabric, source: Ints, destination: Ints) -> None:
    indptr, links = routes
    capacity, latency = fabric.capacity, fabric.latency
    if len(indptr) != len(source) + 1 or indptr[0] != 0 or indptr[-1] != len(links) or np.any(np.diff(indptr) < 0):
        raise ClusterError(f"routes: indptr must rise from 0 to {len(links)} in {len(source) + 1} values")
    if len(capacity) != len(latency):
        raise ClusterError(f"fabric: {len(capacity)} capacities and {len(latency)} latencies; one of each a link")
    outside = (links < 0) | (links >= len(capacity))
    for entry in np.flatnonzero(outside)[:1]:
        raise ClusterError(f"routes: link {links[entry]} does not exist; there are links 0 to {len(capacity) - 1}")
    bad = ~(capacity[links] > 0.0) | ~((latency[links] >= 0.0) & np.isfinite(latency[links]))
    for entry in np.flatnonzero(bad)[:1]:
        lane = int(np.searchsorted(indptr, entry, side="right")) - 1
        raise ClusterError(
            f"link {links[entry]}, on the way from {source[lane]} to {destination[lane]}, has capacity "
            f"{capacity[links[entry]]:g} B/s and latency {latency[links[entry]]:g} s; a link in use needs a positive "
            "capacity and a latency that is not negative"
        )


def _rows_of(values: Ints, n: int) -> tuple[Ints, Ints]:
    """(pointer [n + 1], places of each value 0 .. n - 1, in order); negative values are left out."""
    order = np.argsort(values, kind="stable")
    pointer = np.searchsorted(values[order], np.arange(n + 1))
    return pointer - pointer[0], order[pointer[0] :]


def _lanes(routes: Routes, fabric: Fabric, channels: Ints) -> tuple[dict[str, Ints | Floats], Ints]:
    """The columns of Program about lanes, and where each link's busy time is kept.

    A lane's entries: its own limit (1); links that can bind it together with others (2); other links that
    it shares, which only carry it (3). Links of one lane alone are in its own limit. channels: of each lane.
    """
    indptr, links = routes
    lanes, n_links = len(indptr) - 1, len(fabric.capacity)
    lane_of = np.repeat(np.arange(lanes), np.diff(indptr))
    limit = np.full(lanes, np.inf)
    np.minimum.at(limit, lane_of, fabric.capacity[links])
    users = np.bincount(links, minlength=n_links)
    demand = np.bincount(links, np.minimum(limit[lane_of], 1e300), n_links)
    binding = (users > 1) & (demand > fabric.capacity * TIGHT)
    kind = np.where(binding[links], 2, np.where(users[links] > 1, 3, 4))
    where = np.full(n_links, -1)
    where[links] = n_links + lane_of
    where[users > 1] = np.flatnonzero(users > 1)
    kind = np.concatenate([np.ones(lanes, np.int64), kind])
    lane_of, link = np.concatenate([np.arange(lanes), lane_of]), np.concatenate([n_links + np.arange(lanes), links])
    order = np.argsort(lane_of * 4 + kind - 1, kind="stable")
    order = order[kind[order] < 4]
    start = np.searchsorted(lane_of[order], np.arange(lanes + 1))
    bound = np.bincount(lane_of[order], kind[order] < 3, lanes).astype(np.int64)
    columns: dict[str, Ints | Floats] = {
        "start": start[:-1], "first": start[:-1] + (channels == 1), "middle": start[:-1] + bound, "end": start[1:],
        "link": link[order], "use": np.ones(len(order)), "capacity": np.concatenate([fabric.capacity, limit]),
        "key": mix(np.arange(lanes)), "ones": np.ones(lanes),
    }  # fmt: skip
    return columns, where


def _channels(table: Table, lane: Ints) -> Ints:
    """How many channels each lane has."""
    pairs = np.unique(lane * (int(table.channel.max(initial=0)) + 1) + table.channel)
    return np.bincount(pairs // (int(table.channel.max(initial=0)) + 1)).astype(np.int64)


def _program(table: Table, wait: Waits, lane: Ints, delay: Floats, lanes: dict[str, Ints | Floats]) -> Program:
    """All of it as the simulation wants it, for size 1."""
    flows, gates, groups = len(lane), len(wait.dep_ptr) - 1, len(wait.group_repeat)
    after = np.full(flows, -1)
    after[wait.before[wait.before >= 0]] = np.flatnonzero(wait.before >= 0)
    gate_ptr, gate_flow = _rows_of(wait.gate, gates)
    group_ptr, group_flow = _rows_of(wait.group, groups)
    wake_ptr, wake = _rows_of(wait.dep_group, groups)
    wake_gate = np.repeat(np.arange(gates), np.diff(wait.dep_ptr))[wake]
    delays, which = np.unique(delay, return_inverse=True)
    rows = {key: getattr(table, key) for key in ("repeat", "chunk", "count", "turn")}
    return typed(Program(
        **rows, wheel=np.maximum(table.wheel, 1), chunk_bytes=table.sizes,
        chunk_ends=np.concatenate([[0.0], np.cumsum(table.sizes)]), lane=lane, delay=which, delays=delays,
        before=wait.before, after=after, gate=wait.gate, dep_ptr=wait.dep_ptr, dep_group=wait.dep_group,
        dep_lag=wait.dep_lag, gate_ptr=gate_ptr, gate_flow=gate_flow, group=wait.group, group_repeat=wait.group_repeat,
        group_ptr=group_ptr, group_flow=group_flow, wake_ptr=wake_ptr, wake_gate=wake_gate,
        wake_lag=wait.dep_lag[wake], **lanes,
    ))  # fmt: skip


def _sent_share(table: Table) -> Floats:
    """Bytes that each row sends in all, as a share of `size`."""
    share = row_share(table, np.arange(len(table.step)), np.zeros(len(table.step), np.int64)) * table.repeat
    if np.any(table.sizes != table.sizes[0]):
        trains = np.flatnonzero(table.repeat > 1)
        for row in trains:
            times = np.arange(table.repeat[row])
            share[row] = row_share(table, np.full(len(times), row), times).sum()
    return share


def prepare(table: Table, fabric: Fabric, *, fold: bool = False) -> Prepared:
    """A table on a fabric, ready for `play` with any size: what waits for what, and which links are shared.

    Raises TableError for a row that no table may have (run `check` or `prove` for what it does to data) and
    ClusterError for a route over a link that does not exist or cannot carry anything.
    """
    check_rows(table)
    table, wait = waits(table)
    ends, lane = np.unique(table.source * table.nodes + table.destination, return_inverse=True)
    source, destination = ends // table.nodes, ends % table.nodes
    routes = fabric.routes(source, destination)
    _check_routes(routes, fabric, source, destination)
    indptr, links = routes
    hops = np.repeat(np.arange(len(ends)), np.diff(indptr))
    delay = np.bincount(hops, fabric.latency[links], len(ends))
    lanes, link = _lanes(routes, fabric, _channels(table, lane))
    program = _program(table, wait, lane.astype(np.int64), delay[lane], lanes)
    lane_share = np.bincount(lane, _sent_share(table), len(ends))
    flow = np.arange(len(lane))
    if fold:
        program, flow, slots = fold_program(program)
        link = np.where(link >= 0, slots[link], -1)
    return Prepared(
        table=table, program=program, flow=flow, link=link,
        link_share=np.bincount(links, lane_share[hops], len(fabric.capacity)),
    )  # fmt: skip


def play(table: Table | Prepared, size: float, fabric: Fabric | None = None, *, fold: bool = False) -> Played:
    """The table played on the fabric (or as prepared before) with a buffer of `size` bytes."""
    if isinstance(table, Table):
        if fabric is None:
            raise TableError(f"{table.name}: no fabric to play on; give one, or a Prepared table")
        table = prepare(table, fabric, fold=fold)
    if not (size >= 0.0 and np.isfinite(size)):
        raise TableError(f"{table.table.name}: size {size} B; it must be finite and not negative")
    p = table.program._replace(
        chunk_bytes=table.program.chunk_bytes * size, chunk_ends=table.program.chunk_ends * size
    )
    state = new_state(p)
    now, done = run(p, state, -1.0)
    while not done:
        state = more_room(state)
        now, done = run(p, state, now)
    assert np.array_equal(state.flows["sent"], p.repeat) and np.array_equal(state.flows["got"], p.repeat)
    return _result(table, size, p, state)


def _result(prepared: Prepared, size: float, p: Program, s: State) -> Played:
    table, last = prepared.table, s.flows["last"][prepared.flow]
    finish = np.zeros(table.nodes)
    np.maximum.at(finish, table.destination, last)
    np.maximum.at(finish, table.source, last - p.delays[p.delay][prepared.flow] if len(last) else last)
    busy, alone = s.links["busy"].copy(), len(p.capacity) - len(p.start)
    busy[alone:] += np.where(p.first > p.start, np.bincount(p.lane, s.flows["busy"], len(p.start)), 0.0)
    return Played(
        seconds=float(last.max(initial=0.0)),
        finish=finish[: table.ranks],
        link_bytes=prepared.link_share * size,
        link_busy=np.where(prepared.link >= 0, np.append(busy, 0.0)[prepared.link], 0.0),
        events=table.transfers,
        simulated=int(s.number[EVENTS]),
        solved=int(s.number[SOLVED]),
    )
