"""Predictions for rows of a kernel table: matrix products, attention cores, and collectives in a node.

The packaged constants were fitted to products and batches of products on GPUs with many measured sizes. These rows are
predicted by a five-fold cross-validation, each fold by a fit to the others. If a source timed each call on the host's
clock, the predicted time includes the host's time of a call. If attention was timed in a serving program, it includes
the write of keys and values to the cache. The packaged constants predict all other rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from podsim.accuracy.held_out import held_out_seconds
from podsim.accuracy.price_collectives import call_seconds, decade, read_calls
from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Row, Rows
from podsim.errors import PodsimError
from podsim.hardware.catalog import load_gpu
from podsim.hardware.parts import Gpu
from podsim.kernels.attention import AttentionShape, attention_seconds
from podsim.kernels.fit_products import is_engine_timed
from podsim.kernels.gemm import GemmKernel, gemm_seconds
from podsim.kernels.measured_kernels import KernelRows, kernel_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


LONG = "over 20 us"
"""class of products that take long enough for their own time to matter"""
_ENOUGH = {"gemm": 300, "bmm": 50, "prefill": 300}
"""Kernel -> the least number of rows in one precision on one GPU for a cross-validation."""
_CROSS = "five-fold cross-validation"
_NOTES = {
    "gemm": _CROSS,
    "bmm": _CROSS,
    "prefill": f"{_CROSS}: with the write of keys and values to a paged cache",
}
"""Kernel -> the note of a row whose time is held out."""
_PRODUCTS = ("gemm", "bmm", "gemm, best of a search")


def price_kernels(rows: Rows, *, cross_validate: bool = True) -> Priced:
    """Predictions of seconds, or of a rate by the row's own count of work, for the rows of a kernel table."""
    seconds, reasons = _collective_seconds(rows)
    reasons |= {row.id: row.text("reason") for row in rows if row.text("reason")}
    known = modelled_rows(rows)
    known = known.take(~np.isin(known.op, _PRODUCTS) | np.isfinite(known.m * known.n * known.k))
    notes: dict[str, str] = {}
    for where in kernel_groups(known):
        part = known.take(where)
        ids = part.id.tolist()
        try:
            part_seconds, note = _part_seconds(part, cross_validate)
        except PodsimError as problem:
            reasons |= dict.fromkeys(ids, str(problem))
            continue
        seconds |= dict(zip(ids, part_seconds.tolist(), strict=True))
        notes |= dict.fromkeys(ids, note) if note else {}
    measured = dict(zip(known.id.tolist(), known.seconds.tolist(), strict=True))
    values: dict[str, float] = {}
    for row in rows:
        value = seconds.get(row.id, float("nan"))
        if np.isfinite(value):
            values[row.id] = _requested_value(rows.what, row, value, measured)
        else:
            reasons.setdefault(row.id, "the row gives neither a time nor the sizes that one follows from")
    groups = {row.id: _group(rows, row, measured) for row in rows}
    return Priced(predictions=values, reasons=reasons, notes=notes, groups=groups)


def modelled_rows(rows: Rows) -> KernelRows:
    """The rows that state a modelled kernel and its time."""
    texts = [row for row in rows if not (row.text("reason") or _is_collective(row))]
    return kernel_rows([{**row.fields, "id": row.id, "role": "calibrate"} for row in texts], where=rows.name)


def _is_collective(row: Row) -> bool:
    return row.text("op").lower().startswith("nccl ")


def kernel_groups(known: KernelRows) -> list[NDArray[np.intp]]:
    """Positions of rows of one kernel on one GPU."""
    columns = (
        known.gpu, known.op, known.precision, known.direction, known.causal, known.accumulate, known.sustained,
    )  # fmt: skip
    groups: dict[tuple[Any, ...], list[int]] = {}
    for position, key in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        groups.setdefault(key, []).append(position)
    return [np.array(members) for members in groups.values()]


