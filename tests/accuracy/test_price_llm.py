"""Rows of language models against what was measured, and the words beside them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reference.curate_training import training_run
from reference.machine_words import model_settings

from podsim.accuracy.price_llm import price_llm
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
