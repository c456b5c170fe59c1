"""Charts of the busiest links of a simulated step: their users, their use over time, and a histogram of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from podsim.answers.exchanged import ExchangeRun
from podsim.answers.simulated import LinkUse, SimulatedStep
from podsim.errors import TimelineError
from podsim.report.chart_marks import INK, MUTED, Axis, Band, Boxes, Chart, Mark, Series, Sheet
from podsim.report.matplotlib_charts import draw
from podsim.report.plots import figure_image
from podsim.report.simulation import (
    LEVELS,
    busiest_links,
    carriers,
    time_by_level,
    use_over_time,
    utilisation,
)
from podsim.report.theme import titled_figure
from podsim.timeline.gantt import gantt_image, time_unit
from podsim.timeline.kind_colours import colours
from podsim.timeline.timelines import suffix_of
from podsim.units import format_quantity
from podsim.whole_files import write_whole

_MOST, _BINS = 10, 240


def plot_links(step: SimulatedStep, path: str | Path) -> None:
    """Draw the busiest links of a step to a .png or .svg file; TimelineError for another ending, or if none was used."""
    kind = suffix_of(path, (".png", ".svg"), "plot of links")[1:]
    write_whole(Path(path), links_image(step, kind))


def links_image(step: SimulatedStep, kind: str, *, dpi: int = 150) -> bytes:
    """Bytes of the picture of `links_figure`, "svg" or "png"."""
    return figure_image(draw(links_figure(step)), kind, dpi=dpi)


def links_figure(step: SimulatedStep) -> Sheet:
    """A row for each of the ten busiest links: utilisation over time, coloured by sender, and its histogram."""
    links = busiest_links(step)
    if not links:
        raise TimelineError("no link carried anything in this step; there is nothing to draw")
    shown = links[:_MOST]
    colour = colours(kind for use in step.links for kind in use.carried)
    kinds = dict.fromkeys(kind for use in shown for kind in use.carried)
    legend: list[Mark] = [Boxes([], colour[kind], kind) for kind in kinds]
    if any(len(use.carried) > 1 and not use.rates for use in shown):
        legend.append(Boxes([], MUTED, "several kinds"))
    charts = []
    for row, use in enumerate(shown):
        charts.append(_over_time(use, step.step_time, colour, is_last=row == len(shown) - 1))
        charts.append(
            _histogram(use, step.step_time, legend if not row else [], is_last=row == len(shown) - 1)
        )
    title = f"Links of one step: {step.model} on {step.gpus:,} GPUs of {step.cluster}"
    used, time = len(links), format_quantity(step.step_time, "s")
    about = f"the {min(used, _MOST)} busiest of {used} that carried something, in {time}"
    return Sheet(title, charts, about, (12.0, 1.6 + 1.05 * len(shown)), columns=2, widths=(4.0, 1.0))


def _shares(use: LinkUse, seconds: float) -> dict[str, Any]:
    """Utilisation over time by kind: from the rates of each kind, or all of it if only the bytes are known by kind."""
    if use.rates:
        return {
            kind: use_over_time(replace(use, rate=rate), seconds, _BINS) for kind, rate in use.rates.items()
        }
    utilisation = use_over_time(use, seconds, _BINS)
    return {next(iter(use.carried)) if len(use.carried) == 1 else "": utilisation}


def _over_time(use: LinkUse, seconds: float, colour: Any, *, is_last: bool) -> Chart:
    """The utilisation of a link by kind, below its name, its capacity and its users."""
    along = np.repeat(np.linspace(0.0, seconds, _BINS + 1), 2)[1:-1]
    floor, marks = np.zeros(2 * _BINS), list[Mark]()
    for kind, share in _shares(use, seconds).items():
        top = floor + np.repeat(share, 2)
        marks.append(
            Band(along.tolist(), floor.tolist(), top.tolist(), "", colour.get(kind, MUTED), opacity=1.0)
        )
        floor = top
    copies = f" x{use.copies:,}" if use.copies > 1 else ""
    speed, share_text = format_quantity(use.capacity, "B/s"), f"{utilisation(use, seconds):.0%}"
    unit, name = time_unit(seconds)
    return Chart(
        marks,
        f"{use.name[:34]}{copies}, {speed}, {share_text} used: {carriers(use)}",
        Axis(
            f"time, {name}" if is_last else "",
            text=lambda value: f"{value / unit:.10g}" if is_last else "",
            low=0.0,
            high=seconds,
        ),
        Axis(text="{:.0%}".format, ticks=(0.0, 0.5, 1.0), low=0.0, high=1.02),
    )


def _histogram(use: LinkUse, seconds: float, legend: list[Mark], *, is_last: bool) -> Chart:
    """Share of the step at each level of utilisation."""
    spent = time_by_level(use, seconds)
    boxes = [(level - 0.4, level + 0.4, 0.0, share) for level, share in enumerate(spent)]
    texts = [f"{share:.0%}" if share >= 0.005 else "" for share in spent]
    names = [
        f"{100 * low:.0f}-{100 * high:.0f}" for low, high in zip(LEVELS, [*LEVELS[1:], 1.0], strict=True)
    ]
    marks: list[Mark] = [
        *legend, Boxes(boxes, INK, opacity=0.75),
        Series([level - 0.5 for level in range(len(spent))], spent.tolist(), line="", labels=texts),
    ]  # fmt: skip
    label = "% of the link, and share of the step" if is_last else ""
    return Chart(
        marks, "", Axis(label, names=names if is_last else [""] * len(names)), Axis(low=0.0, high=1.4, is_bare=True),
        legend="right",
    )  # fmt: skip


def step_charts(step: SimulatedStep) -> list[Markup]:
    """The timeline of a step, and its busiest links."""
    drawn = exchange_charts(step) if len(step.timeline) else []
    return [*drawn, *([titled_figure(links_image(step, "svg"), "Busiest links")] if step.links else [])]


def exchange_charts(run: ExchangeRun | SimulatedStep) -> list[Markup]:
    """The timeline of an exchange."""
    return [titled_figure(gantt_image(run.timeline, "svg"), "Timeline")]
