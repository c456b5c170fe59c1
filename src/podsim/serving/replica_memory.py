"""Bytes of a served language model on one GPU of a replica: weights, states, keys and values, activations.

Keys and values lie in blocks of some tokens; the last block of a sequence is partly empty. A layer with a window keeps
its window's tokens, a scan its state, whatever the length.
"""

from __future__ import annotations

import math
from dataclasses import replace

from podsim.hardware.catalog import load_gpu
from podsim.hardware.parts import Gpu
from podsim.kernels.engine_run import format_bytes
from podsim.packaged import packaged_toml
from podsim.serving.language_engines import LanguageEngine
from podsim.serving.language_layers import Layers, op_degree, plan_layers
from podsim.serving.serving_plan import OWN_DRAFTS, ServingPlan
from podsim.workload.catalog import load_model
from podsim.workload.model import Model, TensorOp

_CACHE = {"fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0}
"""Number format -> B of an element of the cache."""
_STATE = 4.0
"""B of an element of a recurrent state"""


def stage_share(model: Model, plan: ServingPlan) -> float:
    """share. The layers of the fullest stage over all layers."""
    return -(-model.layer_count // plan.pipeline) / model.layer_count


def weight_bytes(model: Model, plan: ServingPlan) -> float:
    """B of the weights of one GPU of the fullest stage: products of layers in the plan's format, others in 16 bits."""
    layers = sum(block.count * _weight_bytes(op, plan) for block in model.layers for op in block.ops)
    tables, head = (
        sum(2.0 * (op.weight / (plan.layer_degree if op.split == "vocab" else 1) + op.bias) for op in block.ops)
        for block in (model.embedding, model.head)
    )  # fmt: skip
    ends = tables + head if plan.pipeline == 1 else max(tables, head)
    return layers * stage_share(model, plan) + ends


def _weight_bytes(op: TensorOp, plan: ServingPlan) -> float:
    """B of one op of a layer on one GPU."""
    is_quantised = op.kind == "gemm" and plan.is_quantised(op.name, is_expert=op.expert)
    width = format_bytes(plan.precision) if is_quantised else 2.0
    degree = plan.layer_degree if op.expert else op_degree(op, plan)
    weight = op.weight / degree
    if op.kv_heads and op.kind == "gemm":  # a GPU has at least one head of keys and values
        weight += max(1 - op.kv_heads / degree, 0.0) * (op.head_dim + op.value_dim) * op.k
    return weight * width + 2.0 * op.bias


def token_bytes(model: Model, plan: ServingPlan, longest: float = math.inf) -> float:
    """B that one more token of a sequence takes in the cache of one GPU of the fullest stage.

    A window that holds the `longest` sequence is none.
    """
    cores = plan_layers(model, plan).cores
    elements = sum(core.count * core.width for core in cores if not 0 < core.kept < longest)
    return elements * _CACHE[plan.cache] * stage_share(model, plan) / plan.context


def sequence_bytes(model: Model, plan: ServingPlan, longest: float = math.inf) -> float:
    """B that a sequence takes on one GPU in recurrent states, and in windows shorter than the `longest` sequence."""
    layers = plan_layers(model, plan)
    windows = sum(core.count * core.width * core.kept for core in layers.cores if 0 < core.kept < longest)
    total = windows * _CACHE[plan.cache] / plan.context + _state_bytes(layers)
    return total * stage_share(model, plan)


def _state_bytes(layers: Layers) -> float:
    """B of the recurrent states of one sequence, and the inputs that its short convolutions keep."""
    return sum(
        scan.count * (scan.width * scan.state_dim * _STATE + 4 * 2.0 * scan.channels) for scan in layers.scans
    )


def activation_bytes(model: Model, plan: ServingPlan, batched_tokens: float, sequences: float) -> float:
    """B of the largest tensors of a step that are in memory together, and of the logits in 32 bits."""
    widest = max(
        (op.n / op_degree(op, plan) * (block.top_k if op.expert else 1)
         for block in model.layers for op in block.ops if op.kind == "gemm"), default=0.0,
    )  # fmt: skip
    logits = 4.0 * sequences * model.vocab / plan.layer_degree
    return 2.0 * batched_tokens * (2 * widest + 2 * model.hidden) + logits


def fixed_bytes(
    model: Model, plan: ServingPlan, engine: LanguageEngine, tokens: float, sequences: float
) -> float:
    """B of one GPU that are no cache: weights, the engine itself, activations of a step of so many tokens."""
    total = weight_bytes(model, plan)
    if not engine.spares_activations:
        total += engine.memory + activation_bytes(model, plan, tokens, sequences)
    if plan.draft_tokens and plan.draft not in OWN_DRAFTS:
        total += weight_bytes(load_model(plan.draft), replace(plan, precision="fp16"))
    return total


def _reported() -> dict[str, float]:
    """Name of a GPU -> MiB that its driver reports."""
    values: dict[str, float] = packaged_toml("serving/reported_memory.toml")["mebibytes"]
    return values


def usable_bytes(gpu: Gpu) -> float:
    """B of memory that the driver reports; of instances and changed GPUs, those of the catalog or the user."""
    name = gpu.name.lower()
    if name not in _reported() or gpu.fraction != 1 or gpu.memory != load_gpu(name).memory:
        return gpu.memory
    return _reported()[name] * 2.0**20


def cache_bytes(gpu: Gpu, plan: ServingPlan, engine: LanguageEngine, fixed: float) -> float:
    """B that one GPU has for keys and values next to the fixed ones; negative where those do not fit."""
    share = plan.memory_share or engine.memory_share
    memory = usable_bytes(gpu)
    if engine.is_share_of_free and memory > fixed:
        return (memory - fixed) * share
    return memory * (1.0 if engine.is_share_of_free else share) - fixed
