"""Trains that share no link: their times follow from each other without events.

Transfer k of such a flow starts when transfer k - 1 has left and that of the flow before it in the ring has arrived:
E_k = max(E_{k-1}, A_{k-1}) + bytes / rate, A_k = E_k + delay. What trains wait for is simulated first, what waits for
them afterwards, with each train as one transfer that ends when the train does. The event kernel is the oracle in the
tests.
"""

from __future__ import annotations

import numpy as np

from podsim.axes import Bools, Floats, Ints, Shaped
from podsim.native import c_struct
from podsim.network.play_program import entries
from podsim.network.play_state import DONE, EVENTS, ROOM, SOLVED, Program, State, more_room, new_state, run

_WORTH = 200_000
"""The transfers of trains from which this is worth a second simulation of the others."""


def end_state(p: Program) -> State:
    """The end of a simulation."""
    is_train = _is_train(p)
    state = _with_trains(p, is_train) if p.repeat[is_train].sum() > _WORTH else None
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
    lanes = len(p.start)
    channels = np.bincount(p.lane, p.before < 0, lanes)
    is_even = np.all(p.chunk_bytes == p.chunk_bytes[0])
    alone = (p.first == p.end) & (channels <= 1)
    return np.asarray((p.repeat > 1) & (p.width == 1) & is_even & alone[p.lane])


def _needs(p: Program) -> tuple[Ints, Ints, Ints]:
    """(flow, a flow of a group that its gate waits for, the lag), for each pair of flows."""
    flow = np.flatnonzero(p.gate >= 0)
    at, dep = entries(p.dep_ptr, p.gate[flow])
    which, member = entries(p.group_ptr, p.dep_group[dep])
    return flow[at][which], p.group_flow[member], p.dep_lag[dep][which]


def _order(p: Program, is_train: Bools) -> tuple[list[Ints], Ints, Shaped[Ints, "field flow"]] | None:
    """(trains that run together, in order; the train that each follows; (train, flow that must have ended, or left)).

    None where a train waits for anything but another's transfer before, or all of a flow.
    """
    flow, needed, lag = _needs(p)
    follows = is_train[flow] & is_train[needed] & (lag == 1)
    ends = (is_train[flow] | is_train[needed]) & ~follows
    chained = np.flatnonzero((p.before >= 0) & (is_train | is_train[p.before]))
    sizes = np.diff(p.group_ptr)[p.group[needed[follows]]]
    source = np.full(len(is_train), -1)
    source[flow[follows]] = needed[follows]
    if (
        int(follows.sum()) != int(is_train.sum())
        or np.any(source[is_train] < 0)
        or np.any(sizes != 1)
        or np.any(lag[ends] > 1 - p.repeat[needed[ends]])
        or not np.all(is_train[chained] & is_train[p.before[chained]])
    ):
        return None
    leaves = np.repeat([0, 1], [int(ends.sum()), len(chained)])
    rows = np.stack([np.append(flow[ends], chained), np.append(needed[ends], p.before[chained]), leaves])
    rows = rows[:, is_train[rows[0]]]
    together, is_done = [], ~is_train
    while not is_done.all():
        free = ~is_done
        free[rows[0][~is_done[rows[1]]]] = False
        if not free.any() or not free[source[free]].all() or np.ptp(p.repeat[free]):
            return None
        together.append(np.flatnonzero(free))
        is_done |= free
    return together, source, rows


def _with_trains(p: Program, is_train: Bools) -> State | None:
    """The end of a simulation with trains; None where they do not go alone, or may slow what they wait for."""
    order = _order(p, is_train)
    if order is None:
        return None
    together, source, (flow, needed, leaves) = order
    without = p._replace(repeat=np.where(is_train, 0, p.repeat))
    state = new_state(without)
    seconds, delay = state.flows["bytes"] / state.courses["limit"], p.delays[p.delay]
    ahead = _run_to_end(without, state)
    others = needed[~is_train[needed]]
    if np.any(ahead.flows["got"][others] < p.repeat[others]):
        return None
    last, left, solved = ahead.courses["last"].copy(), np.zeros(len(is_train)), ahead.number[SOLVED]
    for trains in together:
        begin = np.zeros(len(is_train))
        np.maximum.at(begin, flow, np.where(leaves, left[needed], last[needed]))
        earlier = np.searchsorted(trains, source[trains])
        ends = _train_ends(begin[trains], earlier, seconds[trains], delay[trains], int(p.repeat[trains[0]]))
        left[trains], last[trains] = ends
    if last[others].max(initial=0.0) > last[is_train].min():
        return None
    at_once = {name: np.where(is_train, -1, getattr(p, name)) for name in ("gate", "before", "after")}
    group_repeat = p.group_repeat.copy()
    group_repeat[p.group[is_train & (p.group >= 0)]] = 1
    rest = p._replace(
        repeat=np.where(is_train, 1, p.repeat), delays=np.append(p.delays, 0.0), group_repeat=group_repeat,
        delay=np.where(is_train, len(p.delays), p.delay), **at_once,
    )  # fmt: skip
    state = new_state(rest)
    state.flows["bytes"][is_train], state.flows["rate"][is_train] = last[is_train], 1.0
    state = _run_to_end(rest, state)
    times = p.repeat[is_train]
    state.flows["sent"][is_train] = state.flows["got"][is_train] = times
    busy = np.bincount(p.lane[is_train], times * seconds[is_train], len(p.start))
    state.lanes["busy"] = np.where(busy > 0.0, busy, state.lanes["busy"])
    state.number[EVENTS] += times.sum() - len(times)
    state.number[SOLVED] += solved
    return state


def _train_ends(
    begin: Floats, source: Ints, seconds: Floats, delay: Floats, repeat: int
) -> tuple[Floats, Floats]:
    """(s at which the last transfer of each train has left, s at which it has arrived).

    Trains of equal transfers end `repeat` of them after the latest of the beginnings up to repeat - 1 trains back, each
    with the delays from there on.
    """
    if not np.ptp(seconds):
        way, back = None, (begin, delay[source], source)
        for bit in reversed(f"{repeat:b}"):
            if bit == "1":
                way = back if way is None else _joined(way, back)
            back = _joined(back, back)
        assert way is not None
        left = way[0] + repeat * seconds
        return left, left + delay
    left = begin + seconds
    arrived, there = left + delay, np.empty_like(left)
    for _ in range(repeat - 1):
        np.take(arrived, source, out=there)
        np.maximum(left, there, out=left)
        left += seconds
        np.add(left, delay, out=arrived)
    return left, arrived


def _joined(
    near: tuple[Floats, Floats, Ints], far: tuple[Floats, Floats, Ints]
) -> tuple[Floats, Floats, Ints]:
    """(latest beginning with its delays, all delays, train behind) of the ways back over `near` and then `far`."""
    latest, delays, behind = near
    return np.maximum(latest, delays + far[0][behind]), delays + far[1][behind], far[2][behind]
