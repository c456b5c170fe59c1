"""What no way to serve can beat: latencies by the GPUs' peaks, and the memory that a model needs at the least.

A token of one sequence reads every active weight once, so it takes at least their bytes over the bandwidth of all GPUs
that hold them. A prompt's products take at least their arithmetic over the GPUs' peak. Both leave out launches, exchanges
and the cache, so that real times lie above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podsim.errors import NoFitError
from podsim.hardware.cluster import Cluster
from podsim.kernels.engine_run import format_bytes, format_peak
from podsim.serving.best_layouts import Choices, Layout, plans_of
from podsim.serving.language_engines import load_language_engine
from podsim.serving.replica_memory import fixed_bytes
from podsim.serving.steady_load import Workload
from podsim.serving.step_cost import chunk_seconds, decode_seconds, token_seconds
from podsim.units import format_quantity
from podsim.workload.model import Model

_SPARE = 1.1
"""factor. What caches and activations take next to the weights"""


@dataclass(frozen=True, kw_only=True)
class Least:
    """The least possible latencies."""

    first: float
    """s. The arithmetic of a prompt over the peak of all GPUs."""
    each: float
    """s. The active weights over the memory bandwidth of all GPUs, over the tokens that a step can give."""
    first_law: str
    """The law of the first, in words."""
    each_law: str
    """The law of the other, in words."""


def least_latencies(model: Model, cluster: Cluster, precision: str, load: Workload, drafted: int) -> Least:
    """The latencies that no layout of a model on these GPUs can beat; with speculation all drafted tokens are taken."""
    gpus, gpu = cluster.gpus, cluster.gpu
    flops = 2.0 * load.new_tokens * model.active_parameters
    peak = gpus * format_peak(gpu, precision)
    size = format_bytes(precision) * model.active_parameters
    bandwidth = gpus * gpu.memory_bandwidth
    for_tokens = f", for {drafted + 1} tokens" if drafted else ""
    work, speed = format_quantity(flops, "FLOP"), format_quantity(peak, "FLOP/s")
    weights, rate = format_quantity(size, "B"), format_quantity(bandwidth, "B/s")
    count = "one GPU" if gpus == 1 else f"{gpus} GPUs"
    return Least(
        first=flops / peak, each=size / bandwidth / (drafted + 1),
        first_law=f"{work} of a prompt at the {speed} of {count}",
        each_law=f"{weights} of weights at the {rate} of {count}{for_tokens}",
    )  # fmt: skip


def least_by_layouts(layouts: Sequence[Layout], load: Workload) -> tuple[float, float]:
    """s. (first token, time per token) of one request alone on the fastest layout of each."""
    first, each = [], []
    for layout in layouts:
        cost, tokens = layout.cost, load.new_tokens
        past = load.input_tokens - tokens
        prompt = (
            cost.step
            + cost.request
            + token_seconds(cost, tokens, is_prompted=True)
            + chunk_seconds(cost, tokens, past)
        )
        step = (
            cost.step
            + cost.request
            + token_seconds(cost, cost.decode_tokens)
            + decode_seconds(cost, 1, load.context)
        )
        first.append(float(prompt))
        each.append(float(step) / layout.plan.accepted_tokens)
    return min(first), min(each)


def shortage(model: Model, cluster: Cluster, choices: Choices, formats: Sequence[str]) -> NoFitError:
    """Why a model fits in no way: by how much, and what would hold it."""
    gpu = cluster.gpu
    needs = {}
    for plan in plans_of(model, cluster, choices):
        engine = load_language_engine(plan.engine, gpu)
        has = gpu.memory * (1.0 if engine.is_share_of_free else engine.memory_share)
        needs[plan] = fixed_bytes(model, plan, engine, 256, 1) - has
    if not needs:
        return NoFitError([f"{model.name}: no layout of {cluster.gpus} GPUs divides its heads and layers"])
    plan = min(needs, key=lambda each: needs[each])
    engine = load_language_engine(plan.engine, gpu)
    need = fixed_bytes(model, plan, engine, 256, 1)
    has = need - needs[plan]
    room = gpu.memory * engine.memory_share - engine.memory
    gpus = (
        int(-(-plan.gpus * (need - engine.memory) * _SPARE // room)) if room > 0 and gpu.fraction == 1 else 0
    )
    shares = {name: format_bytes(name) / format_bytes(plan.precision) for name in formats}
    enough = [name for name, share in shares.items() if share < 1 and share * need * _SPARE < has]
    would = [f"about {gpus} such GPUs ({-(-gpus // cluster.gpus_per_node)} nodes)"] if gpus else []
    would += [f"--precision {enough[0]}"] if enough else []
    would += [f"GPUs of {need * _SPARE / engine.memory_share / 1e9:.0f} GB"]
    problem = NoFitError(
        [f"{model.name} in {plan.precision} needs {need / 1e9:.1f} GB on each of {plan.gpus} GPUs before any request, "
         f"{max(needs[plan], 0) / 1e9:.1f} GB more than {gpu.name} has for it; what would hold it: {', or '.join(would)}"]
    )  # fmt: skip
    return problem.offer(precision=enough[0]) if enough else problem
