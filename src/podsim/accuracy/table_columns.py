"""The columns of each kind of reference table: the type of their cells, and which columns a table must have.

Columns for readers hold a source's own names of its model, machine and software. `network`, `cluster` and `plan` hold
what podsim runs for a row, each a name and settings such as "gpt-22b layers=96"; `reason` says why there is nothing to
run. `tables` names the parts of podsim.accuracy.tables that hold the row. docs/measured-rows.md lists the columns that a
user's file needs.

Types of cells: text; role (calibrate, test, or broken: listed and never scored; another counts as test); count (a whole
number, 1 or more); positive (a number above 0); amount (a number, 0 or more). A blank cell says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

BLANK_WORDS = frozenset(("n/a", "na", "-", "--", "\u2013", "\u2014", "?", "unknown", "not stated", "null"))
"""The words, in lower case, that say as little as a blank cell."""


def is_blank(cell: str) -> bool:
    """Whether a cell states nothing."""
    return not cell or cell.strip().lower() in BLANK_WORDS or not cell.strip()


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of reference table."""

    name: str
    title: str
    cells: str
    """The lines of "type: name name …": a type of cells, and its columns, in file order."""
    required: tuple[str, ...]
    """The columns that a table of this kind must have."""
    measured: tuple[str, ...]
    """The columns of measurements; a table needs at least one of them."""
    what: str
    """The quantity compared by default."""
    sweep: tuple[str, ...]
    """The columns that define a sweep: rows equal in them do the same work and compete."""
    classes: tuple[str, ...]
    """The columns of the breakdown."""
    words: tuple[str, ...] = ()
    """The columns by which a table in its source's own words is known; () where those are canonical."""
    curated_as: str = ""
    """The kind of reference/curate.py that turns such a table into canonical rows."""
    plan: tuple[str, ...] = ()
    """The columns that tell the plans of a sweep apart: rows equal in them, too, repeat each other."""
    series: str = ""
    """The column that separates rows of one id; "" if ids are unique."""
    source: str = "source"
    """The column of the sources."""
    packaged: str = ""
    """The packaged file, as PACKAGE:NAME; "" is NAME.csv.gz of podsim.accuracy.tables."""

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The cell type of each column, in file order."""
        lines = (line.split(":") for line in self.cells.strip().splitlines())
        return {column: cell.strip() for cell, names in lines for column in names.split()}


_LLM = """
    role: role
    text: id source source_url_or_repo_path year model params_b layers hidden ffn_hidden heads kv_heads vocab
    count: seq_len
    text: moe_experts moe_topk gpu gpu_mem_gb
    count: n_gpus
    text: node_type interconnect tp pp virtual_pp dp cp ep zero_stage_or_fsdp seq_parallel micro_batch
    count: global_batch
    text: precision recompute framework
    positive: step_time_s tokens_per_s tokens_per_s_per_gpu tflops_per_gpu mfu hfu memory_gb
    text: confirmed dec_layers dec_seq_len network cluster plan scope chosen implied reason tables
"""
_VISION = """
    role: role
    text: id source path model framework task gpu n_gpus node_type precision batch_per_gpu seq_len
    positive: throughput
    text: unit
    positive: latency_ms time_to_train_h
    text: network cluster plan reason tables
"""
_MLPERF = """
    role: role
    text: id version submitter division system accelerator n_nodes accel_per_node
    count: n_accelerators
    text: benchmark framework
    count: global_batch
    text: batch_per_accel grad_accum seq_len n_runs n_logs_parsed n_success
    positive: minutes_score
    text: minutes_min minutes_max accel_hours converge_mean converge_unit
    positive: throughput_samples_s
    text: throughput_per_accel throughput_method throughput_logged median_step_s median_epoch_s eval_s_mean host_cpu
    text: interconnect host_networking path confirmed network cluster plan reason tables
"""
_KERNELS = """
    role: role
    text: id source path gpu op
    count: m n k batch heads kv_heads seq_len head_dim
    text: causal direction dtype
    positive: latency_ms tflops gb_per_s
    count: n_gpus message_bytes
    positive: bus_gb_per_s
    text: device kernel precision accumulate clock cluster launch nccl reason tables
"""
_COLLECTIVES = """
    role: role
    text: id source path system gpu
    count: nodes gpus
    text: nics collective algo proto
    count: size_bytes
    positive: time_us algbw_GBps busbw_GBps
    text: confirmed cluster_id cluster launch nccl sharp in_switch reason tables
"""
_ENGINES = """
    role: role
    text: id source framework version device op_name kernel_source
    count: m n k
    text: gemm_dtype
    count: batch_size isl num_heads
    amount: num_key_value_heads
    count: head_dim
    amount: window_size
    count: beam_width
    text: attn_dtype kv_cache_dtype mla_dtype
    amount: step
    count: tp_size
    text: moe_dtype
    count: num_tokens hidden_size inter_size topk num_experts moe_tp_size moe_ep_size
    text: distribution nccl_dtype allreduce_dtype
    count: num_gpus message_size
    text: implementation backend
    count: bytes
    positive: latency
    text: reason tables
