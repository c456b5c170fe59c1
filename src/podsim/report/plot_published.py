"""A figure of the white paper drawn again: predicted bars, and what was printed. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podsim.answers.served import Figure as Published
from podsim.report.chart_marks import BLUE, COLOURS
from podsim.report.plots import STYLE, load_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def published_figure(published: Published) -> Figure:
    """A figure: for each panel a bar for each row, relative to its base, and the printed factors."""
    matplotlib = load_matplotlib()
    panels = (published, *published.parts)
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        heights = [1.0 + 0.3 * len(panel.rows) for panel in panels]
        figure = Figure(figsize=(7.6, sum(heights)), layout="constrained")
        axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)
        for each, panel in zip(axes[:, 0], panels, strict=True):
            _draw(each, panel)
        return figure


def _draw(axes: Axes, panel: Published) -> None:
    rows = panel.rows[::-1]
    axes.barh(range(len(rows)), [row.relative for row in rows], color=BLUE, height=0.66)
    for height, row in enumerate(rows):
        axes.annotate(
            f"{row.relative:.3g}", (row.relative, height), xytext=(3, 0), textcoords="offset points", va="center",
            fontsize=7.5,
        )  # fmt: skip
        if row.printed is not None:
            axes.plot([row.printed] * 2, [height - 0.42, height + 0.42], color=COLOURS[1], lw=2)
    axes.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=8)
    axes.set_title(f"{panel.title}; line: printed"[:100], fontsize=9, loc="left")
    axes.set_xlabel(f"times {panel.base}", fontsize=8)
    axes.margins(x=0.1)
