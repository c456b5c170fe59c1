"""The law of weight streaming: activations stay on a wafer, weights stream in and gradients out, block by block.

    pass   = sum over blocks of max(FLOPs / speed, bytes of weights in / link, bytes of gradients out / link)
    step   = first weights in + micro-batches x (forward + backward pass) + last gradients out
    speed  = dense peak x the software's share of it
    memory = activations of a micro-batch + two blocks of weights + one of gradients

SwarmX sends one copy of the weights to all systems and adds up their gradients on the way back, so `dp` systems stream as
long as one. MemoryX holds weights and optimizer and updates what has arrived. Source: S. Lie, Cerebras architecture deep
dive, IEEE Micro 2023. No measured training rate was found, so `speed` is an assumption with a wide band.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.answers.prediction import Band, Prediction, StageMemory
from podsim.errors import ClusterError, PlanError
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS
from podsim.options.plan_options import PlanOptions
from podsim.packaged import packaged_toml
from podsim.records import dataclass
from podsim.training.memory import KINDS, activation_table
from podsim.training.plan import Plan, Setting
from podsim.training.plan_values import Recompute
from podsim.training.predict import flops_per_token, parameter_flops, speed_up
from podsim.training.shapes import element_bytes
from podsim.training.software import Software, load_software
from podsim.training.step import SPLIT
from podsim.workload.model import Model

_SHARES = (0.25, 1.0)
"""share. The least and the largest part of the dense peak that products are assumed to reach"""
_OPTIMIZER_BYTES = 14.0
"""B a parameter beside its weight: an fp32 copy, two moments, a gradient of 16 bits"""


@dataclass(frozen=True, kw_only=True)
class BlockLoad:
    """What one copy of a block asks of a wafer for one micro-batch."""

    count: int
    forward: float
    """FLOP. The products of the forward pass."""
    backward: float
    """FLOP. The products of the backward pass, with what is computed again."""
    weights: float
    """B. The weights, which stream in for each pass."""
    gradients: float
    """B. The gradients, which stream out after the backward pass."""


@dataclass(frozen=True, kw_only=True)
class StreamTimes:
    """Seconds of a step on a wafer."""

    step: float
    """s. The step."""
    compute: float
    """s. The products."""


def check_streamed(model: Model, cluster: Cluster) -> None:
    """Raise ClusterError for more systems than a cluster has, and for weights that its external memory does not hold."""
    limits = stream_limits(cluster.gpu.name)
    if cluster.nodes > limits["systems"]:
        raise ClusterError(
            f"{cluster.nodes} systems; a cluster of {cluster.gpu.name} has at most {limits['systems']}"
        ).offer(gpus=limits["systems"])
    need = model.parameters * (2 + _OPTIMIZER_BYTES)
    if need > limits["memory"] or model.parameters > limits["parameters"]:
        raise ClusterError(
            f"{model.name}: weights and optimizer need {need / 1e12:,.1f} TB outside the wafer, which has at most "
            f"{limits['memory'] / 1e12:,.0f} TB for {limits['parameters'] / 1e12:g}e12 parameters"
        )


def stream_limits(gpu: str) -> dict[str, Any]:
    """What the maker states of a cluster of such wafers: systems, parameters, and B of external memory."""
    return dict(packaged_toml("training/weight_streaming.toml")[gpu])


def block_loads(model: Model, plan: Plan, software: Software) -> tuple[BlockLoad, ...]:
    """The load of each kind of block, for one micro-batch on one wafer."""
    length = plan.length(model)
    tokens = float(plan.micro_batch) * length
    loads = []
    for position, block in enumerate(model.kinds):
        flops = model.block_flops(block, length)
        once = tokens * sum(flops.values()) / block.count
        inner = 0 < position < len(model.kinds) - 1
        again = 0.0
        if inner and plan.recompute == Recompute.FULL:
            again = once
        elif plan.recompute == Recompute.SELECTIVE:
            again = tokens * flops["attention"] / block.count
        trained = sum(op.weight + op.bias for op in block.ops if op.gradient == "both")
        back = (model.passes - 1 if model.training != "full" else 2.0) * once + again
        loads.append(
            BlockLoad(
                count=block.count,
                forward=once,
                backward=back if block.is_reached else 0.0,
                weights=block.parameters / block.count * element_bytes(plan.precision),
                gradients=trained * software.gradient_bytes,
            )
        )
    return tuple(loads)


def stream_times(loads: tuple[BlockLoad, ...], plan: Plan, *, speed: float, link: float) -> StreamTimes:
    """Seconds of a step; `speed` in FLOP/s of a wafer, `link` in B/s of its adapters, each way."""
    compute = through = 0.0
    for load in loads:
        forward, backward = load.forward / speed, load.backward / speed
        compute += load.count * (forward + backward)
        through += load.count * max(forward, load.weights / link)
        through += load.count * max(backward, load.weights / link, load.gradients / link)
    ends = (loads[0].weights + loads[0].gradients) / link
    batches = int(plan.micro_batches)
    return StreamTimes(step=batches * through + ends, compute=batches * compute)


def streamed_prediction(model: Model, cluster: Cluster, plan: Plan) -> Prediction:
    """The prediction of a plan whose weights stream; raises what `check_streamed` raises."""
    check_streamed(model, cluster)
    software = load_software(plan.software, cluster.gpu)
    loads = block_loads(model, plan, software)
    times = _times_on(cluster, loads, plan, software.gemm_speed)
    kinds = _memory_kinds(model, plan, software, loads)
    memory, trained = sum(kinds.values()), float(plan.global_batch) * plan.length(model)
    peak = cluster.gpu.peaks[PRECISIONS[plan.precision].matmul] * int(plan.gpus)
    done = {name: n * trained / times.step / peak for name, n in flops_per_token(model, plan).items()}
    slow, fast = (_times_on(cluster, loads, plan, share).step for share in _SHARES)
    waiting = times.step - times.compute
    return Prediction(
        model=model.name, cluster=cluster.name, plan=plan.describe(), gpus=int(plan.gpus), step_time=times.step,
        parts=dict.fromkeys(SPLIT, 0.0) | {"compute": times.compute, "stream": waiting},
        tokens_per_second=trained / times.step, samples_per_second=float(plan.global_batch) / times.step,
        mfu_6pd=done["6PD"], parameter_flops=parameter_flops(model), mfu=done["model"], hfu=done["hardware"],
        memory=memory, memory_kinds=kinds, stages=(StageMemory(first=0, count=1, kinds=kinds),),
        memory_limit=cluster.gpu.memory, fits=memory <= cluster.gpu.memory,
        bottleneck=_bottleneck(times, plan),
        gains={
            name: times.step / _times_on(speed_up(cluster, name, 1.1), loads, plan, software.gemm_speed).step - 1
            for name in ("flops", "network")
        },
        band=Band(
            low=fast / times.step - 1, high=slow / times.step - 1, rows=0,
            basis=f"no measured rate: products at {_SHARES[0]:.0%} to {_SHARES[1]:.0%} of the dense peak",
        ),
        assumptions=(
            f"products reach {software.gemm_speed:.0%} of the dense peak: no measured rate of this machine was found",
            "weights stream in once for each pass of each micro-batch, and gradients out once",
            "optimizer and weights are in MemoryX, which updates them while gradients arrive",
        ),
    )  # fmt: skip


def _times_on(cluster: Cluster, loads: tuple[BlockLoad, ...], plan: Plan, share: float) -> StreamTimes:
    """Seconds of a step whose products reach a share of the dense peak."""
    peak = cluster.gpu.peaks[PRECISIONS[plan.precision].matmul]
    return stream_times(loads, plan, speed=share * peak, link=cluster.node_bandwidth)


def _memory_kinds(
    model: Model, plan: Plan, software: Software, loads: tuple[BlockLoad, ...]
) -> dict[str, float]:
    """B on the wafer by kind: two blocks of weights and one of gradients on their way, activations of a micro-batch."""
    table = activation_table(model, plan.arrays().wide(), software)
    kept = table.kept[int(plan.recompute), :, 0].tolist()
    counts = [load.count for load in loads]
    held = {
        "weights": 2 * max(load.weights for load in loads),
        "gradients": max(load.gradients for load in loads),
        "activations": sum(count * size for count, size in zip(counts, kept, strict=True)),
        "logits": float(table.logits[0]),
    }
    if plan.recompute == Recompute.FULL:
        held["buffers"] = max(table.kept[int(Recompute.NONE), :, 0].tolist())
    return {kind: held.get(kind, 0.0) for kind in KINDS}


def _bottleneck(times: StreamTimes, plan: Plan) -> str:
    """The larger of products and streams, and what would shorten it."""
    share = times.compute / times.step
    if share >= 0.5:
        return f"{share:.0%} of the step is matrix arithmetic: more systems or fewer tokens would shorten it"
    return (
        f"{1 - share:.0%} of the step waits for weights on their way: a larger micro-batch (now {plan.micro_batch}), or "
        "fewer systems for the batch, hides them"
    )


def streamed_plans(model: Model, cluster: Cluster, plan: Plan, wanted: Mapping[str, Any]) -> tuple[Plan, ...]:
    """Every legal plan of all systems within limits: micro-batches and ways to recompute; PlanError if there is none."""
    plan = plan.having({"dp": cluster.gpus, "overlap_grad": False, "overlap_param": False})
    samples = int(plan.global_batch) // cluster.gpus
    tried = [
        plan.having({"micro_batch": size, "recompute": way})
        for size in range(1, max(samples, 1) + 1)
        if samples % size == 0
        for way in Recompute
    ]
    legal = [option for option in tried if not option.problems(model, cluster)]
    if not legal:
        raise PlanError(tried[0].problems(model, cluster))
    within = [
        option for option in legal if all(getattr(option, name) in values for name, values in wanted.items())
    ]
    if not within:
        raise PlanError(
            [
                f"no plan with these limits; weights stream through {cluster.gpus} systems, so dp={cluster.gpus}"
            ]
        )
    return tuple(within)


def with_open_settings(setting: Setting, options: PlanOptions) -> Setting:
    """The setting with the fastest micro-batch and recomputation that fit, where the user gave none."""
    model, cluster, plan = setting.model, setting.cluster, setting.plan
    given = {
        name: (getattr(plan, name),)
        for name in ("micro_batch", "recompute")
        if getattr(options, name) is not None
    }
    if len(given) == 2 or int(plan.dp) != cluster.gpus:
        return setting
    tried = [
        (each, streamed_prediction(model, cluster, each))
        for each in streamed_plans(model, cluster, plan, given)
    ]
    fitting = [(predicted.step_time, predicted.memory, each) for each, predicted in tried if predicted.fits]
    return setting._replace(plan=min(fitting, key=lambda row: row[:2])[2]) if fitting else setting