"""
_MINUTES = """
    role: role
    text: id version submitter system accelerator
    count: nodes accel_per_node n_accelerators
    text: benchmark framework
    count: global_batch
    positive: batch_per_accel
    count: grad_accum
    amount: n_success
    positive: minutes_score samples
    text: source cluster reason tables
"""
_LOSSES = """
    role: role
    text: id setting
    positive: parameters
    text: counts
    positive: tokens batch_tokens learning_rate loss
    text: confirmed source tables
"""
_CONVERGENCE = """
    role: role
    text: id benchmark version
    positive: batch
    count: n_seeds
    positive: mean
    amount: sd
    text: unit source tables
"""
_BATCHES = """
    text: id name
    role: role
    text: study model data optimizer
    count: batch
    positive: steps
    text: metric
    positive: value
    text: notes source
"""
_FORMATS = """
    text: id
    role: role
    text: phase format baseline_format model metric
    positive: value baseline
    text: is_lower_better source licence
"""

KINDS = (
    Kind(
        name="llm",
        title="Training of language models",
        cells=_LLM,
        required=("network", "cluster", "plan"),
        words=("model", "seq_len", "gpu", "n_gpus"),
        curated_as="training",
        measured=("step_time_s", "tokens_per_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "memory_gb"),
        what="seconds per step",
        sweep=("model", "layers", "hidden", "heads", "seq_len", "gpu", "n_gpus", "global_batch"),
        classes=("tp", "pp"),
        plan=(
            "framework",
            "tp",
            "pp",
            "virtual_pp",
            "dp",
            "cp",
            "ep",
            "zero_stage_or_fsdp",
            "seq_parallel",
            "micro_batch",
            "recompute",
            "precision",
        ),
    ),
    Kind(
        name="vision",
        title="Training and inference of vision, language, speech and recommendation models",
        cells=_VISION,
        required=("network", "cluster", "plan"),
        words=("model", "task", "gpu", "n_gpus", "precision", "batch_per_gpu"),
        curated_as="networks",
        measured=("throughput", "latency_ms", "time_to_train_h"),
        what="samples/s",
        sweep=(),
        classes=("model",),
    ),
    Kind(
        name="mlperf",
        title="MLPerf Training",
        cells=_MLPERF,
        required=("network", "cluster", "plan"),
        measured=("minutes_score", "throughput_samples_s"),
        words=("benchmark", "accelerator", "n_accelerators", "global_batch", "throughput_samples_s"),
        curated_as="networks",
        what="samples/s",
        sweep=(),
        classes=("benchmark",),
        source="path",
    ),
    Kind(
        name="kernels",
        title="Kernels on one GPU",
        cells=_KERNELS,
        required=("gpu", "op", "dtype"),
        measured=("latency_ms", "tflops", "gb_per_s", "bus_gb_per_s"),
        what="seconds",
        sweep=(),
        classes=("op",),
    ),
    Kind(
        name="engines",
        title="Kernels of inference engines",
        cells=_ENGINES,
        required=("framework", "device", "op_name", "kernel_source"),
        measured=("latency",),
        what="seconds",
        sweep=(),
        classes=("device", "framework"),
    ),
    Kind(
        name="collectives",
        title="NCCL collectives",
        cells=_COLLECTIVES,
        required=("collective", "nodes", "gpus", "size_bytes"),
        measured=("time_us", "algbw_GBps", "busbw_GBps"),
        what="seconds",
        sweep=(),
        classes=("collective",),
        series="size_bytes",
    ),
    Kind(
        name="minutes",
        title="MLPerf Training: minutes to the target",
        cells=_MINUTES,
        required=("version", "benchmark", "accelerator", "n_accelerators", "global_batch"),
        measured=("minutes_score",),
        what="seconds to train",
        sweep=(),
        classes=("benchmark",),
    ),
    Kind(
        name="losses",
        title="Losses of language models by parameters and tokens",
        cells=_LOSSES,
        required=("setting", "parameters", "tokens"),
        measured=("loss",),
        what="nats",
        sweep=(),
        classes=("setting",),
        packaged="podsim.learning:losses.csv.gz",
    ),
    Kind(
        name="convergence",
        title="MLPerf Training: samples to the target by batch",
        cells=_CONVERGENCE,
        required=("benchmark", "version", "batch", "unit"),
        measured=("mean",),
        what="samples to a target",
        sweep=(),
        classes=("benchmark",),
        packaged="podsim.learning:convergence.csv",
    ),
    Kind(
        name="batch-steps",
        title="Steps to a target by batch",
        cells=_BATCHES,
        required=("name", "batch", "metric"),
        measured=("steps",),
        what="steps to a target",
        sweep=(),
        classes=("name",),
        packaged="podsim.learning:batch_published.csv",
    ),
    Kind(
        name="formats",
        title="Results of networks by number format",
        cells=_FORMATS,
        required=("phase", "format", "baseline", "is_lower_better"),
        measured=("value",),
        what="result in a metric",
        sweep=(),
        classes=("format", "phase"),
        packaged="podsim.learning:format_pairs.csv",
    ),
)
