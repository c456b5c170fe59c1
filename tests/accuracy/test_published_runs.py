"""20 published runs of large language models: the table, and what stands beside its rows."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from podsim.accuracy.price_llm import make_batches, price_llm, row_seconds, training_runs
from podsim.accuracy.tables import Row, load, measurement
from podsim.training.software import load_software

ROWS = load("published-runs")
LLAMA = [(8192, 430), (16384, 400)]
"""GPUs and TFLOP/s of a GPU in table 4 of arXiv 2407.21783"""


def test_there_are_20_runs_and_podsim_predicts_all() -> None:
    priced = price_llm(replace(ROWS, with_own_plans=False))
    assert len(ROWS) == len(priced.predictions) == 20
    assert not priced.reasons


def test_all_20_fit_and_14_take_what_their_sources_say_within_10_percent() -> None:
    priced = price_llm(replace(ROWS, with_own_plans=False))
    measured = {row.id: measurement(row, "seconds per step") for row in ROWS}
    errors = [abs(priced.predictions[id] / found.value - 1) for id, found in measured.items() if found]
    assert len(errors) == 20
    assert sum(error <= 0.1 for error in errors) >= 14
    assert not [id for id, note in priced.notes.items() if "does not fit" in note]


@pytest.mark.parametrize(("gpus", "tflops"), LLAMA)
def test_step_of_llama_3_by_hand_from_its_rate(gpus: int, tflops: float) -> None:
    """6 FLOPs a parameter and token, and causal attention of 126 layers, for 2,048 sequences of 8,192 tokens."""
    per_token = 6 * 405.85e9 + 6 * 126 * 16384 * 8192
    seconds = per_token * 2048 * 8192 / (gpus * tflops * 1e12)
    assert ROWS[f"RUN-L3-{gpus}"].number("step_time_s") == pytest.approx(seconds, rel=0.005)


def test_step_of_deepseek_v3_agrees_with_its_gpu_hours() -> None:
    """180,000 GPU-hours a trillion tokens."""
    row = ROWS["RUN-DSV3"]
    rate = 1e12 / (180e3 * 3600)
    assert 15360 * 4096 / 2048 / (row.number("step_time_s") or 0) == pytest.approx(rate, rel=0.002)


def test_memory_band_and_a_plan_that_is_no_slower_stand_beside_a_row() -> None:
    """Its degrees, but for experts that share the ranks of replicas, make 64 GPUs."""
    row: Row = ROWS["RUN-8X7B"]
    priced = price_llm(replace(ROWS, rows=(row,)))
    note = priced.notes[row.id]
    assert "GB; band " in note
    seconds, degrees = note.split("own plan ")[1].split(";")[0].split(" s: ")
    ranks = {name: int(value) for name, value in (word.split("=") for word in degrees.split())}
    assert prod(value for name, value in ranks.items() if name != "ep") == 64
    assert float(seconds) <= priced.predictions[row.id]


def test_what_the_bf16_optimizer_moves_brings_the_mean_of_the_calibrate_rows_of_bloom_closer() -> None:
    rows = [
        row for row in load("bloom-plans") if row.role == "calibrate" and "fp16" not in row.text("precision")
    ]
    runs = [run for _, run in training_runs([row.fields for row in rows])[0]]
    measured = np.array([row.number("step_time_s") for row in rows])
    errors = [
        np.mean(row_seconds(make_batches(runs), load_software(name, runs[0].cluster.gpu)) / measured - 1)
        for name in ("megatron-deepspeed", "megatron-deepspeed-bf16")
    ]
    assert len(rows) == 6
    assert abs(errors[1]) < 0.8 * abs(errors[0])
