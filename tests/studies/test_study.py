"""Studies: rows as plan and predict give them, kept in a store, whatever runs them and whatever dies."""

from __future__ import annotations

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import podsim
from podsim.answers.study import StudyRow
from podsim.cli import app
from podsim.errors import PodsimError
from podsim.questions.registry import ask
from podsim.report.plain_data import plain_value
from podsim.report.plot_study import front, titled_charts
from podsim.report.study_files import write_parquet, write_workbook
from podsim.studies.study_rows import study_row

DOCUMENT = Path(__file__).parents[2] / "docs" / "study.md"
NODE = "dgx-a100-80gb"
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


MIXED = {
    "question": "predict",
    "common": {"on": "h100", "gpus": 16, "price": 2.0, "batch": 32},
    "grid": {
        "model": ["gpt2", "mixtral-8x7b", "nothing"], "tp": [1, 3, 8], "ep": [1, 4], "zero": [0, 3],
        "set.gpu.memory": ["80GB", "90GB"], "tokens": ["1G", 1e-320],
    },
}  # fmt: skip


def test_designs_answered_together_are_answered_as_each_by_itself() -> None:
    rows = podsim.study(MIXED, executor="serial").rows
    alone = [study_row("predict", row.settings, ask) for row in rows[::3]]
    assert {row.status for row in alone} == {"fits", "does not fit", "no answer"}
    for together, by_itself in zip(rows[::3], alone, strict=True):
        one, other = plain_value(replace(together, name="")), plain_value(by_itself)
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert value == (
                pytest.approx(other[name], rel=1e-9) if isinstance(value, float) else other[name]
            )


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


def test_a_search_by_cost_gives_the_money_of_the_run() -> None:
    settings = {"model": "gpt2", "on": NODE, "gpus": 2, "price": 2.0, "tokens": "10G"}
    rows = [
        podsim.study({"common": {**settings, "objective": objective}}, executor="serial").rows[0]
        for objective in ("time", "cost")
    ]
    for row in rows:
        assert row.training is not None
        assert row.gpus is not None
        assert row.cost == pytest.approx(row.training * row.gpus * 2.0 / 3600)


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


def test_the_fewest_gpus_are_enough_and_fewer_are_not() -> None:
    asked = {"on": "h100", "tokens": "300G", "limit": {"pp": "1", "cp": "1"}}
    row = podsim.fewest_gpus("gpt2-xl", days=3, **asked)
    assert row.training is not None
    assert row.gpus is not None
    assert row.training <= 3 * 86400
    tried = {int(count): seconds for count, seconds in row.tried.items()}
    assert tried[row.gpus] == row.training
    below = max(count for count in tried if count < row.gpus)
    assert row.gpus - below <= 8
    assert all(seconds is None or seconds > 3 * 86400 for count, seconds in tried.items() if count < row.gpus)


def test_a_deadline_that_no_number_meets_is_no() -> None:
    study = {"common": {"model": "gpt2", "on": "dgx-a100-80gb:2", "tokens": "100T"}, "days": 1}
    (row,) = podsim.study(study, executor="serial").rows
    assert row.status == "too slow"
    assert "16 GPUs do not train it in 1 days" in row.reason


def test_files_hold_every_row(tmp_path: Path) -> None:
    openpyxl, parquet = pytest.importorskip("openpyxl"), pytest.importorskip("pyarrow.parquet")
    study = {**STUDY, "design": [{"name": "=1+1"}, {"name": "plain"}]}
    result = podsim.study(study, executor="serial")
    write_workbook(result, tmp_path / "rows.xlsx")
    write_parquet(result, tmp_path / "rows.parquet")
    book = openpyxl.load_workbook(tmp_path / "rows.xlsx")
    lines = list(book["designs"].values)
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert len(lines) - 1 == table.num_rows == len(result.rows) == 12
    assert lines[1][0] == "'=1+1"
    assert table.column("training").to_pylist() == [row.training for row in result.rows]
    assert table.schema.field("training").metadata[b"unit"] == b"s"


def test_charts_show_what_there_is() -> None:
    result = podsim.study(STUDY, executor="serial")
    titles = [re.findall("<figcaption>(.*?)</figcaption>", chart) for chart in titled_charts(result)]
    assert titles == [["days with failures"], ["money, USD"], ["energy, MWh"], ["days over money"]]
    with pytest.raises(PodsimError, match="numbers of GPUs that differ"):
        result.plot(chart="scaling")
    with pytest.raises(PodsimError, match="such as money,days"):
        result.plot(axes="money")
    best = front(result.rows[:4], "days", "memory")
    assert all(any(row is other for other in best) or _is_beaten(row, best) for row in result.rows[:4])


def _is_beaten(row: StudyRow, best: list[StudyRow]) -> bool:
    def pair(each: StudyRow) -> tuple[float, float]:
        return each.training or 0.0, each.memory or 0.0

    return any(pair(other)[0] <= pair(row)[0] and pair(other)[1] <= pair(row)[1] for other in best)


def test_the_command_prints_marks_and_differences(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    text = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)[0]
    path.write_text(text.replace("llama-3.1-8b", "gpt2"))
    files = ["--plot", str(tmp_path / "a.svg"), "--html", str(tmp_path / "a.html"), "--csv"]
    done = CliRunner().invoke(app, ["study", str(path), "--executor", "serial", *files])
    assert done.exit_code == 0, done.stderr
    assert len(done.stdout.splitlines()) == 7
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert page.count("<figure>") == 5
    assert "slow network" in page
    text = CliRunner().invoke(app, ["study", str(path)]).stdout
    assert "6 of them from" in text
    assert re.search(r"slow network +100Gb/s +128", text)
    assert re.search(r"\*\$[\d.]+k? +-\d+%", text)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--chart", "pie"], "chart"), (["--axes", "money,fame"], "give two of"), (["--xlsx", "a.csv"], r"\.xlsx"),
        (["--plot", "/none/a.svg"], "there is no directory"), (["--days", "-1"], "above 0"),
    ],
)  # fmt: skip
def test_wrong_output_is_refused_before_any_work(flags: list[str], said: str, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text('[common]\nmodel = "gpt2"\non = "selene"')
    done = CliRunner().invoke(app, ["study", str(path), *flags])
    assert done.exit_code == 2
    assert re.search(said, done.stderr)
    assert not (tmp_path / "study.sqlite").exists()
