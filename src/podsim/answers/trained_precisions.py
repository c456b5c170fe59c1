"""Runs of one network in several precisions and with several seeds, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View


@dataclass(frozen=True, kw_only=True)
class PrecisionCurve:
    """One run."""

    precision: str
    loss_scale: str
    seed: int
    losses: tuple[float, ...]
    """factor. The loss of each step."""
    final: float | None
    """factor. The mean loss of the last tenth of the steps; None for a run that diverged."""
    lost: float
    """share. The share of the gradients before products that rounding made 0, over all steps."""
    lost_most: str
    """The tensor that lost the largest share, and that share."""
    skipped: int
    """The number of steps that a dynamic loss scale skipped."""
    diverged: int | None
    """The step at which loss or gradients were not finite; None for a run that ended well."""
    overflow: str
    """The first tensor that was not finite."""
    step_time: float
    """s. The median time of a step."""


@dataclass(frozen=True, kw_only=True)
class PrecisionRow:
    """All seeds of one precision."""

    precision: str
    loss_scale: str
    seeds: int
    loss: float | None
    """factor. The mean final loss of the seeds; None if any diverged."""
    spread: float | None
    """factor. The standard deviation of the final loss over the seeds; None for a single one."""
    difference: float | None
    """factor. The mean difference from the first precision, seed by seed."""
    lost: float
    """share. The share of the gradients before products that rounding made 0, in the mean."""
    lost_most: str
    """The tensor that lost the largest share, and that share."""
    skipped: int
    """The number of steps that a dynamic loss scale skipped, of all seeds."""
    step_time: float
    """s. The median time of a step; rounding is emulated, so that it says nothing of a GPU."""
    is_within: bool | None
    """Whether the difference is at most the spread of the first precision over its seeds; None if that is unknown."""
    verdict: str
    """The verdict: within seed noise, beyond it, or where it diverged."""


@dataclass(frozen=True, kw_only=True)
class TrainedPrecisions(
    Answer,
    view=View(
        report="report.precision_tables:precisions_report",
        rows="rows",
        figure="report.plot_precisions:precision_figure",
    ),
):
    """A network trained in several precisions."""

    model: str
    data: str
    steps: int
    noise: float | None
    """factor. The standard deviation of the first precision's final loss over the seeds; None for a single seed."""
    rows: tuple[PrecisionRow, ...]
    curves: tuple[PrecisionCurve, ...]
