"""Files that others wrote, read as data and within bounds: their size, packed and unpacked, their text and their numbers.

Every reader of a user's file begins here. Whatever is wrong becomes the reader's own error, which names the file.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import sys
import tomllib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

MEBIBYTE = 1 << 20
Failure = Callable[[str], Exception]
"""what makes the reader's error of a message"""
_LONGEST_LINE = 4_000
"""characters of a line of TOML: the parser's memory grows as the square of the parts of a dotted key"""


def read_bytes(path: str | Path, *, most: int, error: Failure, hint: str = "") -> bytes:
    """The bytes of a file, or with "-" of standard input, at most `most` of them, unpacked if it is gzip.

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
            with _opened(Path(path)) as file:
                data = file.read(most + 1)
        if len(data) <= most and data[:2] == b"\x1f\x8b":
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


def _opened(path: Path) -> BinaryIO:
    """The open file; a pipe that nobody writes to is empty, and does not wait."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
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
        return json.loads(text, parse_constant=_not_a_number, parse_float=_finite)
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
    try:
        return tomllib.loads(text, parse_float=_finite)
    except (ValueError, RecursionError) as problem:
        raise error(f"{name} is not TOML: {str(problem)[:200]}") from None


def shown(path: str | Path) -> str:
    """The end of a path, for a message."""
    return "standard input" if path == "-" else str(path)[-200:]


def _not_a_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is no finite number")
    return number
