"""What measured runs reached bounds what a prediction states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import podsim
from podsim.accuracy.bands import residuals
from podsim.accuracy.measured_reach import believable_utilisation, calibrated_software, measured_reach
from podsim.errors import PlanError
from podsim.hardware.cluster import load_cluster
from podsim.training.plan import Plan
from podsim.workload.catalog import load_model

JOB = {"model": "llama-3.1-70b", "on": "dgx-a100-80gb:64"}


@given(st.floats(0.01, 2.0), st.floats(0.01, 2.0), st.floats(0.1, 0.7))
def test_stated_utilisation_is_monotone_and_within_the_best(one: float, other: float, best: float) -> None:
    low, high = sorted((one, other))
    stated = believable_utilisation(np.array([low, high, 0.9 * best]), best)
    assert stated[0] <= stated[1] <= best
    assert stated[2] == pytest.approx(0.9 * best)


def test_class_of_a_plan_is_its_family_width_and_size() -> None:
    model, cluster = load_model(JOB["model"]), load_cluster(JOB["on"])
    reach = measured_reach(model, cluster, Plan(global_batch=512, dp=512))
    assert reach is not None
    alike = [
        row.utilisation for row in residuals()
        if (row.features.architecture, row.features.bits, row.features.experts) == ("ampere", "16", "dense")
        and 1 / 3 <= row.parameters / model.active_parameters <= 3
    ]  # fmt: skip
    assert (reach.utilisation, reach.rows) == (max(alike), len(alike))


def test_no_prediction_states_more_than_the_best_measured_run() -> None:
    fast = podsim.predict(
        **JOB, tp=8, pp=2, micro_batch=2, zero=1, sequence_parallel=True, virtual_stages=16,
        overlap_tp=True, overrides={"gpu.clock": "4000 MHz"},
    )  # fmt: skip
    limit = measured_reach(load_model(JOB["model"]), load_cluster(JOB["on"]), Plan(global_batch=512, dp=512))
    assert limit is not None
    assert fast.mfu_6pd <= limit.utilisation
    assert sum(fast.parts.values()) == pytest.approx(fast.step_time)
    if fast.allowance is not None:
        assert fast.law_time < fast.step_time
        assert set(fast.software_range) == set(calibrated_software("ampere"))


def test_measured_step_replaces_the_predicted_one_and_narrows_its_band() -> None:
    plan = {"tp": 8, "pp": 2, "micro_batch": 2, "zero": 1, "sequence_parallel": True}
    plain, own = podsim.predict(**JOB, **plan), podsim.predict(**JOB, **plan, measured="24.5s")
    assert own.step_time == pytest.approx(24.5)
    assert own.band is not None
    assert plain.band is not None
    assert own.band.high - own.band.low <= plain.band.high - plain.band.low + 0.02
    ranked = podsim.plan(**JOB, limit={"tp": (8,)}, measured="24.5s@pp=2,micro_batch=2", top=2).ranked
    assert all(one.prediction.correction is not None for one in ranked)


def test_measured_step_beyond_the_peak_is_refused() -> None:
    with pytest.raises(PlanError, match="no step is that fast"):
        podsim.predict(**JOB, tp=8, measured="2s")


@pytest.mark.parametrize("text", ["fast", "-3s", "12s@tp", "0"])
def test_measured_step_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match=r"12\.3s"):
        podsim.predict(**JOB, tp=8, measured=text)
