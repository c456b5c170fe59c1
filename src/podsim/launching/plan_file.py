"""Files that hold a plan: a saved search, one plan of its ranking, a launch file; read as the options of a question.

experiment.toml    the plan that a search found, or one that a user wrote: model, on, gpus, batch and a table [plan]
plans.json#3       the third plan of a saved ranking; without a number the first
job.sh, ds.json    what `podsim launch` wrote for any tool, or others for theirs
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from podsim.errors import PodsimError, unknown_name
from podsim.foreign_files import read_text
from podsim.options.plan_options import JobOptions, LayoutFields, TrainedFields
from podsim.options.question import options_of
from podsim.training.job_inputs import split_overrides
from podsim.training.plan import Plan
from podsim.version import check_release
from podsim.workload.catalog import load_model
from podsim.workload.specification import shown

LARGEST = 1 << 22
"""B of the largest plan file: a saved ranking of a thousand plans is larger than any launch file"""
_FIELDS = {**options_of(LayoutFields), **options_of(TrainedFields)}
_JOB = options_of(JobOptions)
_FOLLOWS = {"dp": ("gpus", "tp", "pp", "cp"), "gpus": ("dp",), "schedule": ("virtual_stages",)}
"""Values of a file that are dropped if the user gives one of the others and not them."""
_DEGREES = ("cp", "ep")


def with_plan(group: type, said: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a group: those that the user gave, and the others as the file `plan` has them.

    Raises PodsimError for a file that holds no plan, or one with a degree that the group lacks.
    """
    known = options_of(group)
    values = read_plan_file(str(said["plan"]), said)
    if "tp" in known and (
        wrong := [name for name in _DEGREES if name not in known and values.get(name, 1) != 1]
    ):
        degrees = ", ".join(f"{name}={values[name]}" for name in wrong)
        raise PodsimError(
            f"{_name(said['plan'])}: {degrees}, which this question cannot have; give another plan"
        )
    if "overrides" in known:
        model, _ = split_overrides(values.get("overrides"))
        kept = values.get("overrides") if "on" in known else {f"model.{key}": model[key] for key in model}
        values["overrides"] = {**(kept or {}), **(said.get("overrides") or {})}
    for name, others in _FOLLOWS.items():
        if name not in said and any(other in said for other in others):
            values.pop(name, None)
    given = {name: value for name, value in said.items() if name in known and name != "overrides"}
    return {**{name: value for name, value in values.items() if name in known and value != {}}, **given}


def plan_values(plan: Plan | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a plan as options: codes spelled out, the number of sequences as `batch`."""
    values = plan.describe() if isinstance(plan, Plan) else dict(plan)
    batch = values.pop("global_batch", None)
    return values | ({} if batch is None else {"batch": batch})


def read_plan_file(name: str, said: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values of options that a file holds: model, on, gpus, batch, overrides, and the fields of the plan.

    `said` is what the user gave besides, which a launch file may leave unsaid. Raises PodsimError, naming the file, for
    one that cannot be read or holds no plan.
    """
    path, rank = _ranked(name)
    text = _text(path)
    if rank is None and path.suffix.lower() == ".toml" and (table := _own_toml(text)) is not None:
        return _checked(path, _of_experiment(path, table))
    if text.lstrip().startswith("{") and (saved := _saved(text)) is not None:
        return _checked(path, _of_ranking(path, saved, 1 if rank is None else rank))
    if rank is not None:
        raise PodsimError(
            f"{_name(path)}: #{rank} is a plan of a saved ranking, plans.json#{rank}; leave it out"
        )
    return _checked(path, _of_launch_file(path, text, said or {}))


def _name(path: object) -> str:
    return str(path)[-200:]


def _ranked(name: str) -> tuple[Path, int | None]:
    """The file and the number after #, if there is one; a directory stands for the ranking in it."""
    stem, mark, digits = name.rpartition("#")
    numbered = bool(mark) and digits.isascii() and digits.isdecimal() and len(digits) < 7
    path = Path(stem if numbered else name)
    try:
        if path.is_dir():
            path /= "plans.json"
    except (OSError, ValueError) as error:
        raise PodsimError(f"{_name(path)}: {error}") from None
    return path, int(digits) if numbered else None


def _text(path: Path) -> str:
    if not path.is_file():
        raise PodsimError(
            f"{_name(path)}: no such file; give one that `podsim plan --save DIR` or `podsim launch` wrote"
        )
    return read_text(path, most=LARGEST, error=PodsimError, hint="no plan file is")


def _own_toml(text: str) -> dict[str, Any] | None:
    """The content of podsim's own file; None for any other, such as torchtitan's."""
    if max(map(len, text.splitlines()), default=0) > 1 << 16:
        return None
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError):
        return None
    return table if isinstance(table.get("model", ""), str) and ("on" in table or "plan" in table) else None


