"""Options of what runs for real: measure, train, emulate, compare, verify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from podsim.options.plan_options import (
    JobOptions,
    LayoutFields,
    TrainedFields,
    plan_file_option,
)
from podsim.options.question import factors, like, option, overrides_option


@dataclass(frozen=True, kw_only=True)
class RanksOptions:
    """The processes of a run, and the file that keeps it."""

    ranks: int | None = option(None, "Processes; default one a core, from 2 to 8; under torchrun its own.")
    backend: str = option("auto", "auto, gloo or nccl.")
    timeout: float = option(60.0, "Seconds after which podsim gives up on a silent rank.")
    save: Path | None = option(None, "File that keeps the run, for podsim compare.")


@dataclass(frozen=True, kw_only=True)
class MeasureCollectiveOptions(RanksOptions):
    """A collective that is run and timed."""

    collective: str = option(
        "all-reduce",
        "all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all, send-recv, gather, scatter.",
        argument=True,
    )
    local: int | None = option(None, "Ranks of a server; default up to 8.")
    algo: str = option("all", "all, library, or names with commas: ring,tree,FILE.py:FUNCTION.")
    sizes: str = option("64K:1M:4", "FIRST:LAST:FACTOR (or +STEP), as nccl-tests.")
    iters: int = option(20, "Calls that are timed, one after the other.")
    warmup: int = option(1, "Calls before; the first is checked.")
    limit: float = option(10.0, "Seconds that timed calls may take; fewer are made then.")
    in_place: bool = option(True, "Run it within one buffer, too.")
    apart: bool = option(
        False, "One call at a time, ranks starting together; for podsim compare.", flag="--apart"
    )


@dataclass(frozen=True, kw_only=True)
class TrainOptions(RanksOptions):
    """A small network, its plan, and how it is trained."""

    plan: str = plan_file_option()
    model: str = option(
        "gpt-tiny",
        "gpt-tiny, another GPT of `podsim models` or a config.json; resnet-8, -18, -20.",
        argument=True,
    )
    train: str = like(JobOptions, "train", "What is trained: full, lora:16 or frozen:2 (layers).")
    ranks: int | None = like(
        RanksOptions, "ranks", "Processes; default what the plan needs, under torchrun its own."
    )
    batch: int = option(16, "Samples of a step of all replicas.")
    tp: int = like(LayoutFields, "tp")
    pp: int = like(LayoutFields, "pp")
    dp: int | None = like(LayoutFields, "dp")
    ep: int = like(LayoutFields, "ep")
    capacity_factor: float = like(TrainedFields, "capacity_factor")
    virtual_stages: int = like(LayoutFields, "virtual_stages")
    micro_batch: int | None = like(
        LayoutFields,
        "micro_batch",
        "Samples of a micro-batch; default 1, as in predict; all of a replica's for a residual network.",
        default=None,
    )
    schedule: str | None = like(LayoutFields, "schedule")
    sequence_parallel: bool = like(LayoutFields, "sequence_parallel")
    zero: int = like(LayoutFields, "zero")
    shard: int = like(LayoutFields, "shard")
    recompute: str = like(LayoutFields, "recompute")
    overlap_grad: bool | None = like(LayoutFields, "overlap_grad")
    sequence: int | None = like(TrainedFields, "sequence")
    overrides: Mapping[str, str] | None = overrides_option("model.layers=4")
    all_reduce: str = option(
        "library", "Collective that adds gradients up: library, ring, tree, FILE.py:FUNCTION."
    )
    precision: str = option(
        "fp32",
        "Operands of products are rounded to it: fp32, tf32, bf16, fp16, fp8, mxfp8, mxfp6, mxfp4, nvfp4; several "
        "with commas run one after the other.",
        also=("dtype",),
    )
    loss_scale: str = option("none", "Factor on the loss: none, 1024, 2^16, dynamic; several with commas.")
    seeds: int = option(1, "Runs of each precision, with the seeds from --seed on.")
    exchange: str = option(
        "bsp", "bsp (all-reduce), ps (server, in step), ssp (bounded), async; local or diloco (weights)."
    )
    staleness: int | None = option(
        None, "For ssp: steps that the fastest replica may be ahead of the slowest."
    )
    slow: Mapping[int, float] | None = option(
        None,
        "A slow replica, e.g. 3=1.5: it takes 1.5 times as long. Repeatable.",
        read=factors("worker", "3=1.5"),
    )
    steps: int = option(20, "Steps in all, with those before a resumption.")
    local_steps: int = option(1, "For local and diloco: steps of a replica between exchanges of weights.")
    optimizer: str = option("adamw", "adamw, sgd, lars or lamb.")
    rate: float | None = option(
        None, "Learning rate, after the warm-up; default 0.003 for adamw, 0.1 sgd, 10 lars, 0.03 lamb."
    )
    warmup: int = option(0, "Steps in which the learning rate grows from 0.")
    base_batch: int | None = option(
        None, "Batch that --rate is for; --batch gets the rate that --rate-rule gives."
    )
    rate_rule: str = option(
        "auto", "auto (linear for sgd and lars, sqrt for adamw and lamb), linear, sqrt, none."
    )
    prune_at: int = option(0, "Steps after which weights are pruned 2:4, then trained on; 0: never.")
    test_samples: int = option(0, "Samples on which accuracy is measured, before and after; 0: none.")
    noise_scale: bool = option(
        False, "Measure the gradient noise scale, for podsim scale batch.", flag="--noise-scale"
    )
    seed: int = option(0, "Seed of the first weights and of the data.")
    data: str = option(
        "synthetic", "synthetic; a text file; a folder of images with a folder for each class."
    )
    image: int = option(32, "Pixels of a side of an image.")
    classes: int = option(10, "Classes of synthetic images.")
    metrics: Path | None = option(
        None, "Log a line for each step as it ends: FILE.jsonl or .csv.", suffixes=(".jsonl", ".csv")
    )
    checkpoint: Path | None = option(None, "Folder of checkpoints.")
    every: int = option(0, "Steps between checkpoints; 0: one at the end.")
    keep: int = option(0, "Checkpoints that are kept; 0: all.")
    resume: bool = option(False, "Go on from the last checkpoint, if there is one.", flag="--resume")


@dataclass(frozen=True, kw_only=True)
class VerifyOptions:
    """A machine, and what it should be."""

    expect: str = option(
        MISSING, "The expected machine: dgx-a100-80gb, a TOML file, or what `measure host` wrote."
    )
    only: str = option(
        "", "inventory, health, storage, metadata, network, ranks, training; with commas, default all."
    )
    folder: Path = option(Path(), "Folder on the storage that is judged.")
    storage: str = option("local-nvme", "Expected storage: local-nvme, or a storage system, weka-ra:1.")
    ranks: int | None = option(None, "Processes; default one a GPU, else the expected node's, up to 8.")
    sizes: str = option("256K:64M:4", "Sizes of the all-reduce, FIRST:LAST:FACTOR.")
    size: str = option("1G", "Size of fio's file, as fio writes it.")
    seconds: float = option(5.0, "Seconds of each run of fio.")
    fio: Sequence[Path] = option((), "JSON of fio to judge instead of running it. Repeatable.")
    mdtest: Path | None = option(None, "What mdtest printed.")
    pairs: Path | None = option(None, "What `measure ranks` kept, of several machines.")
    health: Sequence[Path] = option(
        (), "What `nvidia-smi -q`, perfquery or ibqueryerrors printed, instead of asking. Repeatable."
    )
    earlier: Sequence[Path] = option(
        (), "What `verify --json` printed of this machine before, the last run last. Repeatable."
    )
    run: Path | None = option(None, "What `measure collective --algo library --save` kept.")
    root: Path = option(Path("/"), "Root of the machine's file systems.")
