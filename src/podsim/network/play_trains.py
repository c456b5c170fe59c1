"""Trains that share no link: their times follow from each other without events.

Transfer k of such a flow starts when transfer k - 1 has left and that of the flow before it in the ring has arrived:
E_k = max(E_{k-1}, A_{k-1}) + bytes / rate, A_k = E_k + delay. A ring of thousands of ranks is that, thousands of times.
What the trains wait for is simulated first, what waits for them afterwards, with each train as one transfer that ends
when the train does. The event kernel is the oracle in the tests.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from podsim.axes import Bools, Floats, Ints
from podsim.native import c_struct
from podsim.network.play_state import DONE, EVENTS, ROOM, SOLVED, Program, State, more_room, new_state, run

_WORTH = 200_000
"""The transfers of trains from which this is worth a second simulation of the others."""
_LEVELS = 8


class _Trains(NamedTuple):
    """The trains, in levels: those of one wait for all of what they need of lower ones."""

    flow: list[Ints]
    """The flows of each level."""
    source: list[Ints]
    """The place, in its level, of the train that each one follows."""
    before: list[Ints]
    """The flows that must have ended, or left, before any of the level starts: rows (flow, flow before, it only leaves)."""


def end_state(p: Program) -> State:
    """The end of a simulation."""
    is_train = _is_train(p)
    trains = _levels(p, is_train) if p.repeat[is_train].sum() >= _WORTH else None
    state = None if trains is None else _simulated_with(p, is_train, trains)
    return _run_to_end(p, new_state(p)) if state is None else state


def _run_to_end(p: Program, state: State) -> State:
    """The state in which nothing more can happen."""
    program = c_struct(p)
    now = run(program, state, -1.0)
    while not state.number[DONE]:
        if state.number[ROOM]:
            state = more_room(state, p)
        now = run(program, state, now)
    return state


def _is_train(p: Program) -> Bools:
    """Whether a flow is several equal transfers on a lane of one channel that shares no link."""
    flows = np.bincount(p.lane, minlength=len(p.start))
    chained = np.bincount(p.lane, p.before >= 0, len(p.start))
    alone = (p.first == p.end) & (flows - chained <= 1)
    even = np.all(p.chunk_bytes == p.chunk_bytes[0])
    return np.asarray((p.repeat > 1) & (p.width == 1) & even & alone[p.lane])


def _waited(p: Program) -> tuple[Ints, Ints, Ints]:
    """(flow, a flow of a group that its gate waits for, the lag), for each pair of flows."""
    gates = np.flatnonzero(p.gate >= 0)
    deps = np.diff(p.dep_ptr)[p.gate[gates]]
    flow = np.repeat(gates, deps)
    dep = np.repeat(p.dep_ptr[p.gate[gates]] - np.cumsum(deps) + deps, deps) + np.arange(len(flow))
    group = p.dep_group[dep]
    sizes = np.diff(p.group_ptr)[group]
    member = np.repeat(p.group_ptr[group] - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum()))
    return np.repeat(flow, sizes), p.group_flow[member], np.repeat(p.dep_lag[dep], sizes)


def _levels(p: Program, is_train: Bools) -> _Trains | None:
    """The trains in levels; None where one waits for anything but another's transfer before, or all of a flow."""
    flow, needed, lag = _waited(p)
    follows = is_train[flow] & is_train[needed] & (lag == 1)
    whole = (is_train[flow] | is_train[needed]) & ~follows
    chained = np.flatnonzero((p.before >= 0) & (is_train | is_train[p.before]))
    steps = np.bincount(flow[follows], minlength=len(is_train))
    sizes = np.bincount(p.group[p.group >= 0], minlength=len(p.group_repeat))
    if (
        np.any(steps[is_train] != 1)
        or np.any(sizes[p.group[needed[follows]]] != 1)
        or np.any(lag[whole] > 1 - p.repeat[needed[whole]])
        or not np.all(is_train[chained] & is_train[p.before[chained]])
    ):
        return None
    rows = np.stack([
        np.concatenate([flow[whole], chained]), np.concatenate([needed[whole], p.before[chained]]),
        np.repeat([0, 1], [int(whole.sum()), len(chained)]),
    ])  # fmt: skip
    rows = rows[:, is_train[rows[0]]]
    level = np.where(is_train, 0, -1)
    for _ in range(_LEVELS):
        old = level.copy()
        np.maximum.at(level, rows[0], level[rows[1]] + 1)
        np.maximum.at(level, flow[follows], level[needed[follows]])
        if np.array_equal(level, old):
            break
    else:
        return None
    if np.any(level[flow[follows]] != level[needed[follows]]):
        return None
    source = np.zeros(len(is_train), np.int64)
    source[flow[follows]] = needed[follows]
    levels = [np.flatnonzero(level == number) for number in range(int(level.max()) + 1)]
    if any(np.ptp(p.repeat[each]) for each in levels):
        return None
    return _Trains(
        levels, [np.searchsorted(each, source[each]) for each in levels],
        [rows[:, level[rows[0]] == number] for number in range(len(levels))],
    )  # fmt: skip


