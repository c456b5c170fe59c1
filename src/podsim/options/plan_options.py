"""Options of a plan, and of the questions about one: predict, plan, replay, launch.

A field of `LayoutFields` or `TrainedFields` is a field of `podsim.training.plan.Plan`, a keyword of Python functions,
an option of commands, and what a search may try: it is declared here, read by a law, and named nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from podsim.options.question import like, option, overrides_option, pairs
from podsim.records import MISSING, dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray  # a command's help shall not load numpy


Ints: TypeAlias = "int | NDArray[Any]"

RECOMPUTATIONS = ("none", "selective", "full")
SCHEDULES = (
    "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipe", "dualpipe-v", "breadth-first", "pipedream",
    "pipedream-2bw",
)  # fmt: skip
_MOST = 10_000


@dataclass(frozen=True, kw_only=True)
class LayoutFields:
    """How a model is laid out. None: it follows from the other fields, from the GPU or from the software."""

    SECTION: ClassVar[str] = "Layout"

    tp: Ints = option(
        1, "Tensor-parallel degree.", also=("tensor-parallel", "tensor-parallel-size", "tensor-model-parallel-size")
    )  # fmt: skip
    pp: Ints = option(
        1, "Pipeline stages.",
        also=("pipeline-parallel", "pipeline-stages", "pipeline-parallel-size", "pipeline-model-parallel-size"),
    )  # fmt: skip
    virtual_stages: Ints = option(1, "Model chunks per pipeline stage.", most=_MOST)
    dp: Any = option(
        None,
        "Data-parallel replicas; default what is left.",
        kind=int,
        also=("data-parallel", "data-parallel-size", "replicas"),
    )
    cp: Ints = option(1, "Context-parallel degree.", also=("context-parallel", "context-parallel-size"))
    ep: Ints = option(
        1, "Expert-parallel degree.", most=_MOST, also=("expert-parallel", "expert-model-parallel-size")
    )
    expert_tp: Any = option(
        None, "Tensor-parallel degree of experts; 0 is tp; default 1 with --ep where software folds them.",
        kind=int, least=0, most=_MOST, also=("etp", "expert-tensor-parallel-size", "expert-tensor-parallel"),
    )  # fmt: skip
    """The ranks that divide each expert. The ranks tp x cp x dp of a stage are regrouped as expert_tp x ep x replicas."""
    micro_batch: Ints = option(1, "Sequences of a micro-batch.", most=1024, also=("mbs", "micro-batch-size"))
    sequence_parallel: Ints = option(False, "Divide norms and residuals over the TP group.", also=("sp",))
    """Whether the TP group divides norms, dropouts and residuals (arXiv 2205.05198)."""
    zero: Ints = option(
        0, "ZeRO stage: 1 optimizer, 2 gradients, 3 weights (FSDP).", least=0, most=3, also=("zero-stage", "fsdp")
    )  # fmt: skip
    """The ZeRO level. The data-parallel group divides: 1 the optimizer, 2 also gradients, 3 also weights (FSDP)."""
    shard: Ints = option(0, "Ranks that ZeRO divides over; 0 is all of them, fewer is HSDP.", least=0)
    recompute: Any = option(
        "none",
        "Recomputation of activations: none, selective or full.",
        choices=RECOMPUTATIONS,
        also=("recomputation", "activation-checkpointing", "checkpointing"),
    )
    """The recomputation of activations: none, the attention core (selective; arXiv 2205.05198), whole layers."""
    recompute_layers: Ints = option(
        0, "Layers of a stage that full recomputation covers; 0 is all.", least=0, most=_MOST
    )
    schedule: Any = option(
        None, "gpipe, 1f1b, interleaved and others; `podsim schedule` lists them.", choices=SCHEDULES
    )
    flash: Any = option(None, "Fused attention.", kind=bool)
    """Whether fused attention never stores the scores (FlashAttention)."""
    overlap_grad: Any = option(None, "Reduce gradients during the backward pass.", kind=bool)
    overlap_param: Any = option(None, "Gather weights during the forward pass.", kind=bool)
    overlap_tp: Ints = option(False, "Overlap tensor-parallel collectives with GEMMs.")


@dataclass(frozen=True, kw_only=True)
class TrainedFields:
    """The fields that a search does not vary: precision, software and sequence."""

    SECTION: ClassVar[str] = "Training"

    precision: Any = option(
        None,
        "fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4; default bf16, or fp16 on GPUs without it.",
        also=("dtype", "mixed-precision"),
    )
    optimizer_precision: str = option("fp32", "Precision of the Adam moments: fp32, bf16, fp8.")
    software: Any = option(
        None,
        "Framework and its version; default one calibrated on the GPU. `podsim show software` lists them.",
    )
    capacity_factor: float = option(
        0.0,
        "Tokens that an expert takes over the mean, e.g. 1.25, the rest dropped; 0: it takes all.",
        also=("moe-expert-capacity-factor", "expert-capacity-factor", "moe-capacity-factor"),
    )
    """factor. The room of an expert over its mean share of tokens; 0: no limit."""
    imbalance: float = option(
        0.0,
        "Tokens of the busiest expert over the mean, e.g. 1.5; 0: the software's.",
        also=("expert-imbalance", "load-imbalance"),
    )
    """factor. The tokens of the busiest expert over the mean; 0: the software's."""
    sequence: int | str | None = option(
        None,
        "Tokens of a sequence, e.g. 4096 or 8k; default what the model was trained with.",
        kind=str,
        also=("seq", "seq-len", "seq-length", "sequence-length", "context", "context-length", "seqlen"),
    )


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """A model, the part of a cluster that it gets, and what is changed of both."""

    SECTION: ClassVar[str] = "Job"

    model: str = option(
        MISSING,
        "A name that `podsim models` lists, a config.json, or the folder it is in.",
        argument=True,
        example="llama-3.1-8b",
        complete="models",
    )
    on: str = option(
        MISSING,
        "GPU, system, cluster or TOML file: h100, dgx-h100:8 (nodes), selene, superpod-a100:2su.",
        example="h100",
        complete="clusters",
        also=("cluster", "system", "hardware", "machine", "gpu-type", "device"),
    )
    gpus: int | None = option(
        None, "GPUs of the job; default the whole cluster, or one node.",
        also=("gpu", "ngpus", "num-gpus", "n-gpus", "world-size", "nodes", "num-nodes", "nnodes"),
    )  # fmt: skip
    batch: int | str | None = option(
        None,
        "A step: 1024 sequences, or tokens, e.g. 4M; default about four million tokens.",
        kind=str,
        also=("global-batch", "global-batch-size", "batch-size", "gbs", "bs", "batch-tokens"),
    )
    train: str = option(
        "full", "What is trained: full, lora:16, qlora:16, frozen:20 (layers), dpo, dpo+lora:16."
    )
    overrides: Mapping[str, str] | None = overrides_option(
        "gpu.memory=64GB, network.bandwidth=100Gb/s, model.layers=12"
    )


