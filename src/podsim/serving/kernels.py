"""Seconds of inference kernels: the laws of training kernels, with the fusion and compression of an engine.

Products follow the law alone, without the correction of a GPU's measured grid. A slice has no such grid, and one law must
compare a GPU with its slices. An int8 product has the constants of a 16-bit one, with the peak and the ceiling of int8:
the kernel law's int8 table rests on calls of TensorRT-LLM, with a latency of 11 us and 82 us for split-k. A compiled
engine's kernels have neither. A 2:4 sparse product has the sparse peak, and reads half of the weights and two bits for
the position of each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from podsim.axes import Floats
from podsim.errors import PlanError
from podsim.hardware.parts import Gpu
from podsim.kernels.attention import Algorithm, AttentionShape, attention_seconds
from podsim.kernels.constants import GemmConstants, gemm_constants, kernel_constants
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.gemm import gemm_law, is_aligned, operand_bytes, peak_of
from podsim.workload.model import TensorOp

_WHOLE = 512
"""The number of tokens up to which TensorRT's kernels hold all keys of a head (plugin/bertQKVToContextPlugin)."""

_LAW = {"int8": "fp16"}
"""formats whose table holds the calls of a framework -> the format whose constants, but for the ceiling, stand in"""


def runs_on(gpu: Gpu, precision: str, sparse: bool) -> Gpu:
    """The GPU with the peaks of its products: the sparse ones if `sparse`.

    Raises PlanError where the GPU has no such arithmetic.
    """
    if not sparse:
        peak_of(gpu, precision)
        return gpu
    if precision not in gpu.sparse_peaks:
        has = ", ".join(gpu.sparse_peaks) or "none"
        raise PlanError([f"{gpu.name} has no 2:4 sparse {precision} products; it has {has}"])
    return replace(gpu, peaks=gpu.sparse_peaks)


def weight_bytes(precision: str, sparse: bool) -> float:
    """B of one stored weight of a product; half for 2:4 sparse ones, with two bits for each position."""
    width = operand_bytes(precision)
    return width / 2 + 0.125 if sparse else width


class Moved(NamedTuple):
    """What a product reads and writes."""

    read: npt.ArrayLike | None = None
    """count. The elements of the input that are read; m k if None."""
    result: float | None = None
    """B. The size of an element of the result; the operands' own width, at least 2, if None."""
    more: npt.ArrayLike = 0.0
    """B. The further bytes that are read, such as a residual."""


OPERANDS = Moved()


def product_constants(gpu: Gpu, precision: str) -> GemmConstants:
    """Constants of an engine's products in the precision: no start of a framework, the format's own ceiling."""
    fitted = kernel_constants(gpu)
    own, _ = gemm_constants(fitted, precision)
    return replace(gemm_constants(fitted, _LAW.get(precision, precision))[0], ceiling=own.ceiling)


def product_seconds(
    gpu: Gpu,
    m: npt.ArrayLike,
    n: float,
    k: float,
    *,
    precision: str,
    sparse: bool = False,
    batch: npt.ArrayLike = 1.0,
    moved: Moved = OPERANDS,
) -> Floats:
    """Seconds of `batch` products of m x k inputs by k x n weights: the shape of m and batch together."""
    machine = runs_on(gpu, precision, sparse)
    width = operand_bytes(precision)
    rows, copies = (np.atleast_1d(column).astype(float) for column in np.broadcast_arrays(m, batch))
    columns, depth = np.full_like(rows, n), np.full_like(rows, k)
    inputs = rows * k if moved.read is None else np.broadcast_to(np.asarray(moved.read, float), rows.shape)
    read = width * inputs + weight_bytes(precision, sparse) * n * k + np.asarray(moved.more, float)
    constants = product_constants(gpu, precision)
    aligned = is_aligned(rows, columns, depth, width, "tn")
    return gemm_law(
        constants,
        (gpu.sms, peak_of(machine, precision), gpu.memory_bandwidth),
        (rows, columns, depth, copies),
        widths=(read / (k * (rows + n)), max(width, 2.0) if moved.result is None else moved.result),
        aligned=None if aligned.all() else aligned,
        grouped=True,
    )


def is_single_block(gpu: Gpu, tokens: float) -> bool:
    """Whether an encoder's attention runs in one thread block for each head of a sequence."""
    return tokens <= _WHOLE and gpu.compute_capability >= 7.5


def core_seconds(gpu: Gpu, op: TensorOp, batch: Floats, tokens: float, precision: str) -> Floats:
    """Seconds of one layer's attention core, an op, over whole sequences of `tokens`.

    An encoder's sequences of up to 512 tokens run in a kernel with one thread block for each head of each sequence:

        max(batch x heads / SMs, 1) x work of a head / peak of an SM

    which the engine's `attention_speed` divides (it is the share of an SM's peak that the block reaches).  All others
    run in the fused kernel that the GPU has, before compute capability 7.5 in batched products.
    """
    value_dim = op.value_dim or op.head_dim
    if not op.causal and is_single_block(gpu, tokens):
        work = 2.0 * tokens**2 * (op.head_dim + value_dim)
        return np.maximum(batch * op.heads, gpu.sms) * work / peak_of(gpu, precision)
    fused = gpu.compute_capability >= 7.5
    algorithm: Algorithm = ("flash2" if gpu.compute_capability >= 8 else "flash1") if fused else "unfused"
    shape = AttentionShape(
        batch=batch, heads=op.heads, kv_heads=op.kv_heads or op.heads, queries=tokens, keys=tokens,
        head_dim=op.head_dim, value_dim=value_dim, causal=op.causal, window=op.window,
    )  # fmt: skip
    return attention_seconds(gpu, shape, precision=precision, algorithm=algorithm)


def moved_seconds(gpu: Gpu, moved: npt.ArrayLike) -> Floats:
    """Seconds of a kernel that only moves a number of bytes."""
    return memory_seconds(gpu, np.atleast_1d(np.asarray(moved, float)))
