"""A prediction of one plan: step time and where it went, memory by kind, rates, the bottleneck, what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import TypeAlias

import numpy as np

from podsim.answers.prediction import Prediction, StageMemory
from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS
from podsim.memo import Later
from podsim.training.batch import PlanTables, StepCost, cost_slice, layout_of, prepare
from podsim.training.layout import Stages
from podsim.training.memory import KINDS
from podsim.training.plan import Plan
from podsim.training.plan_values import SHARED_FIELDS, Array, Recompute, beside
from podsim.training.software import load_software, usable_bytes
from podsim.training.step import SPLIT, step_seconds
from podsim.workload.model import Model

RESOURCES = ("flops", "memory bandwidth", "nvlink", "network")
_NAMES = {
    "compute": "matrix arithmetic",
    "memory": "memory-bound kernels",
    "launch": "kernel launches: the GPU waits for the host",
    "tp": "exposed tensor-parallel communication",
    "cp": "exposed context-parallel communication",
    "ep": "exposed expert-parallel communication",
    "pp": "pipeline sends",
    "dp": "exposed data-parallel communication",
    "bubble": "the pipeline bubble",
    "optimizer": "the optimizer step",
    "host": "host work around passes and steps",
}
_REMEDIES = {
    "compute": "only faster GPUs, lower precision or less recomputation would shorten it",
    "memory": "fused kernels, sequence parallelism or more memory bandwidth would shorten it",
    "launch": "a larger micro-batch, CUDA graphs or less tensor parallelism would shorten it",
    "tp": "less tensor parallelism, overlap, or faster NVLink would shorten it",
    "cp": "less context parallelism or a faster network would shorten it",
    "ep": "expert groups inside a node or a faster network would shorten it",
    "pp": "fewer pipeline or virtual stages, or a faster network would shorten it",
    "dp": "overlap, more micro-batches per step, or a faster network would shorten it",
    "bubble": "more micro-batches, virtual stages or fewer pipeline stages would shorten it",
    "optimizer": "a distributed optimizer (zero 1) or more memory bandwidth would shorten it",
    "host": "more micro-batches' worth of work per pass would shorten it",
}


_FASTER = 1.1
Asked: TypeAlias = tuple[Model, Cluster, Plan]


def predict_plan(model: Model, cluster: Cluster, plan: Plan) -> Prediction:
    """Prediction of one scalar plan, which must be legal (Plan.check).

    About a millisecond.  Raises nothing for a plan that does not fit: `fits` says so. Its gains, the shares of
    throughput gained if one of RESOURCES were 1.1 times as fast, are worked out when somebody looks at them.
    """
    return predict_plans([(model, cluster, plan)])[0]


def predict_plans(asked: Sequence[Asked]) -> list[Prediction]:
    """Predictions of legal scalar plans: those of one job that differ in numbers and flags are one evaluation."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for at, (model, cluster, plan) in enumerate(asked):
        key = (model, cluster, *(getattr(plan, name) for name in SHARED_FIELDS))
        groups.setdefault(key, []).append(at)
    answers: dict[int, Prediction] = {}
    for places in groups.values():
        model, cluster, _ = asked[places[0]]
        answers |= zip(places, _predicted(model, cluster, [asked[at][2] for at in places]), strict=True)
    return [answers[at] for at in range(len(asked))]


def _predicted(model: Model, cluster: Cluster, plans: Sequence[Plan]) -> list[Prediction]:
    """The predictions of plans that differ in numbers and flags alone."""
    tables = prepare(model, cluster, beside(plans))
    cost = cost_slice(tables, slice(None), stages=True)

    @cache
    def gains() -> list[list[float]]:
        faster = [law_seconds(model, speed_up(cluster, name, _FASTER), plans) for name in RESOURCES]
        gained: list[list[float]] = (cost.seconds / np.array(faster) - 1).T.tolist()
        return gained

    def later(at: int) -> Later[float]:
        return Later(lambda: dict(zip(RESOURCES, gains()[at], strict=True)))

    return [
        replace(_prediction(model, cluster, plan, tables, cost, at), gains=later(at))
        for at, plan in enumerate(plans)
    ]


def law_seconds(model: Model, cluster: Cluster, plans: Sequence[Plan]) -> list[float]:
    """s. The steps of scalar plans that differ in numbers and flags alone, without their parts: one evaluation."""
    tables, every = prepare(model, cluster, beside(plans)), slice(None)
    layout, end = layout_of(tables, every), tables.ends.of(every)
    return [*map(float, step_seconds(layout, layout.plan, tables.software, end, tables.core_share))]


