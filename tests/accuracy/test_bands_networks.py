"""Error bands of captured graphs: what similar published runs leave over that no constant was fitted to."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from reference.residuals import measure_network_residuals

import podsim
from podsim.accuracy.bands import ENOUGH
from podsim.accuracy.bands_networks import NetworkResidual, band_of_graph, network_residuals
from podsim.accuracy.tables import load, measurement

RECORDED = Path(__file__).parents[1] / "golden" / "predictions.json"


def test_packaged_residuals_are_current() -> None:
    fresh = {row.id: row for row in measure_network_residuals()}
    kept = {row.id: row for row in network_residuals()}
    assert fresh.keys() == kept.keys()
    for id, row in fresh.items():
        assert row.features == kept[id].features, id
        assert row.log_ratio == pytest.approx(kept[id].log_ratio, abs=1e-8), id


def test_residuals_are_those_that_validate_prints() -> None:
    """As its recorded predictions, which tests/questions/test_validate.py compares with fresh ones."""
    predictions = json.loads(RECORDED.read_text("utf-8"))["vision-train"]
    kept = {row.id: row for row in network_residuals()}
    rows = [row for row in load("vision-train") if row.id in kept and row.id in predictions]
    assert len(rows) > 100
    for row in rows:
        target = measurement(row, "samples/s")
        assert target is not None
        assert math.exp(kept[row.id].log_ratio) == pytest.approx(predictions[row.id] / target.value, rel=1e-6)


def test_runs_of_a_network_left_out_fall_inside_three_or_four_times_of_five() -> None:
    rows, held = network_residuals(), {}
    for network in {row.features.network for row in rows}:
        others = [row for row in rows if row.features.network != network]
        for row in rows:
            if row.features.network == network and row.role == "test":
                band = band_of_graph(row.features, tuple(others))
                held.setdefault(network, []).append(band.low <= math.expm1(row.log_ratio) <= band.high)
    assert 0.7 < statistics.mean(statistics.mean(inside) for inside in held.values()) < 0.9


def test_the_closest_rows_are_taken_first_and_networks_share_one_weight() -> None:
    like = network_residuals()[0].features
    near = [NetworkResidual(id=f"n{i}", role="test", features=like, log_ratio=0.01) for i in range(ENOUGH)]
    far = [
        NetworkResidual(id=f"f{i}", role="test", features=replace(like, network="other"), log_ratio=1.0)
        for i in range(ENOUGH)
    ]
    band = band_of_graph(like, (*far, *near))
    assert band.high < 0.02
    assert like.network in band.basis
    wider = band_of_graph(like, (*far, *near[:3]))
    assert wider.high > 1.0
    assert wider.rows == ENOUGH + 3


def test_fitted_rows_shape_no_band_of_a_graph() -> None:
    rows = network_residuals()
    spoilt = [replace(row, log_ratio=3.0) if row.role == "calibrate" else row for row in rows]
    assert band_of_graph(rows[0].features, tuple(spoilt)) == band_of_graph(rows[0].features, rows)


def test_a_graph_carries_its_band() -> None:
    made = podsim.graph("resnet50", on="dgx-a100-80gb:1", batch=256, precision="fp16")
    assert made.band is not None
    assert made.band.low < 0 < made.band.high
    assert "resnet50" in made.band.basis
    new = podsim.graph("resnet50", on="h100-sxm5-80gb", batch=256, precision="fp16").band
    assert new is not None
    assert new.low <= -0.4
    assert new.high >= 0.4
    assert "too few are of hopper" in new.basis
