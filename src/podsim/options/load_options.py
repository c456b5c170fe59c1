"""Options of a server under load: requests, how they arrive, who schedules and routes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from podsim.options.question import option


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Requests that arrive at a server."""

    SECTION: ClassVar[str] = "Under load"

    rate: str = option(
        "", "Requests that arrive, e.g. 20/s; simulates the server.", also=("request-rate", "qps", "rps")
    )
    trace: Path | None = option(
        None, "Instead of --rate: a file of requests (Azure, Mooncake, BurstGPT, a CSV).", also=("dataset",)
    )  # fmt: skip
    requests: int | None = option(
        None,
        "Requests; default 20,000, or all of the trace.",
        also=("num-prompts", "num-requests", "count", "n"),
    )
    input_tokens: str = option(
        "", "Tokens of a prompt: 512, uniform:LOW:HIGH, lognormal:MEAN:CV, exponential:MEAN.",
        also=("input-len", "isl", "prompt-tokens", "input-length"),
    )  # fmt: skip
    output_tokens: str = option(
        "",
        "Tokens of an answer, in the same forms.",
        also=("output-len", "osl", "max-tokens", "output-length"),
    )
    arrivals: str = option(
        "poisson", "poisson, even, gamma:CV, bursts:ON:OFF (e.g. bursts:10s:30s).", also=("burstiness",)
    )


@dataclass(frozen=True, kw_only=True)
class PoolOptions(RequestOptions):
    """A pool of replicas that answers them."""

    SECTION: ClassVar[str] = "Under load"

    load: str = option(
        "", "Instead of --rate: the share of the rate at which the server saturates, e.g. 90%."
    )
    clients: int | None = option(
        None, "Instead of --rate: clients that each wait for their answer.", also=("concurrency", "max-concurrency")
    )  # fmt: skip
    think: str = option("", "Mean time a client thinks before it asks again, e.g. 2s.")
    slo: str = option(
        "", "Limits of a good answer, e.g. ttft=500ms,tpot=30ms,e2e=5s; gives the goodput.", also=("goodput",)
    )
    scheduler: str = option(
        "",
        "vllm, prefill-first, trtllm, trtllm-chunked, sglang, static; default the engine's.",
        also=("policy",),
    )
    routing: str = option(
        "round-robin",
        "Between replicas: round-robin, least-loaded, prefix-aware, one-queue, random.",
        also=("router",),
    )
    disaggregate: str = option(
        "",
        "Replicas that prefill and that decode, e.g. 2:1.",
        also=("disaggregation", "disaggregation-mode", "pd"),
    )
    autoscale: str = option(
        "", "Least and most replicas, and the open requests of one, e.g. 1:4:32.", also=("autoscaling",)
    )
    shared_prefix: str = option(
        "",
        "Tokens that prompts share, and the number of such prefixes, e.g. 1024:8.",
        also=("system-prompt", "prefix-len"),
    )
    also_serve: Sequence[str] = option(
        (),
        "Another model of the pool and its share of requests, e.g. llama-3-8b=0.3. Repeatable.",
        flag="--also",
    )


@dataclass(frozen=True, kw_only=True)
class LoadOptions(PoolOptions):
    """The same with what is rarely changed."""

    SECTION: ClassVar[str] = "Under load"

    stream: bool = option(True, "Answers are streamed; if not, the first token comes with the last.")
    patience: str = option(
        "", "Mean time after which a client gives up, e.g. 30s; default never.", also=("timeout",)
    )
    swap: bool = option(
        False, "Swap preempted sequences to the host; default: compute them again.", flag="--swap"
    )
    prefill_tp: int | None = option(
        None, "With --disaggregate: GPUs that divide each layer where prompts are read; default --tp."
    )
    load_from: str = option("", "Rate at which a node reads weights, e.g. 5GB/s; default its drives.")
    prefix_cache: bool = option(True, "Keep the prefixes of prompts.", also=("enable-prefix-caching",))
    adapters: str = option(
        "", "Adapters (LoRA) that requests ask for, slots of a replica, rank, e.g. 100:8:16.", also=("lora", "max-loras")
    )  # fmt: skip
    seed: int = option(0, "Seed of the random numbers.")
