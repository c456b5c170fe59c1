"""A pipeline schedule drawn: a row for each rank, a box for each pass, its micro-batch in it. Needs podsim[report]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podsim.answers.scheduled import ScheduledAction, ScheduleSheet
from podsim.errors import PodsimError
from podsim.report.chart_marks import INK, MUTED
from podsim.report.plots import STYLE, figure_image, load_matplotlib
from podsim.report.schedules import bubble_text, groups, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_COLOURS = {"forward": "#0072b2", "backward": "#009e73", "input": "#d55e00", "weight": "#e6b000"}
_NAMES = {
    "forward": "forward",
    "backward": "backward",
    "input": "input gradient",
    "weight": "weight gradient",
}
_IDLE = "#eceff2"
_LIGHTEST = 0.55
"""share of white in the colour of a rank's last chunk"""
_MOST_BOXES = 40_000
_LEFT, _RIGHT, _TOP, _NO_TITLE, _BOTTOM = 0.75, 1.75, 1.12, 0.53, 0.55
"""inches around the chart"""
_WIDE = (7.0, 22.0)
"""inches: narrowest and widest chart"""
_POINT = 1 / 72
_LEGIBLE = 3.5
"""points of the smallest number that is written"""
_DIGIT = 0.62
"""width of a digit over its height"""


def schedule_image(sheet: ScheduleSheet, kind: str, *, dpi: int = 130, titled: bool = True) -> bytes:
    """Bytes of `schedule_figure`, "svg" or "png": the same for the same schedule."""
    return figure_image(schedule_figure(sheet, titled=titled), kind, dpi=dpi)


def schedule_figure(sheet: ScheduleSheet, *, titled: bool = True) -> Figure:
    """The drawing. Raises PodsimError without matplotlib, and for more passes than can be seen."""
    if len(sheet.actions) > _MOST_BOXES:
        raise PodsimError(
            f"{len(sheet.actions):,} passes are too many to draw; up to {_MOST_BOXES:,} can be: "
            "fewer ranks or micro-batches show the same pattern"
        )
    matplotlib = load_matplotlib()
    with matplotlib.rc_context(STYLE):
        return _figure(sheet, titled)


def _figure(sheet: ScheduleSheet, titled: bool) -> Figure:
    from matplotlib.figure import Figure

    shortest = min((a.end - a.start for a in sheet.actions if a.end > a.start), default=1.0)
    end = max((a.end for a in sheet.actions), default=1.0) or 1.0
    digits = len(str(sheet.micro_batches - 1))
    wide = min(max(end / shortest * (0.08 + 0.1 * digits), _WIDE[0]), _WIDE[1])
    row = 0.36 if sheet.ranks <= 16 else max(0.16, 0.36 * 16 / sheet.ranks)
    high = row * sheet.ranks
    size = (_LEFT + wide + _RIGHT, (_TOP if titled else _NO_TITLE) + high + _BOTTOM)
    figure = Figure(figsize=size)
    axes = figure.add_axes((_LEFT / size[0], _BOTTOM / size[1], wide / size[0], high / size[1]))
    _boxes(axes, sheet, wide / end, row)
    _axes(axes, sheet, end)
    _heading(figure, sheet, titled)
    _margin(axes, sheet)
    return figure


def _colour(action: ScheduledAction, chunks: int) -> tuple[tuple[float, float, float], bool]:
    """(colour, whether it is dark): the kind of work, lighter for a rank's later chunks."""
    from matplotlib.colors import to_rgb

    white = _LIGHTEST * action.chunk / max(chunks - 1, 1)
    red, green, blue = (c + (1 - c) * white for c in to_rgb(_COLOURS[action.work]))
    return (red, green, blue), 0.299 * red + 0.587 * green + 0.114 * blue < 0.55


