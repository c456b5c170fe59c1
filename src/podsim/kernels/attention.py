"""Seconds of the attention core: softmax(Q K^T) V for one layer, without the projections.

Fused ("flash") kernels: thread blocks of 128 queries walk over the keys.

    work of a block  = (keys it passes + fill) x 128 queries
    arithmetic       = max(all work / SMs + tail x longest block, longest block) / (peak of an SM x share)
    bytes            = Q, K, V, O once each (forward), and their gradients (backward)
    seconds          = (arithmetic^3 + bytes^3)^(1/3) + latency

Under a causal mask a block passes half the keys and half its own diagonal. The backward pass makes five
products where the forward pass makes two, at its own share and fill.
Known error: the constants come from the bar labels of the FlashAttention-2 and -3 figures (A100, H100,
forward and backward, heads of 64 and 128, 512 to 16 k tokens): median 1 % for flash2, 3 % for flash3, 5 % for
flash1, which was drawn only forward and backward together. 490 serving (prefill) kernels per GPU follow
the same shape to 2 % (A100) and 4 % (H100), once a factor (they are 9 to 13 % slower) and the write of keys and
values to a paged cache (1.4 to 1.8 times their bytes, and 6 to 7 ns a token) are fitted. Heads of 64 to 128 are
interpolated, others held; heads wider than 128, and few heads with few tokens, were hardly measured. flash3 backward
was not: see the note in its file.

Unfused: two batched products (four backward) by the GEMM law over all query-key pairs, masked or not, and the
passes of scale, mask, softmax and dropout over the scores as memory-bound kernels.
Known error: PyTorch bars of the same figures, both directions, with the passes of dropout: median 7 %, at
most 34 %, without a mask; 20 % (A100) and 25 % (H100) too fast with one, added in passes of its own there.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from podsim.axes import Floats
from podsim.errors import PlanError, raise_all, unknown_name
from podsim.hardware.parts import Gpu
from podsim.kernels.constants import FlashConstants, kernel_constants
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.gemm import gemm_seconds, operand_bytes, peak_of, positive
from podsim.records import dataclass

Algorithm = Literal["unfused", "triton", "flash1", "flash2", "flash3"]
Direction = Literal["forward", "backward"]

_QUERIES = 128.0
"""queries of a thread block"""
_HEAD_STEP = 32.0
"""kernels are built for head widths in these steps, and pad to the next"""
_LATENCY = 4e-6
"""s of an empty kernel; a backward pass is three kernels, of which two are short"""
_NEEDS = {"triton": 7.5, "flash1": 7.5, "flash2": 8.0, "flash3": 9.0}
"""compute capability that an algorithm needs (README of Dao-AILab/flash-attention)"""
_OLDER = {"flash3": "flash2", "flash2": "flash1"}


def fused_algorithm(gpu: Gpu, wanted: str) -> str:
    """The fused kernel that runs on the GPU: the wanted one, or flash1 or flash2 where the GPU is too old for it."""
    while gpu.compute_capability < _NEEDS.get(wanted, 0.0) and wanted in _OLDER:
        wanted = _OLDER[wanted]
    return wanted


@dataclass(frozen=True, kw_only=True)
class AttentionShape:
    """Sizes of the attention core of one layer, which broadcast."""

    batch: npt.ArrayLike
    heads: npt.ArrayLike
    kv_heads: npt.ArrayLike
    queries: npt.ArrayLike
    keys: npt.ArrayLike
    head_dim: npt.ArrayLike
    value_dim: npt.ArrayLike
    causal: bool
    """Whether a query sees the keys before it only: half of them on average, also where `queries` are a rank's share of
    a sequence that is dealt out evenly (context parallelism)."""
    window: int = 0
    """The most keys that a query sees; 0 for no limit. Unfused attention computes all of them."""


def attention_seconds(
    gpu: Gpu,
    shape: AttentionShape,
    *,
    algorithm: Algorithm = "flash2",
    direction: Direction = "forward",
    precision: str = "bf16",
    dropout: bool = False,
    fused_softmax: bool = True,
) -> Floats:
    """Seconds of one direction of the attention core of one layer on the GPU.

    `dropout` and `fused_softmax` (Megatron-LM's fused
    scale-mask-softmax, or separate passes of which most are in fp32) concern unfused attention; fused kernels
    draw their dropout in registers.

    Raises PlanError for sizes that are not positive, an unknown word, a precision the GPU has not, and an
    algorithm that does not run on it. Law, source and known error: module docstring.
    """
    peak = peak_of(gpu, precision)
    causal, window = shape.causal, shape.window
    _check(gpu, algorithm, direction, window)
    sizes = positive(batch=shape.batch, heads=shape.heads, kv_heads=shape.kv_heads, queries=shape.queries,
                     keys=shape.keys, head_dim=shape.head_dim, value_dim=shape.value_dim)  # fmt: skip
    if algorithm != "unfused":
        fitted = kernel_constants(gpu).flash
        if not fitted:
            raise PlanError(f"no fused attention was measured on {gpu.name}: take a plan with flash=false")
        # triton was drawn on the A100 alone, and TPUs have one kernel
        constants = fitted.get(algorithm) or fitted.get("flash1") or fitted["flash2"]
        machine = (float(gpu.sms), peak, gpu.memory_bandwidth * kernel_constants(gpu).memory.share)
        seconds = flash_law(constants, machine, sizes, causal=causal, window=window,
                            backward=direction == "backward", width=operand_bytes(precision))  # fmt: skip
        b, h, _, q, s, d, v = sizes
        pairs = b * h * q * (_mean_keys(s, window) if causal or window else s)
        products = pairs * (3 * d + 2 * v if direction == "backward" else d + v)
        return np.asarray(np.maximum(seconds, 2 * products / peak))
    return _unfused_seconds(gpu, sizes, direction, precision, score_passes(direction, fused_softmax, dropout))


def _check(gpu: Gpu, algorithm: str, direction: str, window: int) -> None:
    problems = []
    if algorithm not in get_args(Algorithm):
        problems.append(unknown_name("attention algorithm", algorithm, get_args(Algorithm)))
    elif gpu.compute_capability < _NEEDS.get(algorithm, 0.0):
        runs = [a for a in get_args(Algorithm) if gpu.compute_capability >= _NEEDS.get(a, 0.0)]
        problems.append(
            f"{algorithm} needs compute capability {_NEEDS[algorithm]}; {gpu.name} has"
            f" {gpu.compute_capability} and runs {', '.join(runs)}"
        )
    if direction not in get_args(Direction):
        problems.append(unknown_name("direction", direction, get_args(Direction)))
    if window < 0:
        problems.append(f"window={window} must be zero (none) or more")
    raise_all(problems, PlanError)


def _mean_keys(keys: Floats, window: int) -> Floats:
    """Keys that a query sees on average under a causal mask, of a whole sequence."""
    if not window:
        return keys / 2
    inside = np.minimum(keys, float(window))
    return np.asarray(inside - inside * inside / (2 * keys))


def flash_law(
    constants: FlashConstants,
    machine: tuple[float, float, float],
    sizes: list[Floats],
    *,
    causal: bool,
    window: int = 0,
    backward: bool = False,
    width: float = 2.0,
) -> Floats:
    """Seconds of a fused kernel by the law alone.

    `machine` is (SMs, peak FLOP/s, achieved memory B/s); `sizes` are batch, heads, kv_heads, queries, keys,
    head_dim, value_dim, which broadcast; `width` is B per element.
    """
    c = constants
    sms, peak, bandwidth = machine
    b, h, hk, q, s, d, v = sizes
    wide = np.clip(np.log2(d) - 6.0, 0.0, 1.0)
    share = c.share_64 * (c.share_128 / c.share_64) ** wide
    fill, products = c.fill, _padded_width(d) + _padded_width(v)
    if backward:
        share = share * c.backward_64 * (c.backward_128 / c.backward_64) ** wide
        fill, products = c.backward_fill, 3 * _padded_width(d) + 2 * _padded_width(v)
    longest = s if not window else np.minimum(s, window + _QUERIES)
    mean = longest
    if causal:
        mean = np.minimum(_mean_keys(s, window) + _QUERIES / 2, longest)
    blocks = b * h * np.ceil(q / _QUERIES)
    passed = np.maximum(blocks * (mean + fill) / sms + c.tail * (longest + fill), longest + fill)
    arithmetic = passed * (2 * _QUERIES * products * sms / (peak * share))
    tensors = 2.5 if backward else 1.0  # Q, O, dQ (fp32, added to), dO; K, V, dK, dV
    moved = tensors * width * b * (q * h + s * hk) * (d + v)
    return np.asarray((arithmetic**3 + (moved / bandwidth) ** 3) ** (1 / 3) + _LATENCY)


def _padded_width(head_dim: Floats) -> Floats:
    return np.asarray(np.ceil(head_dim / _HEAD_STEP) * _HEAD_STEP)


def score_passes(direction: Direction, fused_softmax: bool, dropout: bool) -> tuple[float, ...]:
    """B per score that each memory-bound kernel of unfused attention moves, two bytes per score in memory.

    Fused: read and write scores (forward); read the gradient and the probabilities, write the gradient
    (backward). Separate, as Megatron-LM does without its fused kernel: to fp32, scale, mask, softmax, back to
    16 bits; and the same again backward. Dropout reads and writes scores and a mask of one byte.
    """
    if fused_softmax:
        passes: tuple[float, ...] = (4.0,) if direction == "forward" else (6.0,)
    elif direction == "forward":
        passes = (6.0, 8.0, 9.0, 8.0, 6.0)
    else:
        passes = (6.0, 12.0, 9.0, 8.0, 6.0)
    return (*passes, 5.0) if dropout else passes


def _unfused_seconds(
    gpu: Gpu, sizes: list[Floats], direction: str, precision: str, passes: tuple[float, ...]
) -> Floats:
    """Batched products over all query-key pairs, and the passes over the scores."""
    b, h, _, q, s, d, v = np.broadcast_arrays(*sizes)
    products = (
        [(q, s, d), (q, v, s)] if direction == "forward" else [(s, v, q), (q, s, v), (q, d, s), (s, d, q)]
    )
    sides = (np.stack(side) for side in zip(*products, strict=True))
    seconds = gemm_seconds(gpu, *sides, batch=b * h, precision=precision).sum(axis=0)
    scores = b * h * q * s * max(operand_bytes(precision) / 2, 1.0)
    moved = np.multiply.outer(np.array(passes), scores)
    return np.asarray(seconds + memory_seconds(gpu, moved).sum(axis=0))
