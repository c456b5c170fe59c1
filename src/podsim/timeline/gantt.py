"""A Gantt chart of a timeline: a row per lane, a colour per kind, memory and link use below. Needs podsim[report].

A few thousand spans are drawn as shapes, labelled with their micro-batch where there is room. More spans become a picture
whose pixels mix the colours in proportion to the covered time. A lane that is half idle looks half idle at any width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from podsim.answers.timeline import Timeline
from podsim.errors import TimelineError
from podsim.report.chart_marks import INK, MUTED
from podsim.report.plots import STYLE, figure_image, load_matplotlib
from podsim.timeline.gantt_counters import draw_counters, make_panels
from podsim.timeline.gantt_raster import PAPER, coverage, mix_colours
from podsim.timeline.kind_colours import colours, ink_on
from podsim.units import format_quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 12.2, 2.55, 1.75, 0.75, 0.5
"""inches: the figure and its margins; lanes are named left, kinds right"""
_LEGEND = 1.45
"""inches: the legend at its shortest, with its title and the number of omitted kinds"""
_TALL, _ROW, _THIN, _PANEL, _GAP = 11.0, 0.24, 0.011, 0.75, 0.16
"""inches: all rows at most, one row at best and at least, a panel of counters, between panels"""
_SHAPES = 4000
"""the number of spans above which they are drawn as a picture"""
_PIXELS = 1600


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """Where the rows stand, in inches."""

    rows: int
    merged: int
    """The lanes that a row stands for."""
    pitch: float


def time_unit(seconds: float) -> tuple[float, str]:
    """(s, name) of the unit that suits a length of time."""
    for size, name in (
        (86400.0, "days"),
        (3600.0, "h"),
        (60.0, "min"),
        (1.0, "s"),
        (1e-3, "ms"),
        (1e-6, "us"),
    ):
        if seconds >= 3 * size:
            return size, name
    return 1e-9, "ns"


def length_text(timeline: Timeline) -> str:
    """How long a timeline lasts, as text: "34.45 ms", "365 days"."""
    seconds = timeline.seconds - float(timeline.start.min())
    size, name = time_unit(seconds)
    return f"{seconds / size:.4g} {name}" if size > 1 else format_quantity(seconds, "s")


def gantt_image(timeline: Timeline, kind: str, *, title: str = "", dpi: int = 150) -> bytes:
    """Bytes of `gantt_figure`, "svg" or "png": the same for the same timeline."""
    return figure_image(gantt_figure(timeline, title=title), kind, dpi=dpi)


def gantt_figure(timeline: Timeline, *, title: str = "") -> Figure:
    """Figure of a timeline: lanes from the top, grouped by process, then a panel for each counter.

    Above some 1,000 lanes a row stands for several neighbours, and the title says so. Raises TimelineError for a
    timeline without a span, PodsimError without matplotlib.
    """
    if not len(timeline) or timeline.seconds <= timeline.start.min():
        raise TimelineError("the timeline holds no span that takes time; there is nothing to draw")
    matplotlib = load_matplotlib()
    panels = make_panels(timeline)
    layout = _layout(len(timeline.lanes))
    below = len(panels) * (_PANEL + _GAP)
    filled = layout.rows * layout.pitch + below
    bottom = max(_BOTTOM, _LEGEND - filled)  # few lanes leave room for the legend beside them
    height = _TOP + filled + bottom
    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(_WIDTH, height))
        wide = (_WIDTH - _LEFT - _RIGHT) / _WIDTH

        def axes_at(bottom: float, tall: float) -> Axes:
            return figure.add_axes((_LEFT / _WIDTH, bottom / height, wide, tall / height))

        axes = axes_at(bottom + below, layout.rows * layout.pitch)
        low, high = float(timeline.start.min()), timeline.seconds
        low = min(low, 0.0) if low > 0 and low < 0.5 * high else low
        unit, unit_name = time_unit(high - low)
        _draw_rows(axes, timeline, layout, low, high)
        _name_rows(axes, timeline, layout)
        bottoms = [bottom + below - (index + 1) * (_PANEL + _GAP) for index in range(len(panels))]
        drawn = [axes, *(axes_at(panel_bottom, _PANEL) for panel_bottom in bottoms)]
        draw_counters(drawn[1:], panels, low, high, _PIXELS)
        for panel_axes in drawn:
            _time_axis(panel_axes, low, high, unit, f"time, {unit_name}" if panel_axes is drawn[-1] else "")
        _legend(figure, timeline, height)
        _title(figure, timeline, layout, title, height)
        return figure


def _layout(lanes: int) -> _Layout:
    merged = max(1, -int(-lanes // int(_TALL / _THIN)))
    rows = -(-lanes // merged)
    return _Layout(rows=rows, merged=merged, pitch=min(_ROW, _TALL / rows))


def _draw_rows(axes: Axes, timeline: Timeline, layout: _Layout, low: float, high: float) -> None:
    axes.set(xlim=(low, high), ylim=(layout.rows, 0))
    axes.tick_params(left=False)
    axes.spines["left"].set_visible(False)
    axes.set_facecolor(PAPER)
    colour = colours(timeline.kinds)
    if len(timeline) <= _SHAPES and layout.pitch >= 0.05:
        _draw_shapes(axes, timeline, layout, [colour[kind] for kind in timeline.kinds])
        return
    row = timeline.lane // layout.merged
    covers = coverage(timeline, row, layout.rows, _PIXELS, low, high)  # [row, kind, pixel]
    lanes = np.bincount(np.arange(len(timeline.lanes)) // layout.merged, minlength=layout.rows)
    picture = mix_colours(covers / lanes[:, None, None], [colour[kind] for kind in timeline.kinds])
    axes.imshow(picture, extent=(low, high, layout.rows, 0), aspect="auto", interpolation="nearest", zorder=1)
    if layout.pitch >= 0.05:
        axes.hlines(range(layout.rows + 1), low, high, color="white", lw=1.6, zorder=2)


def _draw_shapes(axes: Axes, timeline: Timeline, layout: _Layout, colour: Sequence[str]) -> None:
    from matplotlib.collections import PolyCollection

    tall = 0.84 if layout.pitch >= 0.12 else 0.94
    inches = (
        (timeline.end - timeline.start)
        * (_WIDTH - _LEFT - _RIGHT)
        / (axes.get_xlim()[1] - axes.get_xlim()[0])
    )
    for kind in range(len(timeline.kinds)):
        chosen = np.flatnonzero(timeline.kind == kind)
        top = timeline.lane[chosen] + (1 - tall) / 2
        left, right = timeline.start[chosen], timeline.end[chosen]
        corners = np.stack(
            [np.stack([left, top], 1), np.stack([right, top], 1), np.stack([right, top + tall], 1),
             np.stack([left, top + tall], 1)], axis=1,
        )  # fmt: skip
        edged = np.where(inches[chosen] > 0.05, 0.5, 0.0)
        axes.add_collection(
            PolyCollection(
                list(corners), facecolors=colour[kind], edgecolors="white", linewidths=edged, zorder=2
            ),
            autolim=False,
        )
    labels = timeline.arguments.get("micro_batch", timeline.arguments.get("micro-batch"))
    if labels is None or layout.pitch < 0.16:
        return
    for span in np.flatnonzero(inches > 0.14):
        label = str(labels[span])
        if label not in ("-1", "nan", "") and 0.075 * len(label) + 0.03 < inches[span]:
            axes.text(
                (timeline.start[span] + timeline.end[span]) / 2, timeline.lane[span] + 0.53, label, ha="center",
                va="center", fontsize=7, color=ink_on(colour[timeline.kind[span]]), zorder=3,
            )  # fmt: skip


def _name_rows(axes: Axes, timeline: Timeline, layout: _Layout) -> None:
    """Lanes next to their rows where there is room, processes at the far left, and a rule between processes."""
    lanes = timeline.lanes
    axes.set_yticks([])
    edges = [0, *(k for k in range(1, len(lanes)) if lanes[k].process != lanes[k - 1].process), len(lanes)]
    room = layout.pitch / layout.merged
    alone = len(edges) == len(lanes) + 1
    wide = axes.get_xlim()
    put = wide[0] - 0.08 * (wide[1] - wide[0]) / (_WIDTH - _LEFT - _RIGHT)
    if room >= 0.1 and not alone:
        for row, lane in enumerate(lanes):
            label = lane.name + (f" x{lane.copies}" if lane.copies > 1 else "")
            axes.text(put, row + 0.5, _shorten(label, 18), ha="right", va="center", fontsize=7.5, color=INK)
    last = -1.0
    for first, end in pairwise(edges):
        top = first * room
        if first and (end - first) * room > 0.05:
            axes.axhline(first / layout.merged, color=MUTED, lw=0.6, zorder=4, clip_on=False)
        if top - last < 0.15:
            continue
        last = top
        label = f"{lanes[first].process} {lanes[first].name}" if alone else lanes[first].process
        tall = (end - first) / layout.merged
        at = first / layout.merged + (tall / 2 if tall * layout.pitch < 0.15 else 0.5 / layout.merged)
        far = wide[0] - (_LEFT - 0.12) * (wide[1] - wide[0]) / (_WIDTH - _LEFT - _RIGHT)
        axes.text(
            far,
            at,
            _shorten(label, 24 if not alone else 36),
            ha="left",
            va="center",
            fontsize=7.5,
            fontweight="bold",
        )


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _time_axis(axes: Axes, low: float, high: float, unit: float, label: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    steps = MaxNLocator(nbins=9, steps=[1, 2, 2.5, 5, 10])
    ticks = [tick * unit for tick in steps.tick_values(low / unit, high / unit)]
    axes.set_xlim(low, high)
    axes.set_xticks([tick for tick in ticks if low - 1e-12 <= tick <= high + 1e-12])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v / unit:.10g}"))
    axes.tick_params(axis="x", labelsize=8, labelbottom=bool(label))
    axes.set_xlabel(label, fontsize=8.5)


def _legend(figure: Figure, timeline: Timeline, height: float) -> None:
    """Kinds in the order of their seconds, each with its share of the time of all lanes."""
    from matplotlib.patches import Patch

    colour, busy = colours(timeline.kinds), timeline.busy()
    most = max(6, int((height - _TOP - 0.3) / 0.17))
    order = [int(kind) for kind in np.argsort(-busy, kind="stable") if busy[kind] > 0]
    total = busy.sum()
    marks = [
        Patch(
            color=colour[timeline.kinds[kind]],
            label=f"{_shorten(timeline.kinds[kind], 14)} {_percent(busy[kind] / total)}",
        )
        for kind in order[:most]
    ]
    if len(order) > most:
        marks.append(Patch(color="white", label=f"{len(order) - most} more"))
    figure.legend(
        handles=marks, loc="upper left", bbox_to_anchor=(1 - (_RIGHT - 0.1) / _WIDTH, 1 - (_TOP - 0.08) / height),
        fontsize=8, title="busy time", title_fontsize=8.5, alignment="left", handlelength=1.1,
    )  # fmt: skip


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "<1%"


def _title(figure: Figure, timeline: Timeline, layout: _Layout, title: str, height: float) -> None:
    what = f"{len(timeline):,} spans on {len(timeline.lanes):,} lanes in {length_text(timeline)}"
    if layout.merged > 1:
        what += f"; each row is the mean of {layout.merged} lanes"
    left = 0.12 / _WIDTH
    if title:
        figure.text(
            left, 1 - 0.25 / height, _shorten(title, 120), fontsize=11, fontweight="bold", va="center"
        )
    figure.text(left, 1 - 0.5 / height, what, fontsize=8.5, va="center")
