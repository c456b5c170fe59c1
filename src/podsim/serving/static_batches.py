"""A batch of equal sequences through an engine: prompts together, then step by step until all are done.

    first token = prompts, in steps of the most batched tokens, and the head
    each token  = a decoding step / the tokens that it gives a sequence
    latency     = first token + (output - 1) x each token

With pipeline stages a batch is divided into as many parts, so that all stages are busy; a part takes a step's time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.answers.served import ServedBatch
from podsim.axes import Floats
from podsim.kernels.gemm import peak_of
from podsim.serving.bisection import largest_number
from podsim.serving.replica_memory import (
    cache_bytes,
    fixed_bytes,
    sequence_bytes,
    stage_share,
    token_bytes,
    usable_bytes,
)
from podsim.serving.step_laws import (
    Passes,
    decoding_seconds,
    draft_seconds,
    head_seconds,
    product_format,
    prompt_host_seconds,
    prompt_seconds,
    tokens_parts,
)

LARGEST_BATCH = 65_536
"""The largest number of concurrent sequences, above any engine's limit."""
_CONTEXTS = 9
"""lengths of the cache at which decoding steps are averaged"""
_ARITHMETIC = {
    "int8_wo": "fp16", "int4_wo": "fp16", "fp8_block": "fp8", "nvfp4": "nvfp4", "w4a16_mxfp4": "fp16",
    "w4a8_mxfp4_mxfp8": "fp8",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StaticRequest:
    """The sequences of a batch."""

    tokens: int
    """count. The tokens of a prompt."""
    output: int
    """count. The tokens that each sequence produces."""
    limit: float | None = None
    """s. The time within which a request is answered."""


def static_row(passes: Passes, request: StaticRequest, batch: int) -> ServedBatch:
    """One batch on one replica."""
    prompt, token = prompt_parts(passes, request, batch), token_parts(passes, request, batch)
    steps = (request.output - 1) / passes.plan.accepted_tokens
    first, step = sum(prompt.values()), sum(token.values())
    latency = first + steps * step
    memory, fits = _memory(passes, request, batch)
    return ServedBatch(
        batch=batch, latency=latency, throughput=batch / latency, first_token=first,
        token=step / passes.plan.accepted_tokens, tokens_per_second=batch * request.output / latency, memory=memory,
        fits=fits, in_time=request.limit is None or 2 * latency <= request.limit,
        parts={key: prompt[key] + steps * token[key] for key in prompt},
        utilisation=batch * _flops(passes, request) / latency / _peak(passes),
    )  # fmt: skip


def prompt_parts(passes: Passes, request: StaticRequest, batch: int) -> dict[str, float]:
    """s of each part of all prompts of a batch: products, attention, memory, collectives, host."""
    plan = passes.plan
    past = float(int(request.tokens * plan.prefix_share))
    new = request.tokens - past
    each = batch / plan.pipeline if batch >= plan.pipeline else 1.0
    waves = batch / each  # parts of the batch, one after another through the stages
    limit = plan.max_batched_tokens or passes.engine.max_batched_tokens
    steps = float(max(np.ceil(each * new / limit), 1.0))
    parts = _totals(tokens_parts(passes, np.array([each * new / steps]), is_prompt=True))
    attention = prompt_seconds(passes, np.array([each]), np.array([new]), np.array([past]))
    head = head_seconds(passes, np.array([each]))
    made = {key: value * steps for key, value in parts.items()}
    made["products"] += float(head[0])
    made["attention"] = float(attention[0])
    waiting = prompt_host_seconds(passes) * steps - sum(made.values())
    made["host"] = max(waiting, 0.0) + _host_seconds(passes, each) * steps
    return {key: value * _stages(passes, waves) for key, value in ({"draft": 0.0} | made).items()}


def token_parts(passes: Passes, request: StaticRequest, batch: int) -> dict[str, float]:
    """s of each part of a decoding step at the mean length of the caches, over all stages' parts of the batch."""
    plan = passes.plan
    each = max(batch / plan.pipeline, 1.0)
    contexts = request.tokens + np.linspace(1.0, max(request.output, 1), _CONTEXTS)
    made = _totals(tokens_parts(passes, np.array([each * (plan.draft_tokens + 1)])))
    made["products"] += float(head_seconds(passes, np.array([each * (plan.draft_tokens + 1)]))[0])
    made["attention"] = float(decoding_seconds(passes, np.array([each]), contexts).mean())
    made["host"] = _host_seconds(passes, each)
    made["draft"] = float(draft_seconds(passes, np.array([each]), contexts.mean(keepdims=True))[0])
    return {key: value * stage_share(passes.model, plan) * plan.pipeline for key, value in made.items()}


def _stages(passes: Passes, waves: float) -> float:
    """How long `waves` parts of a batch take through all stages over one part on all layers in turn."""
    plan = passes.plan
    slowest = stage_share(passes.model, plan)
    return slowest * (plan.pipeline - 1 + waves)


def _host_seconds(passes: Passes, sequences: float) -> float:
    return passes.engine.step + passes.engine.request * sequences


def _totals(parts: dict[str, Floats]) -> dict[str, float]:
    return {key: float(value[0]) for key, value in parts.items()}


def _memory(passes: Passes, request: StaticRequest, batch: int) -> tuple[float, bool]:
    """(B on one GPU, whether they fit): weights, the engine, activations, and blocks of all sequences.

    An engine whose share is of what weights leave gives a batch of known lengths all of it.
    """
    plan, engine = passes.plan, passes.engine
    limit = plan.max_batched_tokens or engine.max_batched_tokens
    fixed = fixed_bytes(passes.model, plan, engine, min(limit, batch * request.tokens), batch)
    length = request.tokens + request.output
    block = plan.block_tokens or engine.block_tokens
    each = -(-length // block) * block * token_bytes(passes.model, plan, length)
    used = batch / plan.data_attention * (each + sequence_bytes(passes.model, plan, length))
    has = cache_bytes(passes.cluster.gpu, plan, engine, fixed)
    if engine.is_share_of_free and not plan.memory_share:
        has = usable_bytes(passes.cluster.gpu) - fixed
    return fixed + used, used <= has


def largest_batch(passes: Passes, request: StaticRequest) -> int:
    """The sequences of a replica that fit at once; by bisection."""
    return largest_number(lambda batch: _memory(passes, request, batch)[1], 0, LARGEST_BATCH)


def _flops(passes: Passes, request: StaticRequest) -> float:
    """FLOP of one sequence on all GPUs, over their number."""
    length = request.tokens + request.output
    flops = passes.model.forward_flops(length, causal_half=True)
    return (
        length * (flops["gemm"] + flops["attention"]) + request.output * flops["logits"]
    ) / passes.plan.gpus


def _peak(passes: Passes) -> float:
    precision = _ARITHMETIC.get(passes.plan.precision, passes.plan.precision)
    return peak_of(passes.gpu, product_format(passes.gpu, precision))
