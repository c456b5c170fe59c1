"""Fits of matrix products: the law on measured rows, the host's time in them, and constants of batches.

Fitted of batches, on top of plain products, are what they reach of the ceiling, and how long a thread block waits at a
step of k.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from podsim.axes import Floats
from podsim.errors import TableError
from podsim.fitting import Fit, Parameter, Solution, Values, solve
from podsim.hardware.catalog import load_gpu
from podsim.hardware.parts import Gpu
from podsim.kernels.constants import Evidence, GemmConstants, base_name
from podsim.kernels.gemm import (
    gemm_law,
    is_aligned,
    operand_bytes,
    operand_widths,
    peak_of,
    quantise_seconds,
    result_bytes,
    sustained_constants,
)
from podsim.kernels.measured_kernels import KernelRows

LONG = 20e-6
"""s. The shortest kernel whose error is reported."""
_HOST_TIMED = ("EleutherAI",)
"""Sources timed on the host's clock, call by call: their fit has one more constant, the host's time of a call."""
_ENGINE_TIMED = "aiconfigurator"
"""A word of the sources that timed an inference engine's products, whose input is quantised on the way."""
_FIELDS = frozenset(field.name for field in fields(GemmConstants))


@dataclass(frozen=True, kw_only=True)
class Check:
    """Predicted and measured seconds, row by row, shape (R,); both with the host's time where the source has it."""

    predicted: Floats
    law: Floats
    """s. The prediction without the correction."""
    measured: Floats

    def errors(self, *, law: bool = False) -> Floats:
        """predicted / measured - 1 of rows over 20 us."""
        long = self.measured > LONG
        return np.asarray((self.law if law else self.predicted)[long] / self.measured[long] - 1)


def law_seconds(constants: GemmConstants, gpu: Gpu, rows: KernelRows) -> Floats:
    """Seconds of rows, all of one precision, by the law."""
    precision = str(rows.precision[0])
    machine = (float(gpu.sms), peak_of(gpu, precision), gpu.memory_bandwidth)
    widths = (
        operand_widths(precision, rows.m, rows.n),
        np.where(rows.accumulate, 8.0, result_bytes(precision)),
    )
    aligned = is_aligned(rows.m, rows.n, rows.k, operand_bytes(precision), "nn")
    shapes = (rows.m, rows.n, rows.k, rows.batch)
    odd = ~is_aligned(rows.m, rows.n, rows.k, 4 * operand_bytes(precision), "nn")
    product = gemm_law(constants, machine, shapes, widths=widths, aligned=aligned, odd=odd, cache=gpu.l2)
    if rows.sustained.any():
        long = gemm_law(
            sustained_constants(constants),
            machine,
            shapes,
            widths=widths,
            aligned=aligned,
            odd=odd,
            cache=gpu.l2,
        )
        product = np.where(rows.sustained, long, product)
    quantising = quantise_seconds(constants, gpu.memory_bandwidth, rows.m * rows.k, precision)
    return np.asarray(product + is_engine_timed(rows) * quantising)


def is_host_timed(rows: KernelRows) -> npt.NDArray[np.bool_]:
    """Which rows were timed on the host's clock, and so hold its time of a call."""
    return np.array([source.startswith(_HOST_TIMED) for source in rows.source], dtype=bool)


def is_engine_timed(rows: KernelRows) -> npt.NDArray[np.bool_]:
    """Which rows were timed in an inference engine, and so hold the time in which it quantises the input."""
    return np.array([_ENGINE_TIMED in source for source in rows.source], dtype=bool)


def fit_products_law(
    parts: Sequence[tuple[Gpu, KernelRows, Floats]], constants: GemmConstants, fit: Fit
) -> tuple[GemmConstants, Solution]:
    """`constants` with those that `fit` varies, and the solution.

    Each part is a GPU, its rows and their weights. Of the parameters, "host" is the host's seconds in rows timed on its
    clock, and "factor" what the source's seconds are over the law's; the others are constants of the law.
    """
    hosted = [is_host_timed(rows) for _, rows, _ in parts]

    def residuals(values: Values) -> Floats:
        law, factor, host = (
            _with_values(constants, values),
            values.get("factor", 1.0),
            values.get("host", 0.0),
        )
        logs = [
            np.log((law_seconds(law, gpu, rows) * factor + is_hosted * host) / rows.seconds) * weights
            for (gpu, rows, weights), is_hosted in zip(parts, hosted, strict=True)
        ]
        return np.concatenate(logs)

    solution = solve(fit, residuals)
    return _with_values(constants, solution.values), solution


