"""Error bands: where they come from, that they hold four in five new rows, and where there is none."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from reference.residuals import measure_residuals

from podsim.accuracy.bands import ENOUGH, band_of, residuals, run_band, run_weights
from podsim.accuracy.tables import load
from podsim.answers.prediction import Prediction
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.training.plan import Plan
from podsim.training.predict import predict_plan
from podsim.workload.catalog import load_model
from podsim.workload.model import Model

AGAIN = "a deliberate change is recorded by: python scripts/record.py"


def predicted(model: Model, cluster: Cluster, plan: Plan) -> Prediction:
    return predict_plan(model, cluster, plan.check(model, cluster))


@pytest.fixture(scope="module")
def gpt() -> tuple[Model, Cluster, Plan]:
    plan = Plan(
        tp=8, pp=8, dp=1, global_batch=64, sequence_parallel=True, recompute="selective", flash=False,
        overlap_grad=False, overlap_param=False, software="megatron-2022",
    )  # fmt: skip
    return load_model("gpt3-175b"), load_cluster("dgx-a100-80gb:8"), plan


def test_packaged_residuals_are_current() -> None:
    fresh = {row.id: row for row in measure_residuals()}
    kept = {row.id: row for row in residuals()}
    assert kept.keys() == fresh.keys(), AGAIN
    for id, row in kept.items():
        assert row.log_ratio == pytest.approx(fresh[id].log_ratio, abs=1e-6), AGAIN
        assert row.utilisation == pytest.approx(fresh[id].utilisation, abs=1e-6), AGAIN
        assert row.parameters == pytest.approx(fresh[id].parameters, rel=1e-5), AGAIN
        plain = {"log_ratio": 0.0, "utilisation": 0.0, "parameters": 0.0}
        assert replace(row, **plain) == replace(fresh[id], **plain), AGAIN


def test_a_band_holds_four_in_five_runs_of_a_source_left_out() -> None:
    rows = residuals()
    shares = []
    for source in {row.source for row in rows}:
        others = [row for row in rows if row.source != source]
        runs = [row for row in rows if row.source == source and row.role == "test"]
        if runs:
            bands = {row.features: run_band(row.features, others) for row in runs}
            held = [
                bands[row.features].low <= math.expm1(row.log_ratio) <= bands[row.features].high
                for row in runs
            ]
            shares.append(np.mean(held))
    assert len(shares) > 10
    assert 0.75 <= np.mean(shares) <= 0.88


def test_a_band_names_its_rows(gpt: tuple[Model, Cluster, Plan]) -> None:
    band, reason = band_of(*gpt, predicted(*gpt))
    assert band is not None
    assert not reason
    assert band.low < band.high
    assert band.rows >= ENOUGH
    assert "KORT" in band.basis
    assert f"{band.rows} measured runs" in band.basis


def test_runs_of_one_source_share_one_weight() -> None:
    rows = residuals()
    weights = run_weights(rows[0].features, rows)
    alike = [row.features == rows[0].features for row in rows]
    of_source = {row.source: 0.0 for row in rows}
    for row, weight, same in zip(rows, weights.tolist(), alike, strict=True):
        of_source[row.source] += weight
        assert not same or weight == pytest.approx(1 / sum(other.source == row.source for other in rows))
    assert max(of_source.values()) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("model", "cluster", "changes", "reason"),
    [
        ("gpt3-175b", "l40s-server:8", {}, "family ada"),
        ("gpt3-175b", "dgx-a100-80gb:16", {"cp": 16}, "context"),
        ("gpt3-175b", "dgx-a100-80gb:8", {"sequence": 2**20}, "longest measured sequence"),
        ("gpt3-175b", "dgx-a100-80gb:4096", {"dp": 512, "global_batch": 512}, "largest measured run"),
    ],
)
def test_outside_what_was_measured_there_is_none(
    gpt: tuple[Model, Cluster, Plan], model: str, cluster: str, changes: dict[str, int], reason: str
) -> None:
    network = load_model(model, {"sequence": str(changes["sequence"])} if "sequence" in changes else {})
    plan = replace(gpt[2], **changes)
    machine = load_cluster(cluster)
    band, why = band_of(network, machine, plan, predict_plan(network, machine, plan))
    assert band is None
    assert reason in why


def test_every_residual_is_of_a_row_with_a_measured_step() -> None:
    rows = {row.id: row for row in load("llm")}
    for residual in residuals():
        assert rows[residual.id].number("step_time_s")
        assert rows[residual.id].role == residual.role
