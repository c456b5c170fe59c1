"""Predictions for rows of kernels of inference engines, as aiconfigurator collects them.

A row names its GPU (`device`), its engine (`framework`), the engine's release and the source of its kernel; the other
columns are sizes. Rows of one kernel on one GPU are one call of a law. A row that no law covers keeps the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from podsim.accuracy.price_collectives import call_seconds, read_calls
from podsim.accuracy.price_kernels import LONG
from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Row, Rows
from podsim.axes import Floats
from podsim.errors import CatalogError, PodsimError
from podsim.hardware.catalog import load_gpu
from podsim.hardware.parts import Gpu
from podsim.kernels.engine_attention import MLA_DIMS, EngineAttention, decode_seconds, prefill_seconds
from podsim.kernels.engine_experts import EngineExperts, experts_seconds
from podsim.kernels.engine_run import EngineRun, precision_name
from podsim.kernels.engine_sums import EngineSum, sums_seconds
from podsim.kernels.gemm import gemm_seconds
from podsim.network.bus import bus_factor

Sizes = Mapping[str, Floats]
"""Column -> its numbers, shape (rows,)."""

_TYPES = ("gemm_dtype", "attn_dtype", "mla_dtype", "moe_dtype", "kv_cache_dtype")
_DEFAULTS = {
    "window_size": 0.0,
    "step": 0.0,
    "num_key_value_heads": 0.0,
    "moe_tp_size": 1.0,
    "moe_ep_size": 1.0,
}
"""Column -> what a blank cell means."""
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")


@dataclass(frozen=True, kw_only=True)
class EngineLaw:
    """How rows of one operation are predicted."""

    seconds: Callable[[Gpu, EngineRun, Sizes], Floats]
    """The law of the seconds, s of each row."""
    columns: tuple[str, ...]
    """The columns of its sizes; a blank one leaves a row without a prediction."""


def _gemm(gpu: Gpu, run: EngineRun, sizes: Sizes) -> Floats:
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    return gemm_seconds(gpu, m, n, k, precision=run.precision, layout="tn", kernel="engine")


COLUMNS: Mapping[str, tuple[str, ...]] = {
    "prefill": ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", "step"),
    "decode": ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "window_size", "step"),
    "mla-prefill": ("batch_size", "isl", "num_heads", "step"),
    "mla-decode": ("batch_size", "isl", "num_heads", "step"),
    "moe": (
        "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution",
    ),
    "all-reduce": ("num_gpus", "bytes"),
}  # fmt: skip
"""Law -> the columns of its sizes."""


def attention_shape(law: str, sizes: Sizes) -> EngineAttention:
    """The sizes of attention calls from the columns of their law."""
    batch, new, heads = sizes["batch_size"], sizes["isl"], sizes["num_heads"]
    same = np.ones_like(batch)
    if law.startswith("mla"):
        query, value, latent, latent_value = MLA_DIMS
        is_prefill = law == "mla-prefill"
        width, value = (query, value) if is_prefill else (latent, latent_value)
        return EngineAttention(
            batch=batch, queries=new, keys=new + sizes["step"], heads=heads, kv_heads=heads if is_prefill else same,
            head_dim=width * same, value_dim=value * same, window=0 * same,
        )  # fmt: skip
    kv_heads = np.where(sizes["num_key_value_heads"] > 0, sizes["num_key_value_heads"], heads)
    return EngineAttention(
        batch=batch, queries=new, keys=new + sizes["step"], heads=heads, kv_heads=kv_heads, head_dim=sizes["head_dim"],
        value_dim=sizes["head_dim"], window=sizes["window_size"],
    )  # fmt: skip


def engine_sum(ranks: Floats, sizes: Floats) -> EngineSum:
    """All-reduces of buffers of some sizes, B, over numbers of GPUs."""
    return EngineSum(ranks=ranks, bytes=sizes, bus=bus_factor("all_reduce", ranks))


def expert_shape(sizes: Sizes) -> EngineExperts:
    """The sizes of calls of experts from their columns."""
    return EngineExperts(
        tokens=sizes["num_tokens"], hidden=sizes["hidden_size"], inner=sizes["inter_size"], top=sizes["topk"],
        experts=sizes["num_experts"], tensor_parallel=sizes["moe_tp_size"], expert_parallel=sizes["moe_ep_size"],
        skew=sizes["distribution"],
    )  # fmt: skip


def _attention(law: str) -> EngineLaw:
    seconds = prefill_seconds if law.endswith("prefill") else decode_seconds
    return EngineLaw(
        columns=COLUMNS[law],
        seconds=lambda gpu, run, sizes: seconds(gpu, run, attention_shape(law, sizes), law=law),
    )


LAWS: Mapping[str, EngineLaw] = {
    "gemm": EngineLaw(seconds=_gemm, columns=("m", "n", "k")),
    "context_attention": _attention("prefill"),
    "generation_attention": _attention("decode"),
    **dict.fromkeys(("mla_context", "context_mla"), _attention("mla-prefill")),
    **dict.fromkeys(("mla_generation", "generation_mla"), _attention("mla-decode")),
    "all_reduce": EngineLaw(
        seconds=lambda gpu, run, sizes: sums_seconds(gpu, run, engine_sum(sizes["num_gpus"], sizes["bytes"])),
        columns=COLUMNS["all-reduce"],
    ),
    "moe": EngineLaw(
        seconds=lambda gpu, run, sizes: experts_seconds(gpu, run, expert_shape(sizes)), columns=COLUMNS["moe"]
    ),
}
"""Operation, as the column op_name names it -> its law."""


def engine_gpu(device: str) -> Gpu:
    """The GPU that a driver names, such as "NVIDIA H100 80GB HBM3"; CatalogError for another."""
    words = device.lower().removeprefix("nvidia ").replace("-", " ").split()
    family = words[0] if words else ""
    names = {"a100": "a100-sxm4-80gb", "h100": "h100-sxm5-80gb", "h200": "h200-sxm5-141gb"}
    if "40gb" in words and family == "a100":
        return load_gpu("a100-sxm4-40gb")
    if "pcie" in words:
        return load_gpu(f"{family}-pcie-80gb")
    return load_gpu(names.get(family, family))


def engine_run(row: Mapping[str, str]) -> EngineRun:
    """The engine, release, kernel and number formats of a row; PodsimError for a format that is not known."""
    formats = {column: precision_name(cell) for column in _TYPES if (cell := row.get(column, ""))}
    cache = formats.pop("kv_cache_dtype", "")
    return EngineRun(
        engine=row["framework"].lower(), release=row.get("version", ""), kernel=row["kernel_source"],
        precision=next(iter(formats.values()), "bf16"), cache=cache,
    )  # fmt: skip


def engine_product(row: Mapping[str, str]) -> dict[str, str]:
    """A row of an engine's product in the columns of podsim.kernels.measured_kernels; PodsimError as engine_run."""
    gpu = engine_gpu(row["device"]).name.lower()
    return {
        **row, "gpu": gpu, "device": gpu, "op": "gemm", "kernel": "gemm", "dtype": row["gemm_dtype"],
        "precision": engine_run(row).precision, "latency_ms": row["latency"], "batch": "",
    }  # fmt: skip


