"""Traces of requests from files, as tables for the simulator: Azure's CSV, Mooncake's JSON lines, and their relatives.

    TIMESTAMP,ContextTokens,GeneratedTokens                                    Azure LLM inference 2023, 2024, 2025
    {"timestamp": ms, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1, …]}         Mooncake, FAST '25

A CSV needs a header. Its columns may also have the names of BurstGPT, Vidur, or podsim's own (`NAMES`). Times are dates,
or seconds; a column that ends in _ms has milliseconds. JSON lines have milliseconds and blocks of 512 tokens; those with
a `chat_id` (Bailian, Qwen) have seconds and blocks of 16. A file may be packed by gzip. It is read in pieces by
`trace_rows.c`, so that memory holds the table and a piece of text.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints
from podsim.errors import TableError
from podsim.foreign_files import csv_lines, opened, read_start
from podsim.native import CFunction, c_function
from podsim.serving.load.request_table import LONGEST, MOST, RequestTable

Bytes: TypeAlias = NDArray[np.uint8]
Progress: TypeAlias = Callable[[int, int], None]
"""is called with (B read, B in all)"""
Number = TypeVar("Number", np.float64, np.int64)

NAMES = {
    "times": (
        "timestamp", "arrival", "arrival_s", "arrived_at", "arrival_time", "time", "time_s", "timestamp_s",
        "timestamp_ms", "arrival_ms", "time_ms", "arrival_time_ms",
    ),
    "input tokens": (
        "contexttokens", "input_tokens", "input_length", "num_prefill_tokens", "prompt_tokens", "request tokens",
        "prompt_length", "input_len",
    ),
    "output tokens": (
        "generatedtokens", "output_tokens", "output_length", "num_decode_tokens", "completion_tokens", "response tokens",
        "output_len",
    ),
}  # fmt: skip
"""field -> the names of its column, in lower case"""
_KEYS = ("timestamp", "input_length", "output_length", "hash_ids")
_PIECE = 1 << 23
_LONGEST_TRACE = 3.2e10
"""s. A thousand years."""
_ROWS = 1 << 19
_BLOCKS = 1 << 21
_LONGEST_LINE = 1 << 22
_PROBLEMS = (
    "", "has no {}", "has {} that cannot be read", "has negative {}", "has {} that are not whole", "has too many {}",
    "is no flat JSON object",
)  # fmt: skip
_RULES = (
    "", "each line needs a time, input tokens and output tokens",
    "times are seconds or dates such as 2023-11-16 18:17:03.97, tokens whole numbers", "0 or more would work",
    "tokens are whole numbers", f"a request has at most {LONGEST:,}", "mend or remove the line",
)  # fmt: skip


class TraceText(NamedTuple):
    """A piece of a trace, and how it is read."""

    text: Bytes
    size: int
    room: int
    """The rows for which there is room."""
    block_room: int
    """The ids of blocks for which there is room."""
    column: Ints
    """The columns of a CSV: time, input tokens, output tokens."""
    keys: Bytes
    """The keys of JSON objects, each ended by a zero byte: time, input tokens, output tokens, blocks."""
    most: float
    """The most tokens of a request."""


class TraceRows(NamedTuple):
    """The rows of a piece."""

    time: Floats
    input: Ints
    output: Ints
    blocks: Ints
    """The ids of the blocks, row after row."""
    block_count: Ints
    state: Ints
    """B read, ids read, and of a bad line: problem, field, start, end."""


_read_csv = c_function("read_csv_requests", TraceText, TraceRows, result=int)
_read_json = c_function("read_json_requests", TraceText, TraceRows, result=int)


@dataclass(frozen=True, kw_only=True)
class _Form:
    """How the lines of a trace are written."""

    read: CFunction[int]
    header: int = 0
    """B. The line of names at the start."""
    second: float = 1.0
    """The units of time in a second."""
    columns: tuple[int, ...] = (0, 0, 0)
    block_tokens: int = 512


@dataclass(kw_only=True)
class _Columns:
    """The rows that are read, piece by piece."""

    time: list[Floats] = field(default_factory=list)
    input: list[Ints] = field(default_factory=list)
    output: list[Ints] = field(default_factory=list)
    blocks: list[Ints] = field(default_factory=list)
    counts: list[Ints] = field(default_factory=list)
    count: int = 0


def is_trace(start: str) -> bool:
    """Whether a text begins as a request trace does."""
    line = start.lstrip("\ufeff").partition("\n")[0]
    if line.lstrip().startswith("{"):
        return '"input_length"' in line and '"output_length"' in line
    names = [name.strip().strip('"').lower() for name in line.split(",")]
    return all(any(name in known for name in names) for known in NAMES.values())


def read_request_trace(
    path: str | Path, *, progress: Progress | None = None
) -> tuple[RequestTable, tuple[str, ...]]:
    """(the requests of a trace in the order of their arrival, what was changed to make them such).

    The first arrives at 0 s. Rows that are out of order are sorted, and answers of no token have one: notes say so.
    Raises TableError, with the line, for a file that cannot be read, lacks a column, or has a negative or absurd value.
    """
    path = Path(path)
    try:
        total = path.stat().st_size
        with _opened(path) as file:
            start = file.read(1 << 16)
            form = _form(start, path.name)
            columns = _rows(file, start[form.header :], form, path.name, total, progress)
    except (OSError, EOFError, zlib.error) as problem:
        why = getattr(problem, "strerror", None) or problem
        raise TableError(f"{path.name}: cannot be read: {str(why)[:120]}") from None
    return _table(columns, form, path.name)


def _opened(path: Path) -> IO[bytes]:
    is_packed = read_start(path, 2) == b"\x1f\x8b"
    return cast("IO[bytes]", gzip.open(path)) if is_packed else opened(path)


def _form(start: bytes, name: str) -> _Form:
    """How the lines are written, by the first of them."""
    line, text = start.partition(b"\n")[0], start[:4096].decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise TableError(f"{name}: the file is empty; expected a trace of requests")
    first = text.partition("\n")[0].strip()
    if "\0" in text:
        raise TableError(f"{name}: it is binary; expected a CSV or JSON lines")
    if first.startswith("{"):
        is_chat = '"chat_id"' in first
        return _Form(
            read=_read_json, second=1.0 if is_chat else 1000.0, block_tokens=16 if is_chat else 512,
            header=3 if start.startswith(b"\xef\xbb\xbf") else 0,
        )  # fmt: skip
    names = [cell.strip().lower() for cell in next(csv_lines(first, name=name, error=TableError), [])]
    columns = [next((names.index(each) for each in known if each in names), -1) for known in NAMES.values()]
    if missing := [what for what, column in zip(NAMES, columns, strict=True) if column < 0]:
        raise TableError(
            f"{name}: line 1: no column has the {' or the '.join(missing)}; a trace is CSV with the columns "
            "TIMESTAMP,ContextTokens,GeneratedTokens (Azure), arrival,input_tokens,output_tokens (s), or JSON lines "
            "with timestamp (ms), input_length, output_length (Mooncake)"
        )
    second = 1000.0 if names[columns[0]].endswith("_ms") else 1.0
    return _Form(
        read=_read_csv,
        header=min(len(line) + 1, len(start)),
        second=second,
        columns=(columns[0], columns[1], columns[2]),
    )


def _rows(
    file: IO[bytes], text: bytes, form: _Form, name: str, total: int, progress: Progress | None
) -> _Columns:
    """All rows of a file whose first bytes are read."""
    columns, line = _Columns(), 1 + (form.header > 3)
    rows = TraceRows(
        time=np.empty(_ROWS), input=np.empty(_ROWS, np.int64), output=np.empty(_ROWS, np.int64),
        blocks=np.empty(_BLOCKS, np.int64), block_count=np.zeros(_ROWS, np.int64), state=np.zeros(6, np.int64),
    )  # fmt: skip
    while True:
        more = file.read(_PIECE)
        text += more if more or text.endswith(b"\n") else b"\n"
        text, lines = _piece(text, form, columns, rows, (name, line))
        line += lines
        if progress is not None:
            progress(_position(file), total)
        if not more:
            return columns
        if len(text) > _LONGEST_LINE:
            raise TableError(f"{name}: line {line} is longer than 4 MiB; no request is")


def _position(file: IO[bytes]) -> int:
    """B of the file on disk that are read."""
    packed = getattr(file, "fileobj", None)
    return int((packed or file).tell())


def _piece(
    text: bytes, form: _Form, columns: _Columns, rows: TraceRows, where: tuple[str, int]
) -> tuple[bytes, int]:
    """(what is left of a text, the lines that were read of it); their rows are added to the columns."""
    raw, at, lines = np.frombuffer(text, np.uint8), 0, 0
    keys = np.frombuffer(b"".join(key.encode() + b"\0" for key in _KEYS), np.uint8)
    while True:
        rows.state[:] = 0
        part = TraceText(
            text=raw[at:], size=len(raw) - at, room=_ROWS, block_room=_BLOCKS,
            column=np.array(form.columns, np.int64), keys=keys, most=float(LONGEST),
        )  # fmt: skip
        count, read = form.read(part, rows), int(rows.state[0])
        lines += text.count(b"\n", at, at + read)
        if rows.state[2]:
            raise _bad_line(text[at:], rows.state, (where[0], where[1] + lines))
        _keep(columns, rows, count, where[0])
        at += read
        if not read:
            return text[at:], lines


def _keep(columns: _Columns, rows: TraceRows, count: int, name: str) -> None:
    """Add the rows of a piece."""
    columns.count += count
    if columns.count > MOST:
        raise TableError(f"{name}: more than {MOST:,} requests; keep a part of them")
    if not count:
        return
    columns.time.append(rows.time[:count].copy())
    columns.input.append(rows.input[:count].copy())
    columns.output.append(rows.output[:count].copy())
    if rows.state[1]:
        columns.blocks.append(rows.blocks[: rows.state[1]].copy())
    columns.counts.append(rows.block_count[:count].copy() if columns.blocks else np.zeros(count, np.int64))


def _bad_line(text: bytes, state: Ints, where: tuple[str, int]) -> TableError:
    problem, number, start, end = (int(value) for value in state[2:])
    shown = text[start:end].decode("utf-8", errors="replace").strip()
    said = _PROBLEMS[problem].format((*NAMES, "block ids (hash_ids)")[number])
    return TableError(f"{where[0]}: line {where[1]}: {shown[:80]!r} {said}; {_RULES[problem]}")


def _table(columns: _Columns, form: _Form, name: str) -> tuple[RequestTable, tuple[str, ...]]:
    if not columns.count:
        raise TableError(f"{name}: no requests below the header")
    notes = []
    time = _joined(columns.time) / form.second
    if np.ptp(time) > _LONGEST_TRACE:
        raise TableError(
            f"{name}: requests over {np.ptp(time):.3g} s; a trace is at most a thousand years long"
        )
    tokens, answers = _joined(columns.input), _joined(columns.output)
    blocks = first = np.zeros(0, np.int64)
    if columns.blocks:
        first = np.concatenate([[0], np.cumsum(_joined(columns.counts))])
        blocks = _joined(columns.blocks)
    if late := int(np.count_nonzero(np.diff(time) < 0)):
        notes.append(
            f"{name}: {late:,} of {len(time):,} rows are earlier than the row above; all are sorted by time"
        )
        order = np.argsort(time, kind="stable")
        time, tokens, answers = time[order], tokens[order], answers[order]
        if len(blocks):
            blocks, first = _reordered(blocks, first, order)
    for what, column in (("answers", answers), ("prompts", tokens)):
        if empty := int(np.count_nonzero(column < 1)):
            notes.append(f"{name}: {empty:,} {what} have no token; each counts as one")
            np.maximum(column, 1, out=column)
    time = np.round(time - time[0], 7)  # dates have seven digits, and more than a double holds
    table = RequestTable(
        arrival=time, input_tokens=tokens, output_tokens=answers, prefix_ids=blocks, prefix_first=first,
        prefix_tokens=form.block_tokens, source=name,
    )  # fmt: skip
    return table, tuple(notes)


def _joined(parts: list[NDArray[Number]]) -> NDArray[Number]:
    """Pieces as one array; the pieces are given up."""
    joined = np.concatenate(parts)
    parts.clear()
    return joined


def _reordered(blocks: Ints, first: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Blocks of requests in another order."""
    counts = np.diff(first)[order]
    ends = np.concatenate([[0], np.cumsum(counts)])
    source = np.repeat(first[:-1][order] - ends[:-1], counts) + np.arange(ends[-1])
    return blocks[source], ends
