"""What fits of matrix products share: the law on measured rows, the host's time in them, and held-out predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from podsim.hardware.parts import Gpu
from podsim.kernels.constants import GemmConstants
from podsim.kernels.gemm import gemm_law, is_aligned, operand_bytes, peak_of, result_bytes
from podsim.kernels.measured_kernels import KernelRows

Floats = npt.NDArray[np.float64]

LONG = 20e-6
"""s: errors are told of kernels that take at least this long"""
_HOST_TIMED = ("EleutherAI",)
"""sources timed on the host's clock, call by call: their fit has one more constant, the host's time of a call"""


@dataclass(frozen=True, kw_only=True)
class Check:
    """Predicted and measured seconds, row by row, shape (R,); both with the host's time where the source has it."""

    predicted: Floats
    law: Floats
    """predicted without the correction"""
    measured: Floats

    def errors(self, *, law: bool = False) -> Floats:
        """predicted / measured - 1 of rows over 20 us."""
        long = self.measured > LONG
        return np.asarray((self.law if law else self.predicted)[long] / self.measured[long] - 1)


def law_seconds(constants: GemmConstants, gpu: Gpu, rows: KernelRows) -> Floats:
    """Seconds of rows, all of one precision, by the law."""
    precision = str(rows.precision[0])
    machine = (float(gpu.sms), peak_of(gpu, precision), gpu.memory_bandwidth)
    widths = (operand_bytes(precision), np.where(rows.accumulate, 8.0, result_bytes(precision)))
    aligned = is_aligned(rows.m, rows.n, rows.k, widths[0], "nn")
    shapes = (rows.m, rows.n, rows.k, rows.batch)
    return gemm_law(constants, machine, shapes, widths=widths, aligned=aligned, cache=gpu.l2)


def host_timed(rows: KernelRows) -> npt.NDArray[np.bool_]:
    """Which rows were timed on the host's clock, and so hold its time of a call."""
    return np.array([source.startswith(_HOST_TIMED) for source in rows.source], dtype=bool)


def fold_of(sizes: tuple[Floats, ...], folds: int, seed: int) -> npt.NDArray[np.int64]:
    """The fold of each row: drawn over distinct sizes, so that one measured twice is held out as a whole."""
    _, size = np.unique(np.stack(sizes, axis=1), axis=0, return_inverse=True)
    drawn = np.random.default_rng(seed).integers(0, folds, len(sizes[0]))
    return np.asarray(drawn[size.reshape(-1)])
