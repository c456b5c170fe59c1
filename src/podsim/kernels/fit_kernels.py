"""Constants of the kernel laws from measured rows: `fit_gpu`, and how well they hold: `cross_validate`.

Kernels under 20 us have a third of the weight. Every constant is pulled to the base GPU's value, so that a short
table moves what it can tell and leaves the rest. A fit takes seconds.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from podsim.axes import Bools, Floats
from podsim.errors import TableError
from podsim.fitting import Fit, Parameter, Values, fold_of, held_out, solve
from podsim.hardware.parts import Gpu
from podsim.kernels.constants import (
    LENDER,
    Evidence,
    FlashConstants,
    GemmConstants,
    KernelConstants,
    MemoryConstants,
    base_name,
    borrowing,
    load_constants,
)
from podsim.kernels.fit_attention import fit_flash
from podsim.kernels.fit_products import (
    LONG,
    UNMEASURED,
    Check,
    evidence_of,
    fit_batches,
    fit_long_runs,
    fit_products_law,
    is_host_timed,
    law_seconds,
)
from podsim.kernels.gemm import correction_at, is_aligned, operand_bytes, peak_of
from podsim.kernels.gemm_correction import Correction
from podsim.kernels.measured_kernels import KernelRows

_SAMPLE = 2500
"""rows that a fit looks at; a longer table is thinned evenly"""

_START = GemmConstants(
    share_256x128=0.95, share_128x128=0.8, share_128x64=0.65, share_64x64=0.55, share_32x64=0.3, ceiling=0.89,
    fill=80.0, bandwidth_share=0.81, store=0.7, startup=1.3e6, latency=2.8e-6, sharpness=3.3, reduction=0.5,
    split_latency=2e-6, unaligned=0.65, **UNMEASURED,
)  # fmt: skip
_BOUNDS = {  # step, least, greatest
    "share_256x128": (0.1, 0.3, 1.05), "share_128x128": (0.1, 0.2, 1.05), "share_128x64": (0.1, 0.2, 1.0),
    "share_64x64": (0.1, 0.1, 1.0), "share_32x64": (0.1, 0.05, 1.0), "ceiling": (0.05, 0.4, 1.0),
    "fill": (40.0, 1.0, 400.0), "bandwidth_share": (0.05, 0.5, 0.97), "store": (0.2, 0.2, 2.0),
    "startup": (1e6, 1e5, 2e7), "latency": (1e-6, 0.5e-6, 12e-6), "sharpness": (1.0, 1.5, 8.0),
    "reduction": (0.3, 0.02, 2.0), "split_latency": (1e-6, 0.3e-6, 6e-6),
}  # fmt: skip
"""constant -> (scale on which it is varied and pulled to its start, least, greatest)"""
_NARROW = _BOUNDS | {
    "share_256x128": (0.1, 0.05, 1.05), "share_128x128": (0.1, 0.05, 1.05), "share_128x64": (0.1, 0.02, 1.05),
    "share_64x64": (0.1, 0.01, 1.05), "share_32x64": (0.1, 0.01, 1.05), "fill": (40.0, 1.0, 1500.0),
    "startup": (1e6, 1e4, 2e7), "latency": (1e-6, 0.5e-6, 40e-6), "reduction": (0.3, 0.02, 50.0),
    "split_latency": (1e-6, 0.3e-6, 300e-6), "quantise": (0.3, 0.0, 5.0), "quantise_latency": (1e-6, 0.0, 40e-6),
}  # fmt: skip
"""_BOUNDS of formats below 16 bits: their kernels are slower at small tiles, and some libraries do not split k"""
_QUANTISED = ("fp8", "fp8_block", "mxfp8", "nvfp4")
"""Formats measured in engines, which quantise the input of each product; their products start as 16-bit ones do."""
_WEIGHTS = ("int8_wo", "int4_wo")
"""formats of weights alone: their arithmetic has 16 bits"""
_HOST = Parameter(start=20e-6, low=0.0, high=60e-6, scale=20e-6)
"""s. The host's time of a call."""
_UNALIGNED = Fit(
    parameters={
        "unaligned": Parameter(start=0.65, low=0.1, high=1.0),
        "factor": Parameter(start=1.0, low=0.5, high=2.0),
        "host": _HOST,
    },
    softness=0.05,
    differences=(1e-2,),
)
_MEMORY = Fit(
    parameters={
        "latency": Parameter(start=2e-6, low=0.3e-6, high=8e-6, scale=1e-6),
        "startup": Parameter(start=1e6, low=0.0, high=20e6, scale=1e6),
        "share": Parameter(start=0.85, low=0.3, high=0.98),
    },
    softness=0.05,
)

