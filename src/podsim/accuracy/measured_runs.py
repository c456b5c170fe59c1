"""The run of a row of a table: a model, a cluster and a plan, from the columns that state them.

The packaged tables state the three in `network`, `cluster` and `plan` (reference/ wrote them), each a name and settings
such as "gpt-22b layers=96"; or the `reason` why nothing can be predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from podsim.accuracy.table_columns import is_blank
from podsim.answers.answer import call
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.parts import Gpu
from podsim.records import dataclass, fields
from podsim.training.plan import Plan
from podsim.workload.catalog import load_model
from podsim.workload.model import Model

Key = TypeVar("Key", bound=Hashable)
Run = TypeVar("Run")
_TYPES: dict[str, type] = {field.name: type(field.default) for field in fields(Plan)}
DESCRIBED = ("network", "cluster", "plan")
"""The columns that state what was run."""
MEMORY_ERROR = 0.08
"""share. The memory beyond the law's that at most one run in five needs, with 95 % confidence.

Of measured over predicted bytes of 33 calibrate rows the 31st (Wilks): binomial(33, 0.8) is below 31 in 97 % of draws. A
plan that leaves less is tight; a row is granted as much before its plan is said not to fit.
"""
_WORDS = ("recompute", "schedule")


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """The run of a row of a table of language models."""

    model: Model
    cluster: Cluster
    plan: Plan
    layer_only: bool = False
    """Whether the measurement is of one layer's forward and backward pass, not of a step."""
    chosen: str = ""
    """The settings that the row leaves open and podsim chose, in words; "" if the row states its micro-batch."""
    implied: str = ""
    """The settings that the row does not state but must have had, in words."""


class NotExpressible(Exception):
    """The row lacks something, or describes what podsim does not model; the text says what."""


def cell_text(row: Mapping[str, str], column: str) -> str:
    """The cell of a column without blanks around it; "" if the row has no such column, or a word such as n/a there."""
    cell = (row.get(column) or "").strip()
    return "" if is_blank(cell) else cell


def read_count(row: Mapping[str, str], column: str, default: int | None = None) -> int:
    """The whole number, from 1, in a column; `default` if the cell is blank. NotExpressible if there is none."""
    text = cell_text(row, column)
    if not text:
        if default is None:
            raise NotExpressible(f"{column} is not given")
        return default
    try:
        value = float(text)
    except ValueError:
        raise NotExpressible(f"{column}={text!r} is not a number") from None
    if not 0 < value < 1e12 or value != int(value):
        raise NotExpressible(f"{column}={text!r} is not a whole number from 1")
    return int(value)


def check_described(row: Mapping[str, str]) -> None:
    """Refuse a row that does not state what was run, or states why nothing can be predicted, with NotExpressible."""
    if reason := cell_text(row, "reason"):
        raise NotExpressible(reason)
    missing = [column for column in DESCRIBED if not cell_text(row, column)]
    if missing and "plan" not in missing:
        raise NotExpressible(f"plan is stated, and {' and '.join(missing)} is not: state all three")
    if missing:
        raise NotExpressible("network, cluster and plan are not stated")


def described_run(row: Mapping[str, str], read: Callable[[Mapping[str, str]], Run]) -> Run:
    """The run that `read` takes from a row which states what was run; NotExpressible with the reason."""
    try:
        check_described(row)
        return read(row)
    except PodsimError as error:
        raise NotExpressible(str(error)) from error


def described_runs(
    rows: Iterable[tuple[Key, Mapping[str, str]]], read: Callable[[Mapping[str, str]], Run]
) -> tuple[dict[Key, Run], dict[Key, str]]:
    """(key -> run, key -> reason for none) of rows."""
    runs: dict[Key, Run] = {}
    reasons: dict[Key, str] = {}
    for key, row in rows:
        try:
            runs[key] = described_run(row, read)
        except NotExpressible as problem:
            reasons[key] = str(problem)
    return runs, reasons


def read_settings(text: str) -> tuple[str, dict[str, str]]:
    """("gpt-22b", {"layers": "96"}) of "gpt-22b layers=96": the name, "" if there is none, and the settings."""
    words = text.split()
    settings = dict(word.split("=", maxsplit=1) for word in words if "=" in word)
    return " ".join(word for word in words if "=" not in word), settings


def write_settings(name: str, settings: Mapping[str, object]) -> str:
    """The text that `read_settings` reads; blanks within values are left out."""
    return " ".join(filter(None, [name, *(f"{k}={str(v).replace(' ', '')}" for k, v in settings.items())]))


def usable_memory(gpu: Gpu) -> float:
    """B that a measured run may need by the law of memory: the board, in GiB as drivers report it, and its error."""
    return (1 + MEMORY_ERROR) * gpu.memory / 1e9 * 2.0**30


@lru_cache(maxsize=512)
def read_model(settings: str) -> Model:
    """The model that a text such as "gpt-22b layers=96 sequence=4096" describes: a catalog name and its overrides.

    "train=lora:16" is fine-tuning, in the words of `podsim predict --train`.
    """
    name, overrides = read_settings(settings)
    training = overrides.pop("train", "")
    model = load_model(name, overrides)
    return call("workload.finetuning:fine_tuned", model, training) if training else model


@lru_cache(maxsize=512)
def read_cluster(settings: str) -> Cluster:
    """The cluster that a text such as "dgx-a100-80gb:2 network.nics=4" describes; ClusterError if there is none."""
    name, overrides = read_settings(settings)
    return load_cluster(name, overrides)


def read_plan(settings: str) -> Plan:
    """The plan of a text such as "tp=8 pp=2 recompute=full"; other fields have the defaults of Plan."""
    _, words = read_settings(settings)
    try:
        values: dict[str, Any] = {name: _value(name, text) for name, text in words.items()}
    except (KeyError, ValueError):
        raise NotExpressible(f"plan={settings[:80]!r} is not a list of a plan's settings") from None
    return Plan(**values)


def _value(name: str, text: str) -> float | bool | str:
    if name in _WORDS or _TYPES[name] is str:
        return text
    if _TYPES[name] is bool:
        return text == "true"
    return float(text) if _TYPES[name] is float else int(text)


def read_training_run(row: Mapping[str, str]) -> TrainingRun:
    """The run of a row that states its network, cluster and plan; NotExpressible if the plan breaks a rule.

    Its cluster is the part that the plan uses, as that of `podsim predict --gpus`.
    """
    model, plan = read_model(row["network"]), read_plan(row["plan"])
    cluster, gpus = read_cluster(row["cluster"]), int(plan.gpus)
    if 1 <= gpus < cluster.gpus:
        cluster = cluster.subset(gpus)
    if problems := plan.problems(model, cluster):
        raise NotExpressible("; ".join(problems))
    return TrainingRun(
        model=model,
        cluster=cluster,
        plan=plan,
        layer_only=cell_text(row, "scope") == "layer",
        chosen=cell_text(row, "chosen"),
        implied=cell_text(row, "implied"),
    )
