"""Predictions of rows that constants were fitted to, each by a fit to the other folds.

scripts/record.py packages them (podsim.accuracy.held_out). Needs scipy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from podsim.accuracy.price_kernels import is_held_out, kernel_groups, modelled_rows
from podsim.accuracy.tables import Rows
from podsim.axes import Bools, Floats
from podsim.errors import TableError
from podsim.fitting import Fit, Values, fold_of, held_out, solve
from podsim.hardware.catalog import load_gpu
from podsim.hardware.parts import Gpu
from podsim.kernels.constants import gemm_constants, kernel_constants
from podsim.kernels.fit_attention import SERVING, flash_seconds, serving_algorithm, write_seconds
from podsim.kernels.fit_kernels import cross_validate, host_seconds
from podsim.kernels.fit_products import (
    FEWEST,
    Check,
    batch_fit,
    fit_products_law,
    is_host_timed,
    law_seconds,
    parts_by_gpu,
)
from podsim.kernels.gemm import gemm_seconds
from podsim.kernels.measured_kernels import KernelRows
from podsim.network.fit_nccl import fit_architecture, predicted_seconds, samples

_FOLDS = 5
_FITTED_FROM = 512.0
"""B. The least size of a row in a fit."""


def fit_held_out_collectives(rows: Rows) -> dict[str, float]:
    """Id -> seconds, each sweep predicted by a fit to the sweeps of other folds; runs of a machine share a fold."""
    held: dict[str, float] = {}
    known = samples([row.fields for row in rows])
    machines = sorted({_machine_name(sample.sweep) for sample in known})
    for fold in range(_FOLDS):
        left_out = set(machines[fold::_FOLDS])
        part = [sample for sample in known if _machine_name(sample.sweep) in left_out]
        others = [
            sample
            for sample in known
            if _machine_name(sample.sweep) not in left_out and sample.size >= _FITTED_FROM
        ]
        fabric = fit_architecture("ampere", others)
        values = predicted_seconds(fabric, part).tolist()
        held |= {
            f"{sample.sweep}/{sample.size:.0f}": value for sample, value in zip(part, values, strict=True)
        }
    return {row.id: held[row.id] for row in rows if row.id in held}


def _machine_name(sweep: str) -> str:
    """A sweep's id without its element type; a machine ran both types in turn."""
    return sweep.removesuffix("_half").removesuffix("_int8")


def fit_held_out_kernels(rows: Rows) -> dict[str, float]:
    """s. The time of each row of a kernel measured in many sizes, by a fit to the other folds; by id."""
    known = modelled_rows(rows)
    seconds: dict[str, float] = {}
    for where in kernel_groups(known):
        part = known.take(where)
        if is_held_out(part):
            gpu = replace(load_gpu(str(part.gpu[0])), is_sustained=bool(part.sustained[0]))
            seconds |= dict(zip(part.id.tolist(), _fit_held_out(part, gpu).tolist(), strict=True))
    return seconds


def _fit_held_out(part: KernelRows, gpu: Gpu) -> NDArray[np.float64]:
    """Seconds of rows of one kernel on one GPU, each fold predicted by a fit to the others."""
    op = str(part.op[0])
    if op == "gemm":
        return _cross_validated_products(part, gpu, str(part.precision[0]))
    if op == "bmm":
        return cross_validate_batches(part, gpu).predicted
    return cross_validate_serving(part, gpu).predicted


def _cross_validated_products(part: KernelRows, gpu: Gpu, precision: str) -> NDArray[np.float64]:
    """Cross-validated seconds of products; the packaged constants predict those that are not fitted."""
    check = cross_validate(part, gpu, precision=precision)
    law = gemm_seconds(gpu, part.m, part.n, part.k, batch=part.batch, precision=precision, layout="tn")
    seconds = law + host_seconds(part, gpu)
    unit = 8.0 if precision in ("fp16", "bf16") else 16.0
    held = (part.k % unit == 0) & (part.n % unit == 0)
    assert int(held.sum()) == len(check.predicted)
    seconds[held] = check.predicted
    return seconds


def cross_validate_batches(rows: KernelRows, gpu: Gpu, *, folds: int = 5, seed: int = 0) -> Check:
    """Predictions for rows of batches on `gpu`, all of one precision: each fold by a fit to the others.

    Plain constants are the packaged ones, which no batch was fitted to; a batch of one is a plain product. The host's
    time of a call, where the source has it, is predicted too. Raises TableError for too few rows.
    """
    part = rows.take((rows.gpu == gpu.name.lower()) & (rows.op == "bmm"))
    if len(part) < FEWEST:
        raise TableError(f"{len(part)} batches of products on {gpu.name}; {FEWEST} are needed for folds")
    precision = str(part.precision[0])
    constants, _ = gemm_constants(kernel_constants(gpu), precision)
    plain = gemm_seconds(gpu, part.m, part.n, part.k, precision=precision)
    hosted = is_host_timed(part)

    def predict(held: Bools) -> Floats:
        fitted, solution = fit_products_law(parts_by_gpu(part.take(~held)), constants, batch_fit(part))
        host = hosted[held] * solution.values["host"]
        law = law_seconds(fitted, gpu, part.take(held)) + host
        return np.stack([law, np.where(part.batch[held] == 1, plain[held] + host, law)])

    law, predicted = held_out(fold_of((part.m, part.n, part.k, part.batch), folds, seed), folds, predict)
    return Check(predicted=predicted, law=law, measured=part.seconds)


def cross_validate_serving(rows: KernelRows, gpu: Gpu, *, folds: int = 5, seed: int = 0) -> Check:
    """Predictions for the serving rows on `gpu`, with the write of the cache of each fold from the others.

    The law has the packaged constants. Raises TableError for too few rows.
    """
    part = rows.take((rows.gpu == gpu.name.lower()) & (rows.op == "prefill"))
    if len(part) < 10 * folds:
        raise TableError(f"{len(part)} serving rows on {gpu.name}; {10 * folds} are needed for {folds} folds")
    packaged = kernel_constants(gpu)
    law, moved = flash_seconds(packaged.flash[serving_algorithm(gpu)], part, gpu, packaged.memory)

    def predict(held: Bools) -> Floats:
        def residuals(values: Values) -> Floats:
            seconds = law * values["factor"] + write_seconds(part, moved, values)
            return np.asarray(np.log(seconds / part.seconds)[~held])

        values = solve(Fit(parameters=SERVING, softness=0.1), residuals).values
        return np.asarray((law + write_seconds(part, moved, values))[held])

    sizes = (part.batch, part.heads, part.kv_heads, part.tokens, part.head_dim)
    predicted = held_out(fold_of(sizes, folds, seed), folds, predict)
    return Check(predicted=predicted, law=law, measured=part.seconds)
