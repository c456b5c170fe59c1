"""Files of the trace event format (Chrome, Perfetto, PyTorch's Kineto), read one event at a time.

A file is an array of events or an object that holds one as `traceEvents`, as text or gzip. Memory holds
the text once and no events: a profile of a gigabyte needs a gigabyte, plus what the caller keeps.

Format: "Trace Event Format", the document of the Chromium project; its array may lack the closing bracket.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from types import NoneType
from typing import Any

from podsim.errors import TimelineError
from podsim.foreign_files import finite, read_bytes, refuse_constant

_SPACE = re.compile(r"[ \t\n\r]*")
_AHEAD = re.compile(r"[ \t\n\r]*,?[ \t\n\r]*")


_DECODER = json.JSONDecoder(parse_constant=refuse_constant)
_NAMED = (str, int, float, NoneType)
"""the types of a process or a thread"""
_LARGEST = 2_000_000_000
"""B. The largest trace, unpacked."""
_TAIL = 24
"""The number of characters at the end of a file in which an unreadable position means that the file is truncated."""


def read_file(path: str | Path) -> bytes:
    """Bytes of a file, decompressed if it is gzip; TimelineError if it cannot be read or ends too early."""
    return read_bytes(path, most=_LARGEST, error=TimelineError, hint="give a part of the profile")


def read_events(
    path: str | Path,
    each: Callable[[Mapping[str, Any]], None],
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Call `each` with every event of a file; the rest of the file's object, {} of an array.

    `progress` gets (characters read, of all). Raises TimelineError on a file that is truncated, is not JSON, or is JSON
    without trace events.
    """
    name = Path(path).name
    try:
        text = read_file(path).decode("utf-8")
    except UnicodeDecodeError:
        raise TimelineError(f"{name}: neither text nor gzip; expected trace events as JSON") from None
    position = _space(text, 0)
    if text[position : position + 1] == "[":
        _array(text, position, name, each, progress)
        return {}
    if text[position : position + 1] != "{":
        start = text[position : position + 40]
        problem = f"starts with {start!r}" if start else "is empty"
        raise TimelineError(
            f"{name}: {problem}; expected trace events: a JSON object with traceEvents, or an array"
        )
    header, has_events = _object(text, position, name, each, progress)
    if not has_events:
        keys = ", ".join(list(header)[:8]) or "no key"
        raise TimelineError(
            f"{name}: JSON of another kind: it has {keys}, and no array traceEvents; torch.profiler writes one with "
            "export_chrome_trace"
        )
    return header


def _space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()


def _object(
    text: str,
    position: int,
    name: str,
    each: Callable[[Mapping[str, Any]], None],
    progress: Callable[[int, int], None] | None,
) -> tuple[dict[str, Any], bool]:
    """The keys of the outer object but for its events, and whether it has any."""
    decode = _DECODER.raw_decode
    header: dict[str, Any] = {}
    has_events = False
    position = _space(text, position + 1)
    try:
        while text[position : position + 1] != "}":
            if text[position : position + 1] != '"':
                raise _unreadable(text, position, name, "a key is missing")
            key, position = scanstring(text, position + 1, True)
            position = _space(text, position)
            if text[position : position + 1] != ":":
                raise _unreadable(text, position, name, f"after the key {key!r}")
            position = _space(text, position + 1)
            if key == "traceEvents" and text[position : position + 1] == "[":
                position = _array(text, position, name, each, progress, inner=True)
                has_events = True
            else:
                header[key], position = decode(text, position)
            match = _AHEAD.match(text, position)
            assert match is not None
            position = match.end()
    except (ValueError, RecursionError) as problem:
        raise _broken(text, name, problem) from None
    return header, has_events


def _is_event(event: Mapping[str, Any]) -> bool:
    """Whether the values that every reader of events takes have their types."""
    return (
        isinstance(event.get("args") or {}, dict)
        and isinstance(event.get("pid", 0), _NAMED)
        and isinstance(event.get("tid", 0), _NAMED)
        and finite(event.get("ts", 0)) is not None
        and finite(event.get("dur", 0)) is not None
    )


def _array(
    text: str,
    position: int,
    name: str,
    each: Callable[[Mapping[str, Any]], None],
    progress: Callable[[int, int], None] | None,
    *,
    inner: bool = False,
) -> int:
    """Read the array that opens at a position; the position after it."""
    decode, ahead = _DECODER.raw_decode, _AHEAD.match
    count = 0
    position = _space(text, position + 1)
    try:
        while (first := text[position : position + 1]) == "{":
            event, position = decode(text, position)
            count += 1
            if not _is_event(event):
                raise TimelineError(
                    f"{name}: event {count:,} is no event of a profiler: {str(event)[:120]}; args is an object, ts and "
                    "dur are numbers, pid and tid are numbers or texts"
                )
            each(event)
            match = ahead(text, position)
            assert match is not None
            position = match.end()
            if progress is not None and count % 8192 == 0:
                progress(position, len(text))
    except (ValueError, RecursionError) as problem:
        raise _broken(text, name, problem, f"event {count + 1:,}: ") from None
    if first == "]":
        return position + 1
    if first == "" and not inner and count:
        return position  # the format lets a crashed program leave an array open
    raise _unreadable(text, position, name, f"after event {count:,}")


def _broken(text: str, name: str, problem: Exception, where: str = "") -> Exception:
    """The error for a text that the decoder refused; an error of a reader as it is."""
    if isinstance(problem, TimelineError):
        return problem
    if isinstance(problem, json.JSONDecodeError):
        return _unreadable(text, problem.pos, name, f"{where}{problem.msg}")
    return TimelineError(
        f"{name}: {where}{'JSON nested too deeply' if isinstance(problem, RecursionError) else problem}"
    )


def _unreadable(text: str, position: int, name: str, what: str) -> TimelineError:
    """The error for text that is no JSON at a position: "truncated" where the text ends there."""
    rest = text[position : position + _TAIL].strip()
    if not rest or "Unterminated" in what or (len(rest) < _TAIL and text.rstrip()[-1] not in "}]"):
        return TimelineError(
            f"{name}: truncated ({what}); let the program that writes it finish, or copy it again"
        )
    line = text.count("\n", 0, position) + 1
    return TimelineError(f"{name}: no JSON at line {line:,} ({what}): {text[position : position + 40]!r}")
