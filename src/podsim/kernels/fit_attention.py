"""Constants of fused attention from measured rows: forward, backward, or both together.

Rows of serving programs (prefill) hold more than the kernel: keys and values are written to a paged cache, by a
thread block for each token, and then read page by page. So they share the forward law up to three constants of their
own, which are fitted beside the others and dropped: a factor, the bytes of keys and values once more, a time for each
token. Predictions of such rows (`cross_validate_serving`) have the latter two and not the factor, which is an error of
the law or another build of the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from podsim.errors import TableError
from podsim.hardware.parts import Gpu
from podsim.kernels.attention import flash_law
from podsim.kernels.constants import (
    Evidence,
    FlashConstants,
    MemoryConstants,
    kernel_constants,
)
from podsim.kernels.fit_check import Check, fold_of
from podsim.kernels.measured_kernels import KernelRows

Floats = npt.NDArray[np.float64]

_BOUNDS = {  # start, step, least, greatest
    "share_64": (0.6, 0.1, 0.05, 1.0), "share_128": (0.68, 0.1, 0.05, 1.0), "fill": (80.0, 60.0, 0.0, 1000.0),
    "tail": (0.3, 0.3, 0.0, 2.0), "backward_64": (0.9, 0.1, 0.4, 1.3), "backward_128": (0.9, 0.1, 0.4, 1.3),
    "backward_fill": (100.0, 60.0, 0.0, 1000.0),
}  # fmt: skip
_SERVING = ((1.0, 0.1, 0.7, 1.4), (2.0, 0.5, 0.0, 6.0), (6.0, 2.0, 0.0, 60.0))
"""factor; traffic, in times that of keys and values; ns for each token: start, step, least, greatest"""
_PULL = 0.03
_FLASH3_GAIN = 1.6
"""speed of flash3 over flash2 backward: 1.5 to 1.75 (FlashAttention-3, arxiv.org/abs/2407.08608)"""


def fit_flash(
    rows: KernelRows, gpu: Gpu, algorithm: str, memory: MemoryConstants, fitted: Mapping[str, FlashConstants]
) -> tuple[FlashConstants, Evidence] | None:
    """Constants of `algorithm` on `gpu` and their evidence; None where nothing but serving was measured.

    Serving rows count for flash3 from compute capability 9, for flash2 below. Without a backward row, the
    backward share of flash3 is set from that of flash2 (in `fitted`) by the gain its authors report.
    """
    serving = algorithm == _of_serving(gpu)
    part = rows.take((rows.op == algorithm) | (serving & (rows.op == "prefill")))
    own = part.op == algorithm
    if not own.any():
        return None
    constants = _fit(part, gpu, memory)
    note = "bars of figures" + (
        f", and {int((~own).sum())} serving rows for the shape" if not own.all() else ""
    )
    two = fitted.get("flash2")
    if not (part.direction[own] != "fwd").any() and two is not None:
        ratio = two.share_128 * two.backward_128 * _FLASH3_GAIN / constants.share_128
        constants = FlashConstants(
            share_64=constants.share_64, share_128=constants.share_128, fill=constants.fill,
            tail=constants.tail, backward_64=ratio, backward_128=ratio, backward_fill=two.backward_fill,
        )  # fmt: skip
        note += (
            f"; backward not measured: {_FLASH3_GAIN} times the speed of flash2 (arxiv.org/abs/2407.08608)"
        )
    drawn = part.take(own)
    predicted, _ = _predict(constants, drawn, gpu, memory)
    errors = np.abs(predicted / drawn.seconds - 1)
    return constants, Evidence(
        rows=len(drawn), median_error=float(np.median(errors)), mean_error=float(errors.mean()),
        sources=tuple(sorted(set(part.source))), note=note + "; errors of the fit itself",
    )  # fmt: skip


def _of_serving(gpu: Gpu) -> str:
    """The algorithm that serving programs run on `gpu`."""
    return "flash3" if gpu.compute_capability >= 9 else "flash2"


def _written(rows: KernelRows, moved: Floats, traffic: float, each: float) -> Floats:
    """s to write keys and values, which take `moved` s to move once, to the paged cache; `each` token takes ns."""
    return np.asarray(moved * traffic + rows.batch * rows.tokens * each * 1e-9)


def cross_validate_serving(rows: KernelRows, gpu: Gpu, *, folds: int = 5, seed: int = 0) -> Check:
    """Predictions for the serving rows on `gpu`, with the write of the cache of each fold from the others.

    The law has the packaged constants. Raises TableError for too few rows.
    """
    from scipy.optimize import least_squares

    part = rows.take((rows.gpu == gpu.name.lower()) & (rows.op == "prefill"))
    if len(part) < 10 * folds:
        raise TableError(f"{len(part)} serving rows on {gpu.name}; {10 * folds} are needed for {folds} folds")
    found = kernel_constants(gpu)
    law, moved = _predict(found.flash[_of_serving(gpu)], part, gpu, found.memory)
    start, scale, low, high = (np.array(column) for column in zip(*_SERVING, strict=True))
    fold = fold_of((part.batch, part.heads, part.kv_heads, part.tokens, part.head_dim), folds, seed)

    def residuals(point: Floats, seen: npt.NDArray[np.bool_]) -> Floats:
        factor, *rest = point * scale
        seconds = law * factor + _written(part, moved, *rest)
        return np.asarray(np.log(seconds / part.seconds)[seen])

    predicted = np.empty(len(part))
    for index in range(folds):
        held = fold == index
        point: Any = least_squares(residuals, start / scale, loss="soft_l1", f_scale=0.1, args=(~held,),
                                   bounds=(low / scale, high / scale)).x  # fmt: skip
        _, *rest = point * scale
        predicted[held] = (law + _written(part, moved, *rest))[held]
    return Check(predicted=predicted, law=law, measured=part.seconds)


def _predict(
    constants: FlashConstants, rows: KernelRows, gpu: Gpu, memory: MemoryConstants
) -> tuple[Floats, Floats]:
    """(seconds by the law, s to move keys and values once), shape (R,)."""
    bandwidth = gpu.memory_bandwidth * memory.share
    sizes = [rows.batch, rows.heads, rows.kv_heads, rows.tokens, rows.tokens, rows.head_dim, rows.head_dim]
    machine = (float(gpu.sms), gpu.peaks["bf16"], bandwidth)
    seconds = np.zeros(len(rows))
    for causal in (False, True):
        for backward, kinds in ((False, ("fwd", "fwd+bwd")), (True, ("bwd", "fwd+bwd"))):
            these = np.isin(rows.direction, kinds) & (rows.causal == causal)
            part = [size[these] for size in sizes]
            seconds[these] += flash_law(constants, machine, part, causal=causal, backward=backward)
    moved = 4.0 * rows.batch * rows.tokens * rows.head_dim * rows.kv_heads
    return seconds, np.asarray(moved / bandwidth)


def _fit(rows: KernelRows, gpu: Gpu, memory: MemoryConstants) -> FlashConstants:
    from scipy.optimize import least_squares

    start, scale, low, high = (np.array(c) for c in zip(*_BOUNDS.values(), *_SERVING, strict=True))
    first = start / scale
    serving = rows.op == "prefill"
    kinds = np.char.add(rows.source, rows.direction)
    _, which, counts = np.unique(kinds, return_inverse=True, return_counts=True)
    weights = np.sqrt(100 / counts[which])

    def constants(point: Floats) -> FlashConstants:
        return FlashConstants(**dict(zip(_BOUNDS, (point * scale).tolist(), strict=False)))

    def residuals(point: Floats) -> Floats:
        seconds, moved = _predict(constants(point), rows, gpu, memory)
        factor, *written = point[-3:] * scale[-3:]
        seconds = np.where(serving, seconds * factor + _written(rows, moved, *written), seconds)
        return np.concatenate([np.log(seconds / rows.seconds) * weights, _PULL * (point - first)])

    point = first
    for difference in (1e-2, 1e-3):
        found: Any = least_squares(
            residuals,
            point,
            loss="soft_l1",
            f_scale=0.1,
            bounds=(low / scale, high / scale),
            max_nfev=80,
            diff_step=np.full(len(point), difference),
        )
        point = found.x
    return constants(point)