def _simulated_with(p: Program, is_train: Bools, trains: _Trains) -> State | None:
    """The end of a simulation with trains; None where what waits for them could slow what they wait for."""
    waiting = new_state(p._replace(repeat=np.where(is_train, 0, p.repeat)))
    ahead = _run_to_end(p, waiting)
    last, left = ahead.courses["last"].copy(), np.zeros(len(is_train))
    needed = np.concatenate([rows[1] for rows in trains.before])
    needed = needed[~is_train[needed]]
    if np.any(ahead.flows["got"][needed] < p.repeat[needed]):
        return None
    seconds, delay = waiting.flows["bytes"] / waiting.courses["limit"][...], p.delays[p.delay]
    for flow, source, rows in zip(*trains, strict=True):
        begin = np.zeros(len(is_train))
        np.maximum.at(begin, rows[0], np.where(rows[2] == 1, left[rows[1]], last[rows[1]]))
        left[flow], last[flow] = _train_ends(begin[flow], source, seconds[flow], delay[flow], int(p.repeat[flow[0]]))
    if last[needed].max(initial=0.0) > last[is_train].min():
        return None
    others = p._replace(
        repeat=np.where(is_train, 1, p.repeat), gate=np.where(is_train, -1, p.gate),
        before=np.where(is_train, -1, p.before), after=np.where(is_train, -1, p.after),
        delays=np.append(p.delays, 0.0), delay=np.where(is_train, len(p.delays), p.delay),
        group_repeat=np.where(np.isin(np.arange(len(p.group_repeat)), p.group[is_train]), 1, p.group_repeat),
    )  # fmt: skip
    state = new_state(others)
    state.flows["bytes"][is_train], state.flows["rate"][is_train] = last[is_train], 1.0
    state = _run_to_end(others, state)
    transfers = p.repeat[is_train]
    busy = np.bincount(p.lane[is_train], transfers * seconds[is_train], len(p.start))
    state.lanes["busy"] = np.where(busy > 0.0, busy, state.lanes["busy"])
    state.flows["sent"][is_train] = state.flows["got"][is_train] = transfers
    state.number[EVENTS] += transfers.sum() - len(transfers)
    state.number[SOLVED] += ahead.number[SOLVED]
    return state


def _train_ends(begin: Floats, source: Ints, seconds: Floats, delay: Floats, repeat: int) -> tuple[Floats, Floats]:
    """(s at which the last transfer of each train has left, s at which it has arrived)."""
    left = begin + seconds
    arrived = left + delay
    there = np.empty_like(arrived)
    for _ in range(repeat - 1):
        np.take(arrived, source, out=there)
        np.maximum(left, there, out=left)
        left += seconds
        np.add(left, delay, out=arrived)
    return left, arrived
