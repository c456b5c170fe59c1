"""Seconds of a matrix product, from its own shape.

    seconds = smooth maximum of (arithmetic, bytes read) + result written + latency

Batches of products run in kernels of their own, of which libraries keep fewer: their tiles fill the waves of one grid, k
is not split over thread blocks (a block may halve it among its warps), they reach a share of the ceiling, and a block
waits for its operands at each step of k, longer where they come from memory:

    arithmetic of a batch = max(waves, k / 32 x (step + step_far beyond the L2 cache), arithmetic / (batched x ceiling))

- arithmetic: the grid of output tiles runs in waves over the SMs; a wave takes (k + fill) multiply-adds per
  element of a tile at the tile's share of an SM's peak. The best of nine tile shapes and eight ways to split
  k counts, as a library's heuristic would choose, and nothing beats `ceiling` x peak, which is where power
  and clock hold.
- bytes: operands once, at the achieved bandwidth, with a start-up of some hundred kB to some MB; the result
  with the share of its time that the main loop does not hide; the partial sums of split-k.
- correction: where a grid of sizes was measured, what the law leaves over is smoothed over log2 of the sizes
  (a kernel of 0.35 octaves in m and n, 0.5 in k) and interpolated; it is held constant outside the grid, and
  is left out for batches and for a GPU whose number of SMs is not within 5 %.

Known error: five-fold cross-validation in the evidence of each catalog file; A100, kernels over 20 us: median
3 %, mean 4 % (law alone 4 % and 6 %); batches of products with the host's time of a call: median 7 %, mean 9 % on
A100, 3 % and 5 % on V100. Sizes a library has no well-tuned kernel for (k = 32 to 256 with large m, n) are off by
up to 30 %. The measured kernels are short bursts; training for hours runs up to a tenth slower (power, other software).
That factor is the caller's: multiply the result by it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from podsim.axes import Floats
from podsim.errors import PlanError, check_name, raise_all
from podsim.hardware.parts import PRECISIONS, Gpu
from podsim.kernels.constants import GemmConstants, gemm_constants, kernel_constants
from podsim.kernels.gemm_correction import Correction
from podsim.kernels.systolic import systolic_law

Layout = Literal["nn", "nt", "tn"]
GemmKernel = Literal["plain", "accumulating", "grouped", "engine"]

_TILE_M = np.array([256, 128, 128, 256, 64, 128, 64, 64, 32], float)
_TILE_N = np.array([128, 256, 128, 64, 256, 64, 128, 64, 64], float)
_SPLITS = np.array([1, 2, 3, 4, 6, 8, 16, 32], float)
_K_STEP = 32.0
"""depth of k that a tile takes in at once"""
_CHUNK = 2048
"""shapes at a time: intermediate arrays stay in the processor's cache"""

_OPERAND = {
    "fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0,
    "fp8": 1.0, "int8": 1.0, "int4": 0.5, "mxfp8": PRECISIONS["mxfp8"].bytes, "nvfp4": PRECISIONS["nvfp4"].bytes,
    "fp8_block": 1.0, "int8_wo": 2.0, "int4_wo": 2.0,
}  # fmt: skip
PRECISION_NAMES = tuple(_OPERAND)
"""The precisions of products."""
_WEIGHT = {"int8_wo": 1.0, "int4_wo": 0.5}
"""formats of weights alone, whose arithmetic has 16 bits -> B of a weight"""
_ARITHMETIC = {"fp8_block": "fp8", "int8_wo": "fp16", "int4_wo": "fp16"}
"""formats of engines only -> the number format that they are multiplied in"""


def operand_bytes(precision: str) -> float:
    """B of one element of the input, its scales included; PlanError for an unknown precision."""
    check_name("precision", precision, _OPERAND, PlanError)
    return _OPERAND[precision]


def result_bytes(precision: str) -> float:
    """B of one element of a product's result; narrower operands give 16-bit results."""
    return max(operand_bytes(precision), 2.0)


def operand_widths(precision: str, m: Floats, n: Floats) -> float | Floats:
    """B of an element of the operands, mean of the m x k input and the k x n weights."""
    width = operand_bytes(precision)
    if precision not in _WEIGHT:
        return width
    return np.asarray((width * m + _WEIGHT[precision] * n) / (m + n))


