"""Seconds of one step of a language model on the GPUs of one replica, by what decides them.

    tokens      products, experts, norms, activations and collectives of a number of tokens
    decoding    attention of one query (or those of a draft) of each sequence against its cache
    prompt      attention of the new tokens of a chunk against those before it and each other
    head        logits and the search for the next token, of one token a sequence

Kernels are those of `podsim.kernels.engine_*` and the product law; collectives those of `group_collectives`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podsim.axes import Floats
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import Gpu
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.engine_attention import EngineAttention, decode_seconds, prefill_seconds
from podsim.kernels.engine_experts import EngineExperts, experts_seconds
from podsim.kernels.engine_run import FORMATS, EngineRun, format_bytes
from podsim.kernels.gemm import GemmKernel, gemm_seconds, operand_bytes
from podsim.packaged import packaged_toml
from podsim.serving.group_collectives import exchange_seconds, routed_seconds, send_seconds, sum_seconds
from podsim.serving.language_engines import LanguageEngine, load_language_engine
from podsim.serving.language_layers import (
    Core,
    Experts,
    Layers,
    Product,
    Scan,
    check_language_model,
    plan_layers,
)
from podsim.serving.serving_plan import OWN_DRAFTS, ServingPlan
from podsim.workload.catalog import load_model
from podsim.workload.model import Model


def _stand_in(gpu: Gpu) -> Mapping[str, Any]:
    """The architecture whose kernels of engines stand in for a GPU's, and the shares of its own figures that they reach;
    empty where its own were measured."""
    known: Mapping[str, Any] = packaged_toml("serving/stand_ins.toml").get(gpu.architecture, {})
    return known


def is_measured(gpu: Gpu) -> bool:
    """Whether kernels of engines were measured on GPUs of its architecture."""
    return not _stand_in(gpu)


SKEW = 1.2
"""The exponent of the power law of tokens over experts, as aiconfigurator assumes it by default."""
STATE_SHARE, STATE_KERNELS = 0.2, 3.0e-5
"""share of the memory's bandwidth at which a decoding step reads and writes recurrent states, and s of the small kernels
around that: gates, norms, short convolutions. Fitted to Qwen3.5-397B under SGLang on B200 (reference/fit_serving.py)."""
_STATE_BYTES = 4.0
"""B of an element of a recurrent state, which is kept in 32 bits"""


@dataclass(frozen=True, kw_only=True)
class Passes:
    """A model in an engine on the GPUs of one replica."""

    model: Model
    cluster: Cluster
    plan: ServingPlan
    engine: LanguageEngine
    draft: Passes | None = None
    """The draft model of speculative decoding on the same GPUs; None where it has none of its own."""

    @property
    def layers(self) -> Layers:
        """The kernels of one GPU."""
        return plan_layers(self.model, self.plan)

    @property
    def gpu(self) -> Gpu:
        """The GPU at the clock of long runs, with the bandwidth that kernels reach where others stand in."""
        gpu = self.cluster.gpu
        bandwidth = gpu.memory_bandwidth * _stand_in(gpu).get("memory", 1.0)
        return replace(gpu, is_sustained=True, memory_bandwidth=bandwidth)

    @property
    def engine_gpu(self) -> Gpu:
        """The GPU, of an architecture on which engines' kernels were measured."""
        gpu, stand_in = (
            replace(self.gpu, is_sustained=self.cluster.gpu.is_sustained),
            _stand_in(self.cluster.gpu),
        )
        peaks = gpu.peaks if "bf16" in gpu.peaks else {**gpu.peaks, "bf16": gpu.peaks["fp16"]}
        peaks = {name: peak * stand_in.get("peak", 1.0) for name, peak in peaks.items()}
        return replace(gpu, architecture=stand_in.get("like", gpu.architecture), peaks=peaks)

    @property
    def sum_run(self) -> EngineRun:
        """The engine's all-reduce."""
        return EngineRun(engine=self.engine.kernels, kernel=self.engine.sums)

    def run(self, precision: str = "bf16", *, is_latent: bool = False) -> EngineRun:
        """The engine's kernel of attention in a number format, with the cache's."""
        cache = "fp8" if self.plan.cache in ("fp8", "int8") else "bf16"
        engine = (self.engine.latent if is_latent else "") or self.engine.kernels
        return EngineRun(engine=engine, precision=precision, cache=cache)


