"""Constants of batches of products from measured rows, beside those of plain products: `fit_batches`.

What batches reach of the ceiling, and how long a thread block waits at a step of k, by least squares on
log(predicted / measured) with a soft loss. The host's time of a call is fitted beside them and dropped. Every constant
is drawn weakly to where it starts, so that what the rows cannot tell stays there. No randomness but the folds' seed.

Needs scipy (pip install podsim[calibrate]).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from podsim.errors import TableError
from podsim.hardware.catalog import load_gpu
from podsim.hardware.parts import Gpu
from podsim.kernels.constants import GemmConstants, base_name, gemm_constants, kernel_constants
from podsim.kernels.fit_check import Check, fold_of, host_timed, law_seconds
from podsim.kernels.gemm import gemm_seconds
from podsim.kernels.measured_kernels import KernelRows

Floats = npt.NDArray[np.float64]

UNMEASURED = {"batched": 0.91, "step": 1e-7, "step_far": 0.5e-7}
"""constants of a chip whose batches were not measured: near those of the A100; fits start here"""
_SCALES = np.array([1.0, 1e-7, 1e-7, 20e-6])
"""on which batched, step, step_far and the host's time are varied"""
_STARTS = ((0.91, 1.0, 0.5, 1.0), (0.7, 5.0, 3.0, 1.0))
"""on those scales: a wait is only felt from some length on, so one start is long"""
_BOUNDS = ((0.3, 0.01, 0.0, 0.0), (1.05, 20.0, 20.0, 3.0))
_PULL = 0.01
_FEWEST = 20
"""batches below which nothing is fitted"""


def fit_batches(rows: KernelRows, gpu: Gpu, constants: GemmConstants) -> tuple[GemmConstants, str]:
    """`constants` with those of batches, from 16-bit rows of any GPU of the same chip; and a note, "" for no change.

    A board whose base is of its own chip keeps that one's: its rows of batches are the same.
    """
    chip = _chip(gpu.name)
    if _chip(base_name(gpu)) == chip:
        return constants, ""
    halves = (rows.op == "bmm") & np.isin(rows.precision, ["fp16", "bf16"])
    part = rows.take(np.char.startswith(rows.gpu, chip + "-") & halves)
    many = int((part.batch > 1).sum())
    if many < _FEWEST:
        return constants, "; no batch was measured"
    fitted, _ = _fit(_by_gpu(part), constants)
    return fitted, f"; batches from {many} sizes of {', '.join(sorted(set(part.source)))}"


def cross_validate_batches(rows: KernelRows, gpu: Gpu, *, folds: int = 5, seed: int = 0) -> Check:
    """Predictions for rows of batches on `gpu`, all of one precision: each fold by a fit to the others.

    Plain constants are the packaged ones, which no batch was fitted to; a batch of one is a plain product. The host's
    time of a call, where the source has it, is predicted too. Raises TableError for too few rows.
    """
    part = rows.take((rows.gpu == gpu.name.lower()) & (rows.op == "bmm"))
    if len(part) < _FEWEST:
        raise TableError(f"{len(part)} batches of products on {gpu.name}; {_FEWEST} are needed for folds")
    precision = str(part.precision[0])
    constants, _ = gemm_constants(kernel_constants(gpu), precision)
    plain = gemm_seconds(gpu, part.m, part.n, part.k, precision=precision)
    hosted = host_timed(part)
    fold = fold_of((part.m, part.n, part.k, part.batch), folds, seed)
    law, predicted = np.empty(len(part)), np.empty(len(part))
    for index in range(folds):
        held = fold == index
        fitted, host = _fit(_by_gpu(part.take(~held)), constants)
        law[held] = law_seconds(fitted, gpu, part.take(held)) + hosted[held] * host
        predicted[held] = np.where(part.batch[held] == 1, plain[held] + hosted[held] * host, law[held])
    return Check(predicted=predicted, law=law, measured=part.seconds)


def _chip(name: str) -> str:
    return name.lower().partition("-")[0]


def _by_gpu(rows: KernelRows) -> list[tuple[Gpu, KernelRows]]:
    """The rows of each GPU, with it: a chip is sold with memories of different speed."""
    return [(load_gpu(name), rows.take(rows.gpu == name)) for name in sorted(set(rows.gpu.tolist()))]


def _fit(parts: Sequence[tuple[Gpu, KernelRows]], constants: GemmConstants) -> tuple[GemmConstants, float]:
    """Constants with those of batches, and the host's s of a call (of rows that were timed on the host)."""
    from scipy.optimize import least_squares

    hosted = [host_timed(rows) for _, rows in parts]

    def with_batches(point: Floats) -> GemmConstants:
        batched, step, far = (point * _SCALES).tolist()[:3]
        return replace(constants, batched=batched, step=step, step_far=far)

    def residuals(point: Floats) -> Floats:
        law, host = with_batches(point), point[3] * _SCALES[3]
        logs = [
            np.log((law_seconds(law, gpu, rows) + on * host) / rows.seconds)
            for (gpu, rows), on in zip(parts, hosted, strict=True)
        ]
        return np.concatenate([*logs, _PULL * (point - np.array(_STARTS[0]))])

    best: Any = None
    for start in _STARTS:
        point = np.array(start)
        for difference in (3e-2, 1e-2):  # the law has kinks: coarse slopes first
            found: Any = least_squares(residuals, point, loss="soft_l1", f_scale=0.05, bounds=_BOUNDS,
                                       max_nfev=40, diff_step=np.full(4, difference))  # fmt: skip
            point = found.x
        best = found if best is None or found.cost < best.cost else best
    return with_batches(best.x), float(best.x[3] * _SCALES[3])