def _of_experiment(path: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    plan = table.get("plan", {})
    if not isinstance(plan, dict):
        raise PodsimError(f"{_name(path)}: plan={shown(plan)} must be a table, [plan]")
    check_release(table.get("podsim"), name=_name(path), error=PodsimError)
    flat = {name: table[name] for name in _FIELDS if name in table}
    if not plan and not set(flat) & set(options_of(LayoutFields)):
        raise PodsimError(
            f"{_name(path)} holds a search and no plan; `podsim replay {_name(path)} --save DIR` saves its plans"
        )
    if wrong := [name for name in plan if name not in _FIELDS and name != "global_batch"]:
        raise PodsimError(f"{_name(path)}: {unknown_name('field of [plan]', wrong[0], _FIELDS)}")
    return {name: table[name] for name in _JOB if name in table} | flat | plan_values(plan)


def _saved(text: str) -> dict[str, Any] | None:
    """A saved ranking; None for another JSON, such as DeepSpeed's."""
    try:
        saved = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return saved if isinstance(saved, dict) and "ranked" in saved else None


def _of_ranking(path: Path, saved: Mapping[str, Any], rank: int) -> dict[str, Any]:
    check_release(saved.get("podsim"), name=_name(path), error=PodsimError)
    ranked, asked = saved["ranked"], saved.get("arguments") or {}
    if not isinstance(ranked, list) or not ranked:
        raise PodsimError(f"{_name(path)} holds no plan")
    if not 1 <= rank <= len(ranked):
        raise PodsimError(
            f"{_name(path)}#{rank}: it holds {len(ranked)} plans; #1 to #{len(ranked)} would work"
        )
    try:
        plan = ranked[rank - 1]["prediction"]["plan"]
        values = {name: asked[name] for name in _JOB if asked.get(name) is not None}
        return values | {"gpus": ranked[rank - 1]["prediction"]["gpus"]} | plan_values(plan)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise PodsimError(
            f"{_name(path)}#{rank}: not a ranking that `podsim plan --save DIR` wrote"
        ) from None


def _of_launch_file(path: Path, text: str, said: Mapping[str, Any]) -> dict[str, Any]:
    from podsim.launching.plan_comment import comment_of
    from podsim.launching.tools import read

    try:
        job = dict(comment_of(text)) | {
            name: said[name] for name in ("model", "gpus", "sequence") if said.get(name)
        }
        network = None
        if "model" in job:
            network = load_model(str(job["model"]), split_overrides(job.get("overrides"))[0])
        reading = read(
            text, gpus=job.get("gpus") or None, layers=network.layer_count if network else 0,
            sequence=job.get("sequence") or (network.sequence if network else 0),
        )  # fmt: skip
    except PodsimError as error:
        raise PodsimError(f"{_name(path)}: {error}") from None
    named = {"model": reading.named} if reading.named else {}
    words = named | {name: job[name] for name in _JOB if name in job} | dict(reading.names)
    return words | {"gpus": reading.gpus} | plan_values(reading.plan)


def _checked(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The values, if each has the kind of its option; PodsimError names all that have not."""
    problems = []
    for name, value in values.items():
        known = _FIELDS.get(name) or _JOB.get(name)
        if known is None:
            problems.append(unknown_name("field", str(name)[:40], [*_FIELDS, *_JOB]))
        elif type(value) not in known.kinds and value is not None:
            problems.append(f"{name}={shown(value)} must be {known.kind_names}")
    if problems:
        raise PodsimError(f"{_name(path)}: {'; '.join(problems)}")
    if values.get("overrides"):
        values["overrides"] = {str(key): str(value) for key, value in values["overrides"].items()}
    return {name: value for name, value in values.items() if value is not None}
