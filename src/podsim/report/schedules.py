"""Pipeline schedules: a Gantt chart in text, one row a rank."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from podsim.answers.scheduled import ScheduledAction, ScheduleSheet
from podsim.report.columns import Column, Table, percent
from podsim.report.screen import Block, Line, Rows, bold

LETTERS = {"forward": "F", "backward": "B", "input": "I", "weight": "W"}
_MEANT = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}
_LINES = 150
"""lines of a chart beyond which its middle is left out"""
_WIDEST_CELL = 12
"""columns that an action of middling length gets at most"""

Group = tuple[ScheduledAction, ...]
Cell = tuple[int, int, Group]
"""(first column, column after its last, actions)"""


def title(sheet: ScheduleSheet) -> str:
    """ "zb-v: 4 ranks, 8 micro-batches, 2 chunks a rank"."""
    chunks = f", {sheet.virtual_stages} chunks a rank" if sheet.virtual_stages > 1 else ""
    ranks, micro_batches = _count_text(sheet.ranks, "rank"), _count_text(sheet.micro_batches, "micro-batch")
    return f"{sheet.schedule}: {ranks}, {micro_batches}{chunks}"


def _count_text(number: int, what: str) -> str:
    plural = f"{what}es" if what.endswith("ch") else f"{what}s"
    return f"{number} {what if number == 1 else plural}"


def bubble_text(sheet: ScheduleSheet) -> str:
    """The bubble in a sentence."""
    if not sheet.flush:
        return f"Asynchronous: once the pipeline is full, ranks wait {percent(sheet.bubble)} of their time at work"
    text = f"Ranks wait {percent(sheet.bubble)} of their time at work"
    if sheet.staggered_bubble < sheet.bubble - 1e-9:
        text += f" ({percent(sheet.staggered_bubble)} if none waits for the others before its optimizer step)"
    return text


def groups(sheet: ScheduleSheet) -> Iterator[Group]:
    """The actions in order; those that run at the same time are one group."""
    held: list[ScheduledAction] = []
    for action in sheet.actions:
        if held and not action.beside:
            yield tuple(held)
            held = []
        held.append(action)
    if held:
        yield tuple(held)


def schedule_report(sheet: ScheduleSheet) -> Iterator[Block]:
    """One schedule: its heading, its chart, and the idle time and activations of each rank."""
    yield bold(title(sheet))
    yield from _sentences(sheet)
    yield from ("", partial(_chart, sheet), "")
    columns = [
        Column("rank", "0", ":d"),
        Column("waits", "1", ":.4g"),
        Column("activations", "2", "{:.3g}x".format),
        Column("weights", "3", "{:g}x".format),
    ]
    figures = [sheet.idle, sheet.activations, sheet.copies]
    if sheet.staleness:
        columns.append(Column("updates late", "4", ":d"))
        figures.append(sheet.staleness)
    yield Rows(Table(*columns), list(zip(range(sheet.ranks), *figures, strict=True)))


def _sentences(sheet: ScheduleSheet) -> Iterator[str]:
    if sheet.source:
        yield f"Source: {sheet.source}"
    of = ", ".join(
        f"{name} {seconds:g}" for name, seconds in sheet.durations.items() if name != "send" or seconds
    )
    yield f"Durations of a rank's share of the model: {of}; the step takes {sheet.step_time:.4g}"
    of_chunks = ", in passes of a chunk" if sheet.virtual_stages > 1 else ""
    stated = sheet.published not in ("", "0")
    published = f"; published wait of a rank{of_chunks}: {sheet.published}" if stated else ""
    yield f"{bubble_text(sheet)}{published}"
    used = sorted({action.work for action in sheet.actions}, key=list(LETTERS).index)
    chunked = _is_chunked(sheet)
    stage = "the number before it is the stage, " if chunked else ""
    legend = ", ".join(f"{LETTERS[work]} {_MEANT[LETTERS[work]]}" for work in used)
    beside = (
        "; + joins passes that run at the same time" if any(action.beside for action in sheet.actions) else ""
    )
    yield f"{legend}; {stage}the number after it the micro-batch{beside}"


def _chart(sheet: ScheduleSheet, width: int) -> Iterator[Line]:
    """Rows of ranks, in blocks of time that fit the width."""
    together = list(groups(sheet))
    scale = _scale(sheet, together)
    rows = _cells(sheet, together, scale)
    chunked = _is_chunked(sheet)
    total = max((row[-1][1] for row in rows if row), default=0)
    margin = len(f"rank {sheet.ranks - 1} ")
    step = max(round(scale), 1)
    room = max((width - margin) // step, 1) * step
    blocks = list(range(0, total, room))
    most = max(_LINES // (sheet.ranks + 2), 2)
    for index, first in enumerate(blocks):
        if len(blocks) > most and most - 1 <= index < len(blocks) - 1:
            if index == most - 1:
                yield ((f"… {len(blocks) - most} more blocks; --plot and --json have all …", "dim"),)
            continue
        last = min(first + room, total)
        yield ((_ruler(first, last, scale, margin), "dim"),)
        for rank, cells in enumerate(rows):
            yield ((f"rank {rank}".ljust(margin), ""), *_pieces(cells, first, last, chunked))


def _scale(sheet: ScheduleSheet, together: Sequence[Group]) -> float:
    """Columns to a unit of time: room for the label of every action, unless some are far shorter than most."""
    digits = [
        len(str(number)) for number in range(1 + max((a.micro_batch for a in sheet.actions), default=0))
    ]
    most_stage, chunked = max((a.stage for a in sheet.actions), default=0), _is_chunked(sheet)
    stages = [len(str(stage)) if chunked else 0 for stage in range(1 + most_stage)]
    lengths = [
        (group[0].end - group[0].start, sum(stages[a.stage] + 2 + digits[a.micro_batch] for a in group))
        for group in together
    ]
    lengths = [(seconds, room) for seconds, room in lengths if seconds > 0]
    if not lengths:
        return 1.0
    wanted = max(room / seconds for seconds, room in lengths)
    middling = sorted(seconds for seconds, _ in lengths)[len(lengths) // 2]
    scale = min(wanted, max(_WIDEST_CELL, *(room for _, room in lengths)) / middling)
    return float(round(scale)) if scale >= 2 else scale


def _is_chunked(sheet: ScheduleSheet) -> bool:
    """Whether a rank has several stages, so that labels name them."""
    return sheet.parts > sheet.ranks or sheet.placement == "two ways"


def _label(group: Group, chunked: bool) -> str:
    """ "F0", "3B1", or both with a plus."""
    return "+".join(f"{a.stage if chunked else ''}{LETTERS[a.work]}{a.micro_batch}" for a in group)


def _cells(sheet: ScheduleSheet, together: Sequence[Group], scale: float) -> list[list[Cell]]:
    """The cells of each rank, in order."""
    rows: list[list[Cell]] = [[] for _ in range(sheet.ranks)]
    for group in together:
        rows[group[0].rank].append((round(group[0].start * scale), round(group[0].end * scale), group))
    return rows


def _padded_label(label: str, width: int) -> str:
    """A label stretched to the width of its action, with a space behind it."""
    if len(label) >= width:
        return label[:width]
    return label + "─" * (width - len(label) - 1) + " "


def _ruler(first: int, last: int, scale: float, margin: int) -> str:
    """A ruler: the time at every few columns."""
    every = next(
        n for n in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**6) if n * scale >= 12 or n == 10**6
    )
    line = "time".ljust(margin)
    tick = math.ceil(first / (every * scale)) * every
    while round(tick * scale) < last:
        line = line.ljust(margin + round(tick * scale) - first) + f"{tick:g}"
        tick += every
    return line


def _pieces(cells: Sequence[Cell], first: int, last: int, chunked: bool) -> Iterator[tuple[str, str]]:
    """The columns of a rank from `first` to `last`; dots where it waits."""
    at = first
    for begin, end, group in cells:
        if end <= first or begin >= last:
            continue
        low, high = max(begin, first), min(end, last)
        yield "·" * (low - at), "dim"
        shown = _padded_label(_label(group, chunked), end - begin)[low - begin : high - begin]
        coloured = shown.rstrip()
        yield coloured, group[0].work
        yield " " * (len(shown) - len(coloured)), ""  # the gap that tells neighbours apart
        at = high
    yield "·" * (last - at), "dim"
