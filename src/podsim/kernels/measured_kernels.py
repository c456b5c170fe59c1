"""Rows of measured kernels, as arrays: the CSV that constants are fitted from.

Columns: role, source, gpu, op, m, n, k, batch, heads, kv_heads, seq_len, head_dim, causal, direction, dtype,
latency_ms, tflops; others are ignored, and blank is "does not apply". The packaged rows name GPU, op and number format
as podsim does in device, kernel and precision; accumulate is "yes" where the result is added to an fp32 matrix, and clock
"sustained" for long runs. A time is
latency_ms, or follows from tflops, which counts 2 m n k for products and, for attention, half the pairs under a causal
mask and 3.5 times the forward pass for "fwd+bwd" (2.5 for "bwd"). Rows of another role than "calibrate" are left out.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from podsim.axes import Floats
from podsim.errors import TableError

_OPS = {"matmul": "gemm", "prefill attention": "prefill"}
"""what users call a kernel -> its name here"""
_COLUMNS = ("gpu", "op", "dtype")
_TIMES = {"fwd": 1.0, "bwd": 2.5, "fwd+bwd": 3.5}


@dataclass(frozen=True, kw_only=True)
class KernelRows:
    """Measured kernels: arrays of shape (R,), one value per row; a size that does not apply is NaN."""

    gpu: npt.NDArray[np.str_]
    op: npt.NDArray[np.str_]
    """The op: gemm, bmm; triton, flash1, flash2, flash3; prefill (serving attention); otherwise as in the table."""
    precision: npt.NDArray[np.str_]
    source: npt.NDArray[np.str_]
    direction: npt.NDArray[np.str_]
    """The direction: fwd, bwd, fwd+bwd; blank for products."""
    causal: npt.NDArray[np.bool_]
    accumulate: npt.NDArray[np.bool_]
    """Whether the result is added to an fp32 matrix."""
    sustained: npt.NDArray[np.bool_]
    """Whether the row is of a long run, at the clock that power leaves."""
    m: Floats
    n: Floats
    k: Floats
    batch: Floats
    heads: Floats
    kv_heads: Floats
    tokens: Floats
    """The number of tokens of one sequence."""
    head_dim: Floats
    seconds: Floats
    id: npt.NDArray[np.str_]
    """The id of the row in its table; blank if it has none."""

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.seconds)

    def take(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> KernelRows:
        """Rows chosen by a mask or by indices."""
        return KernelRows(**{f.name: getattr(self, f.name)[which] for f in fields(self)})


def same_gpu(name: str) -> str:
    """Catalog name of a GPU as a table calls it."""
    return name.strip().lower()


def read_rows(path: Path) -> KernelRows:
    """Rows of a .csv or .csv.gz file; TableError, with all of them, for cells that cannot be read."""
    raw = path.read_bytes()
    text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    return kernel_rows(csv.DictReader(io.StringIO(text.decode("utf-8"))), where=path.name)


def kernel_rows(rows: Iterable[Mapping[str, str]], where: str = "rows") -> KernelRows:
    """Rows given as mappings of column to text, those with a time and the role "calibrate" (or none)."""
    problems: list[str] = []
    kept = []
    for line, row in enumerate(rows, start=2):
        missing = [c for c in _COLUMNS if c not in row]
        if missing:
            raise TableError(f"{where}: columns {', '.join(missing)} are missing; found {', '.join(row)}")
        if row.get("role", "calibrate") not in ("calibrate", ""):
            continue
        try:
            read = _read(row)
        except ValueError as error:
            problems.append(f"line {line}: {error}")
            continue
        if math.isfinite(read["seconds"]) and read["seconds"] > 0:
            kept.append(read)
    if problems:
        raise TableError(f"{where}: " + "; ".join(problems[:20]))
    kinds = {"gpu": str, "op": str, "precision": str, "source": str, "direction": str, "causal": bool,
             "accumulate": bool, "sustained": bool, "id": str}  # fmt: skip
    names = [f.name for f in fields(KernelRows)]
    return KernelRows(**{n: np.array([r[n] for r in kept], dtype=kinds.get(n, float)) for n in names})


def _read(row: Mapping[str, str]) -> dict[str, Any]:
    """One row: numbers as floats, names as the catalog has them."""

    def number(column: str) -> float:
        cell = (row.get(column) or "").strip()
        try:
            return float(cell) if cell else math.nan
        except ValueError:
            raise ValueError(f"{column}={cell[:40]!r} is not a number") from None

    op, direction, causal = (
        _op(row),
        row.get("direction") or "",
        (row.get("causal") or "no") in ("yes", "true", "1"),
    )
    sizes = {c: number(c) for c in ("m", "n", "k", "batch", "heads", "kv_heads", "head_dim")}
    tokens = number("seq_len")
    batch = 1.0 if math.isnan(sizes["batch"]) else sizes["batch"]
    if op in ("gemm", "bmm"):
        work = 2 * batch * sizes["m"] * sizes["n"] * sizes["k"]
    else:
        work = 4 * batch * sizes["heads"] * tokens**2 * sizes["head_dim"]
        work *= (0.5 if causal else 1.0) * _TIMES.get(direction, math.nan)
    latency, rate = number("latency_ms") * 1e-3, number("tflops") * 1e12
    seconds = latency if not math.isnan(latency) else (work / rate if rate > 0 else math.nan)
    return {
        "gpu": row.get("device") or same_gpu(row["gpu"]), "op": op,
        "precision": row.get("precision") or row["dtype"].split(" ", maxsplit=1)[0],
        "source": row.get("source") or "unnamed", "id": row.get("id") or "", "direction": direction, "causal": causal,
        "accumulate": row.get("accumulate") == "yes", "sustained": row.get("clock") == "sustained",
        "tokens": tokens, "seconds": seconds,
        **sizes, "batch": batch,
    }  # fmt: skip


def _op(row: Mapping[str, str]) -> str:
    """Name of the op: labels of the same kernel become one."""
    op = row["op"].strip().lower()
    flash = re.fullmatch(r"(?:attention )?flash(?:attention)?-?([123])", op)
    return row.get("kernel") or (f"flash{flash[1]}" if flash else _OPS.get(op, op))
