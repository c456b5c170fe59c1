"""Changes of a plan that concern one subject, and what each changes in the keys of the file that starts it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Any

from podsim.launching import accelerate, axolotl, bridge, deepspeed, maxtext, titan
from podsim.launching.command_line import framework_command
from podsim.launching.flags import flags_of
from podsim.launching.job import Job
from podsim.launching.key_table import flat_keys, keys_of
from podsim.launching.python_recipe import read_paths
from podsim.launching.tools import TOOLS
from podsim.training.plan import Plan

_DEGREES = ("tp", "pp", "cp", "dp")
_KEYED = {
    "torchtitan": titan.TOOL, "accelerate": accelerate.TOOL, "axolotl": axolotl.TOOL, "maxtext": maxtext.TOOL,
}  # fmt: skip
_SWITCHES = ("sequence_parallel", "overlap_grad", "overlap_param", "overlap_tp", "flash")


def single_changes(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """(subject, plan) of every change of one subject; the batch, the sequence and the number of GPUs stay."""
    fields: dict[str, Any] = plan.describe()
    for less, more in permutations(_DEGREES, 2):
        if fields[less] % 2 == 0:
            moved = {less: fields[less] // 2, more: fields[more] * 2}
            yield f"{less} {fields[less]} → {moved[less]}, {more} {moved[more]}", _moved(plan, moved)
    for name in ("micro_batch", "ep", "virtual_stages"):
        for value in (fields[name] * 2, fields[name] // 2):
            if value and not (name == "virtual_stages" and fields["pp"] == 1):
                yield f"{name} {fields[name]} → {value}", _moved(plan, {name: value})
    choices: dict[str, tuple[object, ...]] = {
        "recompute": ("none", "selective", "full"), "zero": (0, 1, 2, 3), "precision": ("fp8",),
        **dict.fromkeys(_SWITCHES, (True,)),
    }  # fmt: skip
    for name, values in choices.items():
        for wanted in values:
            if wanted != fields[name]:
                yield f"{name} {_word(fields[name])} → {_word(wanted)}", _moved(plan, {name: wanted})


def _word(value: object) -> str:
    return ("off", "on")[value] if isinstance(value, bool) else str(value)


def _moved(plan: Plan, changes: dict[str, Any]) -> Plan:
    """The plan with changes, and with what must follow from them."""
    fields: dict[str, Any] = plan.describe() | changes
    follow: dict[str, Any] = {}
    if "tp" in changes:
        follow["sequence_parallel"] = fields["tp"] > 1 and (plan.tp == 1 or fields["sequence_parallel"])
        follow["overlap_tp"] = fields["tp"] > 1 and fields["overlap_tp"]
    if fields["pp"] == 1 and fields["virtual_stages"] > 1:
        follow["virtual_stages"] = 1
    chunks = follow.get("virtual_stages", fields["virtual_stages"])
    if fields["schedule"] in ("1f1b", "interleaved"):
        follow["schedule"] = "interleaved" if chunks > 1 else "1f1b"
    if changes.keys() & {*_DEGREES, "zero"}:
        follow["shard"] = 0
    if fields["recompute"] != "full" or changes.keys() & {"pp", "virtual_stages", "recompute"}:
        follow["recompute_layers"] = 0
    if changes.get("overlap_param"):
        follow["overlap_grad"] = True
    if changes.get("zero") == 3:
        follow |= {"overlap_param": True, "overlap_grad": True}
    return plan.having({**changes, **follow})


def new_problems(tool: str, base: Job, changed: Job) -> list[str]:
    """What a tool cannot run of a changed plan, of which the plan of the file was free."""
    limits = TOOLS[tool].limits_of(base)
    before = set(limits.problems(base))
    return [problem for problem in limits.problems(changed) if problem not in before]


def difference(tool: str, before: Job, after: Job, names: Mapping[str, str]) -> tuple[str, ...]:
    """The lines of a diff in the keys of a tool, `- key value` and `+ key value`; `names` are a file's other keys."""
    old, new = (
        {key: line.replace(key, names.get(key, key), 1) for key, line in _settings(tool, job).items()}
        for job in (before, after)
    )
    lines = []
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            lines += [f"- {old[key]}"] if key in old else []
            lines += [f"+ {new[key]}"] if key in new else []
    return tuple(lines)


def _settings(tool: str, job: Job) -> dict[str, str]:
    """The lines of a file that state a plan, by key."""
    if tool == "nemo":
        paths = read_paths(bridge.recipe(job))
        return {path: f"{path} = {value}" for path, value in paths.items() if "." in path or "mixed" in path}
    if tool == "deepspeed":
        return {
            path: f"{path}: {json.dumps(value)}" for path, value in flat_keys(deepspeed.config(job)).items()
        }
    if tool in _KEYED:
        flat = keys_of(job, _KEYED[tool], plan_only=True)
        equals = " = " if tool == "torchtitan" else ": "
        return {path: f"{path}{equals}{json.dumps(value)}" for path, value in flat.items()}
    _, groups = framework_command(job)
    given = flags_of([word for group in groups for word in group]).given
    return {name: " ".join([f"--{name}", *values]) for name, values in given.items()}
