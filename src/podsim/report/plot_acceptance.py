"""Acceptance, drawn: each check as a bar of what was expected, each curve over what runs along. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from podsim.answers.acceptance import Check, Curve
from podsim.report.chart_marks import BLUE, INK, MUTED
from podsim.report.columns import quantity_text, size_text
from podsim.report.plots import STYLE, figure_image, load_matplotlib
from podsim.units import format_quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RED = "#D55E00"
_GREY = "#8c959f"
_WIDTH = 8.4
_MOST = 1.6
"""The share at which a bar is cut off."""


def checks_svg(checks: Sequence[Check]) -> bytes:
    """A bar for each check that has both figures: measured over expected, with what must be reached."""
    matplotlib = load_matplotlib()
    compared = [check for check in checks if check.share is not None]
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        height = 0.75 + 0.36 * max(len(compared), 1)
        figure = Figure(figsize=(_WIDTH, height))
        axes = figure.add_axes((0.27, 0.55 / height, 0.55, 1 - 0.65 / height))
        for row, check in enumerate(reversed(compared)):
            share = check.share or 0.0
            good = check.verdict == "ok"
            axes.barh(row, min(share, _MOST), height=0.6, color=BLUE if good else RED)
            axes.plot([check.least] * 2, [row - 0.42, row + 0.42], color=INK, lw=1.6)
            measured, expected = (
                quantity_text(number or 0.0, check.unit) for number in (check.measured, check.expected)
            )
            axes.annotate(
                f"{measured} of {expected}",
                (1.02, row),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=8.0,
                color=INK,
            )
            if share < 0.03:
                axes.annotate(f"{share:.2%}", (share + 0.015, row), va="center", fontsize=8.0, color=RED)
        axes.set_yticks(range(len(compared)), [check.name for check in reversed(compared)], fontsize=8.5)
        _share_axis(axes)
        return figure_image(figure, "svg", is_transparent=True)


def _share_axis(axes: Axes) -> None:
    from matplotlib.ticker import FixedLocator, PercentFormatter

    axes.axvline(1.0, color=MUTED, lw=1.0, ls=(0, (4, 2)), zorder=0)
    axes.set_xlim(0.0, _MOST)
    axes.xaxis.set_major_locator(FixedLocator([0.0, 0.5, 1.0, 1.5]))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("measured over expected; the short line is what must be reached", fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8.5)
    axes.spines["left"].set_visible(False)


def curve_svg(curve: Curve) -> bytes:
    """A figure over sizes, ranks or epochs: measured, and expected where something predicts it."""
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure
        from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

        figure = Figure(figsize=(_WIDTH / 2, 2.9))
        axes = figure.add_axes((0.2, 0.17, 0.76, 0.78))
        if curve.expected:
            axes.plot(*zip(*curve.expected, strict=True), color=_GREY, lw=1.6, ls=(0, (4, 2)), marker="o", ms=3,
                      label="expected")  # fmt: skip
        axes.plot(*zip(*curve.measured, strict=True), color=BLUE, lw=2.2, marker="o", ms=4, label="measured")
        along = [x for x, _ in curve.measured]
        if curve.over_unit:
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
        else:
            highest = max(y for _, y in curve.measured)
            axes.set_ylim(0.0, 1.1 * max(highest, *(y for _, y in curve.expected), highest))
            if curve.expected and max(y for _, y in curve.expected) > 3 * highest:
                axes.set_yscale("log")
                axes.set_ylim(min(y for _, y in curve.measured) / 2, 2 * max(y for _, y in curve.expected))
        axes.xaxis.set_major_locator(FixedLocator(along))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _axis_text(x, curve.over_unit)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: quantity_text(y, curve.unit)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(curve.over, fontsize=8.5)
        axes.tick_params(labelsize=8.0)
        axes.grid(color=MUTED, alpha=0.25, lw=0.6)
        if curve.expected:
            axes.legend(loc="best", fontsize=8.5)
        return figure_image(figure, "svg", is_transparent=True)


def _axis_text(number: float, unit: str) -> str:
    if unit == "B":
        return size_text(number)
    return format_quantity(number, unit) if unit else f"{number:g}"
