"""A real step's trace, and its comparison with a simulated step: plain values in SI that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class KindTime:
    """One kind of op in one step, mean over the steps that were read."""

    kind: str
    """The kind: gemm, attention, norm, …, all-reduce, …, copy."""
    group: str
    """The group: forward, backward, optimizer, compute; tp, pp, dp, cp, ep, communication; copy."""
    count: float
    """factor. The number of ops of a step."""
    busy: float
    """s. The sum of the ops' times."""
    wall: float
    """s. The time in which at least one op of the kind ran."""
    exposed: float
    """s. The part of `wall` in which no arithmetic ran: for communication and copies, what is not hidden."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredStep:
    """Steps of one rank, as a profiler saw them."""

    source: str
    """The name of the file."""
    device: str
    """The GPU as the driver names it; "CPU" for a trace without a GPU."""
    rank: int
    """The rank; 0 if the file does not tell."""
    ranks: int
    """The number of ranks of the job; 1 if the file does not tell."""
    steps: tuple[str, ...]
    """The names of the steps that were read: ProfilerStep#7, …"""
    step_times: tuple[float, ...]
    """s. The time of each step."""
    step_time: float
    """s. The mean time of a step."""
    kinds: tuple[KindTime, ...]
    """The rows by kind and group, longest first."""
    arithmetic: float
    """s. The time of a step in which at least one arithmetic op ran."""
    exposed: float
    """s. The time of a step in which communication ran and no arithmetic."""
    idle: float
    """s. The time of a step in which nothing ran on the GPU."""
    timeline: Timeline
    """The ops of these steps, with a lane for each stream; 0 is the start of the first step."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """One kind, or one group of kinds, measured and simulated."""

    kind: str
    measured: float | None
    """s. The time in which at least one measured op ran; None if there is none."""
    simulated: float | None
    """s. The time in which at least one simulated op ran; None if there is none."""
    difference: float | None
    """share. The simulation over the measurement, minus one; None if one of them is missing."""
    measured_of: tuple[str, ...] = ()
    """The kinds of the trace in this row."""
    simulated_of: tuple[str, ...] = ()
    """The kinds of the simulation in this row."""


@dataclass(frozen=True, kw_only=True)
class StepComparison(Answer, view=View(report="report.step_tables:against_report", rows="rows")):
    """A measured step compared with a simulated one."""

    source: str
    """The name of the trace."""
    device: str
    """The GPU of the trace."""
    model: str
    cluster: str
    process: str
    """The process of the simulation that is compared."""
    measured: float
    """s. The measured time of a step."""
    simulated: float
    """s. The simulated time of a step."""
    difference: float
    """share. The simulation over the measurement, minus one."""
    rows: tuple[StepRow, ...]
    """The rows by kind, longest first."""
    exposed: StepRow
    """The row of communication without simultaneous arithmetic."""
    idle: StepRow
    """The row of the time in which nothing ran."""
    plan: Mapping[str, object]
    warnings: tuple[str, ...] = ()
