"""Losses of training runs, drawn. Needs podsim[report]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from podsim.answers.trained import MeasuredTraining
from podsim.report.chart_marks import COLOURS, INK, MUTED
from podsim.report.plots import STYLE, load_matplotlib
from podsim.report.training_tables import run_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def loss_figure(runs: MeasuredTraining | Sequence[MeasuredTraining]) -> Figure:
    """A figure: the loss of each run over its steps, and its seconds below."""
    runs = [runs] if isinstance(runs, MeasuredTraining) else runs
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        figure = Figure(figsize=(8.4, 5.2))
        loss, time = figure.add_axes((0.095, 0.4, 0.875, 0.47)), figure.add_axes((0.095, 0.11, 0.875, 0.19))
        for index, run in enumerate(runs):
            colour = COLOURS[index % len(COLOURS)]
            steps = [row.step for row in run.rows]
            loss.plot(
                steps,
                [row.loss for row in run.rows],
                color=colour,
                lw=1.8 - 0.3 * min(index, 3),
                label=run_name(run),
            )
            time.plot(steps, [1e3 * row.seconds for row in run.rows], color=colour, lw=1.0)
            for step in run.resumed:
                loss.axvline(step, color=MUTED, lw=0.8, ls="--")
        loss.set_title("loss", fontsize=9.5, loc="left", color=INK)
        time.set_title("milliseconds of a step", fontsize=9.5, loc="left", color=INK)
        time.set_xlabel("step", fontsize=9)
        time.set_ylim(bottom=0.0)
        loss.legend(loc="upper right", fontsize=8.5)
        for axes in (loss, time):
            axes.grid(axis="y", color=MUTED, alpha=0.25, lw=0.6)
            axes.tick_params(labelsize=8.5)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.text(
            0.012,
            0.955,
            f"{runs[0].model}, {runs[0].data}"[:110],
            fontsize=11,
            fontweight="bold",
            va="center",
        )
        return figure
