"""Counters of a timeline drawn below it: one panel for each name and unit, a line for each process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from podsim.answers.timeline import Counter, Timeline
from podsim.axes import Floats
from podsim.report.chart_marks import COLOURS, MUTED
from podsim.units import format_quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_PANELS, _MOST_LINES = 6, 4


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Counters of one name and unit."""

    name: str
    unit: str
    shown: tuple[Counter, ...]
    """The series with the highest values."""
    all: int


def make_panels(timeline: Timeline) -> tuple[Panel, ...]:
    """Panels in the order of the counters, six at most."""
    groups: dict[tuple[str, str], list[Counter]] = {}
    for counter in timeline.counters:
        if len(counter.value):
            groups.setdefault((counter.name, counter.unit), []).append(counter)
    panels = []
    for (name, unit), members in list(groups.items())[:_MOST_PANELS]:
        highest = sorted(members, key=lambda counter: -float(counter.value.max()))[:_MOST_LINES]
        shown = tuple(counter for counter in members if counter in highest)
        panels.append(Panel(name=name, unit=unit, shown=shown, all=len(members)))
    return tuple(panels)


def counter_steps(counter: Counter, low: float, high: float, width: int) -> tuple[Floats, Floats, Floats]:
    """(time, least, most) of a counter in each of `width` equal parts, or at each change if these are fewer."""
    if len(counter.time) <= 2 * width:
        time = np.append(counter.time, max(high, float(counter.time[-1])))
        value = np.append(counter.value, counter.value[-1])
        return time, value, value
    edges = np.linspace(low, high, width + 1)
    first = np.searchsorted(counter.time, edges)
    before = np.clip(first[:-1] - 1, 0, None)
    least, most = counter.value[before].copy(), counter.value[before].copy()
    filled = first[1:] > first[:-1]
    starts = first[:-1][filled]
    upto = counter.value[: first[-1]]
    least[filled] = np.minimum(least[filled], np.minimum.reduceat(upto, starts))
    most[filled] = np.maximum(most[filled], np.maximum.reduceat(upto, starts))
    return edges, np.append(least, least[-1]), np.append(most, most[-1])


def draw_counters(drawn: list[Axes], panels: tuple[Panel, ...], low: float, high: float, width: int) -> None:
    """Draw each panel on its axes; a process has one colour in all of them."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    processes = dict.fromkeys(counter.process for panel in panels for counter in panel.shown)
    colours = {process: COLOURS[index % len(COLOURS)] for index, process in enumerate(processes)}
    for axes, panel in zip(drawn, panels, strict=True):
        for counter in panel.shown:
            look: dict[str, Any] = {"color": colours[counter.process], "label": counter.process[:24]}
            time, least, most = counter_steps(counter, low, high, width)
            if np.array_equal(least, most):
                axes.step(time, most, where="post", lw=1.1, **look)
            else:
                axes.fill_between(time, least, most, step="post", alpha=0.55, lw=0.4, **look)
        axes.set_ylim(bottom=min(0.0, *(float(counter.value.min()) for counter in panel.shown)))
        axes.margins(y=0.12)
        axes.set_ylim(
            top=axes.get_ylim()[0] + 1.1 * (max(float(counter.value.max()) for counter in panel.shown) or 1.0)
        )
        axes.yaxis.set_major_locator(MaxNLocator(nbins=3))
        unit = panel.unit
        axes.yaxis.set_major_formatter(
            FuncFormatter(lambda v, _, unit=unit: format_quantity(v, unit if unit != "1" else ""))
        )
        axes.tick_params(labelsize=7.5)
        axes.grid(color=MUTED, alpha=0.25, lw=0.6)
        some = f"\n{len(panel.shown)} highest of {panel.all}" if panel.all > len(panel.shown) else ""
        axes.annotate(
            panel.name + some, xy=(0, 0.5), xycoords="axes fraction", xytext=(-155, 0), textcoords="offset points",
            fontsize=7.5, fontweight="bold", va="center",
        )  # fmt: skip
        if panel.all > 1:
            axes.legend(
                loc="upper left", bbox_to_anchor=(1.0, 1.12), fontsize=7, handlelength=1.1, labelspacing=0.25
            )
