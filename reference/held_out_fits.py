"""Predictions of rows that constants were fitted to, each by a fit to the other folds.

scripts/record.py packages them (podsim.accuracy.held_out). Needs scipy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from podsim.accuracy.price_kernels import is_held_out, kernel_groups, modelled_rows
from podsim.accuracy.tables import Rows
from podsim.hardware.catalog import load_gpu
from podsim.hardware.parts import Gpu
from podsim.kernels.fit_attention import cross_validate_serving
from podsim.kernels.fit_kernels import cross_validate, host_seconds
from podsim.kernels.fit_products import cross_validate_batches
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
