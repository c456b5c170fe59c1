"""The clock that a power limit leaves."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from podsim import serve
from podsim.accuracy.tables import load
from podsim.hardware.catalog import load_gpu
from podsim.kernels.power_clock import borrowed_clock, clock_share, power_clock

_LOADS = np.linspace(0.01, 0.9, 40)


def test_a_small_limit_slows_a_busy_gpu_only() -> None:
    shares = clock_share(load_gpu("t4"), _LOADS)
    assert shares[0] == 1.0
    assert (np.diff(shares) <= 1e-12).all()
    assert 0.2 < shares[-1] < power_clock().floor


def test_below_the_lowest_voltage_power_goes_with_the_clock() -> None:
    chip = load_gpu("t4")
    shares = clock_share(chip, np.array([0.5, 0.75]))
    assert shares[0] / shares[1] == pytest.approx(1.5)


def test_a_measured_gpu_keeps_the_clock_of_its_kernels_and_a_slice_has_no_limit() -> None:
    assert (borrowed_clock(load_gpu("a100-sxm4-80gb"), _LOADS) == 1.0).all()
    assert (borrowed_clock(load_gpu("a30/1g.6gb"), _LOADS) == 1.0).all()


def test_more_power_is_a_higher_clock() -> None:
    chip = load_gpu("a30")
    warm, cool = (borrowed_clock(replace(chip, power=watts), _LOADS) for watts in (165.0, 240.0))
    assert (warm <= cool).all()
    assert warm[-1] < cool[-1]


@pytest.mark.parametrize(
    ("gpu", "lender", "mean"), [("t4", "v100-sxm2-32gb", 0.08), ("a30", "a100-sxm4-80gb", 0.07)]
)
def test_published_rates_of_bert_over_those_of_the_lender(gpu: str, lender: str, mean: float) -> None:
    """BERT-Large behind Triton with TensorRT, 384 tokens, fp16: the ratio of two GPUs with the same batch."""
    plan = re.compile(r"inference gpus=1 batch=(8|16) concurrency=1 precision=fp16 engine=tensorrt-triton")
    rates = {
        (row.text("cluster"), int(match[1])): row.number("throughput") or 0.0
        for row in load("vision")
        if row.text("network") == "bert-large-384" and (match := plan.fullmatch(row.text("plan")))
    }
    errors = []
    for batch in (8, 16):
        law = [
            serve("bert-large", on=on, tokens=384, precision="fp16", batch=str(batch)).rows[0].throughput
            for on in (gpu, lender)
        ]
        errors.append(law[0] / law[1] / (rates[gpu, batch] / rates[lender, batch]) - 1)
    assert sum(map(abs, errors)) / len(errors) < mean
