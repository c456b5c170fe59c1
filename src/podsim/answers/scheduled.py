"""The results of pipeline schedules: one simulated schedule, or all side by side. Plain values that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown

_EXPLAINED = (
    "v: model chunks a rank; bubble: time that ranks wait over the time that they work; staggered: if none waits for the "
    "others before its optimizer step; activations and weights: micro-batches held at once and copies kept by the "
    "fullest rank, of its share of the model"
)


def durations_text(durations: Mapping[str, float]) -> str:
    """The durations of the passes: "forward 1, input 1, weight 1, send 0"."""
    return ", ".join(f"{name} {seconds:g}" for name, seconds in durations.items())


@dataclass(frozen=True, kw_only=True)
class ScheduledAction:
    """One pass of one micro-batch on one rank."""

    rank: int
    """The pipeline rank that runs it."""
    work: str
    """The pass: forward, backward, input (its gradient alone) or weight (its gradient alone)."""
    stage: int
    """The stage of the pass."""
    chunk: int
    """The number of that stage among its rank's, from 0."""
    part: int
    """The part of the model that the stage computes."""
    micro_batch: int
    """The micro-batch, from 0."""
    start: float
    """s. The start, from the start of the step."""
    end: float
    """s. The end, from the start of the step."""
    beside: bool
    """Whether it runs at the same time as the action before it."""
    version: int | None
    """The number of updates in the weights that it uses (asynchronous schedules)."""


@dataclass(frozen=True, kw_only=True)
class ScheduleSheet(
    Answer,
    view=View(
        report="report.schedules:schedule_report",
        rows="actions",
        figure="report.plot_schedule:schedule_figure",
        chart="Schedule",
    ),
):
    """One schedule played out with equal stages: its order in time, its bubble, and what its ranks keep."""

    schedule: str
    source: str
    """The source of the schedule; "" for a file."""
    ranks: int
    """The number of pipeline ranks."""
    virtual_stages: int
    """The number of model chunks on a rank."""
    micro_batches: int
    """The number of micro-batches of the step, or of the window shown of an endless run."""
    parts: int
    """The number of pieces of the model."""
    placement: str
    """The placement of parts on ranks: loop, vee, two ways; "" for a file."""
    flush: bool
    """Whether the pipeline drains; False for asynchronous schedules."""
    durations: Mapping[str, float]
    """s. The time of one micro-batch through a rank's share of the model (forward, input, weight), and of a send
    between ranks."""
    overlap: float
    """share. The share of the shorter of two simultaneous passes that the longer one hides."""
    step_time: float
    """s. The time from first to last action; for asynchronous schedules, of as many micro-batches once the pipeline is
    full."""
    idle: tuple[float, ...]
    """s. The waiting time of each rank; for asynchronous schedules, while it has both forwards and backwards to do."""
    bubble: float
    """share. The waiting time of ranks over their working time."""
    staggered_bubble: float
    """share. The bubble if no rank waits for the others before its optimizer step."""
    published: str
    """The waiting time that the source states, as a formula; "" for a file."""
    activations: tuple[float, ...]
    """factor. The most micro-batches whose activations each rank holds, in units of its whole share of the model."""
    copies: tuple[float, ...]
    """factor. The copies of its share of the weights that each rank keeps."""
    staleness: tuple[int, ...]
    """The largest number of updates by which a gradient is late on each rank (asynchronous schedules)."""
    actions: tuple[ScheduledAction, ...]
    """The actions in order, rank after rank."""


@dataclass(frozen=True, kw_only=True)
class ScheduleRow:
    """One schedule among others, for the same model on the same ranks."""

    schedule: str
    virtual_stages: int = shown("v", of_row=lambda row: "" if row.step_time is None else row.virtual_stages)
    """The number of model chunks on a rank."""
    step_time: float | None = shown("step", ":.4g", missing="")
    """s. The time of the step, as in ScheduleSheet; None: the schedule does not exist for these sizes."""
    bubble: float | None = shown(missing="")
    """share. The waiting time of ranks over their working time."""
    staggered_bubble: float | None = shown("staggered", missing="")
    """share. The bubble if no rank waits for the others before its optimizer step."""
    activations: float | None = shown(format=lambda held: f"{held:.3g}x", missing="")
    """factor. The most micro-batches whose activations the fullest rank holds, in units of its whole share of the
    model."""
    copies: float | None = shown("weights", lambda copies: f"{copies:g}x", missing="")
    """factor. The copies of its share of the weights that the fullest rank keeps."""
    published: str = shown(is_hidden=True)
    """The waiting time that its source states, as a formula."""
    note: str
    """The condition under which it would exist, or a note that it is asynchronous."""


@dataclass(frozen=True, kw_only=True)
class ScheduleComparison(Answer, view=View(rows="rows")):
    """All schedules side by side."""

    ranks: int
    """The number of pipeline ranks."""
    micro_batches: int
    """The number of micro-batches of the step."""
    durations: Mapping[str, float] = shown(of_row=lambda answer: durations_text(answer.durations))
    """s. The time of one micro-batch through a rank's share of the model (forward, input, weight), and of a send
    between ranks."""
    overlap: float = shown(format=":g")
    """share. The share of the shorter of two simultaneous passes that the longer one hides."""
    rows: tuple[ScheduleRow, ...] = shown(title=_EXPLAINED)
    """The rows in the order of the catalog."""