_SUPERBENCH = "github.com/microsoft/superbenchmark, tests/analyzer/test_results.jsonl (Azure NDv4, medians)"
_MAMF = "github.com/stas00/ml-engineering, compute/accelerator/README.md (best of a search, mamf-finder)"
_PUBLISHED = {
    "a100-sxm4-80gb": (
        ("tf32", 127.9e12, _SUPERBENCH), ("fp32", 18.35e12, _SUPERBENCH),
        ("fp64", 18.9e12, _SUPERBENCH), ("int4", 970.8e12, _SUPERBENCH),
    ),
    "b200": (("bf16", 1745e12, _MAMF),),
    "gb200": (("bf16", 1822e12, _MAMF),),
    "mi300x": (("bf16", 668.4e12, _MAMF),),
}  # fmt: skip
"""GPU -> (precision, greatest FLOP/s that was published, source): the ceiling where that is all there is"""

_WIDTHS = (0.35, 0.35, 0.5)
"""octaves of m, n, k over which a correction is smoothed: good for all GPUs in cross-validation"""
_APART = 0.4
"""octaves between the sizes of a correction's grid, if the rows do not fill a grid of their own"""


def fit_gpu(rows: KernelRows, gpu: Gpu, *, made_by: str = "podsim calibrate") -> KernelConstants:
    """Constants of `gpu` from the rows measured on it, the rest from the GPU its family starts from.

    Evidence (rows, errors, sources) is given for each table fitted here, and only those. Raises TableError
    when no product was measured on this GPU.
    """
    base = base_name(gpu)
    start = load_constants(base) if base else None
    own = rows.take(rows.gpu == gpu.name.lower())
    gemm: dict[str, GemmConstants] = dict(start.gemm) if start else {}
    first = _START if gpu.name.lower() == LENDER else borrowing(_START)
    flash: dict[str, FlashConstants] = dict(start.flash) if start else {}
    evidence: dict[str, Evidence] = {}
    corrections: dict[str, Correction] = {}
    measured = _products(own)
    if not len(measured) and gpu.name.lower() not in _PUBLISHED:
        raise TableError(
            f"no product was measured on {gpu.name}; the table has {', '.join(sorted(set(rows.gpu)))}"
        )
    names, counts = np.unique(measured.precision, return_counts=True)
    for precision in (str(name) for name in names[np.lexsort((-counts, np.isin(names, _QUANTISED)))]):
        part = measured.take(measured.precision == precision)
        near = _near(gemm, precision) if gemm else first
        if precision in _QUANTISED:
            near = replace(near, latency=_near(gemm, "bf16").latency)
        fitted, correction, _ = _fit_precision(part, gpu, near, bool(gemm))
        gemm[precision], note = _fit_unaligned(rows, gpu, fitted)
        if precision in ("fp16", "bf16"):
            gemm[precision], long_runs = fit_long_runs(rows, gpu, gemm[precision])
            gemm[precision], batches = fit_batches(rows, gpu, gemm[precision])
            note += long_runs + batches
        if correction is not None:
            corrections[precision] = correction
        evidence[f"gemm.{precision}"] = _evidence_of(
            part, cross_validate(rows, gpu, precision=precision), note
        )
    _add_published(gpu, gemm, evidence)
    memory = _fit_memory(measured, gpu, start, evidence)
    for algorithm in ("triton", "flash1", "flash2", "flash3"):
        fitted_flash = fit_flash(own, gpu, algorithm, memory, flash)
        if fitted_flash is not None:
            flash[algorithm], evidence[f"flash.{algorithm}"] = fitted_flash
    return KernelConstants(
        name=gpu.name.lower(), sms=gpu.sms, gemm=gemm, flash=flash, memory=memory, corrections=corrections,
        evidence=evidence, base=base, made_by=made_by, extrapolated=not len(measured),
    )  # fmt: skip


def _near(gemm: dict[str, GemmConstants], precision: str) -> GemmConstants:
    """Constants that a fit of `precision` starts from."""
    return gemm.get(precision) or next(iter(gemm.values()), _START)


def _add_published(gpu: Gpu, gemm: dict[str, GemmConstants], evidence: dict[str, Evidence]) -> None:
    """Ceilings of precisions that were only measured at their best, over the constants of the nearest.

    Filling a pipeline takes a time, in which the plain units of fp32 do fewer multiply-adds than tensor cores.
    """
    for precision, greatest, source in _PUBLISHED.get(gpu.name.lower(), ()):
        if f"gemm.{precision}" not in evidence:
            near = _near(gemm, precision)
            slower = gpu.peaks["fp32"] / peak_of(gpu, "bf16") if precision == "fp32" else 1.0
            gemm[precision] = replace(
                near, ceiling=greatest / peak_of(gpu, precision), fill=near.fill * slower
            )
            evidence[f"gemm.{precision}"] = Evidence(
                rows=1, median_error=0.0, mean_error=0.0, sources=(source,),
                note="the ceiling is the published rate; the rest is of the nearest precision or GPU",
            )  # fmt: skip


