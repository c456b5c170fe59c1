"""A row of a training table as a model, a cluster and a plan; or the reason why it cannot be one.

The packaged tables state the three in columns of their own (reference/ wrote them): `network`, `cluster` and `plan`, each
a name and settings, as "gpt-22b layers=96". What a user's row leaves blank of them follows from its other columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from podsim.accuracy.express_machine import read_cluster
from podsim.accuracy.express_model import read_network
from podsim.accuracy.express_open import cluster_of, model_of, plan_of
from podsim.accuracy.express_row import NotExpressible, read_settings, stated
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.training.plan import Plan
from podsim.workload.graph import Model

_TYPES = {field.name: type(field.default) for field in fields(Plan)}
_WORDS = ("recompute", "schedule")


@dataclass(frozen=True, kw_only=True)
class Expressed:
    """A row as podsim's nouns."""

    model: Model
    cluster: Cluster
    plan: Plan
    layer_only: bool = False
    """the measurement is of one layer's forward and backward, not of a step"""
    chosen: str = ""
    """settings that the row leaves open and podsim chose, worded; "" where the row states its micro-batch"""
    implied: str = ""
    """settings that the row does not state, but could not have run without, worded"""


def express(row: Mapping[str, str]) -> Expressed:
    """The row as nouns; NotExpressible with the reason."""
    if stated(row, "reason"):
        raise NotExpressible(row["reason"])
    try:
        return _expressed(row) if stated(row, "plan") else express_own(row)
    except PodsimError as error:
        raise NotExpressible(str(error)) from error


def _expressed(row: Mapping[str, str]) -> Expressed:
    """A row that states its network, cluster and plan."""
    return Expressed(
        model=read_network(row["network"]),
        cluster=read_cluster(row["cluster"]),
        plan=read_plan(row["plan"]),
        layer_only=stated(row, "scope") == "layer",
        chosen=stated(row, "chosen"),
        implied=stated(row, "implied"),
    )


def read_plan(settings: str) -> Plan:
    """The plan of a text such as "tp=8 pp=2 recompute=full"; what it does not name has the defaults of Plan."""
    _, told = read_settings(settings)
    try:
        values: dict[str, Any] = {name: _value(name, text) for name, text in told.items()}
    except (KeyError, ValueError):
        raise NotExpressible(f"plan={settings[:80]!r} is not a list of a plan's settings") from None
    return Plan(**values)


def _value(name: str, text: str) -> int | bool | str:
    if name in _WORDS or _TYPES[name] is str:
        return text
    return text == "true" if _TYPES[name] is bool else int(text)


def express_own(row: Mapping[str, str]) -> Expressed:
    """A row that describes its run in the columns that README documents; NotExpressible with the reason."""
    cluster, model = cluster_of(row), model_of(row)
    plan, chosen, implied = plan_of(row, model, cluster)
    if problems := plan.problems(model, cluster):
        raise NotExpressible("; ".join(problems))
    return Expressed(model=model, cluster=cluster, plan=plan, chosen=chosen, implied=implied)
