"""Error bands of captured graphs: what similar published runs leave over, and nothing where there are none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reference.residuals import measure_network_residuals

import podsim
from podsim.accuracy.bands import ENOUGH
from podsim.accuracy.bands_networks import NetworkResidual, band_of_graph, network_residuals


def test_packaged_residuals_are_current() -> None:
    fresh = {row.id: row for row in measure_network_residuals()}
    kept = {row.id: row for row in network_residuals()}
    assert fresh.keys() == kept.keys()
    for id, row in fresh.items():
        assert row.features == kept[id].features, id
        assert row.log_ratio == pytest.approx(kept[id].log_ratio, abs=1e-8), id


def test_residuals_are_those_that_validate_prints() -> None:
    (compared,) = podsim.validate(["vision-train"]).comparisons
    kept = {row.id: row for row in network_residuals()}
    import math

    for row in compared.rows:
        assert math.exp(kept[row.id].log_ratio) == pytest.approx(row.predicted / row.measured, rel=1e-6), (
            row.id
        )


def test_four_of_five_new_rows_fall_inside() -> None:
    rows = network_residuals()
    inside = outside = 0
    import math

    for row in rows:
        band, _ = band_of_graph(row.features, [other for other in rows if other.id != row.id])
        if band is not None:
            missed = math.exp(row.log_ratio) - 1.0
            inside += band.low <= missed <= band.high
            outside += not band.low <= missed <= band.high
    assert inside + outside > 0.9 * len(rows)
    assert 0.75 < inside / (inside + outside) < 0.9


def test_the_closest_rows_are_taken_first() -> None:
    like = network_residuals()[0].features
    near = [NetworkResidual(id=f"n{i}", role="test", features=like, log_ratio=0.01) for i in range(ENOUGH)]
    far = [
        NetworkResidual(id=f"f{i}", role="test", features=replace(like, network="other"), log_ratio=1.0)
        for i in range(ENOUGH)
    ]
    band, _ = band_of_graph(like, [*far, *near])
    assert band is not None
    assert band.high < 0.02
    assert like.network in band.basis
    wider, _ = band_of_graph(like, [*far, *near[:3]])
    assert wider is not None
    assert wider.high > 1.0
    assert wider.rows == ENOUGH + 3


def test_a_family_without_runs_has_no_band() -> None:
    like = network_residuals()[0].features
    band, reason = band_of_graph(replace(like, architecture="hopper"))
    assert band is None
    assert "hopper" in reason


def test_a_graph_carries_its_band() -> None:
    made = podsim.graph("resnet50", on="dgx-a100-80gb:1", batch=256, precision="fp16")
    assert made.band is not None
    assert made.band.low < 0 < made.band.high
    assert "resnet50" in made.band.basis
    none = podsim.graph("resnet50", on="h100-sxm5-80gb", batch=256, precision="fp16")
    assert none.band is None
    assert "hopper" in none.band_reason
