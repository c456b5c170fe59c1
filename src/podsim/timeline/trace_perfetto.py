"""A timeline in Perfetto's own format: a thread for each lane, below its process, and a track for each counter.

A trace is a list of packets. The first hold the tracks and the texts; then two for every span (begin, end) and one for
every value of a counter, which name texts and tracks by number. Nothing here needs protobuf: `wire` writes the bytes.

Format: perfetto.dev/docs/reference/synthetic-track-event and trace-packet-proto; field numbers below are theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.answers.timeline import Counter, Timeline
from podsim.axes import Ints
from podsim.errors import TimelineError
from podsim.options.question import Progress
from podsim.timeline.protobuf import bytes_field, message_field, number_field
from podsim.timeline.trace_rows import CHUNK, Rows, argument_columns, nanoseconds, rows_of
from podsim.timeline.wire import Block, constant, doubles, integers, join_rows, message_blocks, select_rows

_PACKET = 1
_TIMESTAMP, _SEQUENCE, _INTERNED, _FLAGS, _EVENT, _DESCRIPTOR = 8, 10, 12, 13, 11, 60
_CLEARED, _NEEDED = 1, 2
_TYPE, _TRACK, _CATEGORY, _NAME, _ANNOTATION, _VALUE = 9, 11, 3, 10, 4, 44
_BEGIN, _END, _COUNTER = 1, 2, 4


def packets(timeline: Timeline, progress: Progress | None = None) -> Iterator[bytes]:
    """The bytes of a trace, some megabytes at a time; `progress` gets (spans written, of all).

    Times are whole nanoseconds. Overlapping spans of a lane go to further rows of it. Raises TimelineError on
    times before 0.
    """
    rows = rows_of(timeline)
    if len(rows.start) and rows.start.min() < 0:
        raise TimelineError(f"a span starts at {rows.start.min() / 1e9:g} s; Perfetto traces start at 0")
    first_counter = 1 + len(rows.pids) + len(rows.threads)
    counters = dict(enumerate(timeline.counters, first_counter))
    yield b"".join(_tracks(rows, counters))
    words, columns = _columns(timeline)
    yield _texts(timeline, words)
    for part in rows.parts(progress):
        yield _spans(timeline, rows, part, columns)
    for track, counter in counters.items():
        yield from _values(counter, track)


def _descriptor(*parts: bytes) -> bytes:
    return message_field(_PACKET, number_field(_SEQUENCE, 1), message_field(_DESCRIPTOR, *parts))


def _tracks(rows: Rows, counters: Mapping[int, Counter]) -> Iterator[bytes]:
    """Packets of processes, threads and counters: each is the track of its number."""
    for process, pid in rows.pids.items():
        named = number_field(1, pid), number_field(3, pid), bytes_field(6, process)
        yield _descriptor(number_field(1, pid), message_field(3, *named))
    for row, (pid, tid, name) in enumerate(rows.threads):
        thread = number_field(1, pid), number_field(2, tid), number_field(3, row), bytes_field(5, name)
        yield _descriptor(number_field(1, tid), number_field(5, pid), message_field(4, *thread))
    for track, counter in counters.items():
        yield _descriptor(
            number_field(1, track), number_field(5, rows.pids[counter.process]), bytes_field(2, counter.name),
            message_field(8, bytes_field(6, counter.unit)),
        )  # fmt: skip


Column: TypeAlias = tuple[str, NDArray[np.generic]]


def _columns(timeline: Timeline) -> tuple[list[str], list[Column]]:
    """The texts of arguments, and each argument as (kind of number, values); texts are numbered from 1."""
    words: list[str] = []
    columns: list[Column] = []
    for values in argument_columns(timeline).values():
        if values.dtype.kind == "U":
            distinct, places = np.unique(values, return_inverse=True)
            columns.append(("U", places + 1 + len(words)))
            words += distinct.tolist()
        else:
            columns.append((values.dtype.kind, values))
    return words, columns


def _texts(timeline: Timeline, words: Sequence[str]) -> bytes:
    """The packet of all texts, each numbered from 1; it opens the sequence."""
    interned = b"".join(
        message_field(field, number_field(1, 1 + index), bytes_field(2, word))
        for field, texts in ((1, timeline.kinds), (2, timeline.names), (3, timeline.arguments), (29, words))
        for index, word in enumerate(texts)
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


def _spans(timeline: Timeline, rows: Rows, part: slice, columns: Sequence[Column]) -> bytes:
    """Packets of some spans: the begin and the end of each, side by side."""
    order, track = rows.order[part], rows.row[part] + 1 + len(rows.pids)
    n = len(order)
    begin = [
        constant(number_field(_TYPE, _BEGIN), n),
        *integers(_CATEGORY, timeline.kind[order] + 1),
        *integers(_NAME, timeline.name[order] + 1),
        *integers(_TRACK, track),
    ]
    for name, (kind, values) in enumerate(columns, 1):
        begin += _annotation(name, kind, values[order])
    end = [constant(number_field(_TYPE, _END), n), *integers(_TRACK, track)]
    return join_rows([*_packet(rows.start[part], begin), *_packet(rows.end[part], end)])


def _annotation(name: int, kind: str, values: NDArray[np.generic]) -> list[Block]:
    """An argument of each span; one that is not a number is left out."""
    named = constant(number_field(1, name), len(values))
    if kind == "f":
        numbers = values.astype(np.float64)
        blocks = message_blocks(_ANNOTATION, [named, *doubles(5, numbers)])
        gone = np.isnan(numbers)
        return select_rows(blocks, ~gone) if gone.any() else blocks
    return message_blocks(_ANNOTATION, [named, *integers(17 if kind == "U" else 4, values.astype(np.int64))])


def _values(counter: Counter, track: int) -> Iterator[bytes]:
    """Packets of a counter's values."""
    stamps = nanoseconds(counter.time)
    if len(stamps) and stamps.min() < 0:
        raise TimelineError(f"counter {counter.name} starts before 0; Perfetto traces start at 0")
    head = number_field(_TYPE, _COUNTER) + number_field(_TRACK, track)
    for first in range(0, len(stamps), CHUNK):
        part = slice(first, first + CHUNK)
        event = [constant(head, len(stamps[part])), *doubles(_VALUE, counter.value[part])]
        yield join_rows(_packet(stamps[part], event))
