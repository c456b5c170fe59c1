"""The answers about a schedule: its sheet with every action, and its row in a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from podsim.answers.scheduled import ScheduledAction, ScheduleSheet
from podsim.schedules.actions import ScheduleTable, updates_before
from podsim.schedules.entries import SCHEDULES
from podsim.schedules.held import held, weight_copies
from podsim.schedules.player import idle, simulate_table, unit_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray


_WORDS = ("forward", "backward", "input", "weight")


def action_seconds(table: ScheduleTable, durations: dict[str, float]) -> NDArray[np.float64]:
    """Seconds [4, stages] of a stage: a rank's share of the model is as many parts as parts there are to a rank."""
    share = table.ranks / table.parts
    parts = {name: durations[name] * share for name in ("forward", "input", "weight")}
    return unit_seconds(table, **parts)


def schedule_sheet(table: ScheduleTable, durations: dict[str, float], overlap: float) -> ScheduleSheet:
    """The played schedule with its figures and every action."""
    start, end = simulate_table(table, action_seconds(table, durations), durations["send"], overlap=overlap)
    entry = SCHEDULES.get(table.name)
    waits = idle(table, start, end)
    return ScheduleSheet(
        schedule=table.name,
        source=entry.source if entry else "",
        ranks=table.ranks,
        virtual_stages=max(round(table.parts / table.ranks), 1),
        micro_batches=table.micro_batches,
        parts=table.parts,
        placement=entry.placement if entry else "",
        flush=table.flush,
        durations=durations,
        overlap=overlap,
        step_time=step_seconds(table, start, end),
        idle=tuple(waits.tolist()),
        bubble=idle_share(table, start, end, waits),
        staggered_bubble=idle_share(table, start, end, idle(table, start, end, staggered=True)),
        published=entry.idle if entry else "",
        activations=tuple((held(table) * table.ranks / table.parts).tolist()),
        copies=tuple(weight_copies(table).tolist()),
        staleness=_staleness(table),
        actions=_actions(table, start, end),
    )


def step_seconds(table: ScheduleTable, start: NDArray[np.float64], end: NDArray[np.float64]) -> float:
    """Seconds of a step; without a flush, of as many micro-batches of an endless run: what the busiest rank needs."""
    if table.flush:
        return float(end.max())
    busy = np.bincount(table.rank, np.where(table.beside, 0.0, end - start), table.ranks)
    return float((busy + idle(table, start, end)).max())


def idle_share(
    table: ScheduleTable, start: NDArray[np.float64], end: NDArray[np.float64], waits: NDArray[np.float64]
) -> float:
    """Time that ranks wait over the time that they work."""
    return float(waits.sum() / np.where(table.beside, 0.0, end - start).sum())


def _staleness(table: ScheduleTable) -> tuple[int, ...]:
    """Updates that the oldest gradient of each rank is late; empty with a flush."""
    if table.version is None:
        return ()
    late = np.zeros(table.ranks, np.int64)
    np.maximum.at(late, table.rank, updates_before(table) - table.version)
    return tuple(late.tolist())


def _actions(
    table: ScheduleTable, start: NDArray[np.float64], end: NDArray[np.float64]
) -> tuple[ScheduledAction, ...]:
    order = np.argsort(table.stage_rank, kind="stable")
    chunk = np.empty(table.stages, np.int64)
    chunk[order] = np.arange(table.stages) - np.searchsorted(table.stage_rank[order], table.stage_rank[order])
    versions = [None] * len(table) if table.version is None else table.version.tolist()
    columns = zip(
        table.rank.tolist(), table.work.tolist(), table.stage.tolist(), chunk[table.stage].tolist(),
        table.stage_part[table.stage].tolist(), table.micro.tolist(), start.tolist(), end.tolist(),
        table.beside.tolist(), versions, strict=True,
    )  # fmt: skip
    return tuple(
        ScheduledAction(
            rank=rank, work=_WORDS[work], stage=stage, chunk=position, part=part, micro_batch=micro, start=begin,
            end=finish, beside=beside, version=version,
        )
        for rank, work, stage, position, part, micro, begin, finish, beside, version in columns
    )  # fmt: skip
