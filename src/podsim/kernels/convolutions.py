"""Seconds of convolutions: the matrix-product law on the product that an implicit-GEMM kernel computes.

    forward          m = samples x positions   n = filters / groups    k = window x channels / groups
    input gradient   m = samples x inputs      n = channels / groups   k = window x filters / groups x positions / inputs
    weight gradient  m = window x channels / groups   n = filters / groups   k = samples x positions

The arithmetic is that of the product; the bytes read are those of the tensors, not of the unfolded matrix, whose
windows overlap on the chip. A window of one is a plain product, with its measured corrections. Where a stride passes
over inputs, their gradient's depth counts only what is multiplied. A transposed convolution is the input gradient of
another. On tensor cores, groups of 4 channels and more may be packed: several beside each other, with zeros for what
crosses them, as many as is fastest. Where tiles do not fit, a direct kernel on the plain fp32 units may be faster, and
then counts, as a library would choose: bytes, or arithmetic at the peak of those units, whichever is longer. One for
groups (depthwise) reaches neither, and gains little from faster memory:

    seconds = bytes / (DIRECT_BYTES x SMs x clock) + arithmetic / (DIRECT_ARITHMETIC x plain fp32 peak)

DIRECT_BYTES is fitted to the `calibrate` rows of EfficientNet, ResNeXt-101 and SE-ResNeXt-101 (A100 and V100, 16 and 32
bits, PyTorch and TensorFlow) beside one factor for each framework, architecture and precision: 8 % are left, 18 %
without it (scripts/fit_direct.py). DIRECT_ARITHMETIC: each multiply-add loads a value, and an SM has half as many
units that load; twice or half of it leaves as much. Windows longer than LONG_WINDOW reach LONG_ARITHMETIC only: PyTorch
compiles such kernels for windows of 1, 3 and 5 a side and loops over all others. It is fitted to the `calibrate` rows of
QuartzNet (windows of 33 to 87, seven rows on A100 and V100 in three precisions: 14 % are left).

However fast the arithmetic is, an SM gathers the unfolded windows, element for element: m x k of them. 22 B a cycle are
the most that measured steps show (U-Net3D and nnU-Net on A100, whose 32 filters need them): with fewer, calibrate rows
get slower. A GPU with faster tensor cores is taken to gather no faster, which on H100 bounds up to 100 filters.

On plain fp32 units a window of 3 x 3 without a stride may go by Winograd's algorithm: 16 multiplications for four results
in place of 36, as 16 products, where that is faster. Nothing in it is fitted.

Known error: no convolution kernel was measured alone; whole training steps of ResNet-50 stand in docs/graphs.md.
Stops being true: FFT kernels, larger tiles of Winograd's, layouts other than channels last, channels that are no
multiples of 16 B (the first layer's three), which a library pads.
Source: the implicit GEMM of cuDNN (Chetlur et al. 2014, arxiv.org/abs/1410.0759).

All sizes broadcast; N convolutions are computed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from podsim.axes import Floats
from podsim.errors import PlanError
from podsim.hardware.parts import Gpu
from podsim.kernels.constants import gemm_constants, kernel_constants
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.gemm import (
    gemm_law,
    gemm_seconds,
    operand_bytes,
    peak_of,
    positive,
    result_bytes,
)

Part = Literal["forward", "input", "weight"]
PARTS = ("forward", "input", "weight")
PACKS = (1, 2, 4, 8, 16)
"""groups that may be computed as one"""
NARROWEST = 4
"""channels of a group that is packed"""
TENSOR_CORES = ("tf32", "bf16", "fp16")
DIRECT_BYTES = 1.25
"""B that an SM reads and writes a cycle in a direct kernel for groups"""
DIRECT_ARITHMETIC = 0.5
"""of the plain fp32 peak, in such a kernel"""
TILED_WINDOW, TILE_OUT, TILE_IN = 9.0, 4.0, 16.0
"""3 x 3 weights; results of a tile and multiplications for them: F(2 x 2, 3 x 3) of Lavin and Gray 2015
(arxiv.org/abs/1509.09308)"""
SAME_SIZE = 0.1
"""by which a convolution without a stride may change the number of positions, where edges are not padded"""
GATHER_BYTES = 22.0
"""B of unfolded windows that an SM gathers a cycle, the most that calibrate rows show"""
LONG_WINDOW = 25
"""weights of a window that such kernels are compiled for"""
LONG_ARITHMETIC = 0.04
"""as DIRECT_ARITHMETIC, of longer windows"""


@dataclass(frozen=True, kw_only=True)
class ConvShape:
    """Sizes of a convolution, which broadcast."""

    batch: npt.ArrayLike
    channels: npt.ArrayLike
    filters: npt.ArrayLike
    groups: npt.ArrayLike = 1
    window: npt.ArrayLike
    """count. The weights of one filter and channel: 9 for 3 x 3."""
    positions: npt.ArrayLike
    """count. The positions of one sample after the convolution."""
    inputs: npt.ArrayLike
    """count. The positions of one sample before it."""
    transposed: bool = False

    def sizes(self) -> list[Floats]:
        """All sizes as arrays, in their order; PlanError for one that is not positive."""
        return positive(
            batch=self.batch, channels=self.channels, filters=self.filters, groups=self.groups, window=self.window,
            positions=self.positions, inputs=self.inputs,
        )  # fmt: skip


def conv_product(part: str, sizes: Sequence[Floats]) -> tuple[Floats, Floats, Floats]:
    """(m, n, k) of one group of a convolution's forward pass, input gradient or weight gradient; sizes of ConvShape."""
    b, c, f, g, w, out, source = sizes
    if part == "forward":
        return b * out, f / g, w * c / g
    if part == "input":
        # with a window of one and a stride, most inputs have no gradient: only those that were read are computed
        at = np.minimum(source, out * w)
        return b * at, c / g, w * f / g * out / at
    if part == "weight":
        return w * c / g, f / g, b * out
    raise PlanError([f"part={part!r} of a convolution may be {', '.join(PARTS)}"])


