"""The page docs/documents.md: each figure that the documents of the machine print, and what podsim says of it.

figures.csv has a row for each figure: its kind, how podsim comes to it (origin), one command, the path to
the answer in its --json, and for a row outside the tolerance of its kind the cause.
"""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from podsim.cli import app
from podsim.units import format_quantity

FOLDER = Path(__file__).parent
TITLES = {
    "WP": "White paper: DGX A100 System Architecture",
    "CO": "Course: distributed training",
    "WK": "WekaIO reference architecture for DGX A100",
    "SL": "Slides: infrastructure for large-scale AI",
    "LK": "Talks that they name",
    "PR": "Press, TOP500 and Green500",
    "NF": "Published runs of collectives",
}
TOLERANCES = {"hardware fact": 0.0, "formula": 0.0, "kernel": 0.05, "run": 0.10, "time to train": 0.15}
"""share, by kind; 0: equal in the digits that are printed"""
ORIGINS = {
    "typed in": "a fact in a catalog, or arithmetic on such facts",
    "fitted": "constants were fitted to it, or to rows that contain it",
    "predicted": "a law gives it, and nothing was fitted to it",
}
NOT_ANSWERED = "not answered"
_WITH_PREFIX = ("B", "B/s", "FLOP/s", "OP/s", "FLOP/J", "W", "s")
"""units that are printed with a decimal prefix"""
HEAD = """\
# Figures of the documents

Each figure that the documents print is a row here, with one command and all its options. The rows come from
`tests/documents/figures.csv`, and a test computes each answer again. Two commands are a ratio of their answers. The
tolerance is that of the kind, and exact means: equal in the digits that are printed. A row outside is red (🔴), with the
cause. A row without a printed figure has conditions only, or a value that stands in a lost drawing. The last table says
where podsim speaks of everything else.
"""


def rows(name: str) -> list[dict[str, str]]:
    """The rows of a table of the tests."""
    return list(csv.DictReader((FOLDER / name).read_text("utf-8").splitlines()))


@cache
def answer(command: str) -> dict[str, Any]:
    """The --json of a command."""
    done = CliRunner().invoke(app, [*shlex.split(command), "--json"])
    assert done.exit_code == 0, f"{command}: {done.output}"
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def value(command: str, find: str) -> float | str:
    """The figure or word at a label of a sheet, or at a path such as rows > 0 > seconds or rows > name=x > seconds."""
    data: Any = answer(command)
    if "sections" in data:
        known = [row for section in data["sections"] for row in section["rows"] if row["label"] == find]
        assert known, f"{command} has no {find!r}"
        return str(known[0]["text"]) if known[0]["value"] is None else float(known[0]["value"])
    for step in find.split(" > "):
        if isinstance(data, list):
            key, equals, word = step.partition("=")
            data = next(row for row in data if row[key] == word) if equals else data[int(step)]
        else:
            data = data[step]
    return data if isinstance(data, str) else float(data)


def podsim_says(row: Mapping[str, str]) -> float | str | None:
    """What podsim answers, in the unit of the row: the first answer over the others; None for a row without a command."""
    if not row["command"]:
        return None
    parts = zip(row["command"].split(" / "), row["find"].split(" / "), strict=True)
    first, *others = (value(command, find) for command, find in parts)
    if isinstance(first, str):
        return first
    over, _, under = (row["times"] or "1").partition("/")
    product = first * float(over) / float(under or 1)
    for other in others:
        product /= float(other)
    return product


def error(row: Mapping[str, str], said: float | str | None) -> float | None:
    """share. The answer over the printed figure, less 1; None where one of them is no number."""
    if isinstance(said, float) and row["printed"]:
        return said / float(row["printed"]) - 1
    return None


def is_red(row: Mapping[str, str], said: float | str | None) -> bool:
    """Whether the answer is outside the tolerance of the row's kind."""
    if said is None or not row["printed"]:
        return False
    if isinstance(said, str):
        return row["printed"] not in said
    if tolerance := TOLERANCES[row["kind"]]:
        return abs(said / float(row["printed"]) - 1) > tolerance
    printed = Decimal(row["printed"])
    digit = 10.0 ** int(printed.as_tuple().exponent)
    return abs(said - float(printed)) > digit / 2


def page() -> str:
    """The page, with every answer computed."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield HEAD
    figures, places = rows("figures.csv"), rows("places.csv")
    yield from _summary(figures)
    for key, title in TITLES.items():
        own = [row for row in figures if row["figure"].startswith(f"{key}-")]
        if own:
            yield from (
                f"## {title}",
                "",
                "| | figure | printed | podsim | error | origin | kind | command | note |",
                "|---|---|---|---|---|---|---|---|---|",
            )
            yield from map(_line, own)
            yield ""
    yield from ("## Everything else", "", "| statements | where |", "|---|---|")
    for row in places:
        span = row["first"] if row["first"] == row["last"] else f"{row['first']} to {row['last']}"
        yield f"| {span} | {row['place']} |"


def _summary(figures: list[dict[str, str]]) -> Iterator[str]:
    """Rows, red rows and mean errors by origin and kind."""
    said = [(row, podsim_says(row)) for row in figures]
    yield from (f"- *{origin}*: {words}" for origin, words in ORIGINS.items())
    yield from ("", "| origin | kind | tolerance | rows | red | mean error |", "|---|---|---|---|---|---|")
    for origin in ORIGINS:
        for kind, tolerance in TOLERANCES.items():
            own = [pair for pair in said if pair[0]["origin"] == origin and pair[0]["kind"] == kind]
            errors = [abs(share) for pair in own if (share := error(*pair)) is not None]
            mean = f"{sum(errors) / len(errors):.1%}" if errors and origin != "typed in" else ""
            if own:
                red = sum(is_red(*pair) for pair in own)
                yield f"| {origin} | {kind} | {_tolerance(tolerance)} | {len(own)} | {red} | {mean} |"
    count = sum(row["kind"] == NOT_ANSWERED for row in figures)
    yield from (f"| {NOT_ANSWERED} | | | {count} | | |", "")


def _text(value: float | str | None, unit: str, digits: int = 4) -> str:
    if not isinstance(value, float):
        return value or "-"
    if unit in _WITH_PREFIX:
        return format_quantity(value, unit, digits=digits)
    number = f"{float(f'{value:.{digits}g}'):,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"
    return f"{number} {unit}".replace(" 1/s", "/s").strip()


def _tolerance(share: float) -> str:
    return f"{share:.0%}" if share else "exact"


def _line(row: Mapping[str, str]) -> str:
    said = podsim_says(row)
    share = error(row, said)
    deviation = "" if share is None or abs(share) < 5e-4 else f"{share:+.1%}"
    cause = row["cause"] if row["kind"] == NOT_ANSWERED else row["cause"] and f"**red**: {row['cause']}"
    cells = (
        row["figure"], row["says"],
        _text(float(row["printed"]) if isinstance(said, float) and row["printed"] else row["printed"], row["unit"]),
        _text(said, row["unit"], 4 if row["origin"] == "typed in" else 3),
        f"🔴 {deviation}" if is_red(row, said) else deviation, row["origin"], row["kind"],
        " over ".join(f"`podsim {command}`" for command in dict.fromkeys(row["command"].split(" / ")) if command),
        "; ".join(filter(None, (cause, row["note"]))),
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"