def tokens_seconds(passes: Passes, tokens: Floats, *, is_prompt: bool = False) -> Floats:
    """s of what a number of tokens decides, for each number; see tokens_parts."""
    return sum(tokens_parts(passes, tokens, is_prompt=is_prompt).values(), np.zeros_like(tokens))


def tokens_parts(passes: Passes, tokens: Floats, *, is_prompt: bool = False) -> dict[str, Floats]:
    """s of each part for each number of tokens: products, memory-bound kernels, collectives.

    Kernels of prompts may quantise the input of a product by themselves; in a decoding step they are fused, but not
    those with a scale for each block.
    """
    layers, gpu, engine = passes.layers, passes.gpu, passes.engine
    alone, shared, routed = np.zeros_like(tokens), np.zeros_like(tokens), np.zeros_like(tokens)
    for is_quantised, is_shared in ((True, False), (False, False), (True, True), (False, True)):
        chosen = tuple(
            product
            for product in layers.products
            if (product.is_quantised, product.is_shared) == (is_quantised, is_shared)
        )
        kind = product_format(gpu, passes.plan.precision if is_quantised else "fp16")
        quantises = kind == "fp8_block" or (is_prompt and is_quantised and engine.quantises_prompts)
        kernel: GemmKernel = "engine" if quantises else "plain"
        seconds = _products_seconds(gpu, chosen, tokens, kind, kernel)
        alone, shared = alone + seconds * (not is_shared), shared + seconds * is_shared
    for experts in layers.experts:
        routed = routed + experts.count * _experts_seconds(passes, experts, tokens)
    products = alone + (shared + routed if is_prompt else np.maximum(shared, routed))
    hidden = 2.0 * passes.model.hidden * tokens
    counts = np.array([count for count, _ in layers.moved])[:, None]
    sizes = 2.0 * np.array([size for _, size in layers.moved])[:, None] * tokens / passes.plan.data_attention
    memory = (counts * memory_seconds(gpu, sizes)).sum(axis=0) + memory_seconds(gpu, 2 * hidden)
    cluster, plan = passes.cluster, passes.plan
    collectives = layers.syncs * sum_seconds(cluster, plan.layer_degree, passes.sum_run, hidden)
    if 1 < plan.data_attention == plan.expert:  # experts alone need other GPUs' tokens
        collectives = np.minimum(collectives, _dealing_seconds(passes, tokens))
    own = hidden / plan.data_attention
    collectives = collectives + layers.attention_syncs * sum_seconds(
        cluster, plan.attention_degree * plan.context, passes.sum_run, own
    )
    collectives = collectives + layers.core_count * exchange_seconds(cluster, plan, hidden)
    return {
        "products": products, "memory": memory, "collectives": collectives + send_seconds(cluster, plan, hidden),
    }  # fmt: skip


def _dealing_seconds(passes: Passes, tokens: Floats) -> Floats:
    """s of all layers' dealing of tokens to whole experts, where groups do the attention of their own sequences."""
    plan, width = (
        passes.plan,
        format_bytes(passes.plan.precision) if passes.plan.precision in FORMATS else 2.0,
    )
    each = [
        experts.count
        * routed_seconds(
            passes.cluster, plan, tokens / plan.data_attention * experts.top, experts.hidden, min(width, 1.0)
        )
        for experts in passes.layers.experts
    ]
    return sum(each, np.zeros_like(tokens))


def prompt_host_seconds(passes: Passes) -> float:
    """s in which the host launches the kernels of a prompt's step, of which the GPU waits for the last ones at least."""
    layers, engine = passes.layers, passes.engine
    launches = engine.attention_launches * layers.core_count
    if not engine.graphs_prompts:
        launches += sum(product.count for product in layers.products) + sum(
            count for count, _ in layers.moved
        )
        launches += sum(experts.count for experts in layers.experts) * 3 + layers.syncs * (
            passes.plan.tensor > 1
        )
    return launches * engine.launch