def peak_of(gpu: Gpu, precision: str) -> float:
    """FLOP/s of `gpu` in `precision`, fp64 on tensor cores where it has such; PlanError where it has none."""
    operand_bytes(precision)
    precision = _ARITHMETIC.get(precision, precision)
    if precision == "fp64" and "fp64_tensor" in gpu.peaks:
        return gpu.peaks["fp64_tensor"]
    if not PRECISIONS[precision].is_native(gpu):
        raise PlanError([f"{gpu.name} has no {precision} arithmetic; it has {', '.join(gpu.peaks)}"])
    return gpu.peaks[PRECISIONS[precision].matmul]


def positive(**values: npt.ArrayLike) -> list[Floats]:
    """The values as float arrays; PlanError, with all of them, for those that are not finite and positive."""
    arrays = [np.asarray(v, float) for v in values.values()]
    problems = [
        f"{name}={a[~((a > 0) & (a < np.inf))].flat[0]:g} must be positive and finite"
        for name, a in zip(values, arrays, strict=True)
        if not ((a > 0) & (a < np.inf)).all()
    ]
    raise_all(problems, PlanError)
    return arrays


def gemm_law(
    constants: GemmConstants,
    machine: tuple[float, float, float],
    shapes: tuple[Floats, Floats, Floats, Floats],
    *,
    widths: tuple[float | Floats, float | Floats] = (2.0, 2.0),
    aligned: npt.NDArray[np.bool_] | None = None,
    odd: npt.NDArray[np.bool_] | None = None,
    cache: float = math.inf,
    grouped: bool = False,
) -> Floats:
    """Seconds of products by the law alone.

    `machine` is (SMs, peak FLOP/s, memory B/s); `shapes` are m, n, k, batch, each of shape [product]; `widths` are
    B per element of the operands, and moved per element of the result; `aligned` says which shapes have
    leading dimensions that are multiples of 16 B (all, if None), `odd` which of the others have one that is no multiple
    of 4 B; `cache` is B that the L2 cache holds; `grouped` as in gemm_seconds.
    """
    c = constants
    sms, peak, memory = machine
    bandwidth = memory * c.bandwidth_share
    share = np.array([c.share_256x128, c.share_256x128, c.share_128x128, c.share_128x128, c.share_128x128,
                        c.share_128x64, c.share_128x64, c.share_64x64, c.share_32x64])  # fmt: skip
    cost = 2 * _TILE_M * _TILE_N * (sms / peak) / share  # s per unit of k, of one wave
    split = _SPLITS[:, None]
    m, n, k, batch = shapes
    tiles = np.ceil(m / _TILE_M[:, None]) * np.ceil(n / _TILE_N[:, None]) * batch  # [tile, product]
    waves = np.ceil(tiles[:, None, :] * (split / sms))  # [tile, split, product]
    waves *= cost[:, None, None]
    depths = np.ceil(k / (_K_STEP * split)) * _K_STEP + c.fill  # [split, product]
    results = m * n * batch
    by_split = waves.min(axis=0) * depths  # [split, product]
    if aligned is not None:
        slow = 1.0 if odd is None else np.where(odd, (depths - c.fill) * (1 / c.odd - 1) / depths + 1, 1.0)
        by_split = np.where(aligned, by_split, by_split * slow / c.unaligned)
    operands = widths[0] * batch * k * (m + n)
    floor = results * k * (2 / (peak * c.ceiling))
    many = (batch > 1) & (not grouped)
    sliced = by_split[:2].min(axis=0) if many.any() else None
    by_split[1:] += (8 * c.reduction / bandwidth) * split[1:] * results + c.split_latency
    arithmetic = np.maximum(by_split.min(axis=0), floor)
    if sliced is not None:
        far = operands + widths[1] * results > cache
        waits = np.ceil(k / _K_STEP) * np.where(far, c.step + c.step_far, c.step)
        batches = np.maximum(np.maximum(sliced, waits), floor / c.batched)
        if aligned is not None and c.shallow:
            steps = np.ceil(m / 128) * np.ceil(n / 128) * batch / sms * np.ceil(k / _K_STEP)
            depth = c.shallow if odd is None else np.where(odd, c.shallow, c.shallow / 2)
            batches = np.where(aligned | (k > depth), batches, np.maximum(batches, steps * c.shallow_step))
        arithmetic = np.where(many, np.maximum(arithmetic, batches), arithmetic)
    read = (operands + c.startup) / bandwidth
    longer, shorter = np.maximum(arithmetic, read), np.minimum(arithmetic, read)
    smooth = longer * (1 + (shorter / longer) ** c.sharpness) ** (1 / c.sharpness)
    return np.asarray(smooth + results * (widths[1] * c.store / bandwidth) + c.latency)