def _boxes(axes: Axes, sheet: ScheduleSheet, inches: float, row: float) -> None:
    """Every pass; passes that run at the same time share the height. Numbers stand where there is room."""
    from matplotlib.collections import PolyCollection

    chunks = max((a.chunk for a in sheet.actions), default=0) + 1
    corners, colours, numbers = [], [], []
    for group in groups(sheet):
        share = 0.88 / len(group)
        for index, action in enumerate(group):
            top = action.rank - 0.44 + index * share
            left, right = action.start, action.end
            corners.append([(left, top), (right, top), (right, top + share), (left, top + share)])
            colour, dark = _colour(action, chunks)
            colours.append(colour)
            room = min(row * 72 * share * 0.72, (right - left) * inches / _POINT * 0.86 / _digits(sheet))
            numbers.append(((left + right) / 2, top + share / 2, action.micro_batch, room, dark))
    line = 0.7 if row > 0.3 else 0.2
    axes.add_collection(PolyCollection(corners, facecolors=colours, edgecolors="white", linewidths=line))
    largest = min(9.5, 1.4 * min((room for *_, room, _ in numbers if room >= _LEGIBLE), default=9.5))
    for x, y, number, room, dark in numbers:
        if room >= _LEGIBLE:
            axes.text(
                x, y, str(number), ha="center", va="center_baseline", fontsize=min(room, largest),
                color="white" if dark else INK, clip_on=True,
            )  # fmt: skip


def _digits(sheet: ScheduleSheet) -> float:
    """Width of the longest number of a micro-batch over its height."""
    return _DIGIT * len(str(sheet.micro_batches - 1))


def _axes(axes: Axes, sheet: ScheduleSheet, end: float) -> None:
    from matplotlib.patches import Rectangle

    for rank in range(sheet.ranks):
        axes.add_patch(Rectangle((0, rank - 0.44), end, 0.88, facecolor=_IDLE, linewidth=0, zorder=0))
    axes.set(xlim=(0, end), ylim=(sheet.ranks - 0.5, -0.5))
    axes.set_xlabel("time", fontsize=9)
    every = max(1, -(-sheet.ranks // 16))
    axes.set_yticks(range(0, sheet.ranks, every), [f"rank {rank}" for rank in range(0, sheet.ranks, every)])
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    axes.tick_params(axis="x", labelsize=8.5, color=MUTED)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)


def _heading(figure: Figure, sheet: ScheduleSheet, titled: bool) -> None:
    """Title, bubble ratio, and the legend of colours."""
    from matplotlib.patches import Patch

    wide, high = figure.get_size_inches()
    left = 0.15 / wide
    if titled:
        figure.text(left, 1 - 0.26 / high, title(sheet), fontsize=11, fontweight="bold", va="center")
        figure.text(left, 1 - 0.52 / high, bubble_text(sheet), fontsize=9, va="center")
    used = [work for work in _COLOURS if any(a.work == work for a in sheet.actions)]
    handles = [Patch(facecolor=_COLOURS[work], label=_NAMES[work]) for work in used]
    handles.append(Patch(facecolor=_IDLE, label="waits"))
    if any(a.chunk for a in sheet.actions):
        way = "second direction" if sheet.placement == "two ways" else "later chunks"
        handles.append(Patch(facecolor="white", edgecolor="white", label=f"lighter: {way}"))
    figure.legend(
        handles=handles, loc="center left", bbox_to_anchor=(left, 1 - (0.79 if titled else 0.2) / high),
        ncols=len(handles), fontsize=8.5,
        borderpad=0.0, borderaxespad=0.0, handlelength=1.1, handleheight=1.0, columnspacing=1.4, handletextpad=0.5,
    )  # fmt: skip


def _margin(axes: Axes, sheet: ScheduleSheet) -> None:
    """To the right of each rank: its idle time and its activations."""
    if sheet.ranks > 32:
        return
    across = axes.get_yaxis_transform()
    columns = [
        ("waits", [f"{x:.4g}" for x in sheet.idle]),
        ("held", [f"{x:.3g}x" for x in sheet.activations]),
    ]
    if max(sheet.copies) != 1:
        columns.append(("weights", [f"{x:g}x" for x in sheet.copies]))
    inch = 1 / (axes.get_position().width * axes.figure.get_figwidth())  # type: ignore[union-attr]
    for index, (name, values) in enumerate(columns):
        x = 1 + (0.5 + 0.55 * index) * inch
        axes.text(x, -0.62, name, transform=across, ha="right", va="bottom", fontsize=8, color=INK)
        for rank, value in enumerate(values):
            axes.text(x, rank, value, transform=across, ha="right", va="center", fontsize=8, color=INK)