@dataclass(frozen=True, kw_only=True)
class PlanOptions(TrainedFields, LayoutFields, JobOptions):
    """A plan as a user words it. None: it follows from the model and the machine."""

    micro_batch: Any = like(
        LayoutFields, "micro_batch", "Sequences of a micro-batch; default 1, on wafers the best.", default=None, kind=int
    )  # fmt: skip
    recompute: Any = like(
        LayoutFields, "recompute", "Recomputation: none, selective, full; default none, on wafers the best.", default=None
    )  # fmt: skip


def plan_file_option() -> Any:
    """The option that names a file with a plan."""
    return option(
        "", "Plan file: experiment.toml, plans.json#3 (the third) or a launch file. Other options change it."
    )


@dataclass(frozen=True, kw_only=True)
class FiledPlanOptions(PlanOptions):
    """A plan as a user words it, or as a file holds it."""

    model: str = like(JobOptions, "model", default="")
    on: str = like(JobOptions, "on", default="")
    plan: str = plan_file_option()


@dataclass(frozen=True, kw_only=True)
class TableFields:
    """The embedding tables of a recommender, and where they lie."""

    SECTION: ClassVar[str] = "Embedding tables"

    tables: Path | None = option(
        None, "Embedding tables, a TOML, CSV or Parquet file: rows, width, pooling, precision, skew.",
        also=("embeddings",), suffixes=(".toml", ".csv", ".parquet"),
    )  # fmt: skip
    placement: str = option(
        "",
        "Embedding tables: best (default), plain (whole), or some of TorchRec's ways, as table_wise,row_wise.",
        also=("sharding",),
    )
    servers: int = option(0, "CPU nodes used as parameter servers for embedding tables.")


