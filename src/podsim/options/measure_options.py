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
from podsim.options.step_options import SimulateOptions


@dataclass(frozen=True, kw_only=True)
class RanksOptions:
    """The processes of a run, and the file that keeps it."""

    ranks: int | None = option(None, "Processes; default 4, under torchrun its own.")
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
class MeasureRanksOptions(RanksOptions):
    """Ranks that are timed alone and in pairs."""

    save: Path | None = like(RanksOptions, "save", "File that keeps the run, for podsim verify --pairs.")
    size: str | float = option("4MiB", "Bytes of a message between two ranks.")


@dataclass(frozen=True, kw_only=True)
class MeasureDdpOptions(RanksOptions):
    """Steps of DistributedDataParallel that are timed."""

    layers: int = option(8, "Layers of the network.")
    size: str | float = option("2.1MB", "Gradients of a layer, a bucket of its own.")
    forward: str | float = option("10ms", "Pause that stands for a layer's forward pass.")
    backward: str | float = option("20ms", "Pause that stands for its backward pass.")
    slow: Mapping[int, float] | None = option(
        None,
        "A slow rank, e.g. 3=1.5: its pauses are 1.5 times as long. Repeatable.",
        read=factors("rank", "3=1.5"),
    )
    overlap: bool = option(True, "Add gradients up during the backward pass.")
    all_reduce: str = option("library", "Collective that adds them up: library, ring, FILE.py:FUNCTION.")
    steps: int = option(5, "Steps that are timed.")


@dataclass(frozen=True, kw_only=True)
class MeasureHostOptions(RanksOptions):
    """This machine, and how long it is measured."""

    ranks: int | None = like(RanksOptions, "ranks", "Processes busy at once; default one a GPU, else 8.")
    timeout: float = like(RanksOptions, "timeout", default=300.0)
    save: Path | None = like(RanksOptions, "save", "Write the catalog entry to this .toml file.")
    name: str = option("", "Name of the entry; default the machine's own.")
    folder: Path = option(Path(), "Folder on the disk that is measured.")
    size: str = option("1G", "Size of fio's file, as fio writes it.")
    seconds: float = option(0.3, "Seconds for each kernel.")
    disk: bool = option(True, "Measure the disk with fio.")
    images: bool = option(True, "Train ResNet-50, too, for podsim verify.")


@dataclass(frozen=True, kw_only=True)
class MeasureCheckpointOptions:
    """A checkpoint that is written and read."""

    to: str = option(
        MISSING, "Folder, or URL: s3://bucket/folder. Nothing stays in it.", flag="--to", argument=True
    )
    size: str | float = option("256MB", "Bytes of the whole checkpoint: 2GB.")
    ranks: int | None = like(RanksOptions, "ranks")
    read: bool = option(True, "Read it back, too.")
    repeats: int = option(3, "Number of repeats; the median counts.")
    block: str | float = option("1MiB", "Bytes that a rank writes or reads at once.")
    writer: str = option("files", "files (one a rank) or dcp (torch.distributed.checkpoint).")
    timeout: float = like(RanksOptions, "timeout", default=600.0)
    save: Path | None = like(RanksOptions, "save")


@dataclass(frozen=True, kw_only=True)
class MeasureLoaderOptions:
    """Samples that are read."""

    source: str = option(MISSING, "Folder, or URL: s3://bucket/folder. Each file is a sample.", argument=True)
    epochs: int = option(3, "Passes over the samples.")
    workers: int = option(2, "Processes that read.")
    cache: Path | None = option(None, "Folder that fsspec keeps samples in.")
    cache_kind: str = option("file", "file (whole samples) or block.")
    batch: int = option(32, "Samples of a step.")
    step_time: str | float = option("0", "Time of an emulated accelerator's step: 50ms. 0: read only.")
    model: str = option("", "resnet: train a small network on the samples.")
    make: str = option("", "First make samples: 1000x150KB.")
    keep_page_cache: bool = option(
        False, "Keep the page cache; by default it is dropped before each epoch.", flag="--keep-page-cache"
    )
    seed: int = option(0, "Seed of the order of the samples.")
    save: Path | None = like(RanksOptions, "save")


