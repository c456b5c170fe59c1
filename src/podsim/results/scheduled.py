"""What is said of pipeline schedules: one played out, or all side by side. Plain values that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ScheduledAction:
    """One pass of one micro-batch on one rank."""

    rank: int
    """pipeline rank that runs it"""
    work: str
    """forward, backward, input (its gradient alone) or weight (its gradient alone)"""
    stage: int
    """stage whose pass it is"""
    chunk: int
    """which of its rank's stages that is, from 0"""
    part: int
    """part of the model that the stage computes"""
    micro_batch: int
    """micro-batch, from 0"""
    start: float
    """s from the start of the step"""
    end: float
    """s from the start of the step"""
    beside: bool
    """runs beside the action before it"""
    version: int | None
    """asynchronous: updates that the weights have had which it uses"""


@dataclass(frozen=True, kw_only=True)
class ScheduleSheet:
    """One schedule played out with equal stages: its order in time, its bubble, and what its ranks keep."""

    schedule: str
    """its name"""
    source: str
    """where the schedule is from; "" of a file"""
    ranks: int
    """pipeline ranks"""
    virtual_stages: int
    """chunks of the model on a rank"""
    micro_batches: int
    """micro-batches of the step, or of the window shown of an endless run"""
    parts: int
    """pieces the model is cut into"""
    placement: str
    """how parts lie on ranks: loop, vee, two ways; "" of a file"""
    flush: bool
    """False: asynchronous, the pipeline never drains"""
    durations: Mapping[str, float]
    """s of one micro-batch through a rank's share of the model: forward, input, weight; send between ranks"""
    overlap: float
    """share of the shorter of two passes beside each other that the longer one hides"""
    step_time: float
    """s from first to last action; asynchronous: of as many micro-batches once the pipeline is full"""
    idle: tuple[float, ...]
    """s that each rank waits; asynchronous: while it has both forwards and backwards to do"""
    bubble: float
    """share: time that ranks wait over the time that they work"""
    staggered_bubble: float
    """share, if no rank waits for the others before its optimizer step"""
    published: str
    """seconds of waiting that the source states, as a formula; "" of a file"""
    activations: tuple[float, ...]
    """micro-batches whose activations each rank holds at most, in units of its whole share of the model"""
    copies: tuple[float, ...]
    """copies of its share of the weights that each rank keeps"""
    staleness: tuple[int, ...]
    """asynchronous: updates that a gradient is late on each rank, at most"""
    actions: tuple[ScheduledAction, ...]
    """in order, rank after rank"""


@dataclass(frozen=True, kw_only=True)
class ScheduleRow:
    """One schedule among others, for the same model on the same ranks."""

    schedule: str
    """its name"""
    virtual_stages: int
    """chunks of the model on a rank"""
    step_time: float | None
    """s, as in ScheduleSheet; None: the schedule does not exist for these sizes"""
    bubble: float | None
    """share: time that ranks wait over the time that they work"""
    staggered_bubble: float | None
    """share, if no rank waits for the others before its optimizer step"""
    activations: float | None
    """micro-batches whose activations the fullest rank holds, in units of its whole share of the model"""
    copies: float | None
    """copies of its share of the weights that the fullest rank keeps"""
    published: str
    """seconds of waiting that its source states, as a formula"""
    note: str
    """what would have to be different for it to exist, or that it is asynchronous"""


@dataclass(frozen=True, kw_only=True)
class ScheduleComparison:
    """All schedules side by side."""

    ranks: int
    """pipeline ranks"""
    micro_batches: int
    """micro-batches of the step"""
    durations: Mapping[str, float]
    """s of one micro-batch through a rank's share of the model: forward, input, weight; send between ranks"""
    overlap: float
    """share of the shorter of two passes beside each other that the longer one hides"""
    rows: tuple[ScheduleRow, ...]
    """in the order of the catalog"""
