"""`podsim validate` and `podsim calibrate` in a terminal."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Run = Callable[..., Result]


def test_a_table_that_is_met_exits_with_0(podsim: Run) -> None:
    result = podsim("validate", "--table", "korthikanti")
    assert result.exit_code == 0
    for word in ("Predicted against measured", "Bars: 2 of 2 bars are met", "KORT-0003", "at most 3.5 %"):
        assert word in result.stdout


def test_rows_that_cannot_be_expressed_are_listed_with_the_reason(podsim: Run) -> None:
    result = podsim("validate", "--table", "sc21-table2")
    assert "SC21T2-0001" in result.stdout
    assert "has no entry in the software catalog" in result.stdout


def test_json_has_every_row(podsim: Run) -> None:
    result = podsim("validate", "--table", "sc21-table1", "--json")
    (comparison,) = json.loads(result.stdout)["comparisons"]
    assert len(comparison["rows"]) == 10
    assert {score["role"] for score in comparison["scores"]} == {"test", "calibrate"}


def test_pages_are_written(podsim: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    html, markdown = tmp_path / "a.html", tmp_path / "a.md"
    podsim("validate", "--table", "korthikanti", "--html", html, "--markdown", markdown)
    text = html.read_text("utf-8")
    assert "<svg" in text
    assert "<h2>Bars</h2>" in text
    assert "## What the model does not know" in markdown.read_text("utf-8")


def test_own_rows_that_miss_are_no_failure(podsim: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text(
        "collective,nodes,gpus,gpu,size_bytes,time_us\nall_reduce,1,8,A100-SXM4-80GB,1024,999\n", "utf-8"
    )
    result = podsim("validate", "--rows", own)
    assert result.exit_code == 0
    assert "-97.2 %" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("validate", "--table", "nothing"),
        ("validate", "--rows", "absent.csv"),
        ("validate", "--table", "korthikanti", "--role", "train"),
        ("calibrate", "absent.csv"),
        ("calibrate", "--software", "nothing", "--check"),
    ],
)
def test_misuse_exits_with_2_and_one_message(podsim: Run, arguments: tuple[str, ...]) -> None:
    result = podsim(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("podsim: ")
    assert result.stderr.count("podsim: ") == 1


def test_calibrate_writes_software(podsim: Run, tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    result = podsim("calibrate", "--software", "megatron-2022", "--constants", "gemm_speed", "--to", tmp_path)
    assert result.exit_code == 0
    assert "gemm_speed" in result.stdout
    written = tomllib.loads((tmp_path / "megatron-2022.toml").read_text("utf-8"))
    assert set(written["megatron-2022"]) == {"evidence", "gemm_speed"}
