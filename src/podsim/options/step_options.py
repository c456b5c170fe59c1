"""Options of what is simulated: schedules, steps, workers over many steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsim.options.plan_options import (
    FiledPlanOptions,
    JobOptions,
    LayoutFields,
    TrainedFields,
)
from podsim.options.question import factors, like, option, overrides_option, servers, throttles

EXCHANGES = ("bsp", "ps", "ssp", "async", "local", "diloco")


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(FiledPlanOptions):
    """A plan, and what goes wrong in its step."""

    ranks: str = option(
        "folded", "folded (one rank for each class of equal ones), or all.", choices=("folded", "all")
    )
    kernels: bool | None = option(None, "Kernels one by one, or all between two collectives as one op.")
    slow: Mapping[int, float] | None = option(
        None, "A slow GPU, e.g. RANK=1.2: its kernels take 1.2 times as long. Repeatable.",
        read=factors("rank", "5=1.2"),
    )  # fmt: skip
    throttle: Mapping[int, tuple[float, float]] | None = option(
        None, "A GPU that grows hot, e.g. 5=1.3@2s: it tends to 1.3 times as long. Repeatable.",
        read=throttles("rank", "5=1.3@2s"),
    )  # fmt: skip
    slow_link: Mapping[int, float] | None = option(
        None,
        "A slow adapter, e.g. RANK=0.5: half its bandwidth is left. Repeatable.",
        read=factors("rank", "5=0.5"),
    )
    node: Mapping[int, str] | None = option(
        None, "A server with other GPUs, e.g. 1=a100-sxm4-40gb (numbered from 0). Repeatable.",
        read=servers("1=a100-sxm4-40gb"),
    )  # fmt: skip
    flap: Mapping[int, float] | None = option(
        None, "A flapping adapter, e.g. RANK=0.3: it is down for 0.3 of the time. Repeatable.",
        read=factors("rank", "5=0.3"),
    )  # fmt: skip
    swap: Mapping[int, float] | None = option(
        None, "Two exchanged cables, e.g. RANK=RANK: those of the adapters of two ranks. Repeatable.",
        read=factors("rank", "3=12"),
    )  # fmt: skip
    slow_disk: Mapping[int, float] | None = option(
        None, "Slow storage of a server, e.g. 1=4: reading takes 4 times as long. Repeatable.",
        read=factors("server", "1=4"),
    )  # fmt: skip
    host: Mapping[int, str] | None = option(
        None, "A server set up wrongly, e.g. 1=no-gpudirect, or 1=wrong-numa (adapters of the other socket). Repeatable.",
        read=servers("1=no-gpudirect"),
    )  # fmt: skip
    uneven: bool = option(False, "Slower replicas get fewer micro-batches.")
    jitter: float = option(0.0, "Noise of kernels: 0.05 is about 5 %. Every rank by itself.")
    seed: int = option(0, "Seed of the noise.")
    fail: Mapping[int, float] | None = option(
        None, "A GPU that fails, e.g. RANK=0.8: after 0.8 s of the step it does nothing more.",
        read=factors("rank", "5=0.8"),
    )  # fmt: skip
    fail_link: Mapping[int, float] | None = option(
        None, "An adapter that fails, e.g. RANK=0.8: traffic goes over a neighbour's, or stops.",
        read=factors("rank", "5=0.8"),
    )  # fmt: skip
    watchdog: float | None = option(None, "Seconds a collective may hang before the run ends; default 600.")
    checkpoint_every: float = option(0.0, "Seconds between checkpoints, half of which a failure costs too.")
    force: bool = option(False, "Simulate a plan that does not fit the memory.")
    chakra: Path | None = option(None, "Write Chakra execution traces, one file a rank, to this directory.")
    save: Path | None = option(None, "File that keeps what every port carried, for podsim why.")


@dataclass(frozen=True, kw_only=True)
class WorkersOptions:
    """Data-parallel workers, of a model's plan or by numbers, and how they exchange gradients."""

    model: str = option(
        "", "A name that `podsim models` lists, or a config.json; none: by numbers.", argument=True
    )
    on: str = option("", "Cluster: dgx-a100:4, selene, or a TOML file.")
    gpus: int | None = like(JobOptions, "gpus")
    batch: int | str | None = like(JobOptions, "batch", "Sequences of a step of all workers.")
    tp: int = like(LayoutFields, "tp", "Tensor-parallel degree of a replica.")
    pp: int = like(LayoutFields, "pp", "Pipeline stages of a replica.")
    micro_batch: int = like(LayoutFields, "micro_batch")
    recompute: str = like(LayoutFields, "recompute")
    precision: Any = like(TrainedFields, "precision", "fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4.")
    software: str = like(TrainedFields, "software")
    compute: str | float = option("", "Instead of a model: seconds of a worker's step, 0.2.")
    gradients: str | float = option("", "Gradients that a worker sends, 500MB.")
    weights: str | float = option("", "Weights that it gets back; default as many bytes.")
    workers: int | None = option(None, "Number of workers; default the GPUs of --on.")
    samples: float | None = option(None, "Samples of a worker's step.")
    bandwidth: str | float = option("", "Bandwidth of a worker's adapter, e.g. 25GB/s.")
    latency: str | float = option("", "Latency of a push or a pull, e.g. 5us.")
    exchange: str = option(
        "bsp",
        "bsp (all-reduce), ps (servers, in step), ssp (bounded), async; local, diloco (weights, see --every).",
        choices=EXCHANGES,
    )
    staleness: int | None = option(
        None, "For ssp: rounds that the fastest worker may be ahead of the slowest."
    )
    servers: int | None = option(None, "Parameter servers; default 1.")
    server_bandwidth: str | float = option("", "Bandwidth of one server; default that of a node's adapters.")
    beside: bool = option(False, "Servers on the workers' machines share adapters.")
    hierarchical: bool = option(False, "Replicas of a node add up first: one worker.")
    every: int = option(1, "Steps between exchanges (local SGD).")
    overlap: float = option(0.0, "Share of a step's compute during which its gradients are already sent.")
    jitter: float = option(0.0, "Noise of a step: 0.1 is about 10 %.")
    slow: Mapping[int, float] | None = option(
        None,
        "A slow worker, e.g. 3=1.5: it takes 1.5 times as long. Repeatable.",
        read=factors("worker", "3=1.5"),
    )
    slow_link: Mapping[int, float] | None = option(
        None, "A slow adapter, e.g. 3=0.5: half its bandwidth. Repeatable.", read=factors("worker", "3=0.5")
    )
    throttle: Mapping[int, tuple[float, float]] | None = option(
        None, "A worker that grows hot, e.g. 3=1.3@60s: it tends to 1.3 times as long. Repeatable.",
        read=throttles("worker", "3=1.3@60s"),
    )  # fmt: skip
    steps: int = option(200, "Steps of each worker.")
    seed: int = option(0, "Seed of the noise.")
    to_loss: float | None = option(None, "Loss: which exchange reaches it first, and when.")
    curve: Path | None = option(
        None,
        "RUN.jsonl of `podsim train --save` whose losses count; default a model's law, or podsim's own small run.",
    )
    compare: bool = option(False, "All-reduce, and bounds of 0, 1, 2, 4, 8 and none.", flag="--compare")
    overrides: Mapping[str, str] | None = overrides_option("network.bandwidth=100Gb/s")
