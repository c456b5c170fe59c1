"""A study as users write it: common settings, a grid, and a list of designs; as TOML, or as a mapping of the same shape.

title = "Which machine trains it?"
[common]
model = "llama-3.1-70b"
tokens = "1T"
[grid]                                  # every combination of these
gpus = [64, 128, 256]
[grid.set]                              # what-ifs: overrides, as --set
network.bandwidth = ["200Gb/s", "400Gb/s"]
[[design]]                              # each design, on all of the grid
name = "H100"
on = "dgx-h100:32"

With `equal = "power"` and `amount = "2 MW"` every design takes what that buys (`equal_share.py`). With
`order = "sequential"` the designs are jobs: each starts when the one before it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

from podsim.errors import PodsimError, unknown_name
from podsim.foreign_files import read_text, read_toml
from podsim.options.mlperf_options import TargetDesignOptions
from podsim.options.plan_options import LayoutFields, PredictOptions, SearchOptions
from podsim.options.question import options_of
from podsim.options.scale_options import ScaleBestOptions
from podsim.options.study_options import FewestOptions
from podsim.studies.equal_share import equal_gpus, read_amount

QUESTIONS = ("plan", "predict", "fewest", "scale", "target")
ORDERS = ("side by side", "sequential")
MOST_POINTS = 200_000
_LARGEST = 1 << 20
"""B of the largest study file read"""
_LONGEST = 4_000
"""characters of a line: the parser's memory grows as the square of the parts of a dotted key"""
_KEYS = ("title", "question", "days", "order", "equal", "amount", "common", "grid", "design")
_LAYOUT = frozenset((*options_of(LayoutFields), "plan"))
_TABLES = ("set", "limit")
_OUTPUT = frozenset(("save", "launch", "detail", "top", "overrides"))
"""options of a question that a study does not take, or under another name"""
_GROUPS = {
    "plan": SearchOptions,
    "predict": PredictOptions,
    "fewest": FewestOptions,
    "scale": ScaleBestOptions,
    "target": TargetDesignOptions,
}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One question of a study."""

    name: str
    question: str
    """The question: plan, predict, fewest, scale, or target."""
    settings: Mapping[str, Any]
    """The settings by the names of options; overrides as set.KEY, limits as limit.KEY."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """The questions of a study."""

    title: str
    points: tuple[Point, ...]
    is_sequential: bool = False
    """Whether each design is a job that starts when the one before it has ended."""


def read_study(
    study: str | Path | Mapping[str, Any],
    days: float | None = None,
    fixed: Mapping[str, Any] = MappingProxyType({}),
) -> Study:
    """The questions of a study file, or of a mapping of the same shape; `days` asks for the fewest GPUs.

    `fixed` are fields of the layout that every design has instead of its own.
    Raises PodsimError, with everything wrong, for a file that is no study.
    """
    if isinstance(study, Mapping):
        return _study(study, "study", "study", days, fixed)
    path = Path(study)
    try:
        return _study(_read(path), path.stem, str(path)[-200:], days, fixed)
    except OSError as error:
        raise PodsimError(f"{str(path)[-200:]}: {error.strerror or error}") from None


def _read(path: Path) -> dict[str, Any]:
    shown = str(path)[-200:]
    if "\0" in shown or not path.is_file():
        raise PodsimError(f"{shown!r}: no such file; give a study, as docs/study.md shows")
    text = read_text(path, most=_LARGEST, error=PodsimError, hint="no study is")
    return read_toml(text, name=shown, error=PodsimError)


def _study(
    raw: Mapping[str, Any], title: str, shown: str, days: float | None, fixed: Mapping[str, Any]
) -> Study:
    """The study of a table; every problem at once."""
    problems = [unknown_name("key", key, _KEYS) for key in raw if key not in _KEYS]
    problems += [
        f"[{key}] must be a table" for key in ("common", "grid") if not isinstance(raw.get(key, {}), Mapping)
    ]
    designs = raw.get("design", [{}])
    if not isinstance(designs, Sequence) or isinstance(designs, str) or not designs:
        problems.append("design must be a list of tables: [[design]]")
    elif not all(isinstance(design, Mapping) for design in designs):
        problems.append("each [[design]] must be a table")
    _raise(shown, problems)
    common, grid = _flat(raw.get("common", {})), _flat(raw.get("grid", {}))
    flat = [_flat(design) for design in designs]
    days = raw.get("days") if days is None else days
    problems = _problems(common, grid, flat, days)
    question = raw.get("question", "")
    if question not in ("", *QUESTIONS):
        problems.append(unknown_name("question", str(question), QUESTIONS))
    order = raw.get("order", ORDERS[0])
    if order not in ORDERS:
        problems.append(unknown_name("order", str(order), ORDERS))
    _raise(shown, problems)
    size = len(flat) * prod(len(values) for values in grid.values())
    if not 1 <= size <= MOST_POINTS:
        raise PodsimError(f"{shown}: {size:,} designs; a study has 1 to {MOST_POINTS:,}")
    given = {"question": question, "fixed": fixed, **({} if days is None else {"days": days})}
    points = tuple(_points(common, grid, flat, given))
    if "equal" in raw or "amount" in raw:
        points = _of_equal_size(points, str(raw.get("equal", "")), raw.get("amount"))
    _raise(shown, list(dict.fromkeys(text for point in points for text in _wrong_settings(point))))
    return Study(title=str(raw.get("title", title))[:200], points=points, is_sequential=order == "sequential")


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name; of tables such as `set` by dotted keys."""
    settings: dict[str, Any] = {}
    for key, value in table.items():
        name = "set" if key == "overrides" else key
        settings |= dict(_dotted(value, name)) if isinstance(value, Mapping) else {name: value}
    return settings