def _prediction(
    model: Model, cluster: Cluster, plan: Plan, tables: PlanTables, cost: StepCost, at: int
) -> Prediction:
    """The prediction of a row of a cost."""
    step = float(cost.seconds[at])
    parts = dict(zip(SPLIT, cost.parts[:, at].tolist(), strict=True))
    length = plan.length(model)
    trained = float(plan.global_batch) * length
    gpus = int(plan.gpus)
    peak = cluster.gpu.peaks[PRECISIONS[plan.precision].matmul] * gpus
    done = {name: count * trained / step / peak for name, count in flops_per_token(model, plan).items()}
    stages = _stage_memory(tables.stages.of(slice(at, at + 1)), cost.stages[..., at])
    memory, limit = (
        float(cost.memory[at]),
        usable_bytes(cluster.gpu, load_software(plan.software, cluster.gpu)),
    )
    return Prediction(
        model=model.name,
        cluster=cluster.name,
        plan=plan.describe(),
        gpus=gpus,
        step_time=step,
        parts=parts,
        tokens_per_second=trained / step,
        samples_per_second=float(plan.global_batch) / step,
        mfu_6pd=done["6PD"],
        parameter_flops=parameter_flops(model),
        mfu=done["model"],
        hfu=done["hardware"],
        memory=memory,
        memory_kinds=dict(zip(KINDS, cost.kinds[:, at].tolist(), strict=True)),
        stages=stages,
        memory_limit=limit,
        fits=memory <= limit,
        bottleneck=_bottleneck(parts, step, plan, cluster),
    )


def flops_per_token(model: Model, plan: Plan) -> dict[str, float]:
    """FLOPs of one trained token by convention.

    "6PD": 6 x parameters that a token passes through (embedding included; less where weights are frozen), no attention.
    "model": 3 x the forward pass (less where weights are frozen), attention scores in full, no recomputation.
    "hardware": what is executed, recomputation included.
    """
    length = plan.length(model)
    forward = model.forward_flops(length)
    once = sum(forward.values())
    again = 0.0
    if plan.recompute == Recompute.FULL:
        stage = -(-model.layer_count // int(plan.pp))
        share = min(int(plan.recompute_layers), stage) / stage if plan.recompute_layers else 1.0
        again = (once - forward["logits"]) * share
    elif plan.recompute == Recompute.SELECTIVE:
        again = forward["attention"]
    passes = parameter_flops(model) / 2.0
    return {
        "6PD": 2.0 * passes * model.active_parameters, "model": passes * once, "hardware": passes * once + again,
    }  # fmt: skip


def parameter_flops(model: Model) -> float:
    """FLOPs of one trained token for each parameter that it passes through: 6; fewer where weights are frozen."""
    return 6.0 if model.training == "full" else 2.0 * model.passes


def _stage_memory(stages: Stages, kinds: Shaped[Array, "kind stage"]) -> tuple[StageMemory, ...]:
    """Memory of every class of pipeline stages, in the order of their first stage."""
    memory = [
        StageMemory(
            first=int(stages.first[s, 0]),
            count=int(stages.count[s, 0]),
            kinds=dict(zip(KINDS, kinds[:, s].tolist(), strict=True)),
        )
        for s in range(stages.count.shape[0])
        if stages.count[s, 0] > 0
    ]
    return tuple(sorted(memory, key=lambda stage: stage.first))


def _bottleneck(parts: dict[str, float], step: float, plan: Plan, cluster: Cluster) -> str:
    """The largest part in a sentence, and the largest loss if that part is arithmetic."""
    first, second = sorted(parts, key=lambda name: -parts[name])[:2]
    text = f"{100 * parts[first] / step:.0f} % of the step is {_NAMES[first]}"
    if first != "compute":
        return f"{text}: {_remedy(first, plan, cluster)}"
    lost = 100 * parts[second] / step
    return f"{text}; the largest loss is {_NAMES[second]} ({lost:.0f} %): {_remedy(second, plan, cluster)}"


def _remedy(part: str, plan: Plan, cluster: Cluster) -> str:
    """What would shorten a part: overlap only where the plan does not have it, a network only where there is one."""
    text = _REMEDIES[part]
    overlapped = (
        plan.overlap_tp if part == "tp" else plan.overlap_grad and (plan.overlap_param or not plan.zero)
    )
    inside = "faster NVLink" if cluster.nvlink.name.lower() == "nvlink" else "faster links between GPUs"
    text = text.replace("faster NVLink", inside)
    if cluster.nodes == 1:
        text = text.replace("expert groups inside a node", "smaller expert groups")
        text = text.replace("a faster network", inside)
    return text.replace("overlap, ", "") if overlapped else text


@lru_cache(maxsize=1024)
def speed_up(cluster: Cluster, resource: str, factor: float) -> Cluster:
    """The same cluster with one of RESOURCES scaled."""
    gpu = cluster.gpu
    if resource == "nvlink":
        return replace(cluster, nvlink=replace(cluster.nvlink, bandwidth=cluster.nvlink.bandwidth * factor))
    if resource == "network":
        return replace(
            cluster, network=replace(cluster.network, bandwidth=cluster.network.bandwidth * factor)
        )
    if resource == "flops":
        gpu = replace(gpu, peaks={name: peak * factor for name, peak in gpu.peaks.items()})
    elif resource == "memory bandwidth":
        gpu = replace(gpu, memory_bandwidth=gpu.memory_bandwidth * factor)
    else:
        raise AssertionError(resource)
    return replace(cluster, system=replace(cluster.system, gpu=gpu))
