"""A timeline built span by span by the readers of traces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.answers.timeline import Counter, Lane, Timeline
from podsim.errors import TimelineError
from podsim.foreign_files import finite
from podsim.timeline.trace_rows import read_label


class Collected:
    """Columns that grow, and that `timeline` turns into arrays. Lanes, names and kinds keep their order in the file."""

    def __init__(self, source: str) -> None:
        """Start with nothing; `source` names the file in errors."""
        self.source = source
        self._threads: dict[Any, str] = {}
        self._processes: dict[Any, str] = {}
        self._tracks: dict[tuple[Any, Any], int] = {}
        self._names: dict[str, int] = {}
        self._kinds: dict[str, int] = {}
        self._columns: tuple[list[int], list[int], list[int], list[float], list[float]] = ([], [], [], [], [])
        self._arguments: dict[str, dict[int, Any]] = {}
        self._counters: dict[tuple[Any, str, str], tuple[list[float], list[float]]] = {}

    def take_name(self, event: Mapping[str, Any]) -> None:
        """Take the name of a process or a thread."""
        name = (event.get("args") or {}).get("name")
        if event.get("name") == "process_name":
            self._processes[event.get("pid")] = str(name)
        elif event.get("name") == "thread_name":
            track = (event.get("pid"), event.get("tid"))
            self._threads[track] = str(name)
            self._tracks.setdefault(track, len(self._tracks))

    def span(self, event: Mapping[str, Any], start: float, duration: float) -> None:
        """Take a span of an event's pid, tid, name, cat and args, times in s."""
        track = (event.get("pid"), event.get("tid"))
        row, name, kind, starts, ends = self._columns
        for key, value in (event.get("args") or {}).items():
            if isinstance(value, (bool, int, float, str)):
                self._arguments.setdefault(key, {})[len(row)] = value
        row.append(self._tracks.setdefault(track, len(self._tracks)))
        name.append(self._names.setdefault(str(event.get("name", "")), len(self._names)))
        kind.append(self._kinds.setdefault(str(event.get("cat", "")), len(self._kinds)))
        starts.append(start)
        ends.append(start + max(duration, 0.0))

    def value(self, pid: Any, name: str, unit: str, time: float, value: float) -> None:
        """Take a value of a counter."""
        times, values = self._counters.setdefault((pid, name, unit), ([], []))
        times.append(time)
        values.append(float(value))

    def timeline(self) -> Timeline:
        """The collected timeline; TimelineError without a span."""
        row, name, kind, start, end = self._columns
        if not row:
            raise TimelineError(
                f"{self.source}: no span in it; a trace of podsim or PyTorch has events of phase X"
            )
        lanes: dict[Lane, int] = {}
        lane_of_track = [lanes.setdefault(self._lane(track), len(lanes)) for track in self._tracks]
        return Timeline(
            lanes=tuple(lanes), names=tuple(self._names), kinds=tuple(self._kinds),
            lane=np.array(lane_of_track, dtype=np.int64)[row], name=np.array(name), kind=np.array(kind),
            start=np.array(start), end=np.array(end),
            arguments={key: _column(held, len(row)) for key, held in self._arguments.items()},
            counters=tuple(self._counter(*key, *held) for key, held in self._counters.items()),
        )  # fmt: skip

    def _process(self, pid: Any) -> str:
        return self._processes.get(pid, f"process {pid}")

    def _lane(self, track: tuple[Any, Any]) -> Lane:
        process = self._process(track[0])
        name = self._threads.get(track)
        return Lane(process=process, name=f"thread {track[1]}") if name is None else read_label(name, process)

    def _counter(self, pid: Any, name: str, unit: str, times: list[float], values: list[float]) -> Counter:
        order = np.argsort(np.array(times), kind="stable")
        return Counter(
            name=name, process=self._process(pid), unit=unit, time=np.array(times)[order],
            value=np.array(values)[order],
        )  # fmt: skip


def _column(held: dict[int, Any], rows: int) -> NDArray[np.generic]:
    """Values of an argument, a row each: whole numbers if all spans have one, NaN or "" where a span has none."""
    kinds = {type(value) for value in held.values()}
    places = np.fromiter(held, dtype=np.int64, count=len(held))
    column: NDArray[np.generic]
    if kinds <= {int, bool} and len(held) == rows and all(abs(v) < 2**63 for v in held.values()):
        return np.array(list(held.values()), dtype=np.int64)
    if kinds <= {int, float, bool}:
        column = np.full(rows, np.nan)
        column[places] = [value if finite(value) is not None else np.nan for value in held.values()]
        return column
    column = np.full(rows, "", dtype=object)
    column[places] = [str(value) for value in held.values()]
    return column.astype(str)
