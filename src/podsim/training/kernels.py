"""Seconds of one kernel on one GPU, from its own shape (first version: roofline with wave quantisation)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from podsim.hardware.parts import Gpu

__all__ = [
    "Algorithm",
    "Direction",
    "Layout",
    "attention_seconds",
    "gemm_seconds",
    "gemm_source",
    "memory_seconds",
    "optimizer_seconds",
]

Floats = npt.NDArray[np.float64]
Layout = Literal["nn", "nt", "tn"]
Algorithm = Literal["unfused", "flash1", "flash2", "flash3"]
Direction = Literal["forward", "backward"]

_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "int4": 0.5}


def gemm_seconds(
    gpu: Gpu,
    m: npt.ArrayLike,
    n: npt.ArrayLike,
    k: npt.ArrayLike,
    *,
    batch: npt.ArrayLike = 1,
    precision: str = "bf16",
    layout: Layout = "nn",
) -> Floats:
    """Seconds of `batch` products of an m x k matrix by a k x n one; arguments broadcast."""
    m, n, k, batch = (np.asarray(x, float) for x in (m, n, k, batch))
    width = _BYTES[precision]
    waves = np.ceil(np.ceil(m / 128) * np.ceil(n / 128) * batch / gpu.sms)
    arithmetic = waves * gpu.sms * 2 * 128 * 128 * (k + 128) / (0.87 * gpu.peaks[precision])
    moved = batch * (m * k + k * n + m * n) * width / (0.85 * gpu.memory_bandwidth)
    return np.asarray(np.maximum(arithmetic, moved) + 3e-6)


def gemm_source(gpu: Gpu, m: float, n: float, k: float, precision: str = "bf16") -> str:
    """Where the figure of gemm_seconds comes from: measured, interpolated, law or extrapolated."""
    return "law"


def attention_seconds(
    gpu: Gpu,
    *,
    batch: npt.ArrayLike,
    heads: npt.ArrayLike,
    kv_heads: npt.ArrayLike,
    queries: npt.ArrayLike,
    keys: npt.ArrayLike,
    head_dim: npt.ArrayLike,
    value_dim: npt.ArrayLike,
    causal: bool,
    algorithm: Algorithm = "flash2",
    direction: Direction = "forward",
    precision: str = "bf16",
    window: int = 0,
    dropout: bool = False,
    fused_softmax: bool = True,
) -> Floats:
    """Seconds of the attention core (QK^T, softmax, AV) of one layer; arguments broadcast."""
    b, a, q, s, d, v = (np.asarray(x, float) for x in (batch, heads, queries, keys, head_dim, value_dim))
    share = {"unfused": 1.0, "flash1": 0.4, "flash2": 0.6, "flash3": 0.7}[algorithm]
    work = 2 * b * a * q * s * (d + v) * (0.5 if causal and algorithm != "unfused" else 1.0)
    work = work * (2.5 if direction == "backward" else 1.0)
    seconds = work / (share * gpu.peaks[precision]) + 5e-6
    if algorithm == "unfused":
        passes = (4 if fused_softmax else 20) + (5 if dropout else 0)
        seconds = seconds + b * a * q * s * passes / (0.85 * gpu.memory_bandwidth)
    return np.asarray(seconds + 0 * np.asarray(kv_heads, float))


def memory_seconds(gpu: Gpu, bytes_: npt.ArrayLike) -> Floats:
    """Seconds of a memory-bound kernel that moves `bytes_` (reads and writes together)."""
    return np.asarray(np.asarray(bytes_, float) / (0.85 * gpu.memory_bandwidth) + 3e-6)


def optimizer_seconds(gpu: Gpu, parameters: npt.ArrayLike, bytes_per_parameter: npt.ArrayLike) -> Floats:
    """Seconds of an optimizer update that reads and writes `bytes_per_parameter` for each parameter."""
    return memory_seconds(gpu, np.asarray(parameters, float) * np.asarray(bytes_per_parameter, float))
