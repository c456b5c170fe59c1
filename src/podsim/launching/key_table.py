"""Files that are keys and values: one table of keys, read in both directions.

A `Key` joins a key of the file with a number of the run (`podsim.launching.run_values`). A tool is its keys, the values
of a plan that it can run, and the further keys that make its file start.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from podsim.errors import PodsimError
from podsim.launching.job import Context, Job, Reading, effective
from podsim.launching.run_values import plan_of, run_values, slice_values
from podsim.launching.tool_limits import Limits
from podsim.safe_yaml import YamlError, read_documents
from podsim.workload.catalog import any_model_names
from podsim.workload.model_names import known_model
from podsim.workload.specification import shown

_PART = "per_gpu"
"""the value that need not be whole: several GPUs may share a sample"""


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key of a file."""

    path: str
    """The names of the tables and of the key, joined by dots."""
    value: str = ""
    """The name of the value in a run; empty for a key that is written and not read."""
    words: tuple[tuple[object, object], ...] = ()
    """The pairs of a value and its word in the file, the written one first; none: both are a number. A word whose value
    is "" says nothing."""
    plain: object = None
    """The value that the tool takes where the key is missing; None: nothing follows."""
    also: tuple[str, ...] = ()
    """The other names of the key in older or newer releases."""
    least: int = 1
    """The smallest whole number."""
    only_read: bool = False
    written: object = None
    """The word of every file, or a function of the job that gives it; None: that of the value."""
    when: tuple[str, Container[object]] = ("", ())
    """The name of a value and the values of it with which the key is written; by default always."""

    def word(self, value: object) -> object:
        """The word of a value in a file."""
        return next((word for known, word in self.words if known == value), value)


@dataclass(frozen=True, kw_only=True)
class KeyedTool:
    """A tool whose file is keys and values."""

    limits: Limits
    keys: tuple[Key, ...]
    always: Callable[[Job], Mapping[str, object]] = lambda job: {}
    """The further keys, by path, that make it start."""
    machine: Callable[[Job], Mapping[str, object]] = lambda job: {}
    """The keys that the machine decides, by path, in place of others."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """The keys with which a file is no plan, unless they are false or none, and why."""
    uncounted: Mapping[str, str] = field(default_factory=dict)
    """The keys that a prediction leaves out, and what it takes to be so instead."""
    left: tuple[str, ...] = ()
    """The keys whose value -1 leaves to the tool; by default all."""
    model: str = ""
    """The key that names the model."""
    silent: tuple[str, ...] = ()
    """The parts of a run that the file leaves to a script, as assumptions."""


def keys_of(job: Job, tool: KeyedTool, *, plan_only: bool = False) -> dict[str, Any]:
    """The content of the file: its values by path, or only those that state the plan."""
    adapter, rank = job.adapter
    values = run_values(effective(job.plan, job.model), job.model.layer_count) | {
        "adapter": adapter,
        "rank": rank,
    }
    values |= slice_values(values, job.cluster.nodes if job.cluster.system.torus else 1)
    flat = {} if plan_only else dict(tool.always(job))
    for key in tool.keys:
        name, allowed = key.when
        if plan_only and not key.value:
            continue
        if not key.only_read and (not name or values[name] in allowed):
            word = key.written(job) if callable(key.written) else key.written
            flat[key.path] = key.word(values[key.value]) if word is None else word
    return flat if plan_only else flat | dict(tool.machine(job))


def table_of(job: Job, tool: KeyedTool) -> dict[str, Any]:
    """The content of the file, as nested tables."""
    nested: dict[str, Any] = {}
    for path, value in keys_of(job, tool).items():
        *tables, last = path.split(".")
        inside = nested
        for table in tables:
            inside = inside.setdefault(table, {})
        inside[last] = value
    return nested


def read_keyed(text: str, context: Context, tool: KeyedTool) -> Reading | None:
    """The plan of a YAML file; None where nothing can be built. PodsimError if it is no YAML table."""
    try:
        documents = read_documents(text)
    except YamlError as error:
        raise PodsimError(f"not YAML: {error}") from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise PodsimError(f"expected one table of keys of {tool.limits.title}")
    flat = flat_keys(documents[0])
    known = len(context.problems)
    values = key_values(flat, tool, context.problems)
    if len(context.problems) > known:
        return None
    gpus = context.gpus or values.get("gpus")
    given = {"sequence": context.sequence, "gpus": gpus}
    plan = plan_of({**{name: value for name, value in given.items() if value}, **values})
    if gpus and int(plan.gpus) != gpus:
        context.problems.append(f"its degrees need {plan.gpus} GPUs, but {gpus} are given; make them equal")
        return None
    named = known_model(str(flat.get(tool.model, "")), any_model_names())
    taken = {name for key in tool.keys for name in (key.path, *key.also)} | ({tool.model} if named else set())
    left = {path: why for path, why in tool.uncounted.items() if _is_on(flat.get(path))}
    train = {"train": f"{values['adapter']}:{values.get('rank', 8)}"} if values.get("adapter") else {}
    return Reading(
        tool=context.tool, plan=plan, names=train, gpus=int(plan.gpus),
        named=named, ignored=tuple(path for path in flat if path not in taken and path not in left),
        assumptions=(*tool.silent, *(f"{path} is not counted: {why}" for path, why in left.items())),
    )  # fmt: skip


def flat_keys(table: Mapping[Any, Any], above: str = "", depth: int = 0) -> dict[str, Any]:
    """The values of nested tables by path."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict) and depth < 6:
            flat |= flat_keys(value, f"{above}{name}.", depth + 1)
        else:
            flat[f"{above}{name}"] = value
    return flat


def key_values(flat: Mapping[str, Any], tool: KeyedTool, problems: list[str]) -> dict[str, Any]:
    """The values of a run that a file states, or that its missing keys mean; what no plan has becomes a problem."""
    problems.extend(f"{path}: {why}" for path, why in tool.refused.items() if _is_on(flat.get(path)))
    values: dict[str, Any] = {}
    for key in tool.keys:
        path = next((name for name in (key.path, *key.also) if flat.get(name) is not None), "")
        word: Any = flat.get(path)
        if not path or not key.value:
            pass
        elif key.words:
            match = next((known for known, spelling in key.words if _same(word, spelling)), None)
            if match is None:
                choices = dict.fromkeys(str(spelling) for _, spelling in key.words)
                problems.append(f"{path} = {shown(word)} may be {', '.join(choices)}")
            elif match != "":
                values[key.value] = match
            if match == "":
                continue
        elif key.value == _PART and type(word) in (int, float) and 0 < word < 1 << 40:
            values[key.value] = word
        elif type(word) in (int, float) and key.least <= word < 1 << 40 and word == int(word):
            values[key.value] = int(word)
        elif word == -1 and path in (tool.left or (path,)):
            continue
        else:
            rule = "" if key.value == _PART else ", and whole"
            problems.append(f"{path} = {shown(word)} must be a number above {key.least - 1}{rule}")
        if key.plain is not None:
            values.setdefault(key.value, key.plain)
    return values


def _same(word: object, known: object) -> bool:
    """Whether a word of a file is a known one, whatever its case: true, "True" and TRUE."""
    return str(word).lower() == str(known).lower()


def _is_on(value: object) -> bool:
    return value not in (None, False, 0, "", "none", "no", [], {}) and str(value).lower() != "false"