@dataclass(frozen=True, kw_only=True)
class MeasureServingOptions:
    """A server, and the requests that it gets."""

    loads: str = option("30%,60%,80%", "Loads: shares of the rate that the server can answer.")
    requests: int = option(2000, "Requests of each load.")
    input_tokens: str = option(
        "uniform:16:128", "Tokens of a prompt: 64, uniform:LOW:HIGH, lognormal:MEAN:CV."
    )
    output_tokens: str = option("uniform:4:32", "Tokens of an answer, in the same forms.")
    arrivals: str = option("poisson", "poisson, even, gamma:CV, bursts:ON:OFF (e.g. bursts:10s:30s).")
    sequences: int = option(16, "Sequences at once.")
    budget: int = option(128, "Tokens of a step.")
    layers: int = option(4, "Layers of the network.")
    hidden: int = option(256, "Width of the network.")
    tries: int = option(2, "Runs at a load, until other programs take at most 5 % of the processors.")
    url: str = option("", "Instead: a server of others, http://HOST:PORT, with OpenAI's /v1/completions.")
    model: str = option("", "Model that requests to --url name.")
    rate: str = option("", "Requests to --url, e.g. 5/s.")
    clients: int = option(0, "Instead of --rate: clients that each wait for their answer.")
    seed: int = option(0, "Seed of lengths and arrivals.")
    save: Path | None = like(RanksOptions, "save")


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
class MeasureTablesOptions:
    """Embedding tables on parameter servers, and the workers that train on them."""

    tables: str = option(
        "criteo-small",
        "Tables: criteo-small, criteo-40m, criteo-multi-hot, outbrain or a .csv, .toml, .parquet file.",
        argument=True,
    )
    servers: int = option(2, "Parameter servers, each a process.")
    workers: int = option(2, "Workers, each a process.")
    steps: int = option(50, "Steps in all, with those before a resumption.")
    batch: int = option(256, "Samples of a step of all workers.")
    cache: str = option("5%", "Share of its rows that a server caches in memory; the others are in a file.")
    exchange: str = option("sync", "sync (all workers' gradients make one update) or async.")
    rows: int = option(100_000, "Most rows of a table; larger tables are cut.")
    width: int = option(16, "Elements of a row; 0: those of the tables, which must be equal.")
    rate: float = option(0.05, "Learning rate of Adagrad.")
    data: Path | None = option(
        None, "Clicks: FILE.csv or FILE.parquet with label, I1…, C1…; default made by the tables' skew."
    )
    folder: Path | None = option(
        None, "Folder on the drive that holds the servers' rows; default a temporary one."
    )
    checkpoint: Path | None = like(TrainOptions, "checkpoint", "Folder of the checkpoint; the last is kept.")
    every: int = like(TrainOptions, "every")
    resume: bool = like(TrainOptions, "resume")
    seed: int = option(0, "Seed of the first weights and of the clicks.")
    timeout: float = like(RanksOptions, "timeout", "Seconds after which podsim gives up on a silent process.")
    save: Path | None = option(None, "File that keeps the run.")


@dataclass(frozen=True, kw_only=True)
class EmulateOptions:
    """A cluster of network namespaces, and what runs on it."""

    cluster: str = option(MISSING, "Cluster: dgx-a100:2, or a TOML file.", argument=True)
    command: Sequence[str] = option(
        MISSING,
        "After --: what every rank runs, as under torchrun.",
        metavar="-- COMMAND...",
        argument=True,
    )
    scale: str = option("1/1000", "Share of the cluster's bandwidths: 1/500.")
    per: str = option("gpu", "gpu or server: what is one process.")
    save: Path | None = option(None, "File that keeps what every port carried, for podsim why.")
    slow_link: Mapping[int, float] | None = like(SimulateOptions, "slow_link")
    flap: Mapping[int, float] | None = like(SimulateOptions, "flap")
    swap: Mapping[int, float] | None = like(SimulateOptions, "swap")
    slow_disk: Mapping[int, float] | None = like(
        SimulateOptions, "slow_disk", "A slow disk, e.g. RANK=4: checkpoints take 4 times as long. Repeatable.",
        read=factors("rank", "1=4"),
    )  # fmt: skip
    overrides: Mapping[str, str] | None = overrides_option("network.bandwidth=100Gb/s")


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """A run that was measured, and where."""

    run: Path = option(
        MISSING,
        "A file that --save of podsim measure or train wrote, or a benchmark of servers.",
        argument=True,
    )
    on: str = option(
        "", "Cluster or storage that it ran on, or a TOML file; an emulated run knows its cluster."
    )
    cache_on: str = option("", "Storage that a loader's cache is on; default local-nvme.")
    overrides: Mapping[str, str] | None = like(EmulateOptions, "overrides")
    plan: str = plan_file_option()


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


@dataclass(frozen=True, kw_only=True)
class WhyOptions:
    """The record of a run, and the port that is asked about."""

    run: Path = option(
        MISSING,
        "A record of --save of podsim simulate or emulate, or counters and traces of a real run: a file or a folder.",
        argument=True,
    )
    link: str = option("", "A port, or a pattern: node0/nic3, leaf2>*. Default: where traffic met.")
