"""Reading Perfetto's own format: slices and counters of tracks, from any program.

Only events on tracks (TrackEvent) are read; other packets, such as a kernel's scheduling, are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from podsim.answers.timeline import Timeline
from podsim.errors import TimelineError, TraceError
from podsim.options.question import Progress
from podsim.timeline.protobuf import fields, signed_integer, varint_at
from podsim.timeline.trace_collect import Collected
from podsim.timeline.trace_events import read_file

Fields: TypeAlias = list[tuple[int, Any]]
"""(number, value): an int, a float, or the bytes of a text or a message"""
_DOUBLE = struct.Struct("<d")
_TABLES = {1: "kind", 2: "name", 3: "argument", 29: "word"}


def read_perfetto(path: str | Path, progress: Progress | None = None) -> Timeline:
    """The timeline of a file of packets: threads and other tracks are lanes. `progress` gets (bytes read, of all).

    Raises TimelineError on a file that is truncated or of another kind, and on one without a span.
    """
    name = Path(path).name
    data = read_file(path)
    reader = _Reader(name)
    try:
        for count, (end, packet) in enumerate(_packets(data, name)):
            reader.packet(packet)
            if progress is not None and count % 8192 == 0:
                progress(end, len(data))
    except (TraceError, struct.error, UnicodeDecodeError, TypeError, AttributeError):
        raise TimelineError(f"{name}: not a Perfetto trace, or damaged; its packets cannot be read") from None
    return reader.spans.timeline()


def _packets(data: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    """(position after it, bytes) of each packet."""
    position = 0
    while position < len(data):
        if data[position] != 0x0A:
            raise TimelineError(
                f"{name}: not a Perfetto trace (byte {position:,}); expected a .pftrace or .perfetto-trace file"
            )
        try:
            length, start = varint_at(data, position + 1, len(data))
        except TraceError:
            length, start = 1, len(data)
        position = start + length
        if position > len(data):
            raise TimelineError(
                f"{name}: truncated: the last packet ends {position - len(data):,} bytes after the file; copy it again"
            )
        yield position, data[start:position]


def _fields(data: bytes) -> Fields:
    """Fields of a message; eight bytes are a double, and four-byte fields are not needed."""
    return [
        (number, _DOUBLE.unpack(value)[0] if wire == 1 and isinstance(value, bytes) else value)
        for number, wire, value in fields(data, 0, len(data))
        if wire != 5
    ]


class _Reader:
    """Tracks and texts read so far, and open spans."""

    def __init__(self, name: str) -> None:
        self.spans = Collected(name)
        self.texts: dict[tuple[int, str], dict[int, str]] = {}
        self.pid_of_process_track: dict[int, int] = {}
        self.threads: dict[int, tuple[Any, Any]] = {}
        self.counter: dict[int, tuple[Any, str, str]] = {}
        self.open: dict[int, list[tuple[float, dict[str, Any]]]] = {}

    def packet(self, data: bytes) -> None:
        """Take one packet."""
        held = dict(_fields(data))
        sequence = held.get(10, 0)
        if held.get(13, 0) & 1:
            self.texts = {key: texts for key, texts in self.texts.items() if key[0] != sequence}
        if 12 in held:
            self._take_texts(held[12], sequence)
        if 60 in held:
            self._track(dict(_fields(held[60])))
        if 11 in held:
            self._event(held.get(8, 0) / 1e9, _fields(held[11]), sequence)

    def _take_texts(self, data: bytes, sequence: int) -> None:
        for table, entry in _fields(data):
            if table in _TABLES:
                held = dict(_fields(entry))
                texts = self.texts.setdefault((sequence, _TABLES[table]), {})
                texts[held.get(1, 0)] = held.get(2, b"").decode("utf-8")

    def _track(self, held: Mapping[int, Any]) -> None:
        """Take the description of a track: a process, a thread, a counter, or a plain one below another."""
        uuid, parent = held.get(1, 0), held.get(5)
        if 3 in held:
            process = dict(_fields(held[3]))
            self.pid_of_process_track[uuid] = process.get(1, uuid)
            self._take_name("process_name", process.get(1, uuid), 0, process.get(6))
        if 4 in held:
            thread = dict(_fields(held[4]))
            self.threads[uuid] = thread.get(1, 0), thread.get(2, uuid)
            self._take_name("thread_name", *self.threads[uuid], thread.get(5, held.get(2)))
            return
        pid = self.pid_of_process_track.get(parent, parent) if parent is not None else uuid
        if 8 in held:
            unit = dict(_fields(held[8])).get(6, b"")
            self.counter[uuid] = pid, held.get(2, b"").decode("utf-8"), unit.decode("utf-8")
        elif 3 not in held:
            self.threads[uuid] = pid, f"track {uuid}"
            self._take_name("thread_name", pid, f"track {uuid}", held.get(2))

    def _take_name(self, what: str, pid: Any, tid: Any, name: bytes | None) -> None:
        if name is not None:
            self.spans.take_name(
                {"name": what, "pid": pid, "tid": tid, "args": {"name": name.decode("utf-8")}}
            )

    def _event(self, time: float, content: Fields, sequence: int) -> None:
        """Take the begin or the end of a span, or a value of a counter."""
        held = dict(content)
        kind, track = held.get(9, 0), held.get(11, 0)
        if kind == 1:
            event: dict[str, Any] = {"args": {}}
            for key, table, interned, plain in (("cat", "kind", 3, 22), ("name", "name", 10, 23)):
                if plain in held:
                    event[key] = held[plain].decode("utf-8")
                elif interned in held:
                    event[key] = self._text(sequence, table, held[interned], f"{table} {held[interned]}")
            for number, argument in content:
                if number == 4:
                    event["args"] |= self._argument(argument, sequence)
            event["pid"], event["tid"] = self.threads.get(
                track, (self.pid_of_process_track.get(track, 0), f"track {track}")
            )
            self.open.setdefault(track, []).append((time, event))
        elif kind == 2 and self.open.get(track):
            start, event = self.open[track].pop()
            self.spans.span(event, start, time - start)
        elif kind == 4 and {30, 44} & held.keys() and track in self.counter:
            value = held[44] if 44 in held else float(signed_integer(held[30]))
            self.spans.value(*self.counter[track], time, value)

    def _text(self, sequence: int, table: str, number: int, missing: str | None) -> Any:
        """A text that a packet before this one gave a number."""
        return self.texts.get((sequence, table), {}).get(number, missing)

    def _argument(self, data: bytes, sequence: int) -> dict[str, Any]:
        held = dict(_fields(data))
        name = (
            held[10].decode("utf-8") if 10 in held else self._text(sequence, "argument", held.get(1, 0), None)
        )
        if name is None:
            return {}
        if 17 in held:
            return {name: self._text(sequence, "word", held[17], "")}
        if 6 in held:
            return {name: held[6].decode("utf-8")}
        for number in (3, 4, 5, 2):
            if number in held:
                value = held[number]
                return {name: signed_integer(value) if number == 4 else bool(value) if number == 2 else value}
        return {}