def quantise_seconds(constants: GemmConstants, memory: float, elements: Floats, precision: str) -> Floats:
    """Seconds of the kernel that quantises a 16-bit input of so many `elements`; `memory` is in B/s."""
    moved = (2.0 + operand_bytes(precision)) * elements
    return np.asarray(constants.quantise * moved / memory + constants.quantise_latency)


def correction_at(correction: Correction, m: Floats, n: Floats, k: Floats) -> Floats:
    """log(measured / law) at sizes of shape [product], interpolated in log2; held constant outside the grid."""
    shape = correction.logs.shape
    strides = (shape[1] * shape[2], shape[2], 1)
    corner = np.zeros(m.shape, np.intp)
    inside = []
    for axis, size, stride in zip(
        (correction.log_m, correction.log_n, correction.log_k), (m, n, k), strides, strict=True
    ):
        at = np.interp(np.log2(size), axis, np.arange(float(len(axis))))
        low = np.minimum(at.astype(np.intp), len(axis) - 2)
        inside.append(at - low)
        corner += low * stride
    corners = np.indices((2, 2, 2)).reshape(3, 8)
    steps = np.array(strides) @ corners
    values = correction.logs.reshape(-1)[corner + steps[:, None]]
    for part in inside:
        half = len(values) // 2
        values = values[:half] + (values[half:] - values[:half]) * part
    return np.asarray(values[0])


def gemm_seconds(
    gpu: Gpu,
    m: npt.ArrayLike,
    n: npt.ArrayLike,
    k: npt.ArrayLike,
    *,
    batch: npt.ArrayLike = 1,
    precision: str = "bf16",
    layout: Layout = "nn",
    kernel: GemmKernel = "plain",
) -> Floats:
    """Seconds of `batch` products of an m x k matrix by a k x n one, on the GPU: without the host's launch.

    m (tokens, in a linear layer), n, k and batch broadcast; the result has their common shape. `layout` says
    which operands are stored transposed: "tn" is a forward pass with weights n x k, "nn" the gradient of its
    input, "nt" the gradient of its weights. It decides which dimensions must be multiples of 16 B to be fast,
    and nothing else: measured differences between layouts are below 2 %. An "accumulating" kernel adds into a result
    kept in fp32, as gradient-accumulation fusion does. Of a "grouped" one the batch is parts of one kernel of its own, as
    of a grouped convolution, and not a library's batch of products. An "engine" one quantises its m x k input before, as
    inference engines do in fp8 and narrower formats; a plain one has its operands in the format. Never below what peak
    arithmetic allows, nor, beyond what the L2 cache can hold, peak bandwidth.

    Raises PlanError for sizes that are not positive, and for a precision the GPU has not.
    Source: module docstring, and the evidence of `kernel_constants(gpu)`.
    """
    peak = peak_of(gpu, precision)
    check_name("layout", layout, get_args(Layout), PlanError)
    sizes = np.broadcast_arrays(*positive(m=m, n=n, k=k, batch=batch))
    shape = sizes[0].shape
    mf, nf, kf, bf = (s.reshape(-1) for s in sizes)
    out = np.empty(mf.shape)
    for start in range(0, len(out), _CHUNK):
        part = slice(start, start + _CHUNK)
        shapes = (mf[part], nf[part], kf[part], bf[part])
        out[part] = _chunk(gpu, peak, shapes, precision, layout, kernel)
    return out.reshape(shape)


