"""A timeline in Perfetto's own format: a thread for each lane, below its process, and a track for each counter.

A trace is a list of packets. The first hold the tracks and the texts; then two for every span (begin, end) and one for
every value of a counter, which name texts and tracks by number. Nothing here needs protobuf: `wire` writes the bytes.

Format: perfetto.dev/docs/reference/synthetic-track-event and trace-packet-proto; field numbers below are theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.answers.timeline import Counter, Timeline
from podsim.errors import TimelineError
from podsim.timeline.protobuf import bytes_field, message_field, number_field
from podsim.timeline.trace_rows import Rows, label, nanoseconds, rows_of
from podsim.timeline.wire import Block, constant, doubles, integers, join_rows, message_blocks, select_rows

Ints: TypeAlias = NDArray[np.int64]
_PACKET = 1
_TIMESTAMP, _SEQUENCE, _INTERNED, _FLAGS, _EVENT, _DESCRIPTOR = 8, 10, 12, 13, 11, 60
_CLEARED, _NEEDED = 1, 2
_TYPE, _TRACK, _CATEGORY, _NAME, _ANNOTATION, _VALUE = 9, 11, 3, 10, 4, 44
_BEGIN, _END, _COUNTER = 1, 2, 4
_CHUNK = 1 << 15
"""The number of spans encoded at once: some 5 MB of memory."""


def processes_of(timeline: Timeline) -> tuple[str, ...]:
    """Distinct processes of lanes and counters, in their order."""
    named = [*(lane.process for lane in timeline.lanes), *(counter.process for counter in timeline.counters)]
    return tuple(dict.fromkeys(named))


def packets(timeline: Timeline, progress: Callable[[int, int], None] | None = None) -> Iterator[bytes]:
    """The bytes of a trace, some megabytes at a time; `progress` gets (spans written, of all).

    Times are whole nanoseconds. Overlapping spans of a lane go to further rows of it. Raises TimelineError on
    times before 0.
    """
    rows = rows_of(timeline)
    if len(rows.start) and rows.start.min() < 0:
        raise TimelineError(f"a span starts at {rows.start.min() / 1e9:g} s; Perfetto traces start at 0")
    processes = processes_of(timeline)
    first_counter = 1 + len(processes) + len(rows.lane)
    yield b"".join([*_tracks(timeline, rows, processes), *_counters(timeline, processes, first_counter)])
    words, columns = _columns(timeline)
    yield _texts(timeline, words)
    for first in range(0, len(rows.order), _CHUNK):
        part = slice(first, first + _CHUNK)
        yield _spans(timeline, rows, part, 1 + len(processes), columns)
        if progress is not None:
            progress(min(first + _CHUNK, len(rows.order)), len(rows.order))
    for index, counter in enumerate(timeline.counters):
        yield from _values(counter, first_counter + index)


def _descriptor(*parts: bytes) -> bytes:
    return message_field(_PACKET, number_field(_SEQUENCE, 1), message_field(_DESCRIPTOR, *parts))


def _tracks(timeline: Timeline, rows: Rows, processes: tuple[str, ...]) -> Iterator[bytes]:
    """Packets of processes and threads; process p is track 1 + p, the rows follow."""
    pids = {process: 1 + index for index, process in enumerate(processes)}
    for process, pid in pids.items():
        yield _descriptor(
            number_field(1, pid),
            message_field(3, number_field(1, pid), number_field(3, pid), bytes_field(6, process)),
        )
    for row, (lane, depth) in enumerate(zip(rows.lane, rows.depth, strict=True)):
        uuid = 1 + len(processes) + row
        owner = timeline.lanes[lane]
        thread = (
            number_field(1, pids[owner.process]),
            number_field(2, uuid),
            number_field(3, row),
            bytes_field(5, label(owner, depth)),
        )
        yield _descriptor(
            number_field(1, uuid), number_field(5, pids[owner.process]), message_field(4, *thread)
        )


def _counters(timeline: Timeline, processes: tuple[str, ...], first: int) -> Iterator[bytes]:
    pids = {process: 1 + index for index, process in enumerate(processes)}
    for index, counter in enumerate(timeline.counters):
        unit = message_field(8, bytes_field(6, counter.unit))
        yield _descriptor(
            number_field(1, first + index),
            number_field(5, pids[counter.process]),
            bytes_field(2, counter.name),
            unit,
        )


Column: TypeAlias = tuple[str, NDArray[np.generic]]


def _columns(timeline: Timeline) -> tuple[tuple[str, ...], dict[str, Column]]:
    """The texts of arguments, and each argument as (type, values); texts are numbered from 1."""
    words: list[str] = []
    columns: dict[str, Column] = {}
    for name, values in timeline.arguments.items():
        if values.dtype.kind in "iub":
            columns[name] = ("integer", values.astype(np.int64))
        elif values.dtype.kind == "f":
            columns[name] = ("float", values.astype(np.float64))
        else:
            distinct, places = np.unique(values.astype(str), return_inverse=True)
            columns[name] = ("text", places + 1 + len(words))
            words += distinct.tolist()
    return tuple(words), columns


def _texts(timeline: Timeline, words: tuple[str, ...]) -> bytes:
    """The packet of all texts, each numbered from 1; it opens the sequence."""
    interned = b"".join(
        message_field(field, number_field(1, 1 + index), bytes_field(2, word))
        for field, all_of_them in (
            (1, timeline.kinds),
            (2, timeline.names),
            (3, timeline.arguments),
            (29, words),
        )
        for index, word in enumerate(all_of_them)
    )
    return message_field(
        _PACKET,
        number_field(_TIMESTAMP, 0),
        number_field(_SEQUENCE, 1),
        number_field(_FLAGS, _CLEARED),
        message_field(_INTERNED, interned),
    )


def _packet(stamp: Ints, event: list[Block]) -> list[Block]:
    same = number_field(_SEQUENCE, 1) + number_field(_FLAGS, _NEEDED)
    return message_blocks(
        _PACKET, [*integers(_TIMESTAMP, stamp), constant(same, len(stamp)), *message_blocks(_EVENT, event)]
    )


def _spans(timeline: Timeline, rows: Rows, part: slice, first_row: int, columns: dict[str, Column]) -> bytes:
    """Packets of some spans: the begin and the end of each, side by side."""
    order, track = rows.order[part], rows.row[part] + first_row
    n = len(order)
    begin = [
        constant(number_field(_TYPE, _BEGIN), n),
        *integers(_CATEGORY, timeline.kind[order] + 1),
        *integers(_NAME, timeline.name[order] + 1),
        *integers(_TRACK, track),
    ]
    for index, (what, values) in enumerate(columns.values()):
        begin += _annotation(index + 1, what, values[order])
    end = [constant(number_field(_TYPE, _END), n), *integers(_TRACK, track)]
    return join_rows([*_packet(rows.start[part], begin), *_packet(rows.end[part], end)])


def _annotation(name: int, what: str, values: NDArray[np.generic]) -> list[Block]:
    """An argument of each span; one that is not a number is left out."""
    named = constant(number_field(1, name), len(values))
    if what == "float":
        numbers = values.astype(np.float64)
        blocks = message_blocks(_ANNOTATION, [named, *doubles(5, numbers)])
        gone = np.isnan(numbers)
        return select_rows(blocks, ~gone) if gone.any() else blocks
    return message_blocks(
        _ANNOTATION, [named, *integers(17 if what == "text" else 4, values.astype(np.int64))]
    )


def _values(counter: Counter, track: int) -> Iterator[bytes]:
    """Packets of a counter's values."""
    stamps = nanoseconds(counter.time)
    if len(stamps) and stamps.min() < 0:
        raise TimelineError(f"counter {counter.name} starts before 0; Perfetto traces start at 0")
    head = number_field(_TYPE, _COUNTER) + number_field(_TRACK, track)
    for first in range(0, len(stamps), _CHUNK):
        part = slice(first, first + _CHUNK)
        event = [constant(head, len(stamps[part])), *doubles(_VALUE, counter.value[part])]
        yield join_rows(_packet(stamps[part], event))
