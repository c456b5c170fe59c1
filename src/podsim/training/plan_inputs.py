"""The plan that a user describes, checked against the model and the part of the cluster that it gets."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import NamedTuple, TypedDict

from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster
from podsim.training.inputs import batch_of, precision_of, read_inputs, software_of
from podsim.training.plan import Plan
from podsim.training.software import load_software
from podsim.workload.graph import Model


class LayoutOptions(TypedDict, total=False):
    """What `podsim predict` takes of a plan but its software; defaults are those of `read_plan`."""

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
    sequence: int | None
    overrides: Mapping[str, str] | None


class PlanOptions(LayoutOptions, total=False):
    """All that it takes of a plan."""

    software: str


class Setting(NamedTuple):
    """A legal plan of a model on (a part of) a cluster."""

    model: Model
    cluster: Cluster
    plan: Plan
    default_batch: bool
    """the batch was not given"""


def read_plan(
    model: str | Path,
    *,
    on: str | Path,
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

    What is None follows: dp takes the GPUs that are left, overlaps are what the framework era can. Raises PlanError with
    all rules that it breaks, and PodsimError for anything unusable.
    """
    degrees = {"tp": tp, "pp": pp, "cp": cp, **({} if dp is None else {"dp": dp})}
    if wrong := [
        f"{name}={value!r} is not a whole number" for name, value in degrees.items() if not _whole(value)
    ]:
        raise PlanError(wrong)
    if dp is not None and gpus is None:
        gpus = tp * pp * dp * cp
    network, cluster, count = read_inputs(model, on, gpus, sequence, overrides)
    software = software_of(software, cluster.gpu)
    sequences, default = batch_of(batch, network.sequence, count)
    era = load_software(software, cluster.gpu)
    each = tp * pp * cp
    divided = each >= 1 and count % each == 0
    left = (count // each if divided else 1) if dp is None else dp
    plan = Plan(
        tp=tp, pp=pp, virtual_stages=virtual_stages, dp=left, cp=cp, ep=ep, micro_batch=micro_batch,
        global_batch=sequences, sequence_parallel=sequence_parallel, zero=zero, shard=shard, recompute=recompute,
        recompute_layers=recompute_layers, schedule=schedule or ("interleaved" if virtual_stages > 1 else "1f1b"),
        flash=cluster.gpu.compute_capability >= 7.5 and "flash" not in era.lacks if flash is None else flash,
        overlap_grad="overlap_grad" in era.can_overlap if overlap_grad is None else overlap_grad,
        overlap_param="overlap_param" in era.can_overlap if overlap_param is None else overlap_param,
        overlap_tp=overlap_tp, precision=precision_of(precision, cluster), optimizer_precision=optimizer_precision,
        software=software, sequence=network.sequence,
    )  # fmt: skip
    problems = plan.problems(network, cluster)
    if dp is None and not divided:
        problems = [
            f"tp x pp x cp = {tp} x {pp} x {cp} does not divide {count} GPUs; give dp, or degrees that do",
            *(problem for problem in problems if "dp" not in problem),
        ]
    if problems:
        raise PlanError(problems)
    return Setting(network, cluster, plan, default)


def _whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
