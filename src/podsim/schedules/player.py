"""When each action of a table runs, given durations: the longest path through order and dependencies; and the bubble."""

from __future__ import annotations

import numpy as np

from podsim.axes import Bools, Floats
from podsim.errors import ScheduleError
from podsim.schedules.actions import ScheduleTable, Work, action_text
from podsim.schedules.joined import Joined, begin_seconds, simulate_nodes


def unit_seconds(
    table: ScheduleTable, *, forward: float = 1.0, input: float = 1.0, weight: float = 1.0
) -> Floats:
    """Durations [4, stages] of equal stages, in any unit of time; a whole backward takes both gradients' time."""
    of_work = np.array([forward, input + weight, input, weight])
    return np.repeat(of_work[:, None], table.stages, axis=1)


def simulate_table(
    table: ScheduleTable, seconds: Floats, send: float = 0.0, *, overlap: float = 0.0
) -> tuple[Floats, Floats]:
    """(start, end) of each action, s from the start of the step, [actions].

    `seconds` [4, stages] is the duration of each Work on each stage and `send` the latency from one rank to another.
    Actions that run side by side start and end together: after their sum (`overlap` 0: arithmetic adds up, and
    what is gained is that sends hide), after the longest of them (1), or between. Raises ScheduleError if ranks wait
    for each other, naming what each waits for.
    """
    joined = Joined([table])
    node_seconds = joined.node_seconds(np.asarray(seconds, dtype=float)[:, :, None], overlap)
    play = simulate_nodes(joined, node_seconds, np.array([float(send)]))
    if not play.is_done.all():
        raise ScheduleError([_cycle_text(table, ~np.repeat(play.is_done, joined.size))])
    end = play.end[:, 0]
    return np.repeat(begin_seconds(joined, end, send), joined.size), np.repeat(end, joined.size)


def _cycle_text(table: ScheduleTable, waits: Bools) -> str:
    """One circle of ranks that wait for each other, in words; `waits` are the actions that never run."""
    need = table.need
    blocked: dict[int, tuple[int, int]] = {}
    """rank -> (the action that cannot run, the action it waits for)"""
    for rank in range(table.ranks):
        late = np.flatnonzero(waits[table.row(rank)])
        if len(late):
            first = int(table.pointer[rank] + late[0])
            group = [first, *_partners(table, first)]
            culprit = next(a for a in group if need[a] >= 0 and waits[need[a]])
            blocked[rank] = (culprit, int(need[culprit]))
    path = [next(iter(blocked))]
    while (after := int(table.rank[blocked[path[-1]][1]])) not in path:
        path.append(after)
    circle = path[path.index(after) :]
    waits_text = [
        f"rank {rank} waits at {action_text(table, blocked[rank][0])} for {action_text(table, blocked[rank][1])} "
        f"of rank {table.rank[blocked[rank][1]]}"
        for rank in circle
    ]
    return f"deadlock: {'; '.join(waits_text)}; {int(waits.sum())} of {len(table)} actions never run"


def _partners(table: ScheduleTable, action: int) -> list[int]:
    """The actions that overlap with one, after it in its rank's order."""
    end = int(table.pointer[table.rank[action] + 1])
    out = []
    while (action := action + 1) < end and table.beside[action]:
        out.append(action)
    return out


def idle(table: ScheduleTable, start: Floats, end: Floats, *, staggered: bool = False) -> Floats:
    """Seconds in which each rank waits, [ranks].

    Of a schedule that flushes: from the start of the step to its end. With `staggered`, each rank begins the next step
    when it has finished its own part (no rank waits for the others before its optimizer step, as Qi et al. 2023 do by
    validating afterwards), so that steps follow each other as far apart as the longest any rank is at work.
    Without a flush the table is a piece of an endless run: counted is the time in which a rank has both forwards and
    backwards to do, as its first and last actions have neighbours that the table does not show.
    """
    seconds = np.where(table.beside, 0.0, end - start)
    busy = np.bincount(table.rank, seconds, table.ranks)
    if table.flush and not staggered:
        return np.asarray(end.max(initial=0.0) - busy)
    if table.flush:
        first, last = np.full(table.ranks, np.inf), np.zeros(table.ranks)
        np.minimum.at(first, table.rank, start)
        np.maximum.at(last, table.rank, end)
        return np.asarray((last - first).max() - busy)
    return np.array([_endless_wait_seconds(table, start, end, seconds, rank) for rank in range(table.ranks)])


def _endless_wait_seconds(
    table: ScheduleTable, start: Floats, end: Floats, seconds: Floats, rank: int
) -> float:
    """Seconds a rank waits between its first backward and its last forward."""
    row = table.row(rank)
    forward = table.work[row] == Work.FORWARD
    low, high = start[row][~forward].min(initial=np.inf), end[row][forward].max(initial=0.0)
    inside = (start[row] >= low) & (end[row] <= high)
    return float(max(high - low, 0.0) - seconds[row][inside].sum())


def bubble(
    table: ScheduleTable, seconds: Floats, send: float = 0.0, *, overlap: float = 0.0, staggered: bool = False
) -> float:
    """Time that ranks wait over the time that they work, all ranks together: (p - 1) / m for 1F1B with equal stages."""
    start, end = simulate_table(table, seconds, send, overlap=overlap)
    busy = float(np.where(table.beside, 0.0, end - start).sum())
    return float(idle(table, start, end, staggered=staggered).sum()) / busy if busy else 0.0
