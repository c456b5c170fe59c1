"""A measured step compared with a simulated one, kind by kind: kinds that both name, and groups of the rest.

Phases are never guessed from names: a product has the same kernel forward and backward. What the profile does not say is
one row on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.answers.measured import MeasuredStep, StepComparison, StepRow
from podsim.answers.simulated import SimulatedStep
from podsim.answers.timeline import Timeline
from podsim.errors import TimelineError, check_name
from podsim.timeline.kineto_kinds import ARITHMETIC, COLLECTIVES
from podsim.timeline.spans import covered_seconds, uncovered_seconds

Texts: TypeAlias = NDArray[np.str_]
GROUPS: Mapping[str, str] = {
    "forward": "forward", "backward": "backward", "recompute": "backward", "weight": "backward", "input": "backward",
    "optimizer": "optimizer", "compute": "compute", "tp": "tp", "pp": "pp", "send": "pp", "receive": "pp", "recv": "pp",
    "dp": "dp", "gradients": "dp", "weights": "dp", "cp": "cp", "ep": "ep", "communication": "communication",
    "copy": "copy",
}  # fmt: skip
"""the group of each simulated kind; any other kind is arithmetic or a collective, by its name"""
_PHASES = ("forward", "backward", "compute")
_TALKS = ("tp", "dp", "cp", "ep", "communication")


def busiest_process(timeline: Timeline) -> str:
    """The process whose lanes are busy longest."""
    busy: dict[str, float] = {}
    for lane, seconds in zip(timeline.lanes, timeline.busy("lane").tolist(), strict=True):
        busy[lane.process] = busy.get(lane.process, 0.0) + seconds
    return max(busy, key=lambda process: busy[process])


def compare_steps(measured: MeasuredStep, simulated: SimulatedStep, *, process: str = "") -> StepComparison:
    """A row for each kind that both know, and for each group of the others; seconds in which at least one op ran.

    `process` names the simulated rank (or class of ranks) that the trace corresponds to; default: the busiest one. If the
    trace does not separate forward from backward, or collectives by parallelism, they share one row on both sides.
    Raises TimelineError on an unknown process and on an empty simulation.
    """
    timeline = simulated.timeline
    if not len(timeline):
        raise TimelineError("the simulated step holds no span; there is nothing to compare")
    processes = dict.fromkeys(lane.process for lane in timeline.lanes)
    process = process or busiest_process(timeline)
    check_name("process of the simulation", process, processes, TimelineError)
    many = len(measured.step_times)
    ours = _of_process(timeline, process)
    kinds = np.array([measured.timeline.kinds[k] for k in measured.timeline.kind.tolist()])
    theirs = _Side(
        kinds, np.asarray(measured.timeline.arguments["group"]).astype(str), measured.timeline.start,
        measured.timeline.end, many,
    )  # fmt: skip
    rows = _rows(theirs, ours)
    exposed = _row("exposed communication", measured.exposed, ours.exposed_seconds())
    idle = _row("idle", measured.idle, max(0.0, simulated.step_time - covered_seconds(ours.start, ours.end)))
    return StepComparison(
        source=measured.source, device=measured.device, model=simulated.model, cluster=simulated.cluster,
        process=process, measured=measured.step_time, simulated=simulated.step_time,
        difference=simulated.step_time / measured.step_time - 1, rows=rows, exposed=exposed, idle=idle,
        plan=simulated.plan, warnings=measured.warnings,
    )  # fmt: skip


class _Side:
    """Spans of one side: their kinds, groups and times, over a number of steps."""

    def __init__(
        self, kinds: Texts, groups: Texts, start: NDArray[np.float64], end: NDArray[np.float64], many: int
    ) -> None:
        self.kinds, self.groups, self.start, self.end, self.many = kinds, groups, start, end, many

    def wall(self, chosen: NDArray[np.bool_]) -> float | None:
        """Seconds of a step in which at least one of the chosen spans runs; None if there is none."""
        return covered_seconds(self.start[chosen], self.end[chosen]) / self.many if chosen.any() else None

    def exposed_seconds(self) -> float:
        """Seconds of a step in which communication runs without arithmetic."""
        talks = np.isin(self.groups, (*_TALKS, "pp"))
        works = np.isin(self.groups, (*_PHASES, "optimizer"))
        return (
            uncovered_seconds(self.start[talks], self.end[talks], self.start[works], self.end[works])
            / self.many
        )


def _of_process(timeline: Timeline, process: str) -> _Side:
    mine = np.array([lane.process == process for lane in timeline.lanes])[timeline.lane]
    kinds = np.array([timeline.kinds[k] for k in timeline.kind[mine].tolist()], dtype=str)
    groups = np.array([_group(kind) for kind in kinds.tolist()], dtype=str)
    return _Side(kinds, groups, timeline.start[mine], timeline.end[mine], 1)


def _group(kind: str) -> str:
    if kind in GROUPS:
        return GROUPS[kind]
    if kind in COLLECTIVES:
        return "communication"
    return "compute" if kind in ARITHMETIC else kind


def _rows(theirs: _Side, ours: _Side) -> tuple[StepRow, ...]:
    shared = set(theirs.kinds.tolist()) & set(ours.kinds.tolist())
    groups = [
        side.groups.astype(object) for side in (theirs, ours)
    ]  # a longer name may take a shorter one's place
    for several, common in ((_PHASES, "compute"), (_TALKS, "communication")):
        rest = [
            g[~np.isin(side.kinds, sorted(shared))] for g, side in zip(groups, (theirs, ours), strict=True)
        ]
        if any(common in held for held in rest):
            for held in groups:
                held[np.isin(held, several)] = common
    labels = [
        np.where(np.isin(side.kinds, sorted(shared)), side.kinds, held)
        for side, held in zip((theirs, ours), groups, strict=True)
    ]
    rows = []
    for label in dict.fromkeys((*labels[0].tolist(), *labels[1].tolist())):
        here, there = labels[0] == label, labels[1] == label
        rows.append(
            _row(
                label,
                theirs.wall(here),
                ours.wall(there),
                _distinct(theirs.kinds[here]),
                _distinct(ours.kinds[there]),
            )
        )
    return tuple(sorted(rows, key=lambda row: -max(row.measured or 0.0, row.simulated or 0.0)))


def _distinct(kinds: Texts) -> tuple[str, ...]:
    return tuple(dict.fromkeys(kinds.tolist()))


def _row(
    kind: str,
    measured: float | None,
    simulated: float | None,
    of: tuple[str, ...] = (),
    by: tuple[str, ...] = (),
) -> StepRow:
    known = measured is not None and simulated is not None and measured > 0
    difference = (
        simulated / measured - 1 if known and simulated is not None and measured is not None else None
    )
    return StepRow(
        kind=kind,
        measured=measured,
        simulated=simulated,
        difference=difference,
        measured_of=of,
        simulated_of=by,
    )
