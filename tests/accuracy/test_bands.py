"""Error bands: what they rest on, that they hold where nothing was measured, and that every plan has one."""

from __future__ import annotations

from dataclasses import replace
from math import exp, expm1, log

import numpy as np
import pytest
from reference.left_out_fits import LeftOutFits
from reference.residuals import measure_residuals

import podsim
from podsim.accuracy.band_coverage import band_coverage, coverage_text, interval_scores
from podsim.accuracy.bands import (
    FittedRuns,
    LeftOut,
    band_of,
    distance_scale,
    fitted_runs,
    left_out_band,
    residuals,
    run_columns,
    run_distances,
    run_features,
    scaled_limits,
)
from podsim.accuracy.measured_reach import stated_band
from podsim.accuracy.price_llm import training_runs
from podsim.accuracy.tables import load, training_rows
from podsim.hardware.cluster import load_cluster
from podsim.training.plan import Plan
from podsim.workload.catalog import load_model

AGAIN = "a deliberate change is recorded by: python scripts/record.py"
PLAN = Plan(tp=8, pp=8, dp=1, global_batch=64, software="megatron-2022")


def beside(values: list[float]) -> list[tuple[str, LeftOut]]:
    """What one row of each source leaves over, beside a fitted run."""
    return [(f"source {at}", LeftOut(value, 0.0, True)) for at, value in enumerate(values)]


def test_packaged_residuals_are_current() -> None:
    fresh = {row.id: row for row in measure_residuals(left_out=False)}
    kept = {row.id: row for row in residuals()}
    assert kept.keys() == fresh.keys(), AGAIN
    for id, row in kept.items():
        assert row.log_ratio == pytest.approx(fresh[id].log_ratio, abs=1e-6), AGAIN
        assert row.utilisation == pytest.approx(fresh[id].utilisation, abs=1e-6), AGAIN
        assert row.parameters == pytest.approx(fresh[id].parameters, rel=1e-5), AGAIN
        nothing = LeftOut(0.0, 0.0, False)
        plain = {"log_ratio": 0.0, "utilisation": 0.0, "parameters": 0.0}
        left_out = {"without_model": nothing, "without_source": nothing}
        assert row._replace(**plain, **left_out) == fresh[id]._replace(**plain, **left_out), AGAIN


def test_what_a_source_leaves_over_is_that_of_a_fit_without_it() -> None:
    rows = [row for row in training_rows() if row["id"].startswith(("KORT-", "KORTL-"))]
    kept = {row.id: row.without_source for row in residuals() if row.source == "KORT"}
    runs = [(rows[at], run) for at, run in training_runs(rows)[0] if rows[at]["id"] in kept]
    fitted = LeftOutFits(rows).log_ratios(runs, frozenset(kept))
    for (row, _), log_ratio in zip(runs, fitted, strict=True):
        assert kept[row["id"]].log_ratio == pytest.approx(log_ratio, abs=2e-3), AGAIN


def test_a_tenth_of_the_sources_lies_beyond_each_limit() -> None:
    assert scaled_limits(beside([at / 100 for at in range(-2, 3)])) == pytest.approx(
        (-0.02, 0.02)
    )  # 1 of 5 each
    assert scaled_limits(beside([at / 100 for at in range(-7, 8)])) == pytest.approx(
        (-0.06, 0.06)
    )  # 1.5 of 15


def test_rows_of_one_source_share_one_weight() -> None:
    left_out = beside([at / 100 for at in range(-9, 10)])
    assert scaled_limits(left_out + left_out[9:10] * 50) == pytest.approx(scaled_limits(left_out))


def test_what_is_left_over_far_away_counts_for_less_and_is_given_back_there() -> None:
    near, far = beside([at / 100 for at in range(-9, 10)]), distance_scale(8.0)
    spread = [(source, LeftOut(far * row.log_ratio, 8.0, True)) for source, row in near]
    assert far == 2.0
    assert scaled_limits(spread) == pytest.approx(scaled_limits(near))


