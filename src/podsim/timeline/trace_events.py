"""Files of the trace event format (Chrome, Perfetto, PyTorch's Kineto), read one event at a time.

A file is an array of events or an object that holds one as `traceEvents`, as text or gzip. Memory holds
the text once and no events: a profile of a gigabyte needs a gigabyte, plus what the caller keeps.

Format: "Trace Event Format", the document of the Chromium project; its array may lack the closing bracket.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from types import NoneType
from typing import Any

from podsim.errors import TimelineError
from podsim.foreign_files import finite, read_bytes, refuse_constant
from podsim.options.question import Progress

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
    progress: Progress | None = None,
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
    reader = _Reader(text=text, name=name, each=each, progress=progress)
    position = reader.after(_SPACE, 0)
    if text[position : position + 1] == "[":
        reader.array(position)
        return {}
    if text[position : position + 1] != "{":
        start = text[position : position + 40]
        problem = f"starts with {start!r}" if start else "is empty"
        raise TimelineError(
            f"{name}: {problem}; expected trace events: a JSON object with traceEvents, or an array"
        )
    header, has_events = reader.outer_object(position)
    if not has_events:
        keys = ", ".join(list(header)[:8]) or "no key"
        raise TimelineError(
            f"{name}: JSON of another kind: it has {keys}, and no array traceEvents; torch.profiler writes one with "
            "export_chrome_trace"
        )
    return header


def _is_event(event: Mapping[str, Any]) -> bool:
    """Whether the values that every reader of events takes have their types."""
    return (
        isinstance(event.get("args") or {}, dict)
        and isinstance(event.get("pid", 0), _NAMED)
        and isinstance(event.get("tid", 0), _NAMED)
        and finite(event.get("ts", 0)) is not None
        and finite(event.get("dur", 0)) is not None
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Reader:
    """The text of a file, its name, and who gets its events."""

    text: str
    name: str
    each: Callable[[Mapping[str, Any]], None]
    progress: Progress | None

    def after(self, pattern: re.Pattern[str], position: int) -> int:
        """The position after a pattern that matches anywhere."""
        match = pattern.match(self.text, position)
        assert match is not None
        return match.end()

    def outer_object(self, position: int) -> tuple[dict[str, Any], bool]:
        """The keys of the outer object but for its events, and whether it has any."""
        text, header, has_events = self.text, dict[str, Any](), False
        position = self.after(_SPACE, position + 1)
        try:
            while text[position : position + 1] != "}":
                if text[position : position + 1] != '"':
                    raise self.unreadable(position, "a key is missing")
                key, position = scanstring(text, position + 1, True)
                position = self.after(_SPACE, position)
                if text[position : position + 1] != ":":
                    raise self.unreadable(position, f"after the key {key!r}")
                position = self.after(_SPACE, position + 1)
                if key == "traceEvents" and text[position : position + 1] == "[":
                    position = self.array(position, inner=True)
                    has_events = True
                else:
                    header[key], position = _DECODER.raw_decode(text, position)
                position = self.after(_AHEAD, position)
        except (ValueError, RecursionError) as problem:
            raise self.broken(problem) from None
        return header, has_events

    def array(self, position: int, *, inner: bool = False) -> int:
        """Read the array that opens at a position; the position after it."""
        text, decode, count = self.text, _DECODER.raw_decode, 0
        position = self.after(_SPACE, position + 1)
        try:
            while (first := text[position : position + 1]) == "{":
                event, position = decode(text, position)
                count += 1
                if not _is_event(event):
                    raise TimelineError(
                        f"{self.name}: event {count:,} is no event of a profiler: {str(event)[:120]}; args is an object, "
                        "ts and dur are numbers, pid and tid are numbers or texts"
                    )
                self.each(event)
                position = self.after(_AHEAD, position)
                if self.progress is not None and count % 8192 == 0:
                    self.progress(position, len(text))
        except (ValueError, RecursionError) as problem:
            raise self.broken(problem, f"event {count + 1:,}: ") from None
        if first == "]":
            return position + 1
        if first == "" and not inner and count:
            return position  # the format lets a crashed program leave an array open
        raise self.unreadable(position, f"after event {count:,}")

    def broken(self, problem: Exception, where: str = "") -> Exception:
        """The error for a text that the decoder refused; an error of a reader as it is."""
        if isinstance(problem, TimelineError):
            return problem
        if isinstance(problem, json.JSONDecodeError):
            return self.unreadable(problem.pos, f"{where}{problem.msg}")
        too_deep = isinstance(problem, RecursionError)
        return TimelineError(f"{self.name}: {where}{'JSON nested too deeply' if too_deep else problem}")

    def unreadable(self, position: int, what: str) -> TimelineError:
        """The error for text that is no JSON at a position: "truncated" where the text ends there."""
        rest = self.text[position : position + _TAIL].strip()
        if not rest or "Unterminated" in what or (len(rest) < _TAIL and self.text.rstrip()[-1] not in "}]"):
            return TimelineError(
                f"{self.name}: truncated ({what}); let the program that writes it finish, or copy it again"
            )
        line = self.text.count("\n", 0, position) + 1
        return TimelineError(
            f"{self.name}: no JSON at line {line:,} ({what}): {self.text[position : position + 40]!r}"
        )