def _with_values(constants: GemmConstants, values: Values) -> GemmConstants:
    return replace(constants, **{name: value for name, value in values.items() if name in _FIELDS})


def evidence_of(
    errors: Floats, sources: Iterable[str], note: str = "", *, rows: int | None = None
) -> Evidence:
    """The evidence of a fit: its relative errors, and the sources of its rows (as many as errors unless given).

    Raises TableError without errors: no constants rest on kernels that are shorter than their launch.
    """
    sizes = np.abs(errors)
    if not sizes.size:
        raise TableError(f"no kernel of the fit took over {LONG * 1e6:.0f} us; measure larger ones")
    return Evidence(
        rows=len(sizes) if rows is None else rows,
        median_error=float(np.median(sizes)),
        mean_error=float(sizes.mean()),
        sources=tuple(sorted(set(sources))),
        note=note,
    )


UNMEASURED = {
    "batched": 0.91, "step": 1e-7, "step_far": 0.5e-7, "odd": 0.6, "shallow": 136.0, "shallow_step": 2.2e-6,
    "sustained": 0.925,
}  # fmt: skip
"""Constants of a chip whose batches and long runs were not measured, near those of the A100; fits start here."""
_FIT = Fit(
    parameters={
        "batched": Parameter(start=UNMEASURED["batched"], low=0.3, high=1.05),
        "step": Parameter(start=UNMEASURED["step"], low=1e-9, high=2e-6, scale=1e-7),
        "step_far": Parameter(start=UNMEASURED["step_far"], low=0.0, high=2e-6, scale=1e-7),
        "odd": Parameter(start=UNMEASURED["odd"], low=0.2, high=1.0),
        "shallow_step": Parameter(start=UNMEASURED["shallow_step"], low=0.0, high=1e-5, scale=1e-6),
        "host": Parameter(start=20e-6, low=0.0, high=60e-6, scale=20e-6),
    },
    softness=0.05,
    pull=0.01,
    differences=(3e-2, 1e-2),
    evaluations=40,
    # a wait is only felt from some length on, so one start is long
    other_starts=(
        {"batched": 0.7, "step": 5e-7, "step_far": 3e-7, "odd": 0.6, "shallow_step": 2e-6, "host": 20e-6},
    ),
)
FEWEST = 20
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
    if many < FEWEST:
        return constants, "; no batch was measured"
    fitted, _ = fit_products_law(parts_by_gpu(part), constants, batch_fit(part))
    return fitted, f"; batches from {many} sizes of {', '.join(sorted(set(part.source)))}"


_LONG_RUNS = Fit(
    parameters={"sustained": Parameter(start=UNMEASURED["sustained"], low=0.5, high=1.0)},
    softness=0.05,
    differences=(1e-2,),
)


def batch_fit(rows: KernelRows) -> Fit:
    """The fit of batches, without the constants of odd widths where no row has one."""
    if (~is_aligned(rows.m, rows.n, rows.k, 8.0, "nn")).any():
        return _FIT
    kept = {
        name: parameter for name, parameter in _FIT.parameters.items() if name not in ("odd", "shallow_step")
    }
    return replace(_FIT, parameters=kept)


def fit_long_runs(rows: KernelRows, gpu: Gpu, constants: GemmConstants) -> tuple[GemmConstants, str]:
    """`constants` with the clock of long runs, from 16-bit products of any GPU of the same chip; and a note."""
    chip = _chip(gpu.name)
    if _chip(base_name(gpu)) == chip:
        return constants, ""
    part = rows.take(np.char.startswith(rows.gpu, chip + "-") & (rows.op == "gemm") & rows.sustained)
    part = part.take(is_aligned(part.m, part.n, part.k, 2.0, "nn"))
    if len(part) < FEWEST:
        return constants, "; no long run was measured"
    fitted, _ = fit_products_law(parts_by_gpu(part), constants, _LONG_RUNS)
    return fitted, f"; clock of long runs from {len(part)} sizes of {', '.join(sorted(set(part.source)))}"


def _chip(name: str) -> str:
    return name.lower().partition("-")[0]


def parts_by_gpu(rows: KernelRows) -> list[tuple[Gpu, KernelRows, Floats]]:
    """The rows of each GPU, with it and equal weights: a chip is sold with memories of different speed."""
    parts = ((load_gpu(name), rows.take(rows.gpu == name)) for name in sorted(set(rows.gpu.tolist())))
    return [(gpu, part, np.ones(len(part))) for gpu, part in parts]
