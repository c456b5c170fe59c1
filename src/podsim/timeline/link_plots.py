"""Plots of the busiest links of a simulated step: their users, their use over time, and a histogram of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from podsim.answers.simulated import LinkUse, SimulatedStep
from podsim.errors import TimelineError
from podsim.report.chart_marks import INK, MUTED
from podsim.report.plots import STYLE, figure_image, load_matplotlib
from podsim.report.simulation import (
    LEVELS,
    busiest_links,
    carriers,
    time_by_level,
    use_over_time,
    utilisation,
)
from podsim.timeline.gantt import time_unit
from podsim.timeline.kind_colours import colours
from podsim.timeline.timelines import suffix_of
from podsim.units import format_quantity
from podsim.whole_files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_MOST, _BINS = 10, 240
_WIDTH, _LEFT, _ROW, _GAP, _TOP, _BOTTOM = 12.0, 2.75, 0.62, 0.2, 0.95, 0.55
_TIME, _SIDE = 6.6, 1.75
"""inches: the axis of time, and the histogram next to it"""


def plot_links(step: SimulatedStep, path: str | Path) -> None:
    """Draw the busiest links of a step to a .png or .svg file; TimelineError for another ending, or if none was used."""
    kind = suffix_of(path, (".png", ".svg"), "plot of links")[1:]
    write_whole(Path(path), links_image(step, kind))


def links_image(step: SimulatedStep, kind: str, *, dpi: int = 150) -> bytes:
    """Bytes of `links_figure`, "svg" or "png"."""
    return figure_image(links_figure(step), kind, dpi=dpi)


def links_figure(step: SimulatedStep) -> Figure:
    """A row for each of the ten busiest links: utilisation over time, coloured by sender, and its histogram."""
    links = busiest_links(step)
    if not links:
        raise TimelineError("no link carried anything in this step; there is nothing to draw")
    matplotlib = load_matplotlib()
    shown = links[:_MOST]
    height = _TOP + len(shown) * (_ROW + _GAP) + _BOTTOM
    colour = colours(kind for use in step.links for kind in use.carried)
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDTH, height))
        for row, use in enumerate(shown):
            bottom = (height - _TOP - (row + 1) * (_ROW + _GAP) + _GAP) / height
            axes = figure.add_axes((_LEFT / _WIDTH, bottom, _TIME / _WIDTH, _ROW / height))
            side = figure.add_axes(((_LEFT + _TIME + 0.35) / _WIDTH, bottom, _SIDE / _WIDTH, _ROW / height))
            last = row == len(shown) - 1
            _draw(axes, use, step.step_time, colour, last=last)
            _histogram(side, use, step.step_time, last=last)
            _name_link(figure, use, step.step_time, bottom + 0.5 * _ROW / height)
        _title(figure, step, len(links), height)
        _legend(figure, shown, colour, height)
        return figure


def _shares(use: LinkUse, seconds: float) -> dict[str, Any]:
    """Utilisation over time by kind: from the rates of each kind, or all of it if only the bytes are known by kind."""
    if use.rates:
        from dataclasses import replace

        return {
            kind: use_over_time(replace(use, rate=rate), seconds, _BINS) for kind, rate in use.rates.items()
        }
    utilisation = use_over_time(use, seconds, _BINS)
    return {next(iter(use.carried)) if len(use.carried) == 1 else "": utilisation}


def _draw(axes: Axes, use: LinkUse, seconds: float, colour: Any, *, last: bool) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter

    edges = np.linspace(0.0, seconds, _BINS + 1)
    floor = np.zeros(_BINS)
    for kind, share in _shares(use, seconds).items():
        axes.stairs(floor + share, edges, baseline=floor, fill=True, color=colour.get(kind, MUTED), lw=0)
        floor = floor + share
    unit, name = time_unit(seconds)
    axes.set(xlim=(0, seconds), ylim=(0, 1.02))
    axes.yaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0%}"))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v / unit:.10g}"))
    axes.tick_params(labelsize=7, labelbottom=last)
    axes.grid(color=MUTED, alpha=0.25, lw=0.6)
    if last:
        axes.set_xlabel(f"time, {name}", fontsize=8.5)


def _histogram(axes: Axes, use: LinkUse, seconds: float, *, last: bool) -> None:
    """Share of the step at each level of utilisation."""
    ends = [*LEVELS[1:], 1.0]
    spent = time_by_level(use, seconds)
    levels = range(len(LEVELS))
    axes.bar(levels, spent, color=INK, width=0.8, alpha=0.75)
    for level, share in enumerate(spent):
        if share >= 0.005:
            axes.text(level, share + 0.03, f"{share:.0%}", ha="center", va="bottom", fontsize=6.5)
    axes.set(ylim=(0, 1.25), xlim=(-0.6, len(LEVELS) - 0.4), yticks=[])
    axes.spines["left"].set_visible(False)
    names = [f"{low * 100:.0f}-{high * 100:.0f}" for low, high in zip(LEVELS, ends, strict=True)]
    axes.set_xticks(list(levels), names if last else [""] * len(names))
    axes.tick_params(labelsize=6, length=0)
    if last:
        axes.set_xlabel("share of the step at\neach utilisation, %", fontsize=8)


def _name_link(figure: Figure, use: LinkUse, seconds: float, at: float) -> None:
    """Write the name of a link, its position, and its users."""
    copies = f" x{use.copies:,}" if use.copies > 1 else ""
    text = (
        f"{use.name[:34]}{copies}\n{format_quantity(use.capacity, 'B/s')}, {utilisation(use, seconds):.0%} used\n"
        f"{carriers(use)}"
    )
    figure.text(0.12 / _WIDTH, at, text, fontsize=7.5, va="center", linespacing=1.35)


def _title(figure: Figure, step: SimulatedStep, used: int, height: float) -> None:
    left = 0.12 / _WIDTH
    title = f"Links of one step: {step.model} on {step.gpus:,} GPUs of {step.cluster}"
    what = f"the {min(used, _MOST)} busiest of {used} that carried something, in {format_quantity(step.step_time, 's')}"
    figure.text(left, 1 - 0.25 / height, title[:110], fontsize=11, fontweight="bold", va="center")
    figure.text(left, 1 - 0.5 / height, what, fontsize=8.5, va="center")


def _legend(figure: Figure, shown: list[LinkUse], colour: Any, height: float) -> None:
    from matplotlib.patches import Patch

    kinds = dict.fromkeys(kind for use in shown for kind in use.carried)
    mixed = any(len(use.carried) > 1 and not use.rates for use in shown)
    marks = [Patch(color=colour[kind], label=kind) for kind in kinds]
    if mixed:
        marks.append(Patch(color=MUTED, label="several kinds"))
    figure.legend(
        handles=marks, loc="upper right", bbox_to_anchor=(1.0, 1 - 0.55 / height), ncols=len(marks), fontsize=8,
        handlelength=1.1, columnspacing=1.2,
    )  # fmt: skip
