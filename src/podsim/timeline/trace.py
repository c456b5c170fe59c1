"""Writing and reading timelines in the trace event format of Chrome, Perfetto and PyTorch.

One event a line: processes and threads are named first, then come spans ("X", times in microseconds with the
nanoseconds as decimals) and counters ("C").

Format: "Trace Event Format", the document of the Chromium project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.answers.timeline import Counter, Timeline
from podsim.foreign_files import finite
from podsim.options.question import Progress
from podsim.timeline.trace_collect import Collected
from podsim.timeline.trace_events import read_events
from podsim.timeline.trace_rows import Rows, argument_columns, nanoseconds, rows_of


def chrome_text(timeline: Timeline, progress: Progress | None = None) -> Iterator[str]:
    """The text of a trace, some megabytes at a time; `progress` gets (spans written, of all).

    Overlapping spans of a lane go to further rows of it. Arguments that are NaN are left out.
    """
    rows = rows_of(timeline)
    yield '{"displayTimeUnit":"ms","traceEvents":[\n'
    yield ",\n".join(_names(rows))
    tracks = [f'","pid":{pid},"tid":{tid},"ts":' for pid, tid, _ in rows.threads]
    names = [json.dumps(name) for name in timeline.names]
    kinds = [json.dumps(kind)[1:-1] for kind in timeline.kinds]
    arguments = argument_columns(timeline)
    for part in rows.parts(progress):
        order = rows.order[part]
        held = [_argument(name, values[order]) for name, values in arguments.items()]
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
        if held:
            joined = (",".join(filter(None, cells)) for cells in zip(*held, strict=True))
            columns.append(f',"args":{{{cells}}}}}' for cells in joined)
        else:
            columns.append(repeat("}"))
        yield "".join(map("".join, zip(*columns, strict=False)))
    for counter in timeline.counters:
        yield "".join(_values(counter, rows.pids[counter.process]))
    yield "\n]}\n"


def _names(rows: Rows) -> Iterator[str]:
    """Events that name processes and threads and keep them in order."""

    def metadata(what: str, pid: int, tid: int, **held: object) -> str:
        event = {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": held}
        return json.dumps(event, separators=(",", ":"))

    yield metadata("podsim_timeline", 1, 1, version=1)
    for process, pid in rows.pids.items():
        yield metadata("process_name", pid, pid, name=process)
        yield metadata("process_sort_index", pid, pid, sort_index=pid)
    for row, (pid, tid, name) in enumerate(rows.threads):
        yield metadata("thread_name", pid, tid, name=name)
        yield metadata("thread_sort_index", pid, tid, sort_index=row)


def _microseconds(nanoseconds: NDArray[np.int64]) -> Iterator[str]:
    """Nanoseconds as text in microseconds, exact."""
    micro, nano = np.divmod(nanoseconds, 1000)
    return (f"{a}.{b:03d}" for a, b in zip(micro.tolist(), nano.tolist(), strict=True))


def _argument(name: str, values: NDArray[np.generic]) -> list[str]:
    """The text of an argument of each span; "" for NaN."""
    key = json.dumps(name)
    if values.dtype.kind == "f":
        return [f"{key}:{value!r}" if np.isfinite(value) else "" for value in values.tolist()]
    return [f"{key}:{json.dumps(value)}" for value in values.tolist()]


def _values(counter: Counter, pid: int) -> Iterator[str]:
    head = f',\n{{"ph":"C","name":{json.dumps(counter.name)},"pid":{pid},"ts":'
    unit = f',"args":{{{json.dumps(counter.unit)}:'
    stamps = _microseconds(nanoseconds(counter.time))
    for stamp, value in zip(stamps, counter.value.tolist(), strict=True):
        yield f"{head}{stamp}{unit}{value!r}}}}}"


def read_chrome(path: str | Path, progress: Progress | None = None) -> Timeline:
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
