"""Files that others wrote, read as data and within bounds: their size, packed and unpacked, their text and their numbers.

Every reader of a user's file begins here. Whatever is wrong becomes the reader's own error, which names the file.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
import re
import stat
import sys
import tokenize
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from podsim.packaged import install_hint

MEBIBYTE = 1 << 20
DAMAGED_ARRAYS = (
    OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, MemoryError, OverflowError,
    NotImplementedError, SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""what NumPy raises for a file of arrays that is none"""
Failure = Callable[[str], Exception]
"""what makes the reader's error of a message"""
_GROWS, _SMALL = 200, 64 << 20
"""how much larger than its gzip a file may be if it is larger than `_SMALL` bytes; what a device gives of itself"""
_LONGEST_LINE, _MOST_DOTS = 4_000, 2_000
"""characters of a line of TOML, and dots of a key: the parser's time and memory grow as the square of a key's parts"""


def read_bytes(
    path: str | Path, *, most: int, error: Failure, hint: str = "", is_packed: bool = True
) -> bytes:
    """The bytes of a file, or with "-" of standard input, at most `most` of them, unpacked if it is gzip and may be.

    Raises `error` for a folder, a file that cannot be read, is larger, or is damaged gzip; `hint` ends the message of one
    that is larger.
    """
    name = shown(path)
    try:
        if path == "-":
            data = sys.stdin.buffer.read(most + 1)
        elif Path(path).is_dir():
            raise error(f"{name}: cannot be read: it is a folder")
        else:
            with opened(Path(path)) as file:
                if stat.S_ISCHR(os.fstat(file.fileno()).st_mode):
                    most = min(most, _SMALL)
                data = file.read(most + 1)
        if is_packed and len(data) <= most and data[:2] == b"\x1f\x8b":
            most = unpacked(len(data), most)
            with gzip.open(io.BytesIO(data)) as packed:
                data = packed.read(most + 1)
    except EOFError:
        raise error(
            f"{name}: cannot be read: truncated: the gzip data end too early; copy the file again"
        ) from None
    except (zlib.error, gzip.BadGzipFile) as problem:
        raise error(f"{name}: cannot be read: damaged gzip data ({problem}); copy the file again") from None
    except FileNotFoundError:
        raise error(f"{name}: cannot be read: no such file") from None
    except OSError as problem:
        raise error(f"{name}: cannot be read: {problem.strerror or problem}") from None
    except ValueError as problem:
        if isinstance(problem, type(error(""))):
            raise
        raise error(f"{name}: cannot be read: {problem}") from None  # a null byte in its name
    if len(data) > most:
        size = f"{most >> 20} MiB" if most >= MEBIBYTE else f"{most:,} bytes"
        raise error(f"{name}: larger than {size}{hint and '; '}{hint}")
    return data


def unpacked(size: int, most: int) -> int:
    """B that so many packed bytes may become: a bomb grows a thousandfold, a repetitive trace thirtyfold."""
    return min(most, max(_SMALL, _GROWS * size))


def read_start(path: str | Path, size: int = 4096) -> bytes:
    """The first bytes of a file; none of a folder, of a pipe without a writer, and of what cannot be read."""
    with suppress(OSError, ValueError), opened(Path(path)) as file:
        return file.read(size)
    return b""


