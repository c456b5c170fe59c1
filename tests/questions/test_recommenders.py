"""Recommenders with their tables: steps, placements, users' tables, and mistakes."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from podsim.answers.graphs import GraphCost, TablePlacement
from podsim.cli import app
from podsim.errors import NoFitError, PodsimError
from podsim.graphs.networks import networks
from podsim.questions.train.graph import graph


def _cost(name: str = "dlrm", **options: object) -> tuple[GraphCost, TablePlacement]:
    cost = graph(name, **{"batch": 4096, "on": "dgx-a100-80gb:1", **options})  # type: ignore[arg-type]
    assert cost.placement is not None
    return cost, cost.placement


def test_tables_count() -> None:
    cost, placement = _cost(placement="plain")
    assert cost.parameters == pytest.approx(26.14e9, rel=1e-3) == networks()["dlrm"].all_parameters
    assert placement.bytes == pytest.approx(104.5e9, rel=1e-3)
    assert cost.memory.tables == placement.most > 20e9
    assert cost.data_parallel is not None
    assert cost.data_parallel.tables == pytest.approx(placement.sent + placement.fetched + placement.shared)


def test_best_beats_plain() -> None:
    best, plain = _cost("dlrm-dcnv2", placement="best")[1], _cost("dlrm-dcnv2", placement="plain")[1]
    assert best.plain == pytest.approx(plain.seconds)
    assert best.bound <= best.seconds < 0.7 * plain.seconds


def test_servers_hold_what_gpus_cannot() -> None:
    with pytest.raises(NoFitError, match="fit nowhere"):
        graph("dlrm-extra-large", batch=4096, on="a100-sxm4-80gb")
    _, host = _cost("dlrm-extra-large", on="dgx-a100-80gb:1", gpus=2)
    _, remote = _cost("dlrm-extra-large", on="dgx-a100-80gb:1", gpus=2, servers=8)
    assert {table.tier for table in host.tables} > {"hbm"}
    assert remote.seconds <= host.seconds * 1.01


def test_own_tables(tmp_path: Path) -> None:
    file = tmp_path / "tables.csv"
    file.write_text("name,rows,width,pooling\nuser,5_000_000,64,1\nad,2000,128,20\n")
    _, placement = _cost(tables=file)
    assert [table.name for table in placement.tables] == ["user", "ad"]
    with pytest.raises(PodsimError, match="has no embedding tables"):
        graph("resnet50", batch=8, on="dgx-a100-80gb:1", tables=file)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("plan dlrm --on dgx-a100-80gb:1 --batch 4096 --placement rowwise", "row_wise"),
        ("plan dlrm --on dgx-a100-80gb:1 --batch 4096 --servers -1", "servers=-1"),
        ("plan dlrm --on dgx-a100-80gb:1 --batch 4096 --tables missing.csv", "missing.csv"),
        ("predict gpt2 --on dgx-a100-80gb:1 --servers 2", "has no embedding tables"),
    ],
)
def test_mistakes(line: str, said: str) -> None:
    result = CliRunner().invoke(app, line.split(), env={"COLUMNS": "80"})
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert len(result.stderr.splitlines()) <= 5


def test_plan_of_tables() -> None:
    result = CliRunner().invoke(
        app, ["plan", "dlrm", "--on", "dgx-a100-80gb:1", "--batch", "32768"], env={"COLUMNS": "80"}
    )
    assert result.exit_code == 0
    assert "Whole tables on single GPUs add" in result.stdout
    assert "table 20" in result.stdout


def test_the_page_says_the_batch_that_was_asked() -> None:
    page = (
        CliRunner().invoke(app, ["predict", "dlrm-dcnv2", "--on", "dgx-h100:8", "--batch", "135168"]).output
    )
    assert "135,168 samples on 64 GPUs, 2,112 samples on one h100-sxm5-80gb" in " ".join(page.split())
