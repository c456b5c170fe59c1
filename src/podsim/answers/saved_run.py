"""Measurements as files: JSON lines, a head that names format, version and kind, then one line a measured row.

    {"format": "podsim-run", "version": 1, "kind": "collectives", "collective": "all-reduce", "ranks": 8, …}
    {"algorithm": "ring", "size": 1048576.0, "seconds": 0.0711, …}

KINDS has the dataclass of each kind. Its attributes give the names and units; the lines after the first are its `rows`.
A reader of version 1 reads every file of version 1 whose kind it knows, and names a kind that it does not know. A change
that it could not read is version 2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from podsim.answers.lab import Emulated, MeasuredCollectives, MeasuredRanks
from podsim.answers.lab_storage import MeasuredCheckpoints, MeasuredLoader
from podsim.answers.served_real import MeasuredServing
from podsim.answers.telemetry import Telemetry
from podsim.answers.trained import MeasuredDdp, MeasuredTables, MeasuredTraining
from podsim.errors import LabError, unknown_name
from podsim.foreign_files import finite, read_start, read_text
from podsim.version import check_format
from podsim.whole_files import write_whole

FORMAT = "podsim-run"
VERSION = 1
Run = (
    MeasuredCollectives
    | MeasuredCheckpoints
    | MeasuredLoader
    | MeasuredTraining
    | MeasuredDdp
    | MeasuredServing
    | MeasuredRanks
    | MeasuredTables
    | Telemetry
)
Kind = TypeVar(
    "Kind",
    MeasuredCollectives,
    MeasuredCheckpoints,
    MeasuredLoader,
    MeasuredTraining,
    MeasuredDdp,
    MeasuredServing,
    MeasuredRanks,
    MeasuredTables,
)
KINDS: dict[str, type[Run]] = {
    "collectives": MeasuredCollectives, "checkpoints": MeasuredCheckpoints, "loader": MeasuredLoader,
    "training": MeasuredTraining, "ddp": MeasuredDdp, "serving": MeasuredServing, "ranks": MeasuredRanks,
    "tables": MeasuredTables, "telemetry": Telemetry,
}  # fmt: skip
"""kind of a run -> what it is made of: a dataclass whose `rows` are a tuple of another"""
_MOST = 64 << 20


def plain(value: Any) -> Any:
    """A result as dicts, lists, numbers and text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def write_run(path: Path, run: Run) -> None:
    """Write a run; a file of that name is replaced, whole or not at all. Raises LabError where it cannot be."""
    kind = next(name for name, made in KINDS.items() if isinstance(run, made))
    head = {"format": FORMAT, "version": VERSION, "kind": kind} | plain(run)
    rows = head.pop("rows")
    try:
        write_whole(path, "".join(json.dumps(line, allow_nan=False) + "\n" for line in (head, *rows)))
    except OSError as problem:
        raise LabError(f"{path}: cannot be written: {problem.strerror or problem}") from None


def is_run(path: Path) -> bool:
    """Whether a file begins as a run does."""
    return f'"{FORMAT}"'.encode() in read_start(path, 200)


def read_run(path: Path) -> Run:
    """A run from its file. Raises LabError for a file that is none, naming the line and what is wrong with it."""
    text = read_text(path, most=_MOST, error=LabError, hint="no run is", is_lenient=True)
    objects = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            parsed = json.loads(line)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise LabError(
                f"{path.name}: line {number} is no JSON object; expected what `podsim measure --save` writes"
            )
        objects.append(parsed)
    head = objects[0] if objects else {}
    if head.get("format") != FORMAT or not isinstance(head.get("kind"), str):
        raise LabError(f'{path.name}: its first line does not say "format": "{FORMAT}", and "kind"')
    check_format(head.get("version"), VERSION, name=path.name, error=LabError)
    if head["kind"] not in KINDS:
        raise LabError(f"{path.name}: {unknown_name('kind of run', head['kind'], KINDS)}")
    body = {key: value for key, value in head.items() if key not in ("format", "version", "kind")}
    run: Run = run_of(body | {"rows": objects[1:]}, path.name, head["kind"])
    return run


def read_trained(path: Path) -> MeasuredTraining:
    """A training run from its file. Raises LabError for a file that holds none."""
    run = read_run(path)
    if not isinstance(run, MeasuredTraining):
        raise LabError(f"{path.name}: a run of another kind; podsim train --save writes training runs")
    return run


def run_of(fields_given: Mapping[str, Any], where: str = "a rank", kind: str = "collectives") -> Any:
    """A run of a kind from plain values. Raises LabError for values that are missing, unknown or of another type."""
    made = KINDS[kind]
    row_type = get_args(get_type_hints(made)["rows"])[0]
    rows = tuple(
        _made(row_type, row, f"{where}: row {number}")
        for number, row in enumerate(fields_given.get("rows", []), 1)
    )
    values = {**fields_given, "rows": rows}
    if values.get("emulated") is not None:
        values["emulated"] = emulated_of(values["emulated"], where)
    return _made(made, values, where)


def keep_run(told: Mapping[str, Any] | None, made: type[Kind], save: Path | None) -> Kind | None:
    """The run that rank 0 described, also written to a file where one is named; None for the other ranks."""
    if told is None:
        return None
    run: Kind = run_of(told, kind=next(name for name, each in KINDS.items() if each is made))
    if save is not None:
        write_run(save, run)
    return run


def emulated_of(told: Any, where: str = "the environment") -> Emulated:
    """The links of an emulated cluster from plain values. Raises LabError for values that are none."""
    links: Emulated = _made(Emulated, told, f"{where}: emulated")
    return links


def _made(kind: Any, told: Any, where: str) -> Any:
    """A dataclass from a mapping; all that is wrong with it in one LabError."""
    if not isinstance(told, Mapping):
        raise LabError(f"{where}: {str(told)[:40]!r} is no object")
    types, problems, values = get_type_hints(kind), [], {}
    known = {field.name: field for field in fields(kind)}
    problems += [f"{name[:40]!r} is unknown" for name in told if name not in known]
    for name, field in known.items():
        if name in told:
            value: Any = tuple(told[name]) if isinstance(told[name], list) else told[name]
            is_whole = types[name] is float and _is(value, int)
            values[name] = finite(value) if is_whole else value
            if not _is(values[name], types[name]):
                problems.append(f"{name} is {str(value)[:40]!r}")
        elif field.default is MISSING and field.default_factory is MISSING:
            problems.append(f"{name} is missing")
    if problems:
        raise LabError(f"{where}: {'; '.join(problems)}")
    return kind(**values)


def _is(value: Any, wanted: Any) -> bool:
    """Whether a value is of an annotated type, and a number that is finite and not negative."""
    if isinstance(wanted, UnionType):
        return any(_is(value, each) for each in get_args(wanted))
    if wanted is NoneType:
        return value is None
    plain_type = get_origin(wanted) or wanted
    if not isinstance(value, plain_type) or (isinstance(value, bool) and plain_type is not bool):
        return False
    inner = get_args(wanted)
    if plain_type is tuple:
        return all(_is(item, inner[0]) for item in value)
    if plain_type is Mapping:
        return all(isinstance(key, str) and _is(item, inner[1]) for key, item in value.items())
    return not isinstance(value, (int, float)) or (0 <= value < 1 << 1000)
