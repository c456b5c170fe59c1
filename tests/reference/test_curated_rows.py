"""Tables in a source's words become rows that validate reads: none is lost, and predictions are those of packaged rows.

samples/ holds some rows of each collected table; those of collectives and kernels are taken from reference/raw.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from reference.csv_rows import csv_text, read_csv
from reference.curate import KINDS, curated

from podsim.accuracy.pricing import price
from podsim.accuracy.tables import load
from podsim.cli import app

ROOT = Path(__file__).parents[2]
SAMPLES, RAW = Path(__file__).with_name("samples"), ROOT / "reference" / "raw"
KEYS = {"id", "role", "quantity", "predicted", "measured", "low", "high", "reason"}


def sampled(path: Path, step: int, folder: Path) -> Path:
    """Every so many rows of a raw table, as a file of their own."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))[::step]
    out = folder / path.name.removesuffix(".gz")
    out.write_text(csv_text(rows), "utf-8")
    return out


def compared(kind: str, path: Path, folder: Path) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """(canonical rows, rows of `validate --rows --json`) of a table in a source's words."""
    rows, out = curated(kind, path), folder / "canonical.csv"
    out.write_text(csv_text(rows), "utf-8")
    result = CliRunner().invoke(app, ["validate", "--rows", str(out), "--json"])
    assert result.exit_code == 0, result.output
    return rows, [row for part in json.loads(result.stdout)["comparisons"] for row in part["rows"]]


def check(rows: Iterable[Mapping[str, Any]], count: int) -> None:
    """No row is lost, and each has a prediction or a reason."""
    rows = list(rows)
    assert len(rows) == len({row["id"] for row in rows}) == count
    for row in rows:
        assert set(row) >= KEYS
        assert (row["predicted"] is None) == bool(row["reason"])
        assert row["predicted"] is None or (row["predicted"] > 0 and row["measured"] > 0)
        if row["low"] is not None:
            assert row["low"] <= row["high"]
        if (
            row["low"] is not None and row["quantity"] != "samples/s"
        ):  # a band of networks may lie beside its law
            assert row["low"] <= row["predicted"] * (1 + 1e-9) <= row["high"] * (1 + 2e-9)


def check_served(shown: list[dict[str, Any]], made: list[dict[str, str]]) -> None:
    """Each row has a prediction or a reason; one that measured several quantities stands in several tables."""
    assert {row["id"] for row in made} <= {row["id"] for row in shown}
    for table in {row["table"] for row in shown}:
        rows = [row for row in shown if row["table"] == table]
        check(rows, len(rows))


def packaged_values(table: str, ids: Callable[[str], bool]) -> dict[str, float]:
    """Predictions of packaged rows."""
    return dict(price(load(table).where(lambda row: ids(row.id)), cross_validate=False).predictions)


@pytest.mark.parametrize(
    ("kind", "table", "step"), [("collectives", "collectives", 40), ("kernels", "kernels", 97)]
)
def test_raw_tables_compare_as_the_packaged_ones(kind: str, table: str, step: int, tmp_path: Path) -> None:
    _, rows = compared(kind, sampled(RAW / f"{table}.csv.gz", step, tmp_path), tmp_path)
    known = packaged_values(table, {row["id"] for row in rows}.__contains__)
    check(rows, len(rows))
    own = {row["id"]: row["predicted"] for row in rows if row["predicted"] and row["quantity"] == "seconds"}
    assert len(own) > 100
    assert own == pytest.approx({id: known[id] for id in own})


@pytest.mark.parametrize(
    ("kind", "table", "step", "least"),
    [("training", "llm", 12, 90), ("networks", "vision", 40, 60), ("networks", "mlperf", 2, 25)],
)
def test_rows_of_training_compare_as_the_packaged_ones(
    kind: str, table: str, step: int, least: int, tmp_path: Path
) -> None:
    made, rows = compared(kind, sampled(RAW / f"{table}.csv.gz", step, tmp_path), tmp_path)
    check([row for row in rows if row["quantity"] != "bytes"], len(made))
    known = packaged_values(table, {row["id"] for row in rows}.__contains__)
    main = load(table).what
    own = {row["id"]: row["predicted"] for row in rows if row["predicted"] and row["quantity"] == main}
    assert len(own) >= least
    assert own == pytest.approx({id: known[id] for id in own})
    assert sum(row["low"] is not None for row in rows) > least / 4


