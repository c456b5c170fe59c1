"""Metrics as text: families with labelled series, written as Prometheus text or OpenMetrics, and read back.

Sources: the OpenMetrics 1.0 specification; Prometheus' exposition formats. Limits of reading: numbers only, without
exemplars and native histograms.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from podsim.errors import PodsimError
from podsim.foreign_files import read_bytes
from podsim.quoting import whole

CONTENT_TYPES = {
    "prometheus": "text/plain; version=0.0.4; charset=utf-8",
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
_LARGEST = 4 << 30
_LONGEST_LINE = 64 << 10
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\.)*)"\s*(?:,|$)')
_ESCAPED = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """One metric: its series at some times."""

    name: str
    type: str
    """The type: gauge or counter."""
    help: str
    labels: Sequence[str]
    """The labels of each series, as text in braces or ""."""
    series: NDArray[np.int64]
    """The position in `labels` of each value; -1 where there is none. By time and entity, as `values`."""
    values: NDArray[np.float64]


@dataclass(kw_only=True)
class Series:
    """One series that was read."""

    labels: Mapping[str, str]
    times: list[float] = field(default_factory=list)
    """s. The times since 1970; NaN where the text gives none."""
    values: list[float] = field(default_factory=list)


def label_text(labels: Mapping[str, str]) -> str:
    """Labels in braces, with their values escaped; "" without labels."""
    pairs = (
        '{}="{}"'.format(name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n"))
        for name, value in labels.items()
    )
    text = ",".join(pairs)
    return whole(f"{{{text}}}") if text else ""


def family_lines(family: Family, form: str, stamps: Sequence[float] = ()) -> Iterator[str]:
    """The text of a family in one form, in pieces; `stamps` are the times since 1970 in s, if the text states them."""
    is_open = form == "openmetrics"
    name, kind = family.name, family.type
    if is_open and kind == "counter":  # whose samples must end in _total; DCGM's names do not
        name, kind = (name.removesuffix("_total"), kind) if name.endswith("_total") else (name, "unknown")
    said = family.help.replace("\\", r"\\").replace("\n", r"\n")
    if is_open:
        said = said.replace('"', r"\"")
    yield f"# HELP {name} {said}\n# TYPE {name} {kind}\n"
    labels, sample = family.labels, family.name
    if len(family.values) == 1:
        stamp = f" {_stamp(stamps[0], is_open)}" if stamps else ""
        pairs = zip(family.series[0].tolist(), family.values[0].tolist(), strict=True)
        yield "".join(f"{sample}{labels[at]} {value!r}{stamp}\n" for at, value in pairs if at >= 0)
        return
    ends = [_stamp(stamp, is_open) for stamp in stamps]
    for series, values in zip(family.series.T, family.values.T, strict=True):
        for first in dict.fromkeys(series[series >= 0].tolist()):  # an entity's series follow each other
            head = f"{sample}{labels[first]} "
            rows = np.flatnonzero(series == first).tolist()
            yield "".join(
                f"{head}{value!r} {ends[t]}\n" for t, value in zip(rows, values[rows].tolist(), strict=True)
            )


def _stamp(seconds: float, is_open: bool) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".") if is_open else str(round(seconds * 1000))


def metric_text(families: Iterable[Family], form: str, stamps: Sequence[float] = ()) -> Iterator[str]:
    """The text of all families, in pieces. Families of one name must be one family."""
    for family in families:
        yield from family_lines(family, form, stamps)
    if form == "openmetrics":
        yield "# EOF\n"


def read_metrics(path: Path, names: Collection[str] | None = None) -> dict[str, list[Series]]:
    """The series of a file by name, of either form; only those of `names`, if they are given.

    Raises PodsimError for a file that is none, with its line.
    """
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise PodsimError(f"{path.name}: cannot be read: no regular file; give the dump of an exporter")
        if size > _LARGEST:
            raise PodsimError(f"{path.name}: larger than {_LARGEST >> 30} GiB; give a shorter dump")
        with path.open("rb") as file:
            is_packed = file.read(2) == b"\x1f\x8b"
            file.seek(max(size - 64, 0))
            end = file.read()
        data = (
            read_bytes(path, most=1 << 30, error=PodsimError, hint="give a shorter dump")
            if is_packed
            else b""
        )
        with io.BytesIO(data) if is_packed else path.open("rb") as content:
            unit = 1.0 if (data[-64:] or end).rstrip().endswith(b"# EOF") else 1e-3
            text = io.TextIOWrapper(content, encoding="utf-8", errors="replace", newline="\n")
            return _read(text, path.name, unit, names)
    except OSError as problem:
        raise PodsimError(f"{path.name}: cannot be read: {problem.strerror or problem}") from None


def _read(text: IO[str], name: str, unit: float, names: Collection[str] | None) -> dict[str, list[Series]]:
    known: dict[str, Series | None] = {}
    read: dict[str, list[Series]] = {}
    for number, line in enumerate(iter(lambda: text.readline(_LONGEST_LINE), ""), 1):
        if line.startswith("#") or not line.strip():
            continue
        head, _, rest = line.rpartition("}") if "}" in line else line.partition(" ")
        head = head.strip()
        words = rest.split()
        try:
            value, stamp = float(words[0]), float(words[1]) * unit if len(words) > 1 else np.nan
        except (IndexError, ValueError):
            raise PodsimError(
                f"{name}: line {number}: {line.strip()[:60]!r} is no sample; expected NAME{{LABELS}} VALUE [TIME], as"
                " an exporter prints it or `podsim exporter --write` writes it"
            ) from None
        if head not in known:
            metric, _, inside = head.partition("{")
            known[head] = None
            if names is None or metric in names:
                known[head] = Series(labels=_labels(inside, name, number))
                read.setdefault(metric, []).append(known[head])  # type: ignore[arg-type]
        if (series := known[head]) is not None:
            series.times.append(stamp)
            series.values.append(value)
    return read


def _labels(text: str, name: str, number: int) -> dict[str, str]:
    labels, at = {}, 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None:
            raise PodsimError(f"{name}: line {number}: {text[at:][:40]!r} are no labels")
        labels[match[1]] = re.sub(r'\\[n"\\]', lambda part: _ESCAPED[part[0]], match[2])
        at = match.end()
    return labels
