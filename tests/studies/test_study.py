"""Studies: rows as plan and predict give them, kept in a store, whatever runs them and whatever dies."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import podsim
from podsim.errors import PodsimError
from podsim.results.study import StudyRow

STUDY = {
    "common": {"model": "gpt2", "on": "dgx-a100-80gb", "tokens": "10G"},
    "grid": {"tp": [1, 2, 3], "micro_batch": [1, 2]},
}


def figures(rows: tuple[StudyRow, ...]) -> list[tuple[Any, ...]]:
    return [(row.settings, row.status, row.step_time, row.training, row.cost, row.energy) for row in rows]


def test_a_row_is_what_predict_says() -> None:
    row = podsim.study(STUDY, executor="serial").rows[2]
    prediction = podsim.predict("gpt2", on="dgx-a100-80gb", tp=2, tokens="10G")
    assert (row.step_time, row.mfu, row.memory) == (prediction.step_time, prediction.mfu, prediction.memory)
    assert prediction.training is not None
    assert row.training == prediction.training.expected
    assert row.plan == prediction.plan


def test_a_design_that_breaks_rules_leaves_the_others_alone() -> None:
    result = podsim.study(STUDY, executor="serial")
    assert [row.status for row in result.rows] == ["fits"] * 4 + ["no answer"] * 2
    assert "tp" in result.rows[-1].reason
    assert result.varied == ("tp", "micro_batch")


def test_what_plan_finds_is_in_the_row() -> None:
    row = podsim.study({"common": {"model": "gpt2", "on": "dgx-h100", "price": 2.0}}, executor="serial").rows[
        0
    ]
    best = podsim.plan("gpt2", on="dgx-h100", top=1).ranked[0].prediction
    assert row.plan == best.plan
    assert row.cost is not None
    assert row.training is not None
    assert row.cost == pytest.approx(row.training * 8 * 2.0 / 3600)


def test_nothing_is_computed_twice(tmp_path: Path) -> None:
    store = tmp_path / "answers.sqlite"
    first = podsim.study(STUDY, executor="serial", store=store)
    again = podsim.study(STUDY, executor="serial", store=store)
    assert (first.computed, first.reused) == (6, 0)
    assert (again.computed, again.reused) == (0, 6)
    assert figures(again.rows) == figures(first.rows)


def test_an_interrupted_study_goes_on_where_it_was(tmp_path: Path) -> None:
    store = tmp_path / "answers.sqlite"

    def stop(number: int, row: StudyRow) -> None:
        if number == 1:
            raise KeyboardInterrupt

    plans = {"common": {"model": "gpt2"}, "grid": {"on": ["dgx-a100-80gb", "dgx-h100", "dgx-v100"]}}
    cut = podsim.study(plans, executor="serial", store=store, each=stop)
    assert (cut.complete, len(cut.rows)) == (False, 2)
    rest = podsim.study(plans, executor="serial", store=store)
    assert (rest.computed, rest.reused) == (1, 2)


def test_any_executor_gives_the_same_rows() -> None:
    with ThreadPoolExecutor(2) as pool:
        threaded = podsim.study(STUDY, executor=pool)
    assert figures(threaded.rows) == figures(podsim.study(STUDY, executor="serial").rows)


def test_a_changed_cluster_file_is_asked_again(tmp_path: Path) -> None:
    path, store = tmp_path / "lab.toml", tmp_path / "answers.sqlite"
    study = {"common": {"model": "gpt2", "on": str(path), "tp": 1}}
    for bandwidth, computed in (("1.9 TB/s", 1), ("1.9 TB/s", 0), ("1.5 TB/s", 1)):
        path.write_text(f'inherits = "dgx-a100-80gb"\nsource = "us"\n[gpu]\nmemory_bandwidth = "{bandwidth}"')
        assert podsim.study(study, executor="serial", store=store).computed == computed


@pytest.mark.parametrize("executor", ["cluster", "processes:0", "processes:x"])
def test_an_unusable_executor_is_refused(executor: str) -> None:
    with pytest.raises(PodsimError, match="executor="):
        podsim.study(STUDY, executor=executor)


def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (x)")
    with pytest.raises(PodsimError, match="another program"):
        podsim.study(STUDY, executor="serial", store=path)
    path.write_text("no database " * 1000)
    with pytest.raises(PodsimError, match="not a database"):
        podsim.study(STUDY, executor="serial", store=path)


def test_a_study_without_any_answer_says_why() -> None:
    with pytest.raises(PodsimError, match="gtp2"):
        podsim.study({"common": {"model": "gtp2", "on": "selene"}}, executor="serial")