def test_bands_hold_four_of_five_runs_of_a_known_distribution_near_and_far() -> None:
    draws = np.random.default_rng(0)
    of_source, row = draws.normal(size=400), residuals()[0]
    rows = []
    for source, shift in enumerate(of_source):
        distance = float(draws.uniform(0, 12))
        error = (0.06 * shift + 0.04 * draws.normal()) * distance_scale(distance)
        left_out = LeftOut(error, distance, True)
        rows.append(row._replace(role="calibrate", source=str(source), without_model=left_out))
    fitted = FittedRuns(rows)
    for distance in (0.0, 4.0, 12.0):
        band = left_out_band(row.features, row.software, distance, fitted)
        new = (0.06 * draws.normal(size=4000) + 0.04 * draws.normal(size=4000)) * distance_scale(distance)
        inside = (band.low <= np.expm1(new)) & (np.expm1(new) <= band.high)
        assert 0.76 <= inside.mean() <= 0.84


def test_interval_score_is_the_width_and_ten_times_each_miss() -> None:
    scores = interval_scores(-0.1, 0.2, np.array([0.0, -0.15, 0.25]))
    assert scores == pytest.approx([0.3, 0.8, 0.8])


def test_a_doubling_of_parameters_counts_one_and_of_gpus_half() -> None:
    row = residuals()[0]
    others = run_columns([
        row._replace(parameters=2 * row.parameters), row._replace(gpus=2 * row.gpus),
        row._replace(features=row.features._replace(architecture="another")),
    ])  # fmt: skip
    assert run_distances(row.features, row.sizes, others) == pytest.approx([1.0, 0.5, 3.0])


def test_rows_marked_test_shape_no_band() -> None:
    rows = residuals()
    nonsense = LeftOut(5.0, 0.0, True)
    spoilt = [
        row._replace(log_ratio=5.0, without_model=nonsense, without_source=nonsense) if row.role == "test" else row
        for row in rows
    ]  # fmt: skip
    honest, other = FittedRuns(rows), FittedRuns(spoilt)
    assert (honest.known_limits, honest.new_limits) == (other.known_limits, other.new_limits)


def test_bands_of_a_source_left_out_hold_four_of_five_runs() -> None:
    lines = band_coverage(residuals())
    for mean in lines[-2:]:
        assert mean.source.startswith("mean of")
        assert 0.75 <= mean.coverage <= 0.9
    assert sum(line.rows for line in lines[:-2]) == len(residuals())
    assert f"| {lines[0].source} | {lines[0].role} | {lines[0].rows} |" in coverage_text(lines)


def test_a_source_left_out_shapes_no_band_of_its_own_runs() -> None:
    rows = residuals()
    spoilt = [
        row._replace(without_model=LeftOut(3.0, 0.0, True)) if row.source == "MBB" else row for row in rows
    ]
    was, now = ({(line.source, line.role): line for line in band_coverage(lines)} for lines in (rows, spoilt))
    moved = {source for source, role in was if was[source, role] != now[source, role]}
    assert "MBB" not in moved
    assert "BLOOM" in moved


@pytest.mark.parametrize(
    ("model", "cluster", "changes"),
    [
        ("gpt3-175b", "l40s-server:8", {}),
        ("gpt3-175b", "dgx-a100-80gb:16", {"cp": 16}),
        ("gpt3-175b", "dgx-a100-80gb:4096", {"dp": 512, "global_batch": 512}),
        ("mixtral-8x7b", "dgx-h100:64", {"ep": 64}),
        ("deepseek-v3", "dgx-h100:64", {"ep": 64}),
    ],
)
def test_every_plan_has_a_band(model: str, cluster: str, changes: dict[str, int]) -> None:
    band = band_of(load_model(model), load_cluster(cluster), replace(PLAN, **changes))
    assert band.low < -0.05
    assert band.high > 0.08
    assert band.rows == len(fitted_runs().rows)