def cross_validate(
    rows: KernelRows, gpu: Gpu, *, folds: int = 5, seed: int = 0, precision: str = "bf16"
) -> Check:
    """Predictions for products on `gpu`, each fold predicted by a fit to the others.

    Folds are drawn over distinct sizes: a size that was measured twice is held out as a whole. The host's time of a
    call, where the source has it, is predicted too. Raises TableError for too few rows.
    """
    part = _products(rows.take((rows.gpu == gpu.name.lower()) & (rows.precision == precision)))
    if len(part) < folds:
        raise TableError(f"{len(part)} {precision} products on {gpu.name} cannot be cut in {folds} folds")
    start, hosted = _start(gpu, precision), is_host_timed(part)

    def predict(held: Bools) -> Floats:
        constants, correction, host = _fit_precision(part.take(~held), gpu, *start)
        kernels, calls = law_seconds(constants, gpu, part.take(held)), hosted[held] * host
        logs = (
            0.0 if correction is None else correction_at(correction, part.m[held], part.n[held], part.k[held])
        )
        return np.stack([kernels + calls, kernels * np.exp(logs) + calls])

    law, predicted = held_out(fold_of((part.m, part.n, part.k), folds, seed), folds, predict)
    return Check(predicted=predicted, law=law, measured=part.seconds)


def host_seconds(rows: KernelRows, gpu: Gpu) -> Floats:
    """s of the host in the time of each row, all of one precision: 0 but where the source was timed on the host."""
    hosted = is_host_timed(rows)
    if not hosted.any():
        return np.zeros(len(rows))
    _, _, host = _fit_precision(_products(rows), gpu, *_start(gpu, str(rows.precision[0])))
    return np.where(hosted, host, 0.0)


def _start(gpu: Gpu, precision: str) -> tuple[GemmConstants, bool]:
    """Where a fit for a GPU starts from, and whether that was measured."""
    base = base_name(gpu)
    start = dict(load_constants(base).gemm) if base else {}
    return _near(start, precision), bool(start)


def _products(rows: KernelRows) -> KernelRows:
    """Single aligned products that state their sizes; batches are fitted after them (fit_batches)."""
    keep = (rows.op == "gemm") & ~rows.sustained & np.isfinite(rows.m * rows.n * rows.k)
    rows = rows.take(keep)
    width = np.array([2.0 ** math.floor(math.log2(operand_bytes(p))) for p in rows.precision])
    return rows.take(is_aligned(rows.m, rows.n, rows.k, width, "nn"))


def _fit_precision(
    rows: KernelRows, gpu: Gpu, start: GemmConstants, firm: bool
) -> tuple[GemmConstants, Correction | None, float]:
    """Constants, the smoothed rest where the rows fill a grid, the host's s of a call. `firm`: the start was measured."""
    fitted, host = _fit_gemm(rows, gpu, start, 0.1 if firm and len(rows) < 300 else 0.01)
    expected = law_seconds(fitted, gpu, rows) + is_host_timed(rows) * host
    return fitted, _correction(rows, np.log(rows.seconds / expected)), host