def opened(path: Path) -> BinaryIO:
    """The open file; a pipe that nobody writes to is empty, and does not wait."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if sys.platform != "win32":  # which has no such pipes
        os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb")


def read_text(
    path: str | Path, *, most: int, error: Failure, hint: str = "", is_lenient: bool = False
) -> str:
    """The text of a file, as `read_bytes` reads it; bytes that are not UTF-8 are an error, or replaced if lenient."""
    data = read_bytes(path, most=most, error=error, hint=hint)
    if is_lenient:
        return data.decode("utf-8-sig", errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise error(
            f"{shown(path)}: line {line} is not UTF-8 text ({problem.reason} at byte {problem.start})"
        ) from None


def read_json(text: str, *, name: str, error: Failure, hint: str = "", is_finite: bool = True) -> Any:
    """The value of a JSON text. Raises `error` for another text, and unless told for numbers that are not finite."""
    try:
        if not is_finite:  # the Infinity that Python writes
            return json.loads(text)
        return json.loads(text, parse_constant=refuse_constant, parse_float=_finite)
    except json.JSONDecodeError as problem:
        where = f"{problem.msg} at line {problem.lineno} column {problem.colno}"
        raise error(f"{name} is not JSON: {where}{hint and '; '}{hint}") from None
    except RecursionError:
        raise error(f"{name}: JSON nested too deeply{hint and '; '}{hint}") from None
    except ValueError as problem:  # an integer of thousands of digits, NaN
        raise error(f"{name} is not JSON: {problem}{hint and '; '}{hint}") from None


def read_toml(text: str, *, name: str, error: Failure, longest: int = _LONGEST_LINE) -> dict[str, Any]:
    """The table of a TOML text. Raises `error` for another text, too long a line, and numbers that are not finite."""
    line = max(map(len, text.splitlines()), default=0)
    if line > longest:
        raise error(f"{name}: a line of {line:,} characters; at most {longest:,} are read, so break it")
    dots = max(part.count(".") for part in re.split(r"[=,{\[\n]", text))
    if dots > _MOST_DOTS:
        raise error(f"{name}: a key or value with {dots:,} dots; at most {_MOST_DOTS:,} are read")
    try:
        return tomllib.loads(text, parse_float=_finite)
    except (ValueError, RecursionError) as problem:
        raise error(f"{name} is not TOML: {str(problem)[:200]}") from None


def csv_lines(text: str, *, name: str, error: Failure, delimiter: str = ",") -> Iterator[list[str]]:
    """The cells of each line of a CSV. Raises `error` for a text that is none, and for a cell of more than 128 KiB."""
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        yield from lines
    except csv.Error as problem:
        raise error(f"{name}: line {lines.line_num} is no CSV: {str(problem)[:120]}") from None


def csv_table(
    text: str, *, name: str, error: Failure, delimiter: str = ","
) -> tuple[list[str], list[dict[str, str]]]:
    """(columns, rows by column) of a CSV, cells stripped; missing cells are empty, and those too many are left out."""
    lines = csv_lines(text, name=name, error=error, delimiter=delimiter)
    header = [cell.strip() for cell in next(lines, [])]
    columns = [column for column in header if column]
    empty = dict.fromkeys(columns, "")
    rows = (
        empty | {key: cell.strip() for key, cell in zip(header, line, strict=False) if key}
        for line in lines
        if line
    )
    return columns, list(rows)


def read_parquet(
    data: bytes, *, name: str, error: Failure, most: int, otherwise: str
) -> dict[str, list[Any]]:
    """The columns of a Parquet file of at most `most` rows. Raises `error` for another, and without pyarrow."""
    try:
        pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise error(f"{name}: Parquet needs pyarrow: {install_hint('study')}, or {otherwise}") from None
    try:
        file = parquet.ParquetFile(io.BytesIO(data))
        groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
        if file.metadata.num_rows > most or sum(group.total_byte_size for group in groups) > _GROWS * len(
            data
        ):
            raise error(
                f"{name}: {file.metadata.num_rows:,} rows; at most {most:,}, and {_GROWS} times its bytes"
            )
        columns: dict[str, list[Any]] = file.read().to_pydict()
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise error(f"{name} is no Parquet file: {' '.join(str(problem).split())[:120]}") from None
    return columns


def finite(value: object) -> float | None:
    """The number that a value of JSON or a text is, below 1e300; None for any other value."""
    if isinstance(value, str) and value.isascii() and len(value) < 400:
        with suppress(ValueError):
            value = float(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and -1e300 < value < 1e300
    return float(value) if is_number else None  # type: ignore[arg-type]


def shown(path: str | Path) -> str:
    """The end of a path, for a message."""
    return "standard input" if path == "-" else str(path)[-200:]


def refuse_constant(text: str) -> NoReturn:
    """Refuse the NaN and Infinity that JSON does not have; for a decoder. Raises ValueError."""
    raise ValueError(f"{text} is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is no finite number")
    return number