def test_rows_on_tpus_compare_as_the_packaged_ones(tmp_path: Path) -> None:
    made, rows = compared("tpu", ROOT / "reference" / "published" / "tpu_training.csv", tmp_path)
    check(rows, len(made))
    known = packaged_values("tpu", {row["id"] for row in rows}.__contains__)
    steps = [row for row in rows if row["predicted"] and row["quantity"] == "seconds per step"]
    own = {row["id"]: row["predicted"] for row in steps}
    assert own == pytest.approx({id: known[id] for id in own})
    assert len(own) > 60


def test_a_table_in_its_sources_words_is_told_how_to_be_curated(tmp_path: Path) -> None:
    path = sampled(RAW / "llm.csv.gz", 300, tmp_path)
    result = CliRunner().invoke(app, ["validate", "--rows", str(path)])
    assert result.exit_code == 2
    assert "python reference/curate.py training llm.csv OUT.csv" in " ".join(result.stderr.split())


@pytest.mark.parametrize("path", sorted((RAW / "kernels").glob("h100*.csv.gz")), ids=lambda path: path.name)
def test_kernels_of_engines(path: Path, tmp_path: Path) -> None:
    file = sampled(path, 211 if path.stat().st_size > 50_000 else 40, tmp_path)
    rows, shown = compared("kernels", file, tmp_path)
    check(shown, len(rows))
    assert [row["id"] for row in rows] == [str(line) for line in range(2, len(rows) + 2)]
    ratios = sorted(row["predicted"] / row["measured"] for row in shown)
    assert 0.8 < ratios[len(ratios) // 2] < 1.25


def test_minutes(tmp_path: Path) -> None:
    rows, shown = compared("minutes", SAMPLES / "time_to_train.csv.gz", tmp_path)
    check(shown, len(rows))
    packaged = {(row.source, row.text("minutes_score")): row.id for row in load("minutes")}
    ids = {row["id"]: packaged.get((row["source"], row["minutes_score"]), "") for row in rows}
    known = packaged_values("minutes", set(ids.values()).__contains__)
    same = {row["id"]: known[ids[row["id"]]] for row in shown if row["predicted"] and ids[row["id"]] in known}
    assert len(same) > 15
    assert {row["id"]: row["predicted"] for row in shown if row["id"] in same} == pytest.approx(same)
    assert any("open division" in row["reason"] for row in rows)


def test_losses(tmp_path: Path) -> None:
    rows, shown = compared("losses", SAMPLES / "scaling_loss.csv.gz", tmp_path)
    check(shown, len(rows))
    cells = {row["id"]: row for row in rows}
    packaged = {
        tuple(row.text(name) for name in ("setting", "parameters", "tokens", "loss")): row
        for row in load("losses")
    }
    ids = {
        id: packaged.get(tuple(row[name] for name in ("setting", "parameters", "tokens", "loss")))
        for id, row in cells.items()
    }
    known = packaged_values("losses", {row.id for row in ids.values() if row}.__contains__)
    same = {row["id"]: known[own.id] for row in shown if row["predicted"] and (own := ids[row["id"]])}
    assert len(same) >= 15
    assert {row["id"]: row["predicted"] for row in shown if row["id"] in same} == pytest.approx(same)
    assert sum("lower loss" in row["reason"] for row in rows) >= 3
    assert any("no row to fit" in row["reason"] for row in shown)


def test_convergence_keeps_points_of_one_id_apart(tmp_path: Path) -> None:
    rows, shown = compared("convergence", SAMPLES / "convergence.csv.gz", tmp_path)
    check(shown, len(rows))
    assert len({row["id"] for row in rows}) < len(rows)
    packaged = {
        (row.text("benchmark"), row.text("version"), row.text("batch"), row.text("mean")): row.id
        for row in load("convergence")
    }
    found = [
        packaged[key]
        for row in rows
        if (key := (row["benchmark"], row["version"], row["batch"], row["mean"])) in packaged
    ]
    known = sorted(packaged_values("convergence", set(found).__contains__).values())
    mine = sorted(row["predicted"] for row in shown)
    assert len(known) > 8
    assert all(min(abs(value / each - 1) for each in mine) < 1e-9 for value in known)


def test_steps_by_batch(tmp_path: Path) -> None:
    rows, shown = compared("batch-steps", SAMPLES / "batch_steps.csv.gz", tmp_path)
    check(shown, len(rows))
    predicted = {row["id"]: row for row in shown if row["predicted"]}
    assert {row["name"] for row in rows if row["id"] in predicted} == {"zhang-151m"}
    assert {row["quantity"] for row in predicted.values()} == {"steps to a target"}
    known = price(load("batch-steps").where(lambda row: row.text("name") == "zhang-151m")).predictions
    assert sorted(row["predicted"] for row in predicted.values()) == pytest.approx(sorted(known.values()))
    why = {row["id"]: row["reason"] for row in shown}
    assert any("no row marked calibrate" in text for text in why.values())
    assert any("no accuracy by batch" in text for text in why.values())


def test_results_by_format(tmp_path: Path) -> None:
    rows, shown = compared("formats", SAMPLES / "formats.csv.gz", tmp_path)
    check(shown, len(rows))
    errors = [abs(row["predicted"] / row["measured"] - 1) for row in shown if row["predicted"]]
    assert len(errors) > 40
    assert sorted(errors)[len(errors) // 2] < 0.01
    assert any("sparsity" in row["reason"] or "pruned" in row["reason"] for row in shown)


@pytest.mark.parametrize(
    ("kind", "file"),
    [("serving", "serving_load"), ("serving-rate", "serving_rate"), ("served-requests", "served_requests")],
)
def test_served_rows_are_curated_and_compared(kind: str, file: str, tmp_path: Path) -> None:
    rows, shown = compared(kind, SAMPLES / f"{file}.csv.gz", tmp_path)
    check_served(shown, rows)
    assert {row["engine"] for row in rows} <= {"tensorrt-llm", "vllm", "sglang"}
    assert {row["precision"] for row in rows} <= {"bf16", "fp16", "fp8", "fp8-block", "fp8_block", "nvfp4"}
    assert all(row["predicted"] for row in shown)


def test_models_and_gpus_get_names_of_the_catalog() -> None:
    rows = curated("serving", SAMPLES / "serving_load.csv.gz")
    assert {row["gpu"] for row in rows} & {"h100-sxm5-80gb", "b200", "h200-sxm5-141gb"}
    assert "deepseek-v3" in {row["model"] for row in rows}
    assert {row["shortest"] for row in rows} == {"0.8", "1"}
    (first, *_) = curated("served-requests", SAMPLES / "served_requests.csv.gz")
    assert (first["id"], first["engine_version"], first["max_sequences"]) == ("3", "0.19.0", "128")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_odd_cells_cost_no_row(kind: str, tmp_path: Path) -> None:
    """A file of words where numbers belong, of blanks and of an unknown role and column comes out row by row."""
    path = {
        "collectives": sampled(RAW / "collectives.csv.gz", 900, tmp_path),
        "kernels": sampled(RAW / "kernels.csv.gz", 3000, tmp_path),
        "training": sampled(RAW / "llm.csv.gz", 250, tmp_path),
        "networks": sampled(RAW / "vision.csv.gz", 1000, tmp_path),
        "tpu": ROOT / "reference" / "published" / "tpu_training.csv",
    }.get(kind) or next(
        SAMPLES / f"{name}.csv.gz"
        for name, of in {
            "time_to_train": "minutes", "scaling_loss": "losses", "convergence": "convergence", "formats": "formats",
            "batch_steps": "batch-steps", "serving_load": "serving", "serving_rate": "serving-rate",
            "served_requests": "served-requests",
        }.items()
        if of == kind
    )  # fmt: skip
    rows = [{"site": "Ulm", **row} for row in read_csv(path)][:6]
    columns = [column for column in rows[0] if column not in ("id", "site", "remark")]
    odd = [
        {**row, "id": f"odd-{at}", "role": "unseen", **dict.fromkeys(columns[at::3], "?x?")}
        for at, row in enumerate(rows)
    ]
    blank = {**dict.fromkeys(rows[0], ""), "id": "blank"}
    file = tmp_path / "odd.csv"
    file.write_text(csv_text([*rows, *odd, blank]), "utf-8")
    made, shown = compared(kind, file, tmp_path)
    assert [row["id"] for row in made] == [row["id"] for row in [*rows, *odd, blank]]
    if kind.startswith("serv"):
        check_served(shown, made)
    else:
        check(shown, len(made))


def test_the_command(tmp_path: Path) -> None:
    """From the root, with podsim installed; IN may be packed."""
    out = tmp_path / "out.csv"
    command = [
        sys.executable,
        "reference/curate.py",
        "batch-steps",
        str(SAMPLES / "batch_steps.csv.gz"),
        str(out),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "40 rows" in done.stdout
    assert len(read_csv(out)) == 40
    assert math.isfinite(float(read_csv(out)[0]["batch"]))