def _part_seconds(part: KernelRows, cross_validate: bool) -> tuple[NDArray[np.float64], str]:
    """(seconds of rows of one kernel on one GPU, a note); PodsimError with the reason if there is no law."""
    op, precision = str(part.op[0]), str(part.precision[0])
    gpu = replace(load_gpu(str(part.gpu[0])), is_sustained=bool(part.sustained[0]))
    if cross_validate and is_held_out(part):
        known = held_out_seconds()
        if all(id in known for id in part.id.tolist()):
            return np.array([known[id] for id in part.id.tolist()]), _NOTES[op]
    if op not in _PRODUCTS:
        return _attention_seconds(part, gpu)
    kernel: GemmKernel = (
        "accumulating" if part.accumulate[0] else "engine" if is_engine_timed(part).all() else "plain"
    )
    seconds = gemm_seconds(
        gpu, part.m, part.n, part.k, batch=part.batch, precision=precision, layout="tn", kernel=kernel
    )
    return seconds, ""


def is_held_out(part: KernelRows) -> bool:
    """Whether rows of one kernel on one GPU are so many that constants were fitted to them: folds predict them."""
    is_many = len(part) >= _ENOUGH.get(str(part.op[0]), math.inf)
    return is_many and not (part.accumulate[0] or (part.sustained[0] and part.op[0] == "gemm"))


def _attention_seconds(part: KernelRows, gpu: Gpu) -> tuple[NDArray[np.float64], str]:
    """Seconds of attention cores; forward and backward where the row measured both."""
    op, note = str(part.op[0]), ""
    if op == "prefill":
        algorithm = "flash3" if gpu.compute_capability >= 9 else "flash2"
        note = "serving: paging of keys and values is not modelled"
    elif op.startswith("flash"):
        algorithm = op
    else:
        raise PodsimError(f"kernel {op!r} is not modelled")
    directions = {"fwd": ("forward",), "bwd": ("backward",), "fwd+bwd": ("forward", "backward")}
    shape = AttentionShape(
        batch=part.batch, heads=part.heads, kv_heads=part.kv_heads, queries=part.tokens, keys=part.tokens,
        head_dim=part.head_dim, value_dim=part.head_dim, causal=bool(part.causal[0]),
    )  # fmt: skip
    seconds = np.zeros(len(part))
    for direction in directions.get(str(part.direction[0]), ("forward",)):
        seconds = seconds + attention_seconds(
            gpu, shape, algorithm=algorithm,  # type: ignore[arg-type]
            direction=direction, precision=str(part.precision[0]),  # type: ignore[arg-type]
        )  # fmt: skip
    return seconds, note


def _collective_seconds(rows: Rows) -> tuple[dict[str, float], dict[str, str]]:
    """(id -> seconds, id -> reason for none) of the collectives of a kernel table, all in a node."""
    calls, reasons = read_calls({row.id: _collective_row(row) for row in rows if _is_collective(row)})
    seconds, failed = call_seconds(calls)
    return seconds, reasons | failed


def _collective_row(row: Row) -> dict[str, str]:
    """The row with the columns of a collectives table; all are of one node."""
    return {
        **row.fields, "nodes": "1", "gpus": row.text("n_gpus"), "size_bytes": row.text("message_bytes"),
        "collective": row.text("op").split(" ", maxsplit=1)[1],
    }  # fmt: skip


def _requested_value(what: str, row: Row, seconds: float, measured: Mapping[str, float]) -> float:
    """Seconds, or a rate with the work that the row's own rate and time imply."""
    if what != "FLOP/s per GPU":
        return seconds
    return (row.number("tflops") or 0.0) * 1e12 * measured[row.id] / seconds


def _group(rows: Rows, row: Row, measured: Mapping[str, float]) -> str:
    """Class of a row: the table's columns; products of a grid also by length, collectives by decade of size."""
    label = row.label(rows.classes)
    if rows.name.startswith("gemm") and row.id in measured:
        return f"{label}, {LONG if measured[row.id] > 20e-6 else 'up to 20 us'}"
    if rows.name.startswith("all-reduce"):
        return decade(row.number("message_bytes") or 1.0)
    return label
