"""Losses of runs in several precisions, drawn. Needs podsim[report]."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from podsim.answers.trained_precisions import PrecisionCurve, TrainedPrecisions
from podsim.report.chart_marks import COLOURS, INK, MUTED
from podsim.report.plots import STYLE, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = (*COLOURS[:6], "#7F7F7F", "#8C564B", "#17BECF", "#BCBD22")


def precision_figure(runs: TrainedPrecisions) -> Figure:
    """A figure: the mean loss of each precision, the range of its seeds, and differences from the first precision."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8.4, 5.2))
        loss, apart = figure.add_axes((0.095, 0.43, 0.875, 0.46)), figure.add_axes((0.095, 0.1, 0.875, 0.22))
        groups = [_curves(runs, row.precision, row.loss_scale) for row in runs.rows]
        for index, (row, curves) in enumerate(zip(runs.rows, groups, strict=True)):
            name = row.precision + (f", loss scale {row.loss_scale}" if row.loss_scale != "none" else "")
            _draw(loss, curves, _COLOURS[index % len(_COLOURS)], name)
            if index:
                pairs = [
                    [mine - theirs for mine, theirs in zip(run.losses, base.losses, strict=False)]
                    for run, base in zip(curves, groups[0], strict=True)
                ]
                mean = [fmean(values) for values in zip(*pairs, strict=False)]
                apart.plot(mean, color=_COLOURS[index % len(_COLOURS)], lw=1.1)
        if runs.noise:
            apart.axhspan(-runs.noise, runs.noise, color=MUTED, alpha=0.2, lw=0)
        loss.set_title("loss: mean and range of the seeds", fontsize=9.5, loc="left", color=INK)
        title = f"difference from {runs.rows[0].precision}" + (
            ", grey: seed noise at the end" if runs.noise else ""
        )
        apart.set_title(title, fontsize=9.5, loc="left", color=INK)
        apart.set_xlabel("step", fontsize=9)
        loss.legend(loc="upper right", fontsize=8.5)
        for axes in (loss, apart):
            axes.grid(axis="y", color=MUTED, alpha=0.25, lw=0.6)
            axes.tick_params(labelsize=8.5)
        figure.text(
            0.012, 0.96, f"{runs.model}, {runs.data}"[:110], fontsize=11, fontweight="bold", va="center"
        )
        return figure


def _curves(runs: TrainedPrecisions, precision: str, scale: str) -> list[PrecisionCurve]:
    return [curve for curve in runs.curves if (curve.precision, curve.loss_scale) == (precision, scale)]


def _draw(axes: Any, curves: list[PrecisionCurve], colour: str, name: str) -> None:
    """The mean of some runs over the steps that all did, and their range."""
    steps = list(zip(*(curve.losses for curve in curves), strict=False))
    axes.plot([fmean(values) for values in steps], color=colour, lw=1.5, label=name)
    axes.fill_between(
        range(len(steps)), [min(values) for values in steps], [max(values) for values in steps],
        color=colour, alpha=0.15, lw=0,
    )  # fmt: skip
    for curve in curves:
        if curve.diverged is not None and curve.losses:
            axes.plot([len(curve.losses) - 1], [curve.losses[-1]], marker="x", color=colour)
