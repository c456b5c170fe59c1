"""Steps and samples over the batch, drawn. Needs podsim[report]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podsim.answers.batch_sizes import BatchAdvice
from podsim.report.chart_marks import BLUE, INK, MUTED
from podsim.report.plots import STYLE, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANELS = (("steps", 0.08), ("samples", 0.565))


def batch_figure(advice: BatchAdvice) -> Figure:
    """A figure: steps and samples over the batch, with the critical batch marked."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.6, 4.2))
        batches = [row.batch for row in advice.rows]
        for name, left in _PANELS:
            axes = figure.add_axes((left, 0.14, 0.41, 0.64))
            axes.plot(
                batches, [getattr(row, name) for row in advice.rows], color=BLUE, lw=1.8, marker="o", ms=4
            )
            measured = [row for row in advice.rows if row.measured is not None]
            factors = [row.batch if name == "samples" else 1 for row in measured]
            if measured:
                axes.plot(
                    [row.batch for row in measured],
                    [(row.measured or 0) * factor for row, factor in zip(measured, factors, strict=True)],
                    color=INK, marker="x", ls="none", label="measured",
                )  # fmt: skip
                axes.legend(fontsize=8.5)
            axes.axvline(advice.critical, color=MUTED, ls="--", lw=1.0)
            axes.set(xscale="log", yscale="log")
            axes.set_xlabel("batch, samples", fontsize=9)
            relative = "" if advice.target else ", relative to the fewest"
            axes.set_title(f"{name}{relative}", fontsize=9.5, loc="left", color=INK)
            axes.grid(color=MUTED, alpha=0.25, lw=0.6)
            axes.tick_params(labelsize=8.5)
        title = f"critical batch {advice.critical:,.0f} samples, {advice.source}"
        figure.text(0.012, 0.93, title[:110], fontsize=11, fontweight="bold", va="center")
        return figure
