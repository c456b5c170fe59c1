"""The files of an experiment: ranked plans, Pareto front, and what replays it. All appear, or none."""

from __future__ import annotations

import csv
import json
import os
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podsim.errors import PlanError, PodsimError, unknown_name

if TYPE_CHECKING:
    from podsim.prediction import PlanResult

__all__ = ["limit_values", "read_experiment", "save_plans"]

_CODES = {
    "recompute": {"none": 0, "selective": 1, "full": 2},
    "schedule": {"gpipe": 0, "1f1b": 1, "interleaved": 2},
}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "model": str, "on": str, "gpus": int, "batch": int, "sequence": int, "precision": str,
    "optimizer_precision": str, "software": str, "objective": str, "top": int, "limit": dict, "overrides": dict,
}  # fmt: skip


def limit_values(field: str, text: str) -> tuple[int, ...]:
    """Values of a plan's field from text such as "4,8" or "full,selective"; PlanError for anything else."""
    codes = _CODES.get(field, {})
    flags = {"true": 1, "yes": 1, "on": 1, "false": 0, "no": 0, "off": 0}
    found = []
    for part in text.split(","):
        word = part.strip().lower()
        if word in codes:
            found.append(codes[word])
        elif word in flags and not codes:
            found.append(flags[word])
        elif word.isdecimal() and len(word) < 10 and not codes:
            found.append(int(word))
        else:
            may = ", ".join(codes) if codes else "whole numbers (or true, false for a switch)"
            raise PlanError([f"--limit {field}={text!r}: {part.strip()[:40]!r} is not a value; {field} may be {may}"])
    return tuple(found)


def save_plans(result: PlanResult, directory: Path) -> None:
    """Write plans.csv, pareto.csv, plans.json and experiment.toml into a directory.

    They are made in a temporary directory beside it first, so that a failure leaves nothing half-written.  PodsimError
    if the directory cannot be made or written.
    """
    from podsim.report.data import to_json

    files = {
        "plans.csv": _csv([_flat(r) for r in result.ranked]),
        "pareto.csv": _csv([{"step_time": p.step_time, "memory": p.memory, **p.plan} for p in result.pareto]),
        "plans.json": to_json(result) + "\n",
        "experiment.toml": _toml(result.arguments),
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory, prefix=".podsim-") as made:
            for name, text in files.items():
                (Path(made) / name).write_text(text, encoding="utf-8")
            for name in files:
                os.replace(Path(made) / name, directory / name)  # noqa: PTH105 - atomic, and says so
    except OSError as error:
        raise PodsimError(f"--save {directory}: {error.strerror or error}; give a directory that can be written") from None


def _flat(ranked: Any) -> dict[str, object]:
    one = ranked.prediction
    return {
        "rank": ranked.rank, "step_time": one.step_time, "tokens_per_second": one.tokens_per_second, "mfu": one.mfu,
        "hfu": one.hfu, "memory": one.memory, **one.plan, "reason": ranked.reason,
    }  # fmt: skip


def _csv(rows: list[dict[str, object]]) -> str:
    import io

    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()


def _toml(arguments: Mapping[str, Any]) -> str:
    """The arguments as TOML: JSON's strings, numbers and lists are TOML's too."""
    lines = ["# podsim replay FILE runs this search again"]
    tables = []
    for key, value in arguments.items():
        if isinstance(value, Mapping):
            tables += [f"\n[{key}]", *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in value.items())]
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join([*lines, *tables]) + "\n"


def read_experiment(path: Path) -> dict[str, Any]:
    """Arguments of `plan` from an experiment file; PodsimError if it is not one."""
    try:
        if path.stat().st_size > 1 << 20:
            raise PodsimError(f"{path}: larger than 1 MiB, so it is no experiment file")
        raw = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise PodsimError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PodsimError(f"{path}: not a TOML file: {error}") from None
    for key, value in raw.items():
        if key not in _TYPES:
            raise PodsimError(f"{path}: {unknown_name('key', key, _TYPES)}")
        if not isinstance(value, _TYPES[key]) or isinstance(value, bool):
            raise PodsimError(f"{path}: {key}={value!r} has the wrong type")
    missing = [key for key in ("model", "on") if key not in raw]
    if missing:
        raise PodsimError(f"{path}: missing {', '.join(missing)}")
    limits = raw.get("limit", {})
    raw["limit"] = {k: limit_values(k, ",".join(str(x) for x in v) if isinstance(v, list) else str(v)) if k not in _CODES else tuple(v) for k, v in limits.items()}
    raw["overrides"] = {str(k): str(v) for k, v in raw.get("overrides", {}).items()}
    return raw
