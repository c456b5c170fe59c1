"""What a real step's trace says, and how it stands beside a simulated one: plain values in SI that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.results.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class KindTime:
    """One kind of op in one step, mean over the steps that were read."""

    kind: str
    """gemm, attention, norm, …, all-reduce, …, copy"""
    group: str
    """forward, backward, optimizer, compute; tp, pp, dp, cp, ep, communication; copy"""
    count: float
    """ops of a step"""
    busy: float
    """s, sum over the ops"""
    wall: float
    """s in which at least one of them ran"""
    exposed: float
    """s of these in which no arithmetic ran: of communication and copies, what is not hidden"""


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredStep:
    """Steps of one rank, as a profiler saw them."""

    source: str
    """name of the file"""
    device: str
    """the GPU as the driver names it; "CPU" of a trace without GPU"""
    rank: int
    """0 if the file does not tell"""
    ranks: int
    """of the job; 1 if the file does not tell"""
    steps: tuple[str, ...]
    """names of the steps that were read: ProfilerStep#7, …"""
    step_times: tuple[float, ...]
    """s of each"""
    step_time: float
    """s, their mean"""
    kinds: tuple[KindTime, ...]
    """by kind and group, longest first"""
    arithmetic: float
    """s of a step in which at least one op of arithmetic ran"""
    exposed: float
    """s of a step in which communication ran and no arithmetic"""
    idle: float
    """s of a step in which nothing ran on the GPU"""
    timeline: Timeline
    """all ops of these steps, a lane for each stream; 0 is the start of the first step"""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StepRow:
    """One kind, or one group of kinds, measured and simulated."""

    kind: str
    measured: float | None
    """s in which at least one op of it ran; None if there is none"""
    simulated: float | None
    """s, likewise"""
    difference: float | None
    """share, simulated over measured less one; None where one of them is missing"""
    measured_of: tuple[str, ...] = ()
    """kinds of the trace that it holds"""
    simulated_of: tuple[str, ...] = ()
    """kinds of the simulation that it holds"""


@dataclass(frozen=True, kw_only=True)
class StepComparison:
    """A measured step beside a simulated one."""

    source: str
    """name of the trace"""
    device: str
    """its GPU"""
    model: str
    cluster: str
    process: str
    """the process of the simulation that is compared"""
    measured: float
    """s of a step"""
    simulated: float
    """s of a step"""
    difference: float
    """share, simulated over measured less one"""
    rows: tuple[StepRow, ...]
    """kind by kind, the longest first"""
    exposed: StepRow
    """communication with no arithmetic beside it"""
    idle: StepRow
    """nothing ran"""
    plan: Mapping[str, object]
    warnings: tuple[str, ...] = ()