def _products_seconds(
    gpu: Gpu, products: tuple[Product, ...], tokens: Floats, precision: str, kernel: GemmKernel
) -> Floats:
    """s of products together."""
    if not products:
        return np.zeros_like(tokens)
    count, n, k, share = (
        np.array([getattr(product, name) for product in products])[:, None]
        for name in ("count", "n", "k", "token_share")
    )
    rows = np.maximum(tokens * share, 1.0)
    seconds = gemm_seconds(gpu, rows, np.ceil(n), np.ceil(k), precision=precision, layout="tn", kernel=kernel)
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
        expert_parallel=plan.expert * same, skew=SKEW * same,
    )  # fmt: skip
    precision = "fp8" if precision in ("int8", "mxfp8") else precision
    known = passes.engine.experts.get(f"{passes.engine_gpu.architecture}/{precision}", "//")
    engine, kernel, other = f"{known}/".split("/")[:3]
    precision = other or precision
    if not experts.is_gated:
        engine, kernel = "", "nongated"
    run = EngineRun(engine=engine or passes.engine.kernels, kernel=kernel, precision=precision)
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
        total = total + scan.count * (memory_seconds(passes.gpu, moved / STATE_SHARE) + STATE_KERNELS)
    return total


def _decode_seconds(passes: Passes, core: Core, sequences: Floats, keys: Floats) -> Floats:
    keys = np.maximum(keys * core.key_share, 1.0)
    shape = _attention(core, sequences, np.ones_like(keys), keys, is_decode=True)
    shares = None if passes.engine.shares_keys(passes.plan.cache, core.head_dim) else False
    rows = passes.plan.draft_tokens + 1
    if rows > 1:  # the queries of a draft share the keys, as heads of a group do
        shape, shares = replace(shape, heads=shape.heads * rows), True
    law = "mla-decode" if core.rank else "decode"
    return decode_seconds(
        passes.engine_gpu, passes.run(is_latent=bool(core.rank)), shape, law=law, shares_keys=shares
    )


def prompt_seconds(passes: Passes, batch: Floats, new: Floats, past: Floats) -> Floats:
    """s of the attention and scans of `batch` chunks of prompts of `new` tokens each, which follow `past` others."""
    batch, new, past = np.broadcast_arrays(batch, new, past)
    sequences = np.maximum(batch / passes.plan.data_attention, 1.0)
    queries = np.maximum(new / passes.plan.context, 1.0)
    total = np.zeros(batch.shape)
    for core in passes.layers.cores:
        keys = np.maximum((past + new) * core.key_share, queries * core.key_share)
        shape = _attention(core, sequences, queries, keys, is_decode=False)
        law = "mla-prefill" if core.rank else "prefill"
        precision = "fp8" if passes.plan.precision == "fp8" and passes.plan.cache == "fp8" else "bf16"
        if precision not in passes.gpu.peaks:
            precision = "bf16"
        total = total + core.count * prefill_seconds(
            passes.engine_gpu, passes.run(precision, is_latent=bool(core.rank)), shape, law=law
        )
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


def draft_seconds(passes: Passes, requests: Floats, context: Floats) -> Floats:
    """s in which a draft proposes its tokens for each decoding sequence, one after another.

    A draft without a model of its own is one layer of the served one with its head (EAGLE, arXiv 2401.15077; multi-token
    prediction), or a look-up in the text, which takes no time.
    """
    plan = passes.plan
    if not plan.draft_tokens or plan.draft == "ngram":
        return np.zeros(np.broadcast_shapes(requests.shape, context.shape))
    drafter = passes.draft or passes
    layers = 1.0 if passes.draft else passes.model.layer_count
    single = replace(drafter, plan=replace(plan, draft_tokens=0))
    layer = tokens_seconds(single, requests.ravel()).reshape(requests.shape) + decoding_seconds(
        single, requests, context
    )
    head = head_seconds(single, requests.ravel()).reshape(requests.shape)
    return np.asarray(plan.draft_tokens * (layer / layers + head))


def make_passes(model: Model, cluster: Cluster, plan: ServingPlan) -> Passes:
    """The passes of a plan, with its draft's. Raises CatalogError or ModelError for a name that is no model's."""
    engine = load_language_engine(plan.engine, cluster.gpu)
    draft = None
    if plan.draft_tokens and plan.draft not in OWN_DRAFTS:
        alone = replace(plan, draft="", draft_tokens=0, expert=1, precision="fp16")
        draft = Passes(model=load_model(plan.draft), cluster=cluster, plan=alone, engine=engine)
        check_language_model(draft.model)
    return Passes(model=model, cluster=cluster, plan=plan, engine=engine, draft=draft)