@dataclass(frozen=True, kw_only=True)
class PredictOptions(FiledPlanOptions, TableFields):
    """A plan, and what a prediction says of it."""

    tokens: str | float | None = option(
        None, "Tokens to train, e.g. 300G or 1T: days, energy and money; default 20 a parameter, none for fine-tuning.",
        also=("train-tokens", "dataset"), example="1T",
    )  # fmt: skip
    days: str | float | None = option(
        None, "Days that the run may take: the tokens it trains in them, or whether --tokens are done by then.",
        also=("deadline", "max-days"), kind=str,
    )  # fmt: skip
    detail: str = option(
        "", "Full report: every op, its share of the roofline, its source.", choices=("", "ops"), bare="ops"
    )
    sparse: bool = option(
        False, "Weights pruned 2:4: forward products gain what was measured.", flag="--sparse"
    )
    measured: str = option("", "A measured step of this plan, e.g. 12.3s: corrects the prediction.")
    runs: Path | None = option(None, "CSV of measured runs, as for validate --rows: corrects the prediction.")
    price: str | float = option(
        "",
        "Price per GPU-hour: a name that `podsim cost` lists, or USD, e.g. 2.10.",
        also=("cost", "gpu-price"),
    )
    pue: float | None = option(None, "Power of the site over that of the machine (PUE).")
    carbon: float | None = option(None, "Carbon dioxide of electricity, kg per kWh.")


@dataclass(frozen=True, kw_only=True)
class FixedLayout:
    """The fields of a layout that a search leaves as they are given."""

    SECTION: ClassVar[str] = "Fixed in the search"

    tp: int | None = like(LayoutFields, "tp", default=None, kind=int)
    pp: int | None = like(LayoutFields, "pp", default=None, kind=int)
    virtual_stages: int | None = like(LayoutFields, "virtual_stages", default=None, kind=int)
    dp: int | None = like(LayoutFields, "dp", "Data-parallel replicas.")
    cp: int | None = like(LayoutFields, "cp", default=None, kind=int)
    ep: int | None = like(LayoutFields, "ep", default=None, kind=int)
    expert_tp: int | None = like(LayoutFields, "expert_tp")
    micro_batch: int | None = like(LayoutFields, "micro_batch", default=None, kind=int)
    sequence_parallel: bool | None = like(LayoutFields, "sequence_parallel", default=None, kind=bool)
    zero: int | None = like(LayoutFields, "zero", default=None, kind=int)
    recompute: str | None = like(LayoutFields, "recompute", default=None, kind=str)
    schedule: str | None = like(LayoutFields, "schedule", kind=str)


@dataclass(frozen=True, kw_only=True)
class SearchOptions(TrainedFields, FixedLayout, JobOptions):
    """A search among every legal plan; what an experiment file keeps."""

    objective: str = option(
        "time", "time, memory, cost or energy.", choices=("time", "memory", "cost", "energy")
    )
    top: int = option(5, "Layouts to show.")
    headroom: float | None = option(
        None, "Share of its memory that a plan leaves, or it is listed after those that do; default 0.08."
    )
    jobs: int = option(1, "Threads of the search; 0 for one a processor.")
    limit: Mapping[str, str | Sequence[object]] | None = option(
        None, "Restrict a field, e.g. tp=4,8 or zero=1. Repeatable.", read=pairs("tp=4,8")
    )
    save: str | Path | None = option(None, "Directory for plans, front, replay and launch files.", kind=Path)
    launch: Sequence[str] = option(
        (), "Launch file to write with --save: slurm, torchrun, kubernetes (default all three), megatron, …"
    )
    tokens: str | float | None = like(PredictOptions, "tokens")
    days: str | float | None = like(PredictOptions, "days")
    simulate: bool = option(False, "Simulate the plans that are shown, and rank them by that.")
    detail: str = like(PredictOptions, "detail")
    measured: str = option(
        "", "A measured step of the first plan, e.g. 12.3s, or of another, e.g. 12.3s@tp=8,pp=2: ranks again."
    )
    price: str | float = like(PredictOptions, "price")
    pue: float | None = like(PredictOptions, "pue")
    carbon: float | None = like(PredictOptions, "carbon")


@dataclass(frozen=True, kw_only=True)
class TargetOptions(SearchOptions, TableFields):
    """A search, or the batch and the GPUs that take a benchmark to its target."""

    to_target: bool = option(
        False,
        "MODEL is a benchmark of MLPerf Training: choose batch and GPUs for the least time, or money (--objective cost).",
        flag="--to-target",
    )
    round: str = option(
        "", "With --to-target: MLPerf's round, e.g. v4.1; default the last, or the machine's."
    )
