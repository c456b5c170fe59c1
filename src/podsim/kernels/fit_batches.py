"""Constants of batches of products from measured rows, on top of those of plain products: `fit_batches`.

Fitted are what batches reach of the ceiling, and how long a thread block waits at a step of k.
"""

from __future__ import annotations

import numpy as np

from podsim.errors import TableError
from podsim.fitting import Bools, Fit, Floats, Parameter, fold_of, held_out
from podsim.hardware.catalog import load_gpu
from podsim.hardware.parts import Gpu
from podsim.kernels.constants import GemmConstants, base_name, gemm_constants, kernel_constants
from podsim.kernels.fit_check import Check, fit_products_law, host_timed, law_seconds
from podsim.kernels.gemm import gemm_seconds
from podsim.kernels.measured_kernels import KernelRows

UNMEASURED = {"batched": 0.91, "step": 1e-7, "step_far": 0.5e-7}
"""Constants of a chip whose batches were not measured, near those of the A100; fits start here."""
_FIT = Fit(
    parameters={
        "batched": Parameter(start=UNMEASURED["batched"], low=0.3, high=1.05),
        "step": Parameter(start=UNMEASURED["step"], low=1e-9, high=2e-6, scale=1e-7),
        "step_far": Parameter(start=UNMEASURED["step_far"], low=0.0, high=2e-6, scale=1e-7),
        "host": Parameter(start=20e-6, low=0.0, high=60e-6, scale=20e-6),
    },
    softness=0.05,
    pull=0.01,
    differences=(3e-2, 1e-2),
    evaluations=40,
    # a wait is only felt from some length on, so one start is long
    other_starts=({"batched": 0.7, "step": 5e-7, "step_far": 3e-7, "host": 20e-6},),
)
_FEWEST = 20
"""The fewest batches that a fit needs."""


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
    fitted, _ = fit_products_law(_parts_by_gpu(part), constants, _FIT)
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

    def predict(held: Bools) -> Floats:
        fitted, solution = fit_products_law(_parts_by_gpu(part.take(~held)), constants, _FIT)
        host = hosted[held] * solution.values["host"]
        law = law_seconds(fitted, gpu, part.take(held)) + host
        return np.stack([law, np.where(part.batch[held] == 1, plain[held] + host, law)])

    law, predicted = held_out(fold_of((part.m, part.n, part.k, part.batch), folds, seed), folds, predict)
    return Check(predicted=predicted, law=law, measured=part.seconds)


def _chip(name: str) -> str:
    return name.lower().partition("-")[0]


def _parts_by_gpu(rows: KernelRows) -> list[tuple[Gpu, KernelRows, Floats]]:
    """The rows of each GPU, with it and equal weights: a chip is sold with memories of different speed."""
    parts = ((load_gpu(name), rows.take(rows.gpu == name)) for name in sorted(set(rows.gpu.tolist())))
    return [(gpu, part, np.ones(len(part))) for gpu, part in parts]
