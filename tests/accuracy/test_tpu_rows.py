"""Published runs on TPUs: the packaged table is what its reader writes, and predictions keep their bars."""

from __future__ import annotations

import gzip
from dataclasses import replace

import numpy as np

from podsim.accuracy.price_llm import make_batches, price_llm, row_seconds, training_runs
from podsim.accuracy.tables import load, measurement
from reference import curate_tpu

TEST, BIAS = 0.12, 0.08


def test_the_table_is_what_its_reader_writes() -> None:
    assert gzip.decompress(curate_tpu.TARGET.read_bytes()) == gzip.decompress(curate_tpu.table_bytes())


def test_rows_of_role_test_keep_the_bars() -> None:
    rows = load("tpu").where(role="test")
    runs, reasons = training_runs([row.fields for row in rows])
    assert len(runs) == 38
    assert all(reasons.values())
    measured = [measurement(rows.rows[position], "seconds per step") for position, _ in runs]
    values = np.array([each.value for each in measured if each is not None])
    errors = row_seconds(make_batches([run for _, run in runs])) / values - 1
    assert np.abs(errors).mean() <= TEST
    assert abs(errors.mean()) <= BIAS


def test_runs_that_were_made_fit_or_say_what_lies_in_the_hosts_memory() -> None:
    """MaxText's `minimal` keeps products; Gemma 3 12B by hand: 46 of 48 layers' inputs of 32,768 tokens in bf16."""
    notes = price_llm(replace(load("tpu"), with_own_plans=False)).notes
    assert f"{46 * 32768 * 3840 * 2 / 1e9:.2f} GB of layers' inputs" in notes["TRC-0005"]
    assert "of 102 GB" not in notes["MXV5P-0001"]
    beyond = {id for id, note in notes.items() if "does not fit" in note}
    assert beyond == {"TRC-0008", "TRC-0009", "TRC-0010"}  # Llama 3.1 70B: a layer's own activations


def test_a_reason_says_what_is_missing() -> None:
    row = {
        "id": "1", "model": "llama3.1-8b", "seq_len": "8192", "gpu": "tpu-v5p", "n_gpus": "128", "global_batch": "128",
        "chip_topology": "4x4x8", "step_time_s": "2", "framework": "MaxText",
    }  # fmt: skip
    changes: list[dict[str, str]] = [
        {}, {"precision": "bf16/fp32 mix"}, {"precision": "bfloat16, no int8"}, {"tp": "none", "precision": "bf16"},
        {"precision": "int8"}, {"precision": "fp32"}, {"seq_len": ""}, {"model": "a-model"},
    ]  # fmt: skip
    rows = [{**row, **change, "id": str(number)} for number, change in enumerate(changes)]
    reasons = [found["reason"] for found in curate_tpu.curated(rows)]
    assert reasons[:4] == [""] * 4
    for reason, said in zip(
        reasons[4:], ("int8 (AQT)", "fp32", "seq_len is not given", "a-model"), strict=True
    ):
        assert said in reason
        assert ("int8" in reason) == (said == "int8 (AQT)")
