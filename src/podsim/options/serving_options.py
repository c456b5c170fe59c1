"""Options of serving: what answers requests, how, and on what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from podsim.options.best_options import BestOptions, OfferOptions
from podsim.options.language_options import LanguageOptions, LayoutOptions
from podsim.options.load_options import LoadOptions, PoolOptions, RequestOptions
from podsim.options.question import like, option, overrides_option
from podsim.options.scenario_options import NetworkOptions, ScenarioOptions


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """A model that answers requests on GPUs or instances."""

    model: str = option(
        "",
        "A model or network that `podsim models` lists, a config.json, a file of `podsim capture`, FILE.py:FUNCTION, "
        "or an ensemble, FILE.toml.",
        argument=True,
    )
    on: str = option(
        "",
        "GPUs or instances: a100-40gb, 4xh100, dgx-h100:2, a100-40gb/7x1g.5gb, dgx-a100-40gb/7x1g.",
        complete="clusters",
        also=("gpu", "cluster", "system", "hardware"),
    )
    gpus: int | None = option(None, "GPUs, where --on is the name of one: --on a100-80gb --gpus 2.")
    precision: str | None = option(
        None,
        "fp16, bf16, tf32, fp32, fp8, mxfp8, nvfp4, int8; of language models also fp8_block, int8_wo, int4_wo (weights "
        "only); default fp16.",
        also=("dtype", "quantization", "quant"),
    )
    overrides: Mapping[str, str] | None = overrides_option("gpu.memory=64GB, model.layers=12, serve.seed=1")


@dataclass(frozen=True, kw_only=True)
class BatchOptions(ServerOptions):
    """Batches that it answers one after another."""

    batch: str = option("", "Batch sizes, e.g. 8 or 1,8,94.")
    sparse: bool = option(False, "Weights pruned 2:4.", flag="--sparse")
    tokens: int | None = option(
        None,
        "Tokens of a sequence or a prompt; for an image, pixels of its side.",
        also=("input", "prompt"),
    )
    output: int | None = option(
        None,
        "Tokens that a language model produces.",
        also=("answer",),
    )
    latency: str = option("", "Answer each request within this, e.g. 10ms.")
    triton: Path | None = option(None, "Model repository for Triton's config.pbtxt.")
    figure: int | None = option(
        None, "Make figure 4, 5, 7 or 12 of the white paper, as `podsim figure` does."
    )


@dataclass(frozen=True, kw_only=True)
class ServeOptions(ScenarioOptions, LanguageOptions, LoadOptions, BestOptions, BatchOptions):
    """Every way of serving. What a question has no flag for, `--set serve.NAME=VALUE` gives."""


@dataclass(frozen=True, kw_only=True)
class ServeBatchesOptions(LanguageOptions, NetworkOptions, OfferOptions, BatchOptions):
    """Static batches."""


@dataclass(frozen=True, kw_only=True)
class ServeLoadOptions(PoolOptions, LayoutOptions, OfferOptions, ServerOptions):
    """A server that requests arrive at."""


@dataclass(frozen=True, kw_only=True)
class ServeBestOptions(RequestOptions, LayoutOptions, BestOptions, ServerOptions):
    """The best server for requests that arrive, within limits."""

    percentile: float | None = like(ScenarioOptions, "percentile")


@dataclass(frozen=True, kw_only=True)
class ServeStreamsOptions(ScenarioOptions, BatchOptions):
    """Networks in MLPerf's scenarios, and streams of speech and video."""

    rate: str = like(RequestOptions, "rate")
    engine: str = like(LayoutOptions, "engine")
