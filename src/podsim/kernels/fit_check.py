"""What fits of kernels share: the law of products on measured rows, the host's time in them, errors and evidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from podsim.fitting import Fit, Solution, Values, solve
from podsim.hardware.parts import Gpu
from podsim.kernels.constants import Evidence, GemmConstants
from podsim.kernels.gemm import gemm_law, is_aligned, operand_bytes, peak_of, result_bytes
from podsim.kernels.measured_kernels import KernelRows

Floats = npt.NDArray[np.float64]

LONG = 20e-6
"""s. The shortest kernel whose error is reported."""
_HOST_TIMED = ("EleutherAI",)
"""Sources timed on the host's clock, call by call: their fit has one more constant, the host's time of a call."""
_FIELDS = frozenset(field.name for field in fields(GemmConstants))


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


def fit_products_law(
    parts: Sequence[tuple[Gpu, KernelRows, Floats]], constants: GemmConstants, fit: Fit
) -> tuple[GemmConstants, Solution]:
    """`constants` with those that `fit` varies, and the solution.

    Each part is a GPU, its rows and their weights. Of the parameters, "host" is the host's seconds in rows timed on its
    clock, and "factor" what the source's seconds are over the law's; the others are constants of the law.
    """
    hosted = [host_timed(rows) for _, rows, _ in parts]

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
    """The evidence of a fit: its relative errors, and the sources of its rows (as many as errors unless given)."""
    sizes = np.abs(errors)
    return Evidence(
        rows=len(sizes) if rows is None else rows,
        median_error=float(np.median(sizes)),
        mean_error=float(sizes.mean()),
        sources=tuple(sorted(set(sources))),
        note=note,
    )
