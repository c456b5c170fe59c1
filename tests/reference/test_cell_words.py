"""Batches, numbers and rates as sources write them in a cell."""

from __future__ import annotations

import pytest
from reference.cell_words import read_batch, read_rate_unit

from podsim.accuracy.reading import read_number


@pytest.mark.parametrize(
    ("cell", "precision", "batch"),
    [
        ("128 (FP32) / 256 (AMP)", "fp16", (256, False)),
        ("128 (FP32) / 256 (AMP)", "fp32", (128, False)),
        ("10@FP16, 4@TF32", "bf16", (10, False)),
        ("10@FP16, 4@TF32", "fp32", (4, False)),
        ("10@FP16", "fp8", None),
        ("5120/2560", "fp16", (5120, False)),
        ("5120/2560", "tf32", (2560, False)),
        ("4k/2k", "fp32", (2048, False)),
        ("4k", "fp16", (4096, False)),
        ("1,024 global", "fp16", (1024, True)),
        ("256 samples per GPU", "fp16", (256, False)),
        ("2k (overall)", "fp16", (2048, True)),
        ("as large as fits", "fp16", None),
    ],
)
def test_batches(cell: str, precision: str, batch: tuple[float, bool] | None) -> None:
    assert read_batch(cell, precision) == batch


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,048,576", 1048576), ("3.2k", 3200), ("1.5 million", 1.5e6), ("2M", 2e6), ("1.2 billion", 1.2e9), ("7B", 7e9),
        ("4 thousand", 4000), ("2G", 2e9), ("1e3", 1000), ("1 000", 1000), ("twelve", None),
    ],
)  # fmt: skip
def test_numbers(text: str, number: float | None) -> None:
    assert read_number(text) == (None if number is None else pytest.approx(number))


@pytest.mark.parametrize(
    ("text", "factor", "counts", "is_per_gpu"),
    [
        ("images/s", 1.0, "samples", False),
        ("samples/sec", 1.0, "samples", False),
        ("sequences/s/GPU", 1.0, "samples", True),
        ("tokens per second", 1.0, "tokens", False),
        ("mol/ms", 1000.0, "samples", False),
        ("images/min", 1 / 60, "samples", False),
        ("frames/sec", 1.0, "frames", False),
        ("samples/h", 1 / 3600, "samples", False),
    ],
)
def test_units_of_rates(text: str, factor: float, counts: str, is_per_gpu: bool) -> None:
    unit = read_rate_unit(text)
    assert unit is not None
    assert (unit.factor, unit.counts, unit.is_per_gpu) == (pytest.approx(factor), counts, is_per_gpu)
