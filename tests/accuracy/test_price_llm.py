"""Rows of language models against what was measured, and the words beside them."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import pytest
from reference.curate_training import training_run
from reference.machine_words import model_settings

from podsim.accuracy.measured_runs import MEMORY_ERROR
from podsim.accuracy.price_llm import make_batches, price_llm, row_seconds
from podsim.accuracy.pricing import compare_rows
from podsim.accuracy.tables import load, measurement

KORTHIKANTI = load("korthikanti")


@pytest.mark.parametrize("what", ["seconds per step", "tokens/s per GPU", "FLOP/s per GPU"])
def test_runs_of_korthikanti_in_every_quantity(what: str) -> None:
    rows = replace(KORTHIKANTI, what=what)
    priced = price_llm(rows)
    found = {row.id: measurement(row, what) for row in rows if row.id in priced.predictions}
    assert sum(each is not None for each in found.values()) >= 4
    for id, each in found.items():
        if each is not None:
            assert priced.predictions[id] == pytest.approx(each.value, rel=0.15), id
            assert (priced.ideals[id] > priced.predictions[id]) == (what != "seconds per step")


def test_a_plan_that_does_not_fit_is_priced_and_said() -> None:
    rows = load("llm").where(lambda row: row.id == "KORT-0003")
    fields = {
        **rows.rows[0].fields,
        "plan": rows.rows[0].fields["plan"].replace("recompute=full", "recompute=none"),
    }
    (row,) = rows.rows
    priced = price_llm(replace(rows, rows=(replace(row, fields=fields),)))
    assert "does not fit: " in priced.notes["KORT-0003"]
    assert priced.notes["KORT-0003"].split("; ")[0].endswith(" of 80 GB")


def test_a_blank_width_of_the_inner_layer_is_four_times_the_width() -> None:
    row = dict(load("llm")["KORT-0003"].fields)
    assert row["ffn_hidden"] == str(4 * 12288)
    assert model_settings({**row, "ffn_hidden": ""}) == model_settings(row)


def test_a_blank_replication_is_what_the_gpus_leave() -> None:
    row = {
        k: v for k, v in load("llm")["KORT-0003"].fields.items() if k not in ("network", "cluster", "plan")
    }
    assert training_run({**row, "dp": "", "n_gpus": "128", "global_batch": "64"}).plan.dp == 2
    stated = {**row, "micro_batch": "", "accumulation": "16"}
    assert training_run(stated).plan.micro_batch == 4  # 64 sequences in 16 steps of one replica


def test_a_row_has_the_part_of_a_rack_that_predict_gives_its_gpus() -> None:
    import podsim

    row = {
        "network": "llama-3-8b sequence=4096", "cluster": "gb200-nvl72:4",
        "plan": "dp=64 global_batch=256 sequence=4096 sequence_parallel=true tp=4",
    }  # fmt: skip
    run = training_run(row)
    assert (run.cluster.gpus, run.cluster.gpus_per_node) == (256, 64)
    given = podsim.predict(
        "llama-3-8b", on="gb200-nvl72:4", gpus=256, tp=4, dp=64, batch=256, sequence=4096, sequence_parallel=True,
        software=run.plan.software,
    )  # fmt: skip
    assert row_seconds(make_batches([run])).item() == pytest.approx(given.step_time, rel=1e-6)


def test_plans_that_differ_in_what_experts_take_are_priced_apart() -> None:
    shared = "dp=8 ep=8 global_batch=64 sequence=4096"
    runs = [
        training_run({"network": "mixtral-8x7b", "cluster": "dgx-h100:1", "plan": f"{shared} {more}"})
        for more in ("", "capacity_factor=1.0", "capacity_factor=2.0")
    ]
    alone = [row_seconds(make_batches([run])).item() for run in runs]
    assert row_seconds(make_batches(runs)).tolist() == alone
    assert len(set(alone)) == 3


def test_the_granted_error_of_memory_follows_from_calibrate_rows() -> None:
    """Of 33 measured runs the 31st: with 95 % confidence at least four runs in five need no more (Wilks 1941)."""
    compared = [
        row for name in ("memory-bloom", "memory-torchtitan") for row in compare_rows(load(name)).rows
    ]
    more = sorted(row.measured / row.predicted - 1 for row in compared if row.role == "calibrate")
    below = [comb(len(more), k) * 0.8**k * 0.2 ** (len(more) - k) for k in range(len(more) + 1)]
    rank = next(k for k in range(1, len(more) + 1) if sum(below[:k]) >= 0.95)
    assert (len(more), rank) == (33, 31)
    assert round(more[rank - 1], 2) == MEMORY_ERROR