def _chunk(
    gpu: Gpu,
    peak: float,
    shapes: tuple[Floats, Floats, Floats, Floats],
    precision: str,
    layout: Layout,
    kernel: GemmKernel,
) -> Floats:
    """gemm_seconds of flat arrays."""
    m, n, k, batch = shapes
    fitted = kernel_constants(gpu)
    constants, correction = gemm_constants(fitted, precision)
    if gpu.is_sustained:
        constants = sustained_constants(constants)
    width, result = operand_widths(precision, m, n), result_bytes(precision)
    widths = (width, 8.0 if kernel == "accumulating" else result)
    if constants.tile:
        return systolic_law(constants, peak, gpu.memory_bandwidth, shapes, widths)
    aligned = is_aligned(m, n, k, _OPERAND[precision], layout)
    is_plain = bool(aligned.all())
    seconds = gemm_law(constants, (gpu.sms, peak, gpu.memory_bandwidth), shapes, widths=widths,
                       aligned=None if is_plain else aligned,
                       odd=None if is_plain else ~is_aligned(m, n, k, 4 * _OPERAND[precision], layout), cache=gpu.l2,
                       grouped=kernel == "grouped")  # fmt: skip
    if kernel == "engine":
        seconds += quantise_seconds(constants, gpu.memory_bandwidth, m * batch * k, precision)
    if correction is not None and _is_alike(gpu, fitted.sms):
        logs = correction_at(correction, m, n, k)
        seconds *= np.exp(np.where(batch == 1, logs, 0.0))
    results = m * n * batch
    moved = width * batch * k * (m + n) + result * results
    least = np.maximum(2 * results * k / peak, (moved - gpu.l2) / gpu.memory_bandwidth)
    return np.asarray(np.maximum(seconds, least))


def _is_alike(gpu: Gpu, sms: int) -> bool:
    """Whether a correction measured on a GPU with so many SMs holds: B200's 148 lower the error of GB200's 152."""
    return math.isclose(gpu.sms, sms, rel_tol=0.05)


def sustained_constants(constants: GemmConstants) -> GemmConstants:
    """The constants at the clock of runs of seconds and more, where power lowers it."""
    return replace(constants, ceiling=constants.ceiling * constants.sustained)


def is_aligned(
    m: Floats, n: Floats, k: Floats, width: float | Floats, layout: Layout
) -> npt.NDArray[np.bool_]:
    """Whether the rows of operands and result start at multiples of 16 B, as fast kernels need."""
    unit = 2.0 ** math.ceil(math.log2(16 / width)) if isinstance(width, float) else 16 / width
    leading = m if layout == "nt" else k
    return np.asarray((leading % unit == 0) & (n % unit == 0))


def gemm_source(gpu: Gpu, m: float, n: float, k: float, precision: str = "bf16") -> str:
    """Where gemm_seconds comes from for one shape.

    "measured" (a size of the grid), "interpolated, 0.4 octaves from a measurement" (up to one octave), "law"
    (the GPU was measured, elsewhere); these with ", on <gpu>" where the same chip was measured under another
    name; or "extrapolated from <gpu>" (shares of peak of another GPU, or of another precision).
    """
    peak_of(gpu, precision)
    positive(m=m, n=n, k=k)
    fitted = kernel_constants(gpu)
    _, correction = gemm_constants(fitted, precision)
    evidence = fitted.evidence.get(f"gemm.{precision}")
    if fitted.extrapolated:
        return f"extrapolated from {fitted.base}"
    if not _is_alike(gpu, fitted.sms) or precision not in fitted.gemm:
        return f"extrapolated from {fitted.name}"
    where = "" if gpu.name.lower() == fitted.name else f", on {fitted.name}"
    if correction is None:
        few = evidence is None or evidence.rows < 20
        return f"extrapolated from {fitted.name}" if few else f"law{where}"
    at = np.argwhere(correction.measured)
    gaps = np.stack(
        [correction.log_m[at[:, 0]], correction.log_n[at[:, 1]], correction.log_k[at[:, 2]]], axis=1
    ) - np.log2([m, n, k])  # Q measured sizes, A the axes m, n, k
    nearest = float(np.sqrt((gaps**2).sum(axis=1).min()))
    if nearest < 1e-9:
        return f"measured{where}"
    return f"interpolated, {nearest:.1f} octaves from a measurement{where}" if nearest <= 1 else f"law{where}"
