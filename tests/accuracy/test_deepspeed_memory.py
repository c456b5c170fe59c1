"""Memory that Megatron-DeepSpeed needs: its constants repeat their fit, and hold for rows left out of it."""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from podsim.accuracy.price_llm import make_batches, row_costs, training_run
from podsim.axes import Floats
from podsim.training.software import Software, load_software

NAME = "megatron-deepspeed"
PACKED = files("podsim.accuracy.tables").joinpath("llm.csv.gz").read_bytes()
ROWS = [
    row
    for row in csv.DictReader(gzip.decompress(PACKED).decode().splitlines())
    if row["memory_gb"] and f"software={NAME}" in row["plan"] and row["role"] == "calibrate"
]
MEASURED = np.array([float(row["memory_gb"]) * 1e9 for row in ROWS])
IS_BF16 = np.array([row["precision"] == "bf16" for row in ROWS])
BATCHES = make_batches([training_run(row) for row in ROWS])


def needed(software: Software) -> Floats:
    return row_costs(BATCHES, software).memory


def fitted(rows: Floats) -> Floats:
    """[floor in B, reserved share] by least squares of the relative errors of some rows."""
    bare = replace(load_software(NAME), memory_floor=0.0, reserved_share=0.0)
    base, held = needed(bare), needed(replace(bare, reserved_share=1.0))
    terms = np.stack([np.ones_like(base), held - base], axis=1)[rows] / MEASURED[rows, None]
    return np.linalg.lstsq(terms, (MEASURED - base)[rows] / MEASURED[rows], rcond=None)[0]


def test_the_constants_repeat_their_fit() -> None:
    known = load_software(NAME)
    assert len(ROWS) > 20
    floor, share = fitted(np.ones_like(IS_BF16))
    assert (known.memory_floor, known.reserved_share) == pytest.approx((floor, share), rel=0.02)


@pytest.mark.parametrize("left_out", [IS_BF16, ~IS_BF16])
def test_a_fit_to_one_precision_holds_for_the_other(left_out: Floats) -> None:
    floor, share = fitted(~left_out)
    errors = needed(replace(load_software(NAME), memory_floor=floor, reserved_share=share)) / MEASURED - 1
    assert np.abs(errors[left_out]).mean() < 0.08
    assert abs(errors[left_out].mean()) < 0.06


def test_sums_of_bf16_gradients_are_not_divided() -> None:
    known = load_software(NAME)
    saved = needed(known) - needed(replace(known, accumulator_memory=0.0))
    assert (saved[~IS_BF16] == 0).all()
    assert (saved[IS_BF16] > 8e9).all()  # 4 B of 176e9 parameters over 48 or 96 ranks, and the embedding