def _fit_gemm(rows: KernelRows, gpu: Gpu, start: GemmConstants, pull: float) -> tuple[GemmConstants, float]:
    """Constants and the host's s per kernel (0 where rows were not timed on the host)."""
    precision = rows.precision[0]
    bounds = _BOUNDS if operand_bytes(precision) >= 2 and precision not in _WEIGHTS else _NARROW
    fixed = ("latency",) if precision in _QUANTISED else ("quantise", "quantise_latency")
    step = max(1, -(-len(rows) // _SAMPLE))
    rows = rows.take(np.arange(0, len(rows), step))
    parameters = {
        name: Parameter(
            start=float(np.clip(getattr(start, name), low, high)), low=low, high=high, scale=scale
        )
        for name, (scale, low, high) in bounds.items()
        if name not in fixed
    }
    host = _HOST if is_host_timed(rows).any() else replace(_HOST, start=0.0)
    fit = Fit(
        parameters=parameters | {"host": host}, softness=0.05, pull=pull, differences=(3e-2, 1e-2, 3e-3),
        evaluations=40,
    )  # fmt: skip
    weights = np.where(rows.seconds > LONG, 1.0, 0.3)
    fitted, solution = fit_products_law([(gpu, rows, weights)], start, fit)
    return fitted, solution.values["host"]


def _correction(rows: KernelRows, logs: Floats) -> Correction | None:
    """Mean residual around each grid point, weighted by a Gaussian in log2 of the sizes.

    None for fewer than 300 rows. The grid is that of their own sizes if they fill half of it, else of sizes at least
    _APART octaves from each other. One row weighs little against its neighbours, and far from all rows the correction
    goes to zero.
    """
    sizes = (rows.m, rows.n, rows.k)
    axes = [np.unique(s) for s in sizes]
    if len(rows) < 0.5 * math.prod(map(len, axes)):
        axes = [_apart(axis) for axis in axes]
    shape = tuple(map(len, axes))
    if len(rows) < 300 or min(shape) < 2:
        return None
    weights = [
        np.exp(-0.5 * ((np.log2(axis)[:, None] - np.log2(size)) / octaves) ** 2)
        for axis, size, octaves in zip(axes, sizes, _WIDTHS, strict=True)
    ]
    sums, counts = (
        np.einsum("mr,nr,kr->mnk", weights[0] * rest, *weights[1:], optimize=True)
        for rest in (np.clip(logs, -0.4, 0.4), 1.0)
    )
    positions = [
        np.searchsorted(axis, size).clip(max=len(axis) - 1) for axis, size in zip(axes, sizes, strict=True)
    ]
    on_grid = np.all(
        [axis[at] == size for axis, at, size in zip(axes, positions, sizes, strict=True)], axis=0
    )
    measured = np.zeros(shape, dtype=bool)  # [m, n, k]
    measured[tuple(at[on_grid] for at in positions)] = True
    log_m, log_n, log_k = (np.log2(axis) for axis in axes)
    return Correction(log_m=log_m, log_n=log_n, log_k=log_k, logs=sums / (counts + 0.05),
                      measured=measured)  # fmt: skip


def _apart(sizes: Floats) -> Floats:
    """The increasing sizes that are at least _APART octaves above the one kept before."""
    kept = [sizes[0]]
    for size in sizes[1:]:
        if size >= kept[-1] * 2**_APART:
            kept.append(size)
    return np.array(kept)


def _fit_unaligned(rows: KernelRows, gpu: Gpu, constants: GemmConstants) -> tuple[GemmConstants, str]:
    """The factor of unaligned sizes, against aligned ones of any GPU of the same chip; and a note.

    The source's own speed and host time are fitted beside it and dropped.
    """
    chip = gpu.name.lower().split("-")[0]
    halves = (rows.op == "gemm") & np.isin(rows.precision, ["fp16", "bf16"])
    part = rows.take(np.char.startswith(rows.gpu, chip + "-") & halves)
    part = part.take(np.isfinite(part.m) & (part.seconds > 10 * LONG))
    bad = ~is_aligned(part.m, part.n, part.k, 2.0, "nn")
    if bad.sum() < 20:
        return constants, "; no unaligned size was measured"
    part = part.take(np.isin(part.source, part.source[bad]))

    fitted, _ = fit_products_law([(gpu, part, np.ones(len(part)))], constants, _UNALIGNED)
    return fitted, f"; unaligned from {int(bad.sum())} sizes of {', '.join(sorted(set(part.source)))}"


def _fit_memory(
    rows: KernelRows, gpu: Gpu, start: KernelConstants | None, evidence: dict[str, Evidence]
) -> MemoryConstants:
    """Constants of streaming reads, from products with up to four tokens; without them, those of the base.

    The reader of a product is not always the best: being slower than a row costs three times being faster.
    """
    halves = np.isin(rows.precision, ["fp16", "bf16"])
    thin = rows.take(halves & (rows.m <= 4) & (rows.n >= 1024) & (rows.k >= 1024))
    if len(thin) < 50:
        if start is None:
            raise TableError(
                f"no streaming read was measured on {gpu.name}: products with m up to 4, n and k from 1024"
            )
        return start.memory
    moved = 2.0 * (thin.k * (thin.m + thin.n) + thin.m * thin.n)

    def logs(values: Values) -> Floats:
        reading = (moved + values["startup"]) / (gpu.memory_bandwidth * values["share"])
        return np.asarray(np.log((values["latency"] + reading) / thin.seconds))

    def residuals(values: Values) -> Floats:
        return np.where(logs(values) > 0, 3.0, 1.0) * logs(values)

    values = solve(_MEMORY, residuals).values
    evidence["memory"] = evidence_of(
        np.expm1(logs(values))[thin.seconds > LONG], thin.source,
        "products with 1 to 4 tokens, the faster ones weighted more; errors of those over 20 us", rows=len(thin),
    )  # fmt: skip
    return MemoryConstants(**values)


def _evidence_of(rows: KernelRows, check: Check, note: str) -> Evidence:
    errors, law = check.errors(), np.abs(check.errors(law=True))
    if not law.size:
        return evidence_of(errors, rows.source)
    said = f"five-fold cross-validation, {len(errors)} kernels over 20 us; law without correction: "
    said += f"median {np.median(law):.4f}, mean {law.mean():.4f}{note}"
    return evidence_of(errors, rows.source, said, rows=len(rows))
