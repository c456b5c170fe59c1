"""Options of how a language model is served: its division over GPUs, its formats, the limits of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from podsim.options.question import option


@dataclass(frozen=True, kw_only=True)
class LayoutOptions:
    """A way to serve a language model; what is left away follows from the engine, the model and the GPUs."""

    SECTION: ClassVar[str] = "Language models"

    engine: str = option(
        "",
        "tensorrt-llm (default), vllm, sglang, or a release, e.g. tensorrt-llm-0.5; of other models tensorrt-2026 or "
        "tensorrt-2021.",
        also=("backend", "server", "framework"),
    )
    tp: int | None = option(
        None,
        "GPUs that divide each layer; default the fewest that hold the model.",
        also=("tensor-parallel", "tensor-parallel-size", "tp-size"),
    )
    pp: int | None = option(
        None, "Pipeline stages.", also=("pipeline-parallel", "pipeline-parallel-size", "pp-size")
    )
    ep: int | None = option(
        None,
        "GPUs among which whole experts are dealt, at most tp x cp.",
        also=("expert-parallel", "expert-parallel-size", "ep-size"),
    )
    attention_dp: int | None = option(
        None,
        "Groups of a stage that each do the attention of their own sequences.",
        also=("dp-attention", "attn-dp-size", "enable-dp-attention", "enable-attention-dp"),
    )
    replicas: int | None = option(
        None,
        "Copies of the model; default as many as the GPUs hold.",
        also=("dp", "data-parallel-size", "dp-size"),
    )
    kv: str = option(
        "",
        "Format of keys and values: fp16, bf16, fp8, int8; default the engine's.",
        also=("kv-cache", "kv-cache-dtype", "cache-dtype", "kv-dtype"),
    )
    max_batch: int | None = option(
        None,
        "Most sequences of a step; default the engine's.",
        also=("max-num-seqs", "max-batch-size", "max-running-requests"),
    )
    max_batched_tokens: int | None = option(
        None,
        "Most tokens of a step; default the engine's.",
        also=("max-num-tokens", "max-num-batched-tokens", "chunked-prefill-size"),
    )
    speculate: int = option(
        0,
        "Tokens that a draft proposes for each step.",
        also=("draft-tokens", "num-speculative-tokens", "speculative"),
    )
    acceptance: float = option(
        0.7, "Probability that a proposed token is accepted.", also=("acceptance-rate",)
    )
    draft: str = option(
        "", "The draft: a model, ngram, or (default) a layer of the model as EAGLE and MTP have."
    )


@dataclass(frozen=True, kw_only=True)
class LanguageOptions(LayoutOptions):
    """The same with what is rarely changed."""

    SECTION: ClassVar[str] = "Language models"

    cp: int | None = option(
        None,
        "GPUs that divide the keys of a sequence, besides tp.",
        also=("context-parallel", "context-parallel-size", "cp-size"),
    )
    block_tokens: int | None = option(
        None, "Tokens of a block of the cache.", also=("block-size", "page-size", "tokens-per-block")
    )
    chunked: bool | None = option(
        None, "Prompts may be split over steps.", also=("chunked-prefill", "enable-chunked-prefill")
    )
    prefix: float = option(
        0.0,
        "Share of a prompt's tokens that the prefix cache holds.",
        also=("prefix-share", "cache-hit", "prefix-cache"),
    )
    memory_share: float | None = option(
        None,
        "Share of the GPU's memory that the engine may use.",
        also=("gpu-memory-utilization", "mem-fraction-static", "utilization", "free-gpu-memory-fraction"),
    )
