"""A batch of equal sequences through an engine: prompts together, then step by step until all are done.

    first token = prompts, in steps of the most batched tokens, and the head
    each token  = a decoding step / the tokens that it gives a sequence
    latency     = first token + (output - 1) x each token

A step costs what `step_cost` says of a server under load, so that a batch and a server that answers it agree.
With pipeline stages a batch is divided into as many parts, so that all stages are busy; a part takes a step's time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.answers.served import ServedBatch
from podsim.axes import Floats, Ints
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
from podsim.serving.step_cost import (
    StepCost,
    attention_start_seconds,
    chunk_seconds,
    decode_seconds,
    token_seconds,
)
from podsim.serving.step_laws import (
    Passes,
    draft_seconds,
    product_format,
    prompt_host_seconds,
    tokens_parts,
)

LARGEST_BATCH = 65_536
"""The largest number of concurrent sequences, above any engine's limit."""
_CONTEXTS = 65
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
    is_chunked: bool = True
    """Whether a prompt may be divided over steps."""


def static_row(passes: Passes, cost: StepCost, request: StaticRequest, batch: int) -> ServedBatch:
    """One batch on one replica whose steps cost what those of a server under load cost."""
    prompt, token = prompt_parts(passes, cost, request, batch), token_parts(passes, cost, request, batch)
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


def prompt_parts(passes: Passes, cost: StepCost, request: StaticRequest, batch: int) -> dict[str, float]:
    """s of each part of all prompts of a batch: products, attention, memory, collectives, host."""
    plan = passes.plan
    sequences = -(-batch // plan.pipeline)
    step, new, past = _prompt_chunks(passes, request, sequences)
    tokens = np.bincount(step, weights=new)
    total = float(token_seconds(cost, tokens, is_prompted=True).sum())
    made = _token_parts(passes, float(tokens.mean()), total, is_prompt=True)
    made["attention"] += float(chunk_seconds(cost, new, past).sum())
    _add_sequences(made, passes, cost, len(tokens), len(new))
    waves = -(-batch // sequences)  # parts of the batch, one after another through the stages
    return {
        key: value * (plan.pipeline - 1 + waves) / plan.pipeline
        for key, value in ({"draft": 0.0} | made).items()
    }


def _prompt_chunks(passes: Passes, request: StaticRequest, prompts: int) -> tuple[Ints, Floats, Floats]:
    """(step, new tokens, tokens before them) of each chunk, as an engine that meets all prompts at once fills its steps.

    Prompts fill steps one after another. A scheduler that divides none puts as many whole ones into a step as it can.
    """
    plan = passes.plan
    before = int(request.tokens * plan.prefix_share)
    own = request.tokens - before
    limit = plan.max_batched_tokens or passes.engine.max_batched_tokens
    total = prompts * own
    if not request.is_chunked:
        limit = max(limit // own, 1) * own
    cuts = np.union1d(np.arange(0, total, limit), np.arange(0, total, own))
    new = np.diff(cuts, append=total).astype(float)
    return cuts // limit, new, before + np.mod(cuts, own).astype(float)


def token_parts(passes: Passes, cost: StepCost, request: StaticRequest, batch: int) -> dict[str, float]:
    """s of each part of a decoding step at the mean length of the caches, over all stages' parts of the batch."""
    sequences = -(-batch // passes.plan.pipeline)
    contexts = request.tokens + np.linspace(1.0, max(request.output - 1, 1), _CONTEXTS)
    tokens = float(sequences * cost.decode_tokens)
    made = _token_parts(passes, tokens, float(token_seconds(cost, tokens)))
    attention = float(decode_seconds(cost, sequences, contexts).mean())
    drafts = float(draft_seconds(passes, np.array([float(sequences)]), contexts.mean(keepdims=True))[0])
    made["draft"] = min(drafts * stage_share(passes.model, passes.plan) * passes.plan.pipeline, attention)
    made["attention"] = attention - made["draft"]
    _add_sequences(made, passes, cost, 1, sequences)
    return made


def _token_parts(passes: Passes, tokens: float, total: float, *, is_prompt: bool = False) -> dict[str, float]:
    """The seconds that steps' tokens decide by part: as the law divides a step of `tokens`, with what the host leaves."""
    parts = {key: float(value[0]) for key, value in
             tokens_parts(passes, np.array([tokens]), is_prompt=is_prompt).items()}  # fmt: skip
    launching = prompt_host_seconds(passes)
    is_launched = is_prompt or tokens > passes.engine.graph_tokens
    parts["host"] = max(launching - sum(parts.values()), 0.0) if is_launched else 0.0
    parts["attention"] = attention_start_seconds(passes) if is_prompt else 0.0
    scale = total / sum(parts.values())
    return {key: value * scale for key, value in parts.items()}


def _add_sequences(
    parts: dict[str, float], passes: Passes, cost: StepCost, steps: int, sequences: int
) -> None:
    """Add the fixed time of steps and that of their sequences: the host's, and the head's to products."""
    host = passes.engine.step * steps + passes.engine.request * sequences
    parts["host"] += host
    parts["products"] += cost.step * steps + cost.request * sequences - host


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
