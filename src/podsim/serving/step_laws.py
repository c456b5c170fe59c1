"""Seconds of one step of a language model on the GPUs of one replica, by what decides them.

    tokens      products, experts, norms, activations and collectives of a number of tokens
    decoding    attention of one query (or those of a draft) of each sequence against its cache
    prompt      attention of the new tokens of a chunk against those before it and each other
    head        logits and the search for the next token, of one token a sequence

Kernels are those of `podsim.kernels.engine_*` and the product law; collectives those of `group_collectives`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from podsim.fitting import Floats
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import Gpu
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.engine_attention import EngineAttention, decode_seconds, prefill_seconds
from podsim.kernels.engine_experts import EngineExperts, experts_seconds
from podsim.kernels.engine_run import EngineRun
from podsim.kernels.gemm import gemm_seconds, operand_bytes
from podsim.serving.group_collectives import exchange_seconds, send_seconds, sum_seconds
from podsim.serving.language_layers import Core, Experts, Layers, Product, Scan, plan_layers
from podsim.serving.serving_plan import ServingPlan
from podsim.workload.model import Model

_STAND_INS = {"volta": "ampere", "turing": "ampere", "ada": "ampere", "cdna2": "ampere", "cdna3": "hopper"}
"""Architecture without measured kernels of engines -> the one whose constants stand in, at the GPU's own peaks."""
SKEW = 1.2
"""The exponent of the power law of tokens over experts, as aiconfigurator assumes it by default."""
_STATE_BYTES = 4.0
"""B of an element of a recurrent state, which is kept in 32 bits"""


@dataclass(frozen=True, kw_only=True)
class Passes:
    """A model in an engine on the GPUs of one replica."""

    model: Model
    cluster: Cluster
    plan: ServingPlan
    kernels: str
    """The engine whose measured kernels run: trtllm or vllm."""

    @property
    def layers(self) -> Layers:
        """The kernels of one GPU."""
        return plan_layers(self.model, self.plan)

    @property
    def gpu(self) -> Gpu:
        """The GPU at the clock of long runs."""
        return replace(self.cluster.gpu, is_sustained=True)

    @property
    def engine_gpu(self) -> Gpu:
        """The GPU, of an architecture on which engines' kernels were measured."""
        gpu = self.cluster.gpu
        return replace(gpu, architecture=_STAND_INS.get(gpu.architecture, gpu.architecture))

    def run(self, precision: str = "bf16") -> EngineRun:
        """The engine's kernel in a number format, with the cache's."""
        cache = "fp8" if self.plan.cache in ("fp8", "int8") else "bf16"
        return EngineRun(engine=self.kernels, precision=precision, cache=cache)


def tokens_seconds(passes: Passes, tokens: Floats) -> Floats:
    """s of what a number of tokens decides, for each number."""
    layers, gpu = passes.layers, passes.gpu
    total = np.zeros_like(tokens)
    for is_quantised in (True, False):
        total = total + _products_seconds(gpu, layers.products, tokens, passes.plan.precision, is_quantised)
    for experts in layers.experts:
        total = total + experts.count * _experts_seconds(passes, experts, tokens)
    counts = np.array([count for count, _ in layers.moved])[:, None]
    sizes = 2.0 * np.array([size for _, size in layers.moved])[:, None] * tokens
    total = total + (counts * memory_seconds(gpu, sizes)).sum(axis=0)
    hidden = 2.0 * passes.model.hidden * tokens
    total = (
        total
        + memory_seconds(gpu, 2 * hidden)
        + layers.syncs * sum_seconds(passes.cluster, passes.plan, hidden)
    )
    total = total + sum(core.count for core in layers.cores) * exchange_seconds(
        passes.cluster, passes.plan, hidden
    )
    return np.asarray(total + send_seconds(passes.cluster, passes.plan, hidden))  # fmt: skip


def _products_seconds(
    gpu: Gpu, products: tuple[Product, ...], tokens: Floats, precision: str, is_quantised: bool
) -> Floats:
    """s of all products in the plan's format, or of all others."""
    chosen = [product for product in products if product.is_quantised == is_quantised]
    if not chosen:
        return np.zeros_like(tokens)
    count, n, k, share = (
        np.array([getattr(product, name) for product in chosen])[:, None]
        for name in ("count", "n", "k", "token_share")
    )
    kind = product_format(gpu, precision if is_quantised else "fp16")
    seconds = gemm_seconds(
        gpu, np.maximum(tokens * share, 1.0), np.ceil(n), np.ceil(k), precision=kind, layout="tn"
    )
    return np.asarray((count * seconds).sum(axis=0))


def product_format(gpu: Gpu, precision: str) -> str:
    """The number format of products: fp16 stands for bf16 on GPUs that have none."""
    if precision == "bf16" and "bf16" not in gpu.peaks:
        return "fp16"
    return precision


