"""Batches of products: constants that made the rows come out, held-out rows of published ones are met."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files

import numpy as np
import pytest
from reference.held_out_fits import cross_validate_batches

from podsim.errors import TableError
from podsim.fitting import fold_of
from podsim.hardware.catalog import load_gpu
from podsim.kernels.constants import kernel_constants
from podsim.kernels.fit_kernels import fit_gpu, host_seconds
from podsim.kernels.fit_products import fit_batches, fit_long_runs, law_seconds
from podsim.kernels.gemm import gemm_seconds
from podsim.kernels.measured_kernels import KernelRows, kernel_rows, read_rows

V100 = load_gpu("v100-sxm2-16gb")
A100 = load_gpu("a100-sxm4-40gb")
HOST = "EleutherAI, made"


@pytest.fixture(scope="module")
def rows() -> KernelRows:
    with as_file(files("podsim.accuracy.tables") / "kernels.csv.gz") as path:
        return read_rows(path)


def made(source: str, host: float, **constants: float) -> KernelRows:
    """Batches on V100 as the law with `constants` has them, with `host` seconds in each."""
    shapes = [(m, m, k, batch) for m in (32, 128, 512, 2048) for k in (1024, 4096) for batch in (1, 2, 8, 32)]
    table = [{"gpu": V100.name, "op": "bmm", "dtype": "fp16", "source": source, "latency_ms": "1",
              **dict(zip("mnk", map(str, shape), strict=False)), "batch": str(shape[3])} for shape in shapes]  # fmt: skip
    rows = kernel_rows(table)
    law = replace(kernel_constants(V100).gemm["fp16"], **constants)
    return replace(rows, seconds=law_seconds(law, V100, rows) + host)


@pytest.mark.parametrize(("source", "host"), [("made", 0.0), (HOST, 30e-6)])
def test_a_fit_finds_the_constants_behind_the_rows(source: str, host: float) -> None:
    truth = {"batched": 0.7, "step": 4e-7, "step_far": 3e-7}
    fitted, told = fit_batches(made(source, host, **truth), V100, kernel_constants(V100).gemm["fp16"])
    for name, value in truth.items():
        assert getattr(fitted, name) == pytest.approx(value, rel=0.05), name
    assert told == f"; batches from 24 sizes of {source}"


def test_the_law_of_fits_is_that_of_predictions() -> None:
    """For batches, which have no correction: sizes aligned to 16 B, to 4 B and to none."""
    rows = made("made", 0.0).take(np.full(3, 25))
    rows = replace(rows, k=np.array([1024.0, 1026.0, 1025.0]))
    predicted = gemm_seconds(V100, rows.m, rows.n, rows.k, batch=rows.batch, precision="fp16")
    assert set(zip(rows.m, rows.n, rows.batch, strict=True)) == {(2048.0, 2048.0, 2.0)}
    assert law_seconds(kernel_constants(V100).gemm["fp16"], V100, rows) == pytest.approx(predicted)
    assert predicted[0] * 1.1 < predicted[1] < predicted[2]


def test_short_kernels_carry_no_fit() -> None:
    """Kernels of 5 us tell more of their launch than of themselves."""
    shapes = [(m, n, k) for m in (32, 64, 128) for n in (32, 64, 128) for k in (32, 64, 128)]
    table = [{"gpu": V100.name, "op": "gemm", "dtype": "fp16", "source": "made", "latency_ms": "0.005",
              **dict(zip("mnk", map(str, shape), strict=True))} for shape in shapes]  # fmt: skip
    with pytest.raises(TableError, match="no kernel of the fit took over 20 us; measure larger ones"):
        fit_gpu(kernel_rows(table), V100)


@pytest.mark.parametrize(("n", "told"), [(1032, "; clock of long runs from 24 sizes of made"), (1028, None)])
def test_long_runs_of_aligned_sizes_tell_their_clock(n: int, told: str | None) -> None:
    """1,032 halves are 129 times 16 B; 1,028 are not a multiple, and no such size counts."""
    table = [{"gpu": V100.name, "op": "gemm", "dtype": "fp16", "source": "made", "latency_ms": "1", "m": str(m),
              "n": str(n), "k": "4104", "clock": "sustained"} for m in range(2048, 8192, 256)]  # fmt: skip
    start = replace(kernel_constants(V100).gemm["fp16"], ceiling=0.5, sustained=1.0)
    rows = kernel_rows(table)
    rows = replace(rows, seconds=law_seconds(replace(start, sustained=0.7), V100, rows))
    fitted, note = fit_long_runs(rows, V100, start)
    assert note == (told or "; no long run was measured")
    assert fitted.sustained == pytest.approx(0.7 if told else start.sustained, rel=0.02)


def test_what_was_not_measured_stays() -> None:
    start = kernel_constants(V100).gemm["fp16"]
    few = made("made", 0.0).take(np.arange(8))
    assert fit_batches(few, V100, start) == (start, "; no batch was measured")
    board = load_gpu("a100-pcie-80gb")  # its base is of its own chip
    assert fit_batches(made("made", 0.0), board, start) == (start, "")


def test_a_fit_of_a_gpu_has_those_of_its_batches(rows: KernelRows) -> None:
    fitted, packaged = fit_gpu(rows, V100), kernel_constants(V100)
    for name in ("batched", "step", "step_far"):
        assert getattr(fitted.gemm["fp16"], name) == pytest.approx(
            getattr(packaged.gemm["fp16"], name), rel=0.01
        )
    assert "batches from 78 sizes" in fitted.evidence["gemm.fp16"].note


@pytest.mark.parametrize(("gpu", "median", "mean"), [(A100, 0.08, 0.10), (V100, 0.035, 0.05)])
def test_held_out_batches_are_met(rows: KernelRows, gpu, median: float, mean: float) -> None:
    """The bar: median 8 %, mean 15 %, none beyond twice; also as rates, which the table has."""
    check = cross_validate_batches(rows, gpu)
    assert len(check.predicted) == (407 if gpu is A100 else 91)
    for ratio in (check.predicted / check.measured, check.measured / check.predicted):
        errors = np.abs(ratio - 1)
        assert np.median(errors) < median
        assert errors.mean() < mean
        assert errors.max() < 0.55


def test_folds_hold_a_size_out_as_a_whole() -> None:
    twice = np.tile(np.arange(40.0), 2)
    fold = fold_of((twice, twice), 5, 0)
    assert (fold[:40] == fold[40:]).all()
    assert set(fold.tolist()) == set(range(5))


def test_too_few_batches_to_hold_out(rows: KernelRows) -> None:
    with pytest.raises(ValueError, match="0 batches of products on a100-sxm4-80gb; 20 are needed"):
        cross_validate_batches(rows, load_gpu("a100-sxm4-80gb"))


def test_only_sources_timed_on_the_host_have_its_time(rows: KernelRows) -> None:
    own = rows.take((rows.gpu == A100.name.lower()) & (rows.op == "gemm"))
    host = host_seconds(own, A100)
    assert (host == host[0]).all()
    assert 5e-6 < host[0] < 40e-6
    grid = rows.take((rows.gpu == "h200-sxm5-141gb") & (rows.op == "gemm") & (rows.precision == "bf16"))
    assert not host_seconds(grid, load_gpu("h200-sxm5-141gb")).any()
