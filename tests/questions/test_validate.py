"""Every packaged table against predictions: nothing is dropped, roles stay apart, and what is recorded still holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from curated_files import curated_file
from reference.golden import differences, losses, recorded_accuracy, recorded_predictions

from podsim.accuracy import pricing
from podsim.accuracy.bars import BARS, Bar, verdicts
from podsim.accuracy.score import Priced
from podsim.accuracy.tables import TABLES, Rows, load
from podsim.answers.comparison import ComparedRow, Comparison
from podsim.errors import PodsimError, TableError
from podsim.questions.operate.validate import Validation, accuracy_markdown, compare_rows, validate
from reference import golden

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
AGAIN = "a deliberate change is recorded by: python scripts/record.py"
CROSS_VALIDATED = ("kernels", "collectives")
"""the kinds of tables whose predictions differ with fits to other folds"""
PRICED: dict[tuple[str, str, bool], Priced] = {}


@contextmanager
def priced_once() -> Iterator[None]:
    """Packaged tables are priced once for all tests that ask for all of them."""
    price = pricing.price

    def priced(rows: Rows, *, cross_validate: bool = True) -> Priced:
        key = rows.name, rows.what, cross_validate and rows.kind in CROSS_VALIDATED
        if key not in PRICED:
            PRICED[key] = price(rows, cross_validate=cross_validate)
        return PRICED[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pricing, "price", priced)
        patch.setattr(golden, "price", priced)
        yield


@pytest.fixture(scope="module")
def whole() -> Validation:
    pytest.importorskip("scipy")
    with priced_once():
        return validate()


def test_every_row_of_every_table_is_compared_or_has_a_reason(whole: Validation) -> None:
    assert [comparison.table for comparison in whole.comparisons] == list(TABLES)
    for comparison in whole.comparisons:
        listed = [row.id for row in comparison.rows] + [id for id, _ in comparison.not_expressed]
        assert Counter(listed) == Counter(row.id for row in load(comparison.table))
        assert all(reason.strip() for _, reason in comparison.not_expressed)


def test_no_figure_mixes_roles(whole: Validation) -> None:
    for comparison in whole.comparisons:
        roles = {row.id: row.role for row in load(comparison.table)}
        for score in comparison.scores:
            assert score.rows == sum(roles[row.id] == score.role for row in comparison.rows)
        assert all(row.role == roles[row.id] for row in comparison.rows)


def test_no_prediction_moved() -> None:
    recorded = json.loads((GOLDEN / "predictions.json").read_text("utf-8"))
    with priced_once():
        moved = differences(recorded, recorded_predictions())
    assert not moved, f"{len(moved)} predictions moved: {moved[:10]}; {AGAIN}"


def test_no_accuracy_is_lost(whole: Validation) -> None:
    recorded = json.loads((GOLDEN / "accuracy.json").read_text("utf-8"))
    worse = losses(recorded, recorded_accuracy(whole.comparisons))
    assert not worse, f"{worse[:10]}; {AGAIN}"


def test_the_page_on_accuracy_is_current(whole: Validation) -> None:
    page = accuracy_markdown(whole)
    assert (ROOT / "docs" / "accuracy.md").read_text("utf-8") == page, AGAIN


def test_bars_are_on_tables_and_roles_that_exist() -> None:
    for bar in BARS:
        assert bar.table in TABLES
        assert any(row.role == bar.role for row in load(bar.table)), bar
        assert bar.role == "test" or bar.note, "a bar on fitted rows says so"


def _compared(*errors: float, group: str = "") -> Comparison:
    rows = tuple(
        ComparedRow(id=f"r{i}", role="test", table="t", predicted=1 + e, measured=1.0, group=group)
        for i, e in enumerate(errors)
    )
    return Comparison(table="t", title="t", what="seconds", rows=rows)


@pytest.mark.parametrize(
    ("errors", "met"), [((0.05, -0.05), True), ((0.05, 0.05), False), ((0.09, -0.09), False), ((0.03,), True)]
)
def test_a_bar_asks_for_the_error_and_for_a_small_bias(errors: tuple[float, ...], met: bool) -> None:
    (verdict,) = verdicts([_compared(*errors)], [Bar(table="t", metric="mae", limit=0.08)])
    assert verdict.met is met
    assert verdict.value == pytest.approx(sum(map(abs, errors)) / len(errors))


def test_a_bar_on_each_class_gives_a_verdict_each() -> None:
    mixed = _compared(0.5, group="small")
    both = Comparison(
        table="t", title="t", what="seconds",
        rows=(*mixed.rows, ComparedRow(id="x", role="test", table="t", predicted=1.01, measured=1, group="large")),
    )  # fmt: skip
    found = verdicts([both], [Bar(table="t", metric="mae", limit=0.08, each=True)])
    assert [(v.of, v.met) for v in found] == [("large", True), ("small", False)]


def test_a_bar_without_rows_is_not_met() -> None:
    (verdict,) = verdicts(
        [_compared(0.1)], [Bar(table="t", metric="mae", limit=0.08, role="calibrate", note="x")]
    )
    assert not verdict.met
    assert verdict.value is None


def test_a_layer_is_held_against_one_layer() -> None:
    comparison = compare_rows(load("korthikanti-layer"))
    assert len(comparison.rows) == 5
    assert all(abs(row.error) < 0.1 for row in comparison.rows)
    assert all("one layer" in row.note for row in comparison.rows)


def test_memory_of_first_stages_counts_layers_only() -> None:
    comparison = compare_rows(load("memory-korthikanti"))
    gpt_22b = next(row for row in comparison.rows if row.id == "KORT-0002")
    # 48 layers of 12 h^2 parameters at 18 B, and of 34 s b h B of activations, over tp = 8
    by_hand = 48 * (12 * 6144**2 * 18 + 34 * 2048 * 4 * 6144) / 8
    assert gpt_22b.measured == pytest.approx(by_hand)
    assert gpt_22b.predicted == pytest.approx(by_hand, rel=2e-3)


def test_a_published_utilisation_stands_beside_its_row() -> None:
    rows = {row.id: row for row in compare_rows(load("sc21-table1")).rows}
    assert any("published HFU" in row.note or "published MFU" in row.note for row in rows.values())


def test_own_rows_are_read_like_the_packaged_ones(tmp_path: Path) -> None:
    rows = load("korthikanti")
    names = list(rows.rows[0].fields)
    lines = [",".join(names)]
    lines += [",".join(f'"{row.fields[name]}"' for name in names) for row in rows]
    own = tmp_path / "own.csv"
    own.write_text("\n".join(lines), "utf-8")
    found = validate(rows=own)
    assert [c.table for c in found.comparisons] == ["own", "own-memory"]
    packaged = {row.id: row.predicted for row in compare_rows(rows).rows}
    assert {row.id: row.predicted for row in found.comparisons[0].rows} == packaged
    assert found.met
    assert not found.verdicts


def test_one_role_only() -> None:
    found = validate(["korthikanti"], role="calibrate")
    assert {row.role for row in found.comparisons[0].rows} == {"calibrate"}
    assert not found.verdicts


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"tables": ["korthikant"]}, TableError),
        ({"tables": ["korthikanti"], "rows": "x.csv"}, PodsimError),
        ({"rows": "absent.csv"}, TableError),
        ({"tables": ["korthikanti"], "role": "train"}, TableError),
    ],
)
def test_mistakes_are_told(arguments: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        validate(**arguments)  # type: ignore[arg-type]


def test_differences_tell_moves_and_absences() -> None:
    old = {"t": {"a": 1.0, "b": 2.0, "gone": 3.0}}
    new = {"t": {"a": 1.0 + 1e-12, "b": 2.1, "new": 4.0}}
    told = differences(old, new)
    assert len(told) == 3
    assert "t b: 2 -> 2.1 (+5.00e-02)" in told[-1]
    assert not differences(old, old)


def test_losses_are_told_by_class() -> None:
    figures = {"rows": 2, "mae": 0.02, "classes": {"x": [2, 0.02, 0.0]}}
    old = {"t": {"test": figures}}
    assert not losses(old, {"t": {"test": figures | {"mae": 0.0205}}})
    assert losses(old, {"t": {"test": figures | {"mae": 0.03}}}) == ["t, test: mean error 3.00%, was 2.00%"]
    worse = figures | {"classes": {"x": [1, 0.02, 0.0]}}
    assert losses(old, {"t": {"test": worse}}) == ["t, test, x: 1 rows compared, were 2"]
    assert losses(old, {}) == ["t, test: no row is compared any more"]


@pytest.mark.parametrize("table", ["gemm-a100", "all-reduce-a100"])
def test_bars_on_fitted_rows_hold_them_out(whole: Validation, table: str) -> None:
    comparison = next(one for one in whole.comparisons if one.table == table)
    held = [row for row in comparison.rows if "cross-validation" in row.note]
    assert len(held) > 0.99 * len(comparison.rows)
    fitted = {row.id: row.predicted for row in compare_rows(load(table), cross_validate=False).rows}
    worse = sum(abs(row.error) for row in held) / sum(abs(fitted[row.id] / row.measured - 1) for row in held)
    assert 1.0 < worse < 3.0


OWN = "model,seq_len,gpu,n_gpus,tp,pp,micro_batch,recompute,framework,global_batch,"
OWN += "step_time_s,tokens_per_s,tokens_per_s_per_gpu,tflops_per_gpu,mfu,hfu\n"
OWN += "gpt-22b,2048,A100-SXM4-80GB,8,8,1,4,full,megatron-2022,"


def test_own_rows_are_compared_in_what_each_measured(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    lines = ["4,1.4,,,,,", "4,,5851.4,,,,", ",,,700,,,", ",,,,120,0.38,", ",,,,160,,0.51", "4,,,,,,"]
    own.write_text(OWN + OWN.splitlines()[1].join(f"{line}\n" for line in lines), "utf-8")
    timed, rates, flops = validate(rows=curated_file("training", own, tmp_path / "out.csv")).comparisons
    assert (timed.what, rates.what, flops.what) == ("seconds per step", "tokens/s per GPU", "FLOP/s per GPU")
    assert [row.measured for row in timed.rows] == pytest.approx([1.4, 1.4], rel=1e-4)
    assert len({row.predicted for row in timed.rows}) == 1
    assert [reason for _, reason in timed.not_expressed] == ["the source gives no seconds per step"]
    (rate,) = rates.rows
    assert rate.note.startswith("chosen: global_batch=")
    model, hardware = flops.rows
    assert hardware.predicted / model.predicted == pytest.approx(4 / 3, rel=0.02)  # full recomputation
