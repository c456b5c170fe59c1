"""The layouts of a language model that a search of the best way to serve tries, and what each costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from podsim.axes import Floats, Shaped
from podsim.errors import NoFitError, PodsimError
from podsim.hardware.cluster import Cluster
from podsim.serving.language_engines import engine_family, load_language_engine
from podsim.serving.load.replica_pool import SCHEDULERS, Scheduler
from podsim.serving.serving_plan import ServingPlan
from podsim.serving.steady_load import BUDGETS, Workload, most_sequences
from podsim.serving.step_cost import CacheRoom, StepCost, cache_room, step_cost
from podsim.workload.model import Model

_WIDEST = 64
"""GPUs of the widest group of experts"""
_SCHEDULED = {"tensorrt-llm": "trtllm-chunked", "vllm": "vllm", "sglang": "sglang"}
"""engine -> its scheduler with chunks of prompts"""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the user leaves to the search."""

    engines: tuple[str, ...]
    """The names of the engines."""
    formats: tuple[tuple[str, str], ...]
    """The number formats of weights and caches, in pairs."""
    draft: str = ""
    """The draft of speculative decoding: a model, "ngram", or "" for a layer of the model itself."""
    acceptance: float = 0.7
    """share. The probability that a drafted token is accepted."""
    drafted: tuple[int, ...] = (0,)
    """count. The numbers of drafted tokens that are tried."""
    is_split: bool = True
    """Whether pools that read prompts and pools that decode are tried, too."""
    pins: Mapping[str, int] = field(default_factory=dict)
    """count. The user's values, by field of a plan, which alone are tried."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A replica that fits: its plan without limits, and its tables."""

    plan: ServingPlan
    cost: StepCost
    room: CacheRoom
    sequences: Shaped[Floats, "budget"]
    """count. The sequences for which its caches have room, by the tokens of a step."""
    max_batch: int
    """count. The most sequences at once with which its engine starts."""
    scheduler: Scheduler
    """The way in which its engine fills its steps."""


def plans_of(model: Model, cluster: Cluster, choices: Choices) -> Iterator[ServingPlan]:
    """Every legal replica of a model on the GPUs of a cluster, without limits of its steps."""
    heads = max((op.heads for block in model.layers for op in block.ops if op.kind == "attention"), default=0)
    experts = max((block.experts for block in model.layers), default=0)
    gpus = (
        cluster.gpus if cluster.gpu.fraction == 1 else 1
    )  # instances of a GPU do not reach each other's memory
    for tensor, pipeline in product(_degrees(gpus), repeat=2):
        is_wide = tensor > cluster.gpus_per_node
        if tensor * pipeline > gpus or pipeline > model.layer_count or (is_wide and not experts):
            continue
        for expert, groups in _expert_degrees(tensor, experts, is_wide=is_wide):
            if heads and heads % (tensor // groups):
                continue
            degrees: dict[str, Any] = {
                "tensor": tensor, "pipeline": pipeline, "expert": expert, "data_attention": groups,
            }  # fmt: skip
            if any(choices.pins.get(name, degree) != degree for name, degree in degrees.items()):
                continue
            for engine, (precision, cache), tokens in product(
                choices.engines, choices.formats, choices.drafted
            ):
                yield ServingPlan(
                    engine=engine, precision=precision, cache=cache, draft_tokens=tokens, acceptance=choices.acceptance,
                    draft=choices.draft if tokens else "", **degrees,
                )  # fmt: skip


def _degrees(gpus: int) -> list[int]:
    """Powers of two, and all GPUs."""
    powers = [2**k for k in range(13) if 2**k <= min(gpus, 4096)]
    return [*powers, *([gpus] if gpus not in powers and gpus <= 72 else [])]


def _expert_degrees(tensor: int, experts: int, *, is_wide: bool) -> list[tuple[int, int]]:
    """(expert, groups of attention) that are tried with a degree of tensor parallelism."""
    if not experts or tensor == 1:
        return [(1, 1)]
    if experts % tensor or tensor > _WIDEST:
        return [] if is_wide else [(1, 1)]
    return [(tensor, tensor)] if is_wide else [(1, 1), (tensor, 1), (tensor, tensor)]


def fitting_layouts(
    model: Model, cluster: Cluster, plans: Sequence[ServingPlan], load: Workload
) -> tuple[list[Layout], list[str]]:
    """(the replicas that have room for a request of the load, why the others have not)."""
    layouts, reasons = [], []
    for plan in plans:
        try:
            layouts.append(_layout(model, cluster, plan, load))
        except PodsimError as problem:
            reasons.append(str(problem))
    return layouts, reasons


def _layout(model: Model, cluster: Cluster, plan: ServingPlan, load: Workload) -> Layout:
    engine = load_language_engine(plan.engine, cluster.gpu)
    room = cache_room(model, cluster, replace(plan, max_batched_tokens=int(BUDGETS[0])))
    last = _blocks(model, cluster, plan, BUDGETS[-1])
    blocks = np.interp(
        BUDGETS, BUDGETS[[0, -1]], [room.blocks, last]
    )  # activations grow with the tokens of a step
    if not last:
        blocks = np.array([_blocks(model, cluster, plan, budget) for budget in BUDGETS])
    sequences = np.array([most_sequences(replace(room, blocks=int(each)), load) for each in blocks])
    if sequences.max() < 1:
        longest = load.input_tokens + load.output_tokens
        raise NoFitError([f"the caches of {plan.gpus} GPUs hold no sequence of {longest:,.0f} tokens"])
    return Layout(
        plan=plan, cost=step_cost(model, cluster, plan), room=room, sequences=sequences,
        max_batch=engine.max_batch, scheduler=SCHEDULERS[_SCHEDULED[engine_family(engine.name)]],
    )  # fmt: skip


def _blocks(model: Model, cluster: Cluster, plan: ServingPlan, budget: float) -> float:
    """count. The blocks of the caches next to a step of so many tokens; 0 where those do not fit."""
    try:
        return float(cache_room(model, cluster, replace(plan, max_batched_tokens=int(budget))).blocks)
    except NoFitError:
        return 0.0
