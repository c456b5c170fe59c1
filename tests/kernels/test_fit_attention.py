"""Attention of serving programs: the write of the cache is found, and predicted with the rows."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files

import numpy as np
import pytest
from reference.held_out_fits import cross_validate_serving

from podsim.hardware.catalog import load_gpu
from podsim.kernels.attention import AttentionShape, attention_seconds
from podsim.kernels.constants import FlashConstants, MemoryConstants
from podsim.kernels.fit_attention import fit_flash, flash_seconds
from podsim.kernels.measured_kernels import KernelRows, kernel_rows, read_rows

A100 = load_gpu("a100-sxm4-80gb")
GPUS = ("a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm5-141gb")


@pytest.fixture(scope="module")
def rows() -> KernelRows:
    with as_file(files("podsim.accuracy.tables") / "kernels.csv.gz") as path:
        return read_rows(path)


def made(factor: float, traffic: float, each: float) -> KernelRows:
    """Prefill on A100: the law's time by a factor, keys and values moved once more, `each` s for each token."""
    shapes = [(b, h, s) for b in (1, 4, 16) for h in (8, 16, 32, 64) for s in (512, 1024, 2048, 4096, 8192)]
    same = {
        "gpu": A100.name, "op": "prefill attention", "dtype": "bf16", "source": "made",
        "kv_heads": "8", "head_dim": "128", "causal": "yes", "direction": "fwd", "latency_ms": "1",
    }  # fmt: skip
    table = [{**same, "batch": str(b), "heads": str(h), "seq_len": str(s)} for b, h, s in shapes]
    rows = kernel_rows(table)
    b, h, s = np.array(shapes, float).T
    shape = AttentionShape(
        batch=b, heads=h, kv_heads=8, queries=s, keys=s, head_dim=128, value_dim=128, causal=True
    )
    law = attention_seconds(A100, shape)
    moved = 4 * b * s * 128 * 8 / (0.81647 * A100.memory_bandwidth)
    return replace(rows, seconds=factor * law + traffic * moved + b * s * each)


def test_the_write_of_the_cache_is_found() -> None:
    rows = made(1.0, 2.0, 6e-9)
    check = cross_validate_serving(rows, A100)
    assert check.predicted == pytest.approx(rows.seconds, rel=0.01)
    assert (check.law < rows.seconds).all()


def test_a_factor_on_all_is_not_explained_away() -> None:
    check = cross_validate_serving(made(1.2, 1.0, 4e-9), A100)
    long = (check.law * 1.2 / check.measured) > 0.95  # hardly any write
    assert long.sum() >= 4
    assert np.abs(check.predicted[long] / check.measured[long] - 1 / 1.2).max() < 0.05


@pytest.mark.parametrize("gpu", GPUS)
def test_held_out_serving_rows_are_met_but_for_a_bias(rows: KernelRows, gpu: str) -> None:
    check = cross_validate_serving(rows, load_gpu(gpu))
    assert len(check.predicted) == 490
    ratio = check.predicted / check.measured
    offset = np.median(ratio)
    assert 0.88 < offset < 0.97
    assert np.median(np.abs(ratio / offset - 1)) < 0.05
    assert np.abs(check.law / check.measured - 1).mean() > 2 * np.abs(ratio - 1).mean()


def test_too_few_rows(rows: KernelRows) -> None:
    with pytest.raises(ValueError, match="0 serving rows on v100-sxm2-16gb; 50 are needed for 5 folds"):
        cross_validate_serving(rows, load_gpu("v100-sxm2-16gb"))


def test_constants_that_made_the_rows_are_found_again() -> None:
    """Forward rows of flash3 give its forward constants; its backward is 1.6 times as fast as that of flash2."""
    h100, memory = load_gpu("h100-sxm5-80gb"), MemoryConstants(share=0.8, startup=0.0, latency=0.0)
    true = FlashConstants(
        share_64=0.45,
        share_128=0.6,
        fill=60.0,
        tail=0.3,
        backward_64=0.8,
        backward_128=0.8,
        backward_fill=90.0,
    )
    same = {"gpu": h100.name, "op": "flash3", "dtype": "bf16", "source": "made", "latency_ms": "1"}
    shapes = [(b, h, s, d, c) for b in (1, 8) for h in (16, 64) for s in (512, 2048, 8192) for d in (64, 128)
              for c in ("yes", "no")]  # fmt: skip
    table = [same | {"batch": f"{b}", "heads": f"{h}", "kv_heads": f"{h}", "seq_len": f"{s}", "head_dim": f"{d}",
                     "causal": c, "direction": "fwd"} for b, h, s, d, c in shapes]  # fmt: skip
    rows = kernel_rows(table)
    rows = replace(rows, seconds=flash_seconds(true, rows, h100, memory)[0])
    fitted = fit_flash(rows, h100, "flash3", memory, {"flash2": true})
    assert fitted is not None
    assert fit_flash(rows, h100, "flash2", memory, {}) is None
    assert (fitted[0].share_64, fitted[0].share_128) == pytest.approx((0.45, 0.6), rel=0.02)
    assert fitted[0].backward_128 * fitted[0].share_128 == pytest.approx(0.6 * 0.8 * 1.6)
    assert flash_seconds(fitted[0], rows, h100, memory)[0] == pytest.approx(rows.seconds, rel=0.02)
