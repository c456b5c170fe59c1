"""Options about graphs of ops: capture, cost, execution traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from podsim.options.plan_options import JobOptions, TableFields, TrainedFields
from podsim.options.question import like, option, overrides_option


@dataclass(frozen=True, kw_only=True)
class CaptureOptions:
    """A module of PyTorch to be captured."""

    module: str = option(
        MISSING,
        "FILE.py:FUNCTION; the function gives a torch.nn.Module, or (module, inputs).",
        argument=True,
    )
    input: Sequence[str] | None = option(
        None,
        "Shape of an input: 8x3x224x224, 8x128:int64; B for the samples: any batch. Repeat for each argument.",
        many=True,
    )
    out: Path | None = option(None, "Write the graph to this JSON file.")


@dataclass(frozen=True, kw_only=True)
class GraphOptions(TableFields):
    """A graph of ops, and the GPUs that run it."""

    file: str = option(
        MISSING,
        "A name of `podsim show networks`, what `podsim capture` wrote, or FILE.py:FUNCTION.",
        argument=True,
    )
    on: str = option(MISSING, "A GPU (a100-sxm4-80gb) or a cluster (dgx-a100-80gb:2).")
    input: Sequence[str] | None = like(CaptureOptions, "input")
    batch: int | None = option(None, "Samples of a step on a GPU, where the graph is one for any batch.")
    gpus: int | None = option(
        None, "Replicas, their gradients reduced in buckets; default the whole cluster."
    )
    devices: int = option(1, "Devices that the graph is divided over.")
    tolerance: float = option(0.1, "Share by which a device may exceed the mean work.")
    precision: str | None = option(None, "fp32, tf32, fp16, bf16; default bf16, or fp16 on GPUs without it.")
    sparse: bool = option(
        False, "Weights pruned 2:4: forward products gain what was measured.", flag="--sparse"
    )
    optimizer: str = option("sgd", "sgd (with momentum), adam or none.")
    software: str = like(TrainedFields, "software", default="dle-pytorch")
    fuse: str = option("none", "none (eager), attention, chains (element-wise ops), all.")
    layout: str = option(
        "channels-last", "channels-last, or channels-first: convolutions on tensor cores convert then."
    )
    loader: str = option(
        "", "Loader of images: dali, native or synthetic (no loading); default that of the software's runs."
    )
    chakra: Path | None = option(None, "Write a Chakra trace of each replica: PREFIX.RANK.et.")
    timeline: Sequence[Path] = option(
        (), "Simulate the step, write FILE.pftrace or .json (Perfetto), .html, .png, .svg. Repeatable."
    )
    overrides: Mapping[str, str] | None = overrides_option("gpu.memory_bandwidth=3TB/s")
    detail: str = option("", "`ops` lists every op.")


@dataclass(frozen=True, kw_only=True)
class ShardOptions:
    """A model or graph, the GPUs that it is divided over, and annotations."""

    model: str = option(
        MISSING,
        "A name of `podsim models`, a config.json, what `podsim capture` wrote, or FILE.py:FUNCTION.",
        argument=True,
        example="llama-3.1-8b",
        complete="models",
    )
    on: str = like(JobOptions, "on")
    gpus: int | None = like(JobOptions, "gpus")
    annotate: Sequence[str] = option(
        (),
        "Axes that divide a tensor, dimension by dimension, e.g. mlp.up=,tensor; default: podsim looks for them. "
        "Repeatable.",
        many=True,
        also=("annotation", "annotations", "sharding", "spec"),
    )
    mesh: str = option("", "Axes of GPUs, outermost first, e.g. data=8,tensor=8; default the best of all.")
    batch: int | None = option(
        None, "Samples or sequences of a step on all GPUs; default one sequence, or 64 samples, a GPU.",
        also=("global-batch", "batch-size", "gbs"),
    )  # fmt: skip
    sequence: int | str | None = like(TrainedFields, "sequence")
    capacity_factor: float = option(
        1.0, "Tokens that an expert takes over the mean of all; what exceeds it is dropped."
    )
    input: Sequence[str] | None = like(CaptureOptions, "input")
    precision: str | None = option(None, "fp32, tf32, fp16, bf16; default bf16, or fp16 on GPUs without it.")
    optimizer: str = option("", "sgd, adam, lamb or none; default adam for language models, else sgd.")
    software: str = like(TrainedFields, "software", default="")
    overrides: Mapping[str, str] | None = overrides_option("gpu.memory=64GB, model.layers=12")
    detail: str = option("", "`ops` lists every op.", choices=("", "ops"), bare="ops")


@dataclass(frozen=True, kw_only=True)
class ChakraOptions:
    """Execution traces, one file a rank."""

    traces: Sequence[Path] = option(
        MISSING, "Chakra traces, plain or gzip, one for each rank.", argument=True
    )
    out: Path | None = option(None, "Write what is left: OUT.RANK.et for each file.")
    on: str = option("", "Simulate them on the fabric of this cluster: dgx-a100:2.")
    overrides: Mapping[str, str] | None = overrides_option("network.bandwidth=100Gb/s")
    algo: str = option(
        "ring", "All-reduces of the simulation: ring, tree, double-tree, …; nccl: its law, for all."
    )
    timeline: Sequence[Path] = like(
        GraphOptions,
        "timeline",
        "Write the simulation: FILE.pftrace or .json (Perfetto), .html, .png, .svg. Repeatable.",
    )
