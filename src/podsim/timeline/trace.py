"""Writing and reading timelines in the trace event format of Chrome, Perfetto and PyTorch.

One event a line: processes and threads are named first, then come spans ("X", times in microseconds with the
nanoseconds as decimals) and counters ("C").

Format: "Trace Event Format", the document of the Chromium project.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.answers.timeline import Counter, Timeline
from podsim.foreign_files import finite
from podsim.timeline.trace_collect import Collected
from podsim.timeline.trace_events import read_events
from podsim.timeline.trace_perfetto import processes_of
from podsim.timeline.trace_rows import Rows, label, nanoseconds, rows_of

_CHUNK = 1 << 15


def chrome_text(timeline: Timeline, progress: Callable[[int, int], None] | None = None) -> Iterator[str]:
    """The text of a trace, some megabytes at a time; `progress` gets (spans written, of all).

    Overlapping spans of a lane go to further rows of it. Arguments that are NaN are left out.
    """
    rows = rows_of(timeline)
    processes = processes_of(timeline)
    yield '{"displayTimeUnit":"ms","traceEvents":[\n'
    yield ",\n".join(_names(timeline, rows, processes))
    pids = {process: 1 + index for index, process in enumerate(processes)}
    tracks = [
        f'","pid":{pids[timeline.lanes[lane].process]},"tid":{1 + len(processes) + row},"ts":'
        for row, lane in enumerate(rows.lane)
    ]
    names = [json.dumps(name) for name in timeline.names]
    kinds = [json.dumps(kind)[1:-1] for kind in timeline.kinds]
    for first in range(0, len(rows.order), _CHUNK):
        yield "".join(_spans(timeline, rows, slice(first, first + _CHUNK), tracks, names, kinds))
        if progress is not None:
            progress(min(first + _CHUNK, len(rows.order)), len(rows.order))
    for counter in timeline.counters:
        yield "".join(_values(counter, pids[counter.process]))
    yield "\n]}\n"


def _names(timeline: Timeline, rows: Rows, processes: tuple[str, ...]) -> Iterator[str]:
    """Events that name processes and threads and keep them in order."""

    def metadata(what: str, pid: int, tid: int, **held: object) -> str:
        event = {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": held}
        return json.dumps(event, separators=(",", ":"))

    pids = {process: 1 + index for index, process in enumerate(processes)}
    yield metadata("podsim_timeline", 1, 1, version=1)
    for process, pid in pids.items():
        yield metadata("process_name", pid, pid, name=process)
        yield metadata("process_sort_index", pid, pid, sort_index=pid)
    for row, (lane, depth) in enumerate(zip(rows.lane, rows.depth, strict=True)):
        owner, tid = timeline.lanes[lane], 1 + len(processes) + row
        yield metadata("thread_name", pids[owner.process], tid, name=label(owner, depth))
        yield metadata("thread_sort_index", pids[owner.process], tid, sort_index=row)


def _microseconds(nanoseconds: NDArray[np.int64]) -> Iterator[str]:
    """Nanoseconds as text in microseconds, exact."""
    micro, nano = np.divmod(nanoseconds, 1000)
    return (f"{a}.{b:03d}" for a, b in zip(micro.tolist(), nano.tolist(), strict=True))


def _spans(
    timeline: Timeline, rows: Rows, part: slice, tracks: list[str], names: list[str], kinds: list[str]
) -> Iterator[str]:
    order = rows.order[part]
    columns: list[Iterator[str] | list[str]] = [
        repeat(',\n{"ph":"X","name":'),
        [names[index] for index in timeline.name[order].tolist()],
        repeat(',"cat":"'),
        [kinds[index] for index in timeline.kind[order].tolist()],
        [tracks[index] for index in rows.row[part].tolist()],
        _microseconds(rows.start[part]),
        repeat(',"dur":'),
        _microseconds(rows.end[part] - rows.start[part]),
    ]
    held = [_argument(name, values[order]) for name, values in timeline.arguments.items()]
    if held:
        joined = (",".join(filter(None, cells)) for cells in zip(*held, strict=True))
        columns.append(f',"args":{{{cells}}}}}' for cells in joined)
    else:
        columns.append(repeat("}"))
    return map("".join, zip(*columns, strict=False))


def _argument(name: str, values: NDArray[np.generic]) -> list[str]:
    """The text of an argument of each span; "" for NaN."""
    key = json.dumps(name)
    if values.dtype.kind in "iub":
        return [f"{key}:{value}" for value in values.astype(np.int64).tolist()]
    if values.dtype.kind == "f":
        numbers = values.astype(np.float64)
        return [f"{key}:{value!r}" if np.isfinite(value) else "" for value in numbers.tolist()]
    return [f"{key}:{json.dumps(value)}" for value in values.astype(str).tolist()]


def _values(counter: Counter, pid: int) -> Iterator[str]:
    head = f',\n{{"ph":"C","name":{json.dumps(counter.name)},"pid":{pid},"ts":'
    unit = f',"args":{{{json.dumps(counter.unit)}:'
    stamps = _microseconds(nanoseconds(counter.time))
    for stamp, value in zip(stamps, counter.value.tolist(), strict=True):
        yield f"{head}{stamp}{unit}{value!r}}}}}"


def read_chrome(path: str | Path, progress: Callable[[int, int], None] | None = None) -> Timeline:
    """The timeline of a file of trace events, "X" or "B" and "E", gzip or not; other events are skipped.

    A thread is a lane, its process that thread's process; equal names are one lane, as rows of `chrome_text` are.
    Raises TimelineError on what cannot be read, and on a file without a span.
    """
    spans = Collected(Path(path).name)
    open_spans: dict[tuple[Any, Any], list[Mapping[str, Any]]] = {}

    def each(event: Mapping[str, Any]) -> None:
        phase = event.get("ph")
        if phase == "X":
            spans.span(event, _event_seconds(event, "ts"), _event_seconds(event, "dur"))
        elif phase == "B":
            open_spans.setdefault((event.get("pid"), event.get("tid")), []).append(event)
        elif phase == "E":
            stack = open_spans.get((event.get("pid"), event.get("tid")))
            if stack:
                begun = stack.pop()
                start = _event_seconds(begun, "ts")
                spans.span(begun, start, _event_seconds(event, "ts") - start)
        elif phase == "C":
            for unit, value in (event.get("args") or {}).items():
                if isinstance(value, (int, float)):
                    spans.value(
                        event.get("pid"), str(event.get("name", "")), unit, _event_seconds(event, "ts"), value
                    )
        elif phase == "M":
            spans.take_name(event)

    read_events(path, each, progress)
    return spans.timeline()


def _event_seconds(event: Mapping[str, Any], key: str) -> float:
    """Seconds of a time in microseconds."""
    return (finite(event.get(key, 0.0)) or 0.0) / 1e6