def _dotted(table: Mapping[str, Any], above: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        name = f"{above}.{key}"
        if isinstance(value, Mapping):
            yield from _dotted(value, name)
        else:
            yield name, value


def _problems(
    common: Mapping[str, Any], grid: Mapping[str, Any], designs: Sequence[Mapping[str, Any]], days: object
) -> list[str]:
    """What is wrong with the values, apart from names."""
    problems = []
    for key, values in grid.items():
        if not isinstance(values, list | tuple) or not values:
            problems.append(f"[grid] {key}: give a list of values, as {key} = [1, 2]")
        elif len(set(map(repr, values))) < len(values):
            problems.append(f"[grid] {key}: a value is given twice")
    scalars = {key: value for table in (common, *designs) for key, value in table.items()}
    scalars |= {
        key: value for key, values in grid.items() if isinstance(values, list | tuple) for value in values
    }
    problems += [
        f"{key}={str(value)[:60]}: give text, a number, or true or false; lists of values belong in [grid]"
        for key, value in scalars.items()
        if not isinstance(value, str | int | float | Path) and not key.startswith("limit.")
    ]
    if days is not None and (
        not isinstance(days, int | float) or isinstance(days, bool) or not 0 < days < 1e5
    ):
        problems.append(f"days={str(days)[:40]}: give a number of days above 0")
    return problems


def _points(
    common: Mapping[str, Any],
    grid: Mapping[str, Any],
    designs: Sequence[Mapping[str, Any]],
    given: Mapping[str, Any],
) -> Iterator[Point]:
    """Each design on each combination of the grid."""
    for design in designs:
        for values in product(*grid.values()):
            settings = {**common, **dict(zip(grid, values, strict=True)), **design}
            settings = {
                key: str(value) if isinstance(value, Path) else value for key, value in settings.items()
            }
            name, asked = str(settings.pop("name", ""))[:80], settings.pop("question", given["question"])
            if "days" in given:
                settings.setdefault("days", given["days"])
            is_laid_out = any(key in _LAYOUT for key in settings)
            default = "fewest" if "days" in settings else "predict" if is_laid_out else "plan"
            yield Point(name=name, question=str(asked or default), settings={**settings, **given["fixed"]})


def _of_equal_size(points: Sequence[Point], equal: str, amount: object) -> tuple[Point, ...]:
    """The points on as many accelerators as one amount of power, peak or price buys."""
    value = read_amount(equal, amount)
    if fixed := [point.name or str(point.settings.get("on")) for point in points if "gpus" in point.settings]:
        raise PodsimError(f"equal sets the number of accelerators, so {fixed[0]} has no gpus of its own")
    return tuple(
        replace(point, settings={**point.settings, "gpus": equal_gpus(point.settings, equal, value)})
        for point in points
    )


def _wrong_settings(point: Point) -> Iterator[str]:
    """What a question does not take, or lacks."""
    if point.question not in QUESTIONS:
        yield unknown_name("question", point.question, QUESTIONS)
        return
    known = options_of(_GROUPS[point.question])
    names = [name for name in known if name not in _OUTPUT] + ["carbon", "set", "limit"]
    for key in point.settings:
        head, dot, _ = key.partition(".")
        if head not in names or (bool(dot) != (head in _TABLES)):
            yield f"question {point.question}: {unknown_name('setting', key, names)[:300]}"
    for name, option in known.items():
        if option.is_required and name not in point.settings:
            yield f"{name} is missing: give it in [common], [grid] or each [[design]]"


def _raise(shown: str, problems: Sequence[str]) -> None:
    if problems:
        more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise PodsimError(f"{shown}: {'; '.join(problems[:3])}{more}")
