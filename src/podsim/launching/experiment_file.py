"""The files of an experiment: ranked plans, Pareto front, and what replays it. All appear, or none."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podsim.answers.launched import Recipe
from podsim.answers.prediction import PlanResult
from podsim.errors import PodsimError, unknown_name
from podsim.foreign_files import read_text, read_toml
from podsim.hardware.cluster import Cluster
from podsim.launching.job import Job
from podsim.launching.tools import SCRIPTS, TOOLS, launch_files
from podsim.options.plan_options import SearchOptions
from podsim.options.question import options_of
from podsim.quoting import toml_text
from podsim.report.plain_data import plain_value, to_csv, to_json
from podsim.training.plan import Plan
from podsim.version import __version__, check_release
from podsim.whole_files import write_files
from podsim.workload.model import Model

_LARGEST = 1 << 20
"""B of the largest experiment file read"""
_KEPT = {
    name: known
    for name, known in options_of(SearchOptions).items()
    if name not in ("save", "detail", "launch")
}
"""options of a search that an experiment file keeps"""
_FOUND = "plan"
"""the table of an experiment file with the plan that was found, which a replay searches again"""
_FILES = ("plans.csv", "pareto.csv", "plans.json", "experiment.toml")


def check_saving(save: str | Path | None, tools: Sequence[str]) -> None:
    """Raise PodsimError for a tool that does not exist, for launch files without a directory, or one that cannot be."""
    if wrong := [tool for tool in tools if tool not in TOOLS]:
        raise PodsimError(unknown_name("tool", wrong[0], TOOLS))
    if save is None:
        raise PodsimError(f"--launch {tools[0]} writes a file; say where with --save DIR").offer(save="run")
    check_directory(Path(save))


def check_directory(directory: Path) -> None:
    """Raise PodsimError for a directory that cannot be made or written, before any work is done for it."""
    there = directory
    try:
        while not there.exists() and there != there.parent:
            there = there.parent
        if not there.is_dir():
            raise _unwritable(directory, f"{there} is no directory")
        if not os.access(there, os.W_OK | os.X_OK):
            raise _unwritable(directory, f"{there} cannot be written")
        taken = [name for name in _FILES if (directory / name).is_dir()]
    except (OSError, ValueError) as error:
        if isinstance(error, PodsimError):
            raise
        raise _unwritable(directory, getattr(error, "strerror", None) or str(error)) from None
    if taken:
        raise _unwritable(directory, f"{', '.join(taken)} in it is a directory")


def _unwritable(directory: Path, reason: str) -> PodsimError:
    return PodsimError(f"--save {str(directory)[:200]}: {reason}; give a directory that can be written")


def save_plans(result: PlanResult, directory: Path, recipes: Sequence[Recipe]) -> None:
    """Write plans.csv, pareto.csv, plans.json, experiment.toml and launch files into a directory.

    None gets its name before all are written.  PodsimError if the directory cannot be made or written.
    """
    check_directory(directory)
    pareto = [{"step_time": point.step_time, "memory": point.memory, **point.plan} for point in result.pareto]
    best = {} if not result.ranked else {_FOUND: result.ranked[0].prediction.plan}
    texts = (
        to_csv(result),
        to_csv(pareto),
        to_json({"podsim": {"version": __version__}, **plain_value(result)}) + "\n",
        _toml({**result.arguments, **best}),
    )
    files = dict(zip(_FILES, texts, strict=True)) | {recipe.file: recipe.text for recipe in recipes}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_files({directory / name: text for name, text in files.items()})
    except (OSError, UnicodeError) as error:
        raise _unwritable(directory, getattr(error, "strerror", None) or str(error)) from None


def saved_words(directory: Path, recipes: Sequence[Recipe]) -> list[str]:
    """The files that `save_plans` wrote, and what to know of each launch file before it is run."""
    files = ", ".join((*_FILES, *(recipe.file for recipe in recipes)))
    notes = (f"{recipe.file}: {'; '.join(recipe.notes)}" for recipe in recipes if recipe.notes)
    return [f"saved in {directory}: {files}", *notes]


def recipes_of_tools(
    model: Model, cluster: Cluster, options: SearchOptions, result: PlanResult
) -> list[Recipe]:
    """The launch files of the best plan: of the requested tools, or of scripts that can start it.

    Raises PlanError for a requested tool that cannot.
    """
    if not result.ranked:
        return []
    plan = Plan(**dict(result.ranked[0].prediction.plan))  # type: ignore[arg-type]
    names: dict[str, object] = {"model": str(options.model), "on": str(options.on)}
    if options.overrides:
        names["overrides"] = dict(options.overrides)
    if options.train != "full":
        names["train"] = options.train
    job = Job(model=model, cluster=cluster.subset(int(plan.gpus)), plan=plan, names=names)
    written = launch_files(job, options.launch or SCRIPTS).values()
    refused = [error for error in written if not isinstance(error, Recipe)]
    if refused and options.launch:
        raise refused[0]
    return [recipe for recipe in written if isinstance(recipe, Recipe)]


def _toml(arguments: Mapping[str, Any]) -> str:
    """The arguments as TOML."""
    lines = [
        "# podsim replay FILE runs this search again; podsim predict --plan FILE takes the plan that it found"
    ]
    tables = []
    for key, value in arguments.items():
        if isinstance(value, Mapping):
            tables += [f"\n[{key}]", *(f"{toml_text(k)} = {toml_text(v)}" for k, v in value.items())]
        else:
            lines.append(f"{key} = {toml_text(value)}")
    return "\n".join([*lines, f"podsim = {toml_text(__version__)}", *tables]) + "\n"


def read_experiment(path: Path) -> dict[str, Any]:
    """Arguments of `plan` from an experiment file; PodsimError, with everything wrong, if it is not one."""
    raw = _read(path)
    raw.pop(_FOUND, None)
    check_release(raw.pop("podsim", None), name=str(path), error=PodsimError)
    problems = []
    for key, value in raw.items():
        if key not in _KEPT:
            problems.append(unknown_name("key", key, _KEPT))
        elif type(value) not in _KEPT[key].kinds:
            problems.append(f"{key}={str(value)[:80]!r} must be {_KEPT[key].kind_names}")
    problems += [f"{key} is missing" for key, known in _KEPT.items() if known.is_required and key not in raw]
    if problems:
        raise PodsimError(f"{path}: {'; '.join(problems)}")
    if "overrides" in raw:
        raw["overrides"] = {key: str(value) for key, value in raw["overrides"].items()}
    return raw


def _read(path: Path) -> dict[str, Any]:
    try:
        is_there = path.is_file()
    except ValueError:  # a null byte in its name
        is_there = False
    if not is_there:
        raise PodsimError(f"{path}: no such file; give the experiment.toml that `podsim plan --save` wrote")
    text = read_text(path, most=_LARGEST, error=PodsimError, hint="no experiment file is")
    return read_toml(text, name=f"{path}: not an experiment file: it", error=PodsimError, longest=_LARGEST)