def price_engines(rows: Rows) -> Priced:
    """Predictions of seconds for the rows of kernels of engines."""
    predictions, reasons = _collectives(rows)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row.id not in predictions and row.id not in reasons:
            groups.setdefault(_group_of(row), []).append(row)
    for members in groups.values():
        try:
            seconds = group_seconds(members)
        except PodsimError as problem:
            reasons |= dict.fromkeys((row.id for row in members), str(problem))
            continue
        for row, value in zip(members, seconds.tolist(), strict=True):
            if np.isfinite(value):
                predictions[row.id] = value
            else:
                reasons[row.id] = "the row does not give all the sizes that its operation has"
    products = [row for row in rows if row.text("op_name") == "gemm"]
    return Priced(
        predictions=predictions, reasons=reasons, groups={row.id: _product_class(row) for row in products}
    )


def _product_class(row: Row) -> str:
    """Class of an engine's product: its GPU, number format and length."""
    length = LONG if (row.number("latency") or 0.0) > 0.02 else "up to 20 us"
    return f"{row.label(('device', 'gemm_dtype'))}, {length}"


def _group_of(row: Row) -> tuple[str, ...]:
    """What rows of one call of a law share."""
    columns = ("op_name", "device", "framework", "version", "kernel_source", "distribution", *_TYPES)
    return tuple(row.text(column) for column in columns)


def group_seconds(members: Sequence[Row]) -> Floats:
    """s of rows of one group, NaN where a size is blank; PodsimError with the reason if there is no law."""
    first = members[0]
    law = LAWS.get(first.text("op_name"))
    if law is None:
        raise PodsimError(f"operation {first.text('op_name')!r} is not modelled")
    try:
        gpu = engine_gpu(first.text("device"))
    except CatalogError as problem:
        raise PodsimError(f"device={first.text('device')[:60]!r}: {problem}") from None
    sizes = {column: numbers_of([row.text(column) for row in members], column) for column in law.columns}
    known = np.all([np.isfinite(values) for values in sizes.values()], axis=0)
    seconds = np.full(len(members), np.nan)
    if known.any():
        part = {column: values[known] for column, values in sizes.items()}
        seconds[known] = law.seconds(gpu, engine_run(first.fields), part)
    return seconds


def numbers_of(cells: Sequence[str], column: str) -> Floats:
    """Cells of a column, NaN where blank and there is no default; a distribution of tokens is its exponent, 0 if even."""
    if column == "distribution":
        return np.array([_skew(cell) for cell in cells])
    default = _DEFAULTS.get(column, np.nan)
    return np.array([float(cell) if cell else default for cell in cells])


def _skew(distribution: str) -> float:
    """The exponent of "power_law_1.2", 0 of an even distribution, NaN of what is no number."""
    if not distribution.startswith("power_law_"):
        return 0.0
    try:
        return float(distribution.removeprefix("power_law_"))
    except ValueError:
        return np.nan


def _collectives(rows: Rows) -> tuple[dict[str, float], dict[str, str]]:
    """(id -> seconds, id -> reason for none) of the collectives among the rows, all in one node."""
    stated = {row.id: row.text("reason") for row in rows if row.text("reason")}
    calls, reasons = read_calls({
        row.id: _collective_row(row)
        for row in rows
        if row.id not in stated and row.text("op_name") in _COLLECTIVES and row.text("kernel_source") == "NCCL"
    })  # fmt: skip
    seconds, failed = call_seconds(calls)
    return seconds, stated | reasons | failed


def _collective_row(row: Row) -> dict[str, str]:
    """The row with the columns of a collectives table; a thread for each GPU launches them."""
    try:
        gpu = engine_gpu(row.text("device")).name
    except CatalogError as problem:
        return {"reason": str(problem)}
    return {
        "gpu": gpu, "nodes": "1", "gpus": row.text("num_gpus"), "launch": "thread",
        "collective": row.text("op_name"), "size_bytes": row.text("bytes"), "nccl": row.text("version"),
        "in_switch": "no" if row.text("nccl_dtype") == "int8" else "",
    }  # fmt: skip
