"""The job that is launched, the plan that is read back, and the equality of two plans as runs.

The package is called launching because `podsim.launch` is the verb.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from podsim.errors import CatalogError
from podsim.hardware.catalog import load_system
from podsim.hardware.cluster import Cluster
from podsim.training.plan import Plan
from podsim.training.plan_values import Recompute, Schedule
from podsim.workload.model import Model

IMAGE = "nvcr.io#nvidia/pytorch:25.04-py3"
"""container image as enroot writes it: REGISTRY#IMAGE:TAG"""

GIVE_GPUS = "give --gpus"
"""what a problem says that more knowledge of the machine would solve"""

NO_OFFLOAD = "a plan keeps everything in the GPUs' memory"
"""why a file that keeps something elsewhere is no plan"""

ADAM_ALONE = "is not counted: memory and time are those of Adam, which has two moments"
"""what is said of another optimizer"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A plan of a model on the part of a cluster that it fills, and what a scheduler wants to know."""

    model: Model
    cluster: Cluster
    """The cluster, as large as the plan."""
    plan: Plan
    """The plan, scalar and legal."""
    image: str = IMAGE
    """The container image; empty for none."""
    mounts: tuple[str, ...] = ()
    """The directories for the container, as SOURCE:TARGET."""
    partition: str = ""
    """The queue of the scheduler; empty for its default."""
    limit: float = 86400.0
    """s. The time limit of the scheduler."""
    names: Mapping[str, object] = field(default_factory=dict)
    """The user's words for what no tool states: model, on, train, overrides."""
    forced: tuple[str, ...] = ()
    """The problems of the plan that the user wants written all the same."""

    @property
    def nodes(self) -> int:
        """Nodes it fills."""
        return self.cluster.nodes

    @property
    def per_node(self) -> int:
        """GPUs, and ranks, of one node."""
        return self.cluster.gpus_per_node

    @property
    def whole(self) -> bool:
        """Whether it has whole nodes, which nobody shares."""
        if self.instance:
            return False
        try:
            return self.per_node >= load_system(self.cluster.system.name).gpus
        except CatalogError:  # a user's own server
            return True

    @property
    def instance(self) -> str:
        """The profile of the MIG instance that it runs on, as 3g.20gb; empty for whole GPUs."""
        return self.cluster.gpu.name.partition("/")[2]

    @property
    def adapter(self) -> tuple[str, int]:
        """The kind of adapters that are trained, lora or qlora, and their rank; ("", 0) where there are none."""
        kind, _, rank = self.model.training.rpartition("+")[2].partition(":")
        return (kind, int(rank)) if kind in ("lora", "qlora") else ("", 0)

    @property
    def name(self) -> str:
        """A name that Slurm and Kubernetes take: small letters, digits and dashes."""
        kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in self.model.name.lower())
        return "-".join(part for part in kept.split("-") if part)[:40].strip("-") or "podsim"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a launch file or command says."""

    tool: str
    plan: Plan
    gpus: int
    """The number of ranks that it starts."""
    model: Mapping[str, object] = field(default_factory=dict)
    """The fields of podsim.workload.specification.Transformer that it gives; empty if it names no shapes."""
    named: str = ""
    """The catalog's name of the model, if the text names one of the catalog."""
    ignored: tuple[str, ...] = ()
    """The options that no law depends on."""
    assumptions: tuple[str, ...] = ()
    """The assumptions where the text is silent."""
    names: Mapping[str, Any] = field(default_factory=dict)
    """The user's words for model and cluster (model, on, overrides), if podsim wrote the text; `train`, if it says so."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """The context of a text that is read, and its mistakes so far."""

    tool: str
    gpus: int | None = None
    """The number of GPUs of the job; None if nothing says so."""
    layers: int = 0
    """The number of layers of the model; 0 if unknown."""
    sequence: int = 0
    """The number of tokens of a sequence; 0 if unknown."""
    problems: list[str] = field(default_factory=list)

    def on(self, gpus: int | None, what: str = "") -> Context:
        """The same text on the GPUs of its context; a problem, with `what`, if the user gives another number."""
        if what and gpus and self.gpus and gpus != self.gpus:
            self.problems.append(f"{what} {gpus} GPUs, but {self.gpus} are given; make them equal")
        return replace(self, gpus=gpus or self.gpus)


def effective(plan: Plan, model: Model) -> Plan:
    """The scalar plan, its sequence included, with every field that makes no difference at its plainest value."""
    return plainest(plan, model.layer_count).having({"sequence": plan.length(model)})


def plainest(plan: Plan, layers: int) -> Plan:
    """The scalar plan with every field that makes no difference at its plainest value: equal runs are equal plans.

    Sharding over every rank is shard=0, recomputing every layer of a stage is
    recompute_layers=0, and overlap of what does not happen is off.
    """
    alone = int(plan.dp) * int(plan.cp) == 1
    stage = -(-layers // int(plan.pp))
    every = Recompute(int(plan.recompute)) == Recompute.FULL and int(plan.recompute_layers) == stage
    return plan.having({
        "shard": 0 if int(plan.shard) >= int(plan.dp) * int(plan.cp) else int(plan.shard),
        "recompute_layers": 0 if every else int(plan.recompute_layers),
        "overlap_grad": bool(plan.overlap_grad) and not alone,
        "overlap_param": bool(plan.overlap_param) and not alone and int(plan.zero) > 0,
        "overlap_tp": bool(plan.overlap_tp) and int(plan.tp) > 1,
        "schedule": Schedule(int(plan.schedule)),
        "recompute": Recompute(int(plan.recompute)),
    })  # fmt: skip
