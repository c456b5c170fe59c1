"""The rows of both trace formats: whole nanoseconds, no overlap on a row, and labels that can be read back."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podsim.answers.timeline import Lane, Timeline
from podsim.axes import Ints
from podsim.errors import TimelineError
from podsim.options.question import Progress

CHUNK = 1 << 15
"""The number of spans encoded at once: some 5 MB of memory."""
_KINDS: dict[str, type] = {"i": np.int64, "u": np.int64, "b": np.int64, "f": np.float64}
_LABEL = re.compile(r"(.*?)(?: \((\d+) alike\))?(?: \(row (\d+)\))?\Z", re.DOTALL)


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """A timeline for trace viewers: sorted by row and start, in ns, without overlap on a row."""

    order: Ints
    """The span at each position, [spans]."""
    row: Ints
    """The row of each span, [spans]."""
    start: Ints
    """The start in ns, [spans]."""
    end: Ints
    """The end in ns, [spans]."""
    lane: tuple[int, ...]
    """The lane of each row."""
    pids: dict[str, int]
    """The number of each process of a lane or a counter, from 1."""
    threads: tuple[tuple[int, int, str], ...]
    """The process, the number (after those of the processes), and the label of each row."""

    def parts(self, progress: Progress | None) -> Iterator[slice]:
        """Some spans after the others; `progress` gets (spans taken, of all) after each part."""
        for first in range(0, len(self.order), CHUNK):
            yield slice(first, first + CHUNK)
            if progress is not None:
                progress(min(first + CHUNK, len(self.order)), len(self.order))


def nanoseconds(seconds: NDArray[np.float64]) -> Ints:
    """Times in s, rounded to whole nanoseconds; the formats hold up to 292 years."""
    if not np.all(np.isfinite(seconds)) or np.any(np.abs(seconds) > 9.2e9):
        raise TimelineError(
            "a time is not finite or beyond 292 years; trace files count nanoseconds in 64 bits"
        )
    return np.rint(seconds * 1e9).astype(np.int64)


def rows_of(timeline: Timeline) -> Rows:
    """The rows of a timeline: one for each lane, more for a lane on which spans overlap."""
    start, end = nanoseconds(timeline.start), nanoseconds(timeline.end)
    order = np.lexsort((end, start, timeline.lane))
    lane, start, end = timeline.lane[order], start[order], end[order]
    same = lane[1:] == lane[:-1]
    overlapping = np.unique(lane[1:][same & (start[1:] < end[:-1])])
    depth = np.zeros(len(order), dtype=np.int64)
    bounds = np.searchsorted(lane, [overlapping, overlapping + 1])
    for first, last in bounds.T.tolist():
        depth[first:last] = _stack_rows(start[first:last], end[first:last])
    depths = np.zeros(len(timeline.lanes), dtype=np.int64)
    np.maximum.at(depths, lane, depth)
    first_row = np.concatenate([[0], np.cumsum(depths + 1)[:-1]]).astype(np.int64)
    row = first_row[lane] + depth if len(lane) else lane
    again = np.lexsort((end, start, row))
    deepest = depths.tolist()
    named = [*(lane.process for lane in timeline.lanes), *(counter.process for counter in timeline.counters)]
    pids = {process: 1 + index for index, process in enumerate(dict.fromkeys(named))}
    named_rows = [
        (index, label(lane, below))
        for index, lane in enumerate(timeline.lanes)
        for below in range(deepest[index] + 1)
    ]
    return Rows(
        order=order[again], row=row[again], start=start[again], end=end[again],
        lane=tuple(index for index, _ in named_rows), pids=pids,
        threads=tuple(
            (pids[timeline.lanes[index].process], 1 + len(pids) + number, name)
            for number, (index, name) in enumerate(named_rows)
        ),
    )  # fmt: skip


def _stack_rows(start: Ints, end: Ints) -> list[int]:
    """For spans sorted by start, the lowest row that is free when each starts."""
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    used = 0
    rows = []
    for begins, ends in zip(start.tolist(), end.tolist(), strict=True):
        while busy and busy[0][0] <= begins:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            heapq.heappush(free, used)
            used += 1
        rows.append(heapq.heappop(free))
        heapq.heappush(busy, (ends, rows[-1]))
    return rows


def argument_columns(timeline: Timeline) -> dict[str, NDArray[np.generic]]:
    """The arguments by name, as whole numbers, floats (NaN: the span has none) or texts."""
    return {
        name: values.astype(_KINDS.get(values.dtype.kind, str)) for name, values in timeline.arguments.items()
    }


def label(lane: Lane, depth: int = 0) -> str:
    """A lane's name in a viewer: "compute (8 alike)", "NIC 0 (row 2)"."""
    alike = f" ({lane.copies} alike)" if lane.copies != 1 else ""
    return f"{lane.name}{alike}" + (f" (row {depth + 1})" if depth else "")


def read_label(text: str, process: str) -> Lane:
    """The lane that a viewer's label names, on any row."""
    match = _LABEL.match(text)
    assert match is not None
    return Lane(process=process, name=match[1], copies=int(match[2] or 1))
