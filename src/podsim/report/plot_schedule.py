"""A pipeline schedule in a chart: a row for each rank, a box for each pass, its micro-batch in it."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.scheduled import ScheduledAction, ScheduleSheet
from podsim.errors import PodsimError
from podsim.report.chart_marks import Axis, Bars, Boxes, Chart, Mark, Sheet
from podsim.report.schedules import bubble_text, groups, title

_KINDS = {
    "forward": ("forward", "#0072b2"),
    "backward": ("backward", "#009e73"),
    "input": ("input gradient", "#d55e00"),
    "weight": ("weight gradient", "#e6b000"),
}
"""kind of work -> (its name, its colour)"""
_IDLE = "#eceff2"
_LIGHTEST = 0.55
"""share of white in the colour of a rank's last chunk"""
_MOST_BOXES = 40_000
_WIDE = (7.0, 22.0)
"""inches: narrowest and widest chart"""


def schedule_figure(sheet: ScheduleSheet, *, titled: bool = True) -> Sheet:
    """The drawing. Raises PodsimError for more passes than can be seen."""
    if len(sheet.actions) > _MOST_BOXES:
        raise PodsimError(
            f"{len(sheet.actions):,} passes are too many to draw; up to {_MOST_BOXES:,} can be: "
            "fewer ranks or micro-batches show the same pattern"
        )
    shortest = min((a.end - a.start for a in sheet.actions if a.end > a.start), default=1.0)
    end = max((a.end for a in sheet.actions), default=1.0) or 1.0
    digits = len(str(sheet.micro_batches - 1))
    wide = min(max(end / shortest * (0.08 + 0.1 * digits), _WIDE[0]), _WIDE[1])
    row = 0.36 if sheet.ranks <= 16 else max(0.16, 0.36 * 16 / sheet.ranks)
    marks: list[Mark] = [
        Boxes([(0.0, end, rank - 0.44, rank + 0.44) for rank in range(sheet.ranks)], _IDLE, "waits"),
        *_passes(sheet),
    ]
    if any(action.chunk for action in sheet.actions):
        way = "second direction" if sheet.placement == "two ways" else "later chunks"
        marks.append(Boxes([], "white", f"lighter: {way}"))
    if sheet.ranks <= 32:
        marks.append(
            Bars([end] * sheet.ranks, colour="none", texts=[_rank_text(sheet, n) for n in range(sheet.ranks)])
        )
    names = Axis(names=[f"rank {rank}" for rank in range(sheet.ranks)], is_reversed=True)
    chart = Chart(
        marks, x=Axis("time", low=0.0, high=end), y=names, legend="above", legend_columns=len(marks)
    )
    size = (wide + 2.8, row * sheet.ranks + (1.8 if titled else 1.2))
    return Sheet(title(sheet) if titled else "", [chart], bubble_text(sheet) if titled else "", size)


def _passes(sheet: ScheduleSheet) -> Iterator[Boxes]:
    """Every pass, its micro-batch in it, by kind of work; passes that run at the same time share the height."""
    chunks = max((action.chunk for action in sheet.actions), default=0) + 1
    boxes: dict[str, list[tuple[tuple[float, float, float, float], str, str]]] = {kind: [] for kind in _KINDS}
    for group in groups(sheet):
        share = 0.88 / len(group)
        for index, action in enumerate(group):
            low = action.rank - 0.44 + index * share
            box = (action.start, action.end, low, low + share)
            boxes[action.work].append((box, _colour(action, chunks), f"{action.micro_batch}"))
    for kind, drawn in boxes.items():
        if drawn:
            corners, colours = [corner for corner, _, _ in drawn], [colour for _, colour, _ in drawn]
            yield Boxes(corners, colours, _KINDS[kind][0], texts=[text for _, _, text in drawn])


def _colour(action: ScheduledAction, chunks: int) -> str:
    """The colour of the kind of work, lighter for a rank's later chunks."""
    white, colour = _LIGHTEST * action.chunk / max(chunks - 1, 1), _KINDS[action.work][1]
    parts = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * white):02x}" for part in parts)


def _rank_text(sheet: ScheduleSheet, rank: int) -> str:
    """The idle time of a rank, and its activations and weights."""
    weights = f", weights {sheet.copies[rank]:g}x" if max(sheet.copies) != 1 else ""
    return f"waits {sheet.idle[rank]:.4g}, held {sheet.activations[rank]:.3g}x{weights}"
