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
    train: str = like(
        JobOptions, "train", "What is trained: full, or frozen:20 (the first 20 layers are not)."
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
