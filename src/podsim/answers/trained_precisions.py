"""Runs of one network in several precisions and with several seeds, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown


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
    loss_scale: str = shown("scale", hide_if="none")
    seeds: int
    loss: float | None = shown(format=":.4f")
    """factor. The mean final loss of the seeds; None if any diverged."""
    spread: float | None = shown(format=":.4f")
    """factor. The standard deviation of the final loss over the seeds; None for a single one."""
    difference: float | None = shown(format=":+.4f")
    """factor. The mean difference from the first precision, seed by seed."""
    lost: float = shown(
        "underflow", of_row=lambda row: f"{row.lost:.1%}" + f", most in {row.lost_most}" * bool(row.lost_most)
    )
    """share. The share of the gradients before products that rounding made 0, in the mean."""
    lost_most: str = shown(is_hidden=True)
    """The tensor that lost the largest share, and that share."""
    skipped: int = shown("skipped steps", hide_if=0)
    """The number of steps that a dynamic loss scale skipped, of all seeds."""
    step_time: float = shown("step", "units:short_seconds", drop=1)
    """s. The median time of a step; rounding is emulated, so that it says nothing of a GPU."""
    is_within: bool | None = shown(is_hidden=True)
    """Whether the difference is at most the spread of the first precision over its seeds; None if that is unknown."""
    verdict: str
    """The verdict: within seed noise, beyond it, or where it diverged."""


@dataclass(frozen=True, kw_only=True)
class TrainedPrecisions(
    Answer,
    view=View(
        rows="rows",
        figure="report.plot_training:precision_figure",
    ),
):
    """A network trained in several precisions."""

    model: str
    data: str
    steps: int
    noise: float | None = shown(
        "seed noise", ":.4f", remark="the spread of the first precision over its seeds"
    )
    """factor. The standard deviation of the first precision's final loss over the seeds; None for a single seed."""
    stopped: bool = shown("stopped", default=False, hide_if=False, remark="these are the runs that had ended")
    """Whether a signal ended it before the last run."""
    rows: tuple[PrecisionRow, ...]
    curves: tuple[PrecisionCurve, ...] = shown(is_hidden=True)