def test_expert_parallelism_neither_makes_nor_removes_a_band() -> None:
    model, cluster = load_model("deepseek-v3"), load_cluster("dgx-h100:64")
    bands = [band_of(model, cluster, replace(PLAN, ep=ep, software="nemo-2025")) for ep in (1, 16, 64)]
    assert bands[0] == bands[1] == bands[2]


def test_a_band_widens_with_what_no_fitted_run_has() -> None:
    cluster, plan = load_cluster("gb200-nvl72:4"), replace(PLAN, software="nemo-2025", precision="fp8")
    known = band_of(load_model("llama-3.1-70b"), cluster, plan)
    latent = band_of(load_model("deepseek-v3"), cluster, plan)
    assert latent.high > 1.3 * known.high
    assert latent.low < 1.2 * known.low
    assert "no fitted run has attention 'latent'" in latent.basis
    assert "no fitted run has" not in known.basis


def test_software_without_a_fitted_run_takes_what_sources_left_over() -> None:
    model, cluster = load_model("gpt3-175b"), load_cluster("dgx-a100-80gb:8")
    known = band_of(model, cluster, PLAN)
    unknown = band_of(model, cluster, replace(PLAN, software="megatron-core"))
    assert "without its source or model" in known.basis
    assert "without its source, as none is of megatron-core on ampere" in unknown.basis
    assert (known.low, known.high) != (unknown.low, unknown.high)


def test_where_neither_kind_of_model_nor_gpu_was_measured_a_band_is_at_least_forty_per_cent_to_either_side() -> (
    None
):
    band = band_of(load_model("deepseek-v3"), load_cluster("l40s-server:8"), PLAN)
    assert band.low <= -0.4
    assert band.high >= 0.4
    assert "architecture 'ada', attention 'latent'" in band.basis
    wafer = podsim.predict("gpt-22b", on="cs-2:1").band
    assert wafer is not None
    assert wafer.low <= -0.4
    assert wafer.high >= 0.4
    assert wafer.rows == 0


def test_a_plan_faster_than_measured_runs_has_a_wider_band_to_the_best_of_them() -> None:
    model, cluster = load_model("gpt3-175b"), load_cluster("dgx-a100-80gb:8")
    band, best = stated_band(model, cluster, PLAN, 100.0)
    assert best is None
    assert band == band_of(model, cluster, PLAN)
    wide, best = stated_band(model, cluster, PLAN, 4.0)
    assert best is not None
    assert wide.high >= best.ratio - 1
    assert wide.low < band.low


def test_a_band_beside_fitted_runs_is_its_limits() -> None:
    row = next(row for row in residuals() if row.role == "calibrate")
    fitted = fitted_runs()
    band = left_out_band(row.features, row.software, 0.0, fitted)
    assert (band.low, band.high) == pytest.approx(tuple(expm1(limit) for limit in fitted.known_limits))
    double = left_out_band(row.features, row.software, 8.0, fitted)
    assert log(1 + double.high) == pytest.approx(2 * log(1 + band.high))
    assert exp(2 * fitted.known_limits[0]) == pytest.approx(1 + double.low)


def test_features_say_what_mixes_tokens_and_how_experts_are_routed() -> None:
    cluster = load_cluster("dgx-h100:8")
    kinds = {
        name: run_features(load_model(name), cluster, PLAN)
        for name in ("gpt3-175b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3")
    }
    assert {name: (kind.experts, kind.attention) for name, kind in kinds.items()} == {
        "gpt3-175b": ("dense", "full"),
        "mixtral-8x7b": ("few experts", "full"),
        "qwen3-30b-a3b": ("many experts", "full"),
        "deepseek-v3": ("many experts", "latent"),
    }


def test_every_residual_is_of_a_row_with_a_measured_step() -> None:
    rows = {row.id: row for name in ("llm", "tpu") for row in load(name)}
    for residual in residuals():
        assert rows[residual.id].number("step_time_s")
        assert rows[residual.id].role == residual.role