def conv_seconds(gpu: Gpu, part: str, shape: ConvShape, *, precision: str = "bf16") -> Floats:
    """Seconds on the GPU of a convolution's forward pass, input gradient ("input") or weight gradient ("weight").

    Raises PlanError for sizes that are not positive, an unknown part, a precision the GPU has not.
    """
    arrays = np.broadcast_arrays(*shape.sizes())
    b, c, f, g, w, out, source = (size.astype(float).reshape(-1) for size in arrays)
    if shape.transposed:
        part = {"forward": "input", "input": "forward"}.get(part, part)
        c, f, out, source = f, c, source, out
    sizes = (b, c, f, g, w, out, source)
    m, n, k = conv_product(part, sizes)
    tensors = np.stack([b * c * source, b * f * out, w * c * f / g])
    written = {"forward": 1, "input": 0, "weight": 2}[part]
    read = operand_bytes(precision) * (tensors.sum(axis=0) - tensors[written])
    moved = read + result_bytes(precision) * tensors[written]
    flops = 2 * m * n * k * g
    peak = peak_of(gpu, precision)
    plain = flops / gpu.peaks.get("fp32", peak)
    share = np.where(w > LONG_WINDOW, LONG_ARITHMETIC, DIRECT_ARITHMETIC)
    grouped = moved / (DIRECT_BYTES * gpu.sms * gpu.clock) + plain / share
    direct = np.maximum(memory_seconds(gpu, moved), np.where(g > 1, grouped, plain))
    gathers = (g == 1) & (gpu.compute_capability > 0)
    gathered = gathers * operand_bytes(precision) * m * k / (GATHER_BYTES * gpu.sms * gpu.clock)
    tiled = _may_tile(gpu, precision, sizes)
    saved = np.where(tiled, TILE_IN / TILE_OUT / TILED_WINDOW, 1.0)
    least = np.maximum(saved * flops / peak, (moved - gpu.l2) / gpu.memory_bandwidth)
    if tiled.any():
        tiles = _winograd_seconds(gpu, part, (m, n, k), read, precision, c, f)
        direct = np.where(tiled, np.minimum(direct, tiles), direct)
    product = np.where(
        w == 1, gemm_seconds(gpu, m, n, k, batch=g, precision=precision, kernel="grouped"),
        np.maximum(_packed_seconds(gpu, part, sizes, read, precision), gathered),
    )  # fmt: skip
    return np.asarray(np.maximum(np.minimum(product, direct), least).reshape(arrays[0].shape))


def _packed_seconds(gpu: Gpu, part: str, sizes: tuple[Floats, ...], read: Floats, precision: str) -> Floats:
    """Seconds of a grouped convolution as products, `sizes` as in ConvShape: as many groups in one as is fastest."""
    b, c, f, g, w, out, source = sizes
    least = np.full(b.shape, np.inf)
    for pack in PACKS if precision in TENSOR_CORES else PACKS[:1]:
        fits = (pack == 1) | ((g % pack == 0) & (np.minimum(c, f) / g >= NARROWEST))
        groups = np.where(fits, g / pack, g)
        m, n, k = conv_product(part, (b, c, f, groups, w, out, source))
        seconds = _implicit_seconds(gpu, (m, n, k, groups), read, precision, c / groups, f / groups)
        least = np.where(fits, np.minimum(least, seconds), least)
    return least


def _may_tile(gpu: Gpu, precision: str, sizes: tuple[Floats, ...]) -> npt.NDArray[np.bool_]:
    """Which convolutions may go by Winograd's algorithm: 3 x 3 without a stride, whole, on plain fp32 units of a GPU."""
    library = gpu.compute_capability > 0  # what runs on processors asks for it by name only
    _, _, _, g, w, out, source = sizes
    alike = np.abs(out / source - 1) < SAME_SIZE
    return np.asarray((w == TILED_WINDOW) & (g == 1) & alike & library & (precision not in TENSOR_CORES))


def _winograd_seconds(
    gpu: Gpu,
    part: str,
    product: tuple[Floats, Floats, Floats],
    read: Floats,
    precision: str,
    c: Floats,
    f: Floats,
) -> Floats:
    """Seconds of a pass of shape (m, n, k) by Winograd's algorithm: a product for each of the points of a tile."""
    m, n, k = product
    over_m, over_k = (TILED_WINDOW, TILE_OUT) if part == "weight" else (TILE_OUT, TILED_WINDOW)
    points = np.full(m.shape, TILE_IN)
    shape = (np.maximum(m / over_m, 1.0), n, np.maximum(k / over_k, 1.0), points)
    return _implicit_seconds(gpu, shape, read, precision, c, f)


def _implicit_seconds(
    gpu: Gpu,
    product: tuple[Floats, Floats, Floats, Floats],
    read: Floats,
    precision: str,
    channels: Floats,
    filters: Floats,
) -> Floats:
    """Seconds of products of shape (N,) that read `read` bytes in all."""
    m, n, k, g = product
    constants, _ = gemm_constants(kernel_constants(gpu), precision)
    unit = 16 / operand_bytes(precision)
    aligned = np.asarray((channels % unit == 0) & (filters % unit == 0))
    machine = (gpu.sms, peak_of(gpu, precision), gpu.memory_bandwidth)
    widths = (np.asarray(read / (g * k * (m + n))), result_bytes(precision))
    return gemm_law(
        constants, machine, product, widths=widths, aligned=None if aligned.all() else aligned, grouped=True
    )