def _experts_seconds(passes: Passes, experts: Experts, tokens: Floats) -> Floats:
    """s of one layer's experts, by the law of engines' kernels."""
    same, plan = np.ones_like(tokens), passes.plan
    precision = "bf16" if plan.precision in ("fp16", "int8_wo") else plan.precision
    shape = EngineExperts(
        tokens=tokens, hidden=experts.hidden * same, inner=experts.inner * same, top=experts.top * same,
        experts=experts.experts * same, tensor_parallel=plan.layer_degree / plan.expert * same,
        expert_parallel=plan.expert * same, skew=(SKEW if plan.expert > 1 else 0.0) * same,
    )  # fmt: skip
    kernel = "" if experts.is_gated else "nongated"
    run = EngineRun(
        engine=passes.kernels, kernel=kernel, precision="fp8" if precision in ("int8", "mxfp8") else precision
    )
    return experts_seconds(passes.engine_gpu, run, shape)


def decoding_seconds(passes: Passes, requests: Floats, context: Floats) -> Floats:
    """s of the attention and scans of decoding sequences, at each pair of their number and mean context."""
    sequences = np.maximum(requests / passes.plan.data_attention, 1.0)
    keys = np.maximum(context / passes.plan.context, 1.0)
    sequences, keys = np.broadcast_arrays(sequences, keys)
    total = np.zeros(sequences.shape)
    for core in passes.layers.cores:
        total = total + core.count * _decode_seconds(passes, core, sequences, keys)
    for scan in passes.layers.scans:
        moved = sequences * (scan.width * scan.state_dim * 2 * _STATE_BYTES + scan.channels * 16)
        total = total + scan.count * memory_seconds(passes.gpu, moved)
    return total


def _decode_seconds(passes: Passes, core: Core, sequences: Floats, keys: Floats) -> Floats:
    run = passes.run()
    shape = _attention(core, sequences, np.ones_like(keys), keys, is_decode=True)
    rows = passes.plan.draft_tokens + 1
    if rows > 1:  # the queries of a draft share the keys, as heads of a group do
        shape = replace(shape, heads=shape.heads * rows)
    return decode_seconds(passes.engine_gpu, run, shape, law="mla-decode" if core.rank else "decode")


def prompt_seconds(passes: Passes, batch: Floats, new: Floats, past: Floats) -> Floats:
    """s of the attention and scans of `batch` chunks of prompts of `new` tokens each, which follow `past` others."""
    batch, new, past = np.broadcast_arrays(batch, new, past)
    sequences = np.maximum(batch / passes.plan.data_attention, 1.0)
    queries = np.maximum(new / passes.plan.context, 1.0)
    total = np.zeros(batch.shape)
    for core in passes.layers.cores:
        shape = _attention(core, sequences, queries, past + new, is_decode=False)
        law = "mla-prefill" if core.rank else "prefill"
        precision = "fp8" if passes.plan.precision == "fp8" and passes.plan.cache == "fp8" else "bf16"
        if precision not in passes.gpu.peaks:
            precision = "bf16"
        total = total + core.count * prefill_seconds(passes.engine_gpu, passes.run(precision), shape, law=law)
    for scan in passes.layers.scans:
        total = total + scan.count * _scan_seconds(passes.gpu, scan, sequences * queries)
    return total


def _attention(
    core: Core, batch: Floats, queries: Floats, keys: Floats, *, is_decode: bool
) -> EngineAttention:
    """The sizes of a call; latent attention decodes against the compressed keys, which are the values, too."""
    same = np.ones_like(batch)
    is_latent = bool(core.rank) and is_decode
    width, value = (core.rank + core.rope_dim, core.rank) if is_latent else (core.head_dim, core.value_dim)
    kv_heads = 1.0 if is_latent else core.heads if core.rank else core.kv_heads
    return EngineAttention(
        batch=batch, queries=queries, keys=keys, heads=core.heads * same, kv_heads=kv_heads * same,
        head_dim=width * same, value_dim=value * same, window=core.window * same,
    )  # fmt: skip


def _scan_seconds(gpu: Gpu, scan: Scan, tokens: Floats) -> Floats:
    """s of a scan over the tokens of prompts: products of its chunks, or a kernel that moves bytes."""
    if scan.chunk:
        kind = product_format(gpu, "fp16")
        return gemm_seconds(
            gpu, tokens, scan.width, scan.chunk + 2 * scan.state_dim, precision=kind, layout="tn"
        )
    return memory_seconds(gpu, 2.0 * 4 * scan.width * tokens)


def head_seconds(passes: Passes, requests: Floats) -> Floats:
    """s of the logits of one token of each sequence, and of the search of the largest."""
    logits = passes.layers.logits
    if logits is None:
        return np.zeros_like(requests)
    gpu = passes.gpu
    kind = product_format(gpu, "fp16")
    product = gemm_seconds(gpu, np.maximum(requests, 1.0), logits.n, logits.k, precision=kind, layout="tn")
    return np.asarray(
        product + memory_seconds(gpu, requests * passes.model.vocab * (operand_bytes(kind) + 4))
    )
