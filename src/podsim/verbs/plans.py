"""The plan that a user describes, checked against the model and the part of the cluster that it gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from podsim.errors import PlanError

if TYPE_CHECKING:
    from podsim.hardware.cluster import Cluster
    from podsim.training.plan import Plan
    from podsim.workload.graph import Model

__all__ = ["PlanOptions", "Setting", "arrange", "read_plan"]


class PlanOptions(TypedDict, total=False):
    """What `podsim predict` takes of a plan; defaults are those of `read_plan`."""

    gpus: int | None
    batch: int | None
    tp: int
    pp: int
    dp: int | None
    cp: int
    ep: int
    virtual_stages: int
    micro_batch: int
    schedule: str | None
    sequence_parallel: bool
    zero: int
    shard: int
    recompute: str
    recompute_layers: int
    flash: bool | None
    overlap_grad: bool | None
    overlap_param: bool | None
    overlap_tp: bool
    precision: str | None
    optimizer_precision: str
    software: str
    sequence: int | None
    overrides: Mapping[str, str] | None


class Setting(NamedTuple):
    """A legal plan of a model on (a part of) a cluster."""

    model: Model
    cluster: Cluster
    plan: Plan
    default_batch: bool
    """the batch was not given"""


def read_plan(
    model: str,
    *,
    on: str,
    gpus: int | None = None,
    batch: int | None = None,
    tp: int = 1,
    pp: int = 1,
    dp: int | None = None,
    cp: int = 1,
    ep: int = 1,
    virtual_stages: int = 1,
    micro_batch: int = 1,
    schedule: str | None = None,
    sequence_parallel: bool = False,
    zero: int = 0,
    shard: int = 0,
    recompute: str = "none",
    recompute_layers: int = 0,
    flash: bool | None = None,
    overlap_grad: bool | None = None,
    overlap_param: bool | None = None,
    overlap_tp: bool = False,
    precision: str | None = None,
    optimizer_precision: str = "fp32",
    software: str = "megatron-core",
    sequence: int | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Setting:
    """The plan of a model on a cluster, as `podsim.predict` words it.

    Raises PlanError with all rules that it breaks, and PodsimError for anything unusable.
    """
    from podsim.verbs.inputs import batch_of, read_inputs

    if dp is not None and gpus is None:
        gpus = tp * pp * dp * cp
    network, cluster, count = read_inputs(model, on, gpus, sequence, overrides)
    sequences, default = batch_of(batch, network.sequence)
    plan = arrange(
        network, cluster, count, sequences=sequences, tp=tp, pp=pp, dp=dp, cp=cp, ep=ep, virtual_stages=virtual_stages,
        micro_batch=micro_batch, schedule=schedule, sequence_parallel=sequence_parallel, zero=zero, shard=shard,
        recompute=recompute, recompute_layers=recompute_layers, flash=flash, overlap_grad=overlap_grad,
        overlap_param=overlap_param, overlap_tp=overlap_tp, precision=precision,
        optimizer_precision=optimizer_precision, software=software,
    )  # fmt: skip
    return Setting(network, cluster, plan, default)


def arrange(
    network: Model,
    cluster: Cluster,
    count: int,
    *,
    sequences: int,
    software: str,
    tp: int,
    pp: int,
    dp: int | None,
    cp: int,
    virtual_stages: int,
    schedule: str | None,
    flash: bool | None,
    overlap_grad: bool | None,
    overlap_param: bool | None,
    precision: str | None,
    **fields: Any,
) -> Plan:
    """The legal plan of `count` GPUs that a user's wishes come to; PlanError with every rule that they break.

    What is None follows: dp takes the GPUs that are left, overlaps are what the framework era can.
    """
    from podsim.training.plan import Plan
    from podsim.training.software import load_software
    from podsim.verbs.inputs import precision_of

    era = load_software(software, cluster.gpu)
    degrees = tp * pp * cp
    divided = degrees >= 1 and count % degrees == 0
    left = (count // degrees if divided else 1) if dp is None else dp
    plan = Plan(
        tp=tp, pp=pp, virtual_stages=virtual_stages, dp=left, cp=cp, global_batch=sequences,
        schedule=schedule or ("interleaved" if virtual_stages > 1 else "1f1b"),
        flash=cluster.gpu.compute_capability >= 7.5 if flash is None else flash,
        overlap_grad="overlap_grad" in era.can_overlap if overlap_grad is None else overlap_grad,
        overlap_param="overlap_param" in era.can_overlap if overlap_param is None else overlap_param,
        precision=precision_of(precision, cluster), software=software, sequence=network.sequence, **fields,
    )  # fmt: skip
    problems = plan.problems(network, cluster)
    if dp is None and not divided:
        problems = [
            f"tp x pp x cp = {tp} x {pp} x {cp} does not divide {count} GPUs; give dp, or degrees that do",
            *(problem for problem in problems if "dp" not in problem),
        ]
    if problems:
        raise PlanError(problems)
    return plan
