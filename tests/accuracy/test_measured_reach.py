"""A prediction states what the law gives; being faster than measured runs is a remark; a measured step scales it."""

from __future__ import annotations

import pytest

import podsim
from podsim.accuracy.bands import residuals
from podsim.accuracy.measured_reach import calibrated_software, faster_than_measured
from podsim.accuracy.stated_prediction import describe
from podsim.errors import PlanError
from podsim.hardware.cluster import load_cluster
from podsim.training.plan import Plan
from podsim.training.predict import law_seconds
from podsim.workload.catalog import load_model

JOB = {"model": "llama-3.1-70b", "on": "dgx-a100-80gb:64"}
PLAN = Plan(global_batch=512, dp=512)
FAST = {
    "tp": 8, "pp": 2, "micro_batch": 2, "zero": 1, "sequence_parallel": True, "virtual_stages": 16, "overlap_tp": True,
    "overrides": {"gpu.clock": "4000 MHz"},
}  # fmt: skip


def test_class_of_a_plan_is_its_gpu_format_framework_kind_and_size() -> None:
    model, cluster = load_model(JOB["model"]), load_cluster(JOB["on"])
    run = faster_than_measured(model, cluster, PLAN, 0.9)
    alike = {
        row.id: row.utilisation for row in residuals()
        if (row.features.gpu, row.features.precision, row.features.framework, row.features.experts)
        == ("a100-sxm4-80gb", "bf16", "megatron", "dense")
        and 1 / 3 <= row.parameters / model.active_parameters <= 3
    }  # fmt: skip
    assert run is not None
    assert (alike[run.id], run.utilisation, run.rows) == (
        max(alike.values()),
        max(alike.values()),
        len(alike),
    )
    assert run.ratio == pytest.approx(0.9 / run.utilisation)
    assert faster_than_measured(model, cluster, PLAN, run.utilisation) is None


@pytest.mark.parametrize(
    ("on", "fields"),
    [("hgx-h20:8", {}), ("dgx-2:32", {"precision": "fp16"}), ("dgx-h100:64", {"precision": "mxfp8"}),
     ("dgx-h100:64", {"software": "pytorch-eager"})],
)  # fmt: skip
def test_nothing_is_said_where_no_three_comparable_runs_were_measured(
    on: str, fields: dict[str, str]
) -> None:
    plan = PLAN.having(fields)
    assert faster_than_measured(load_model(JOB["model"]), load_cluster(on), plan, 5.0) is None


def test_a_plan_faster_than_any_run_is_stated_as_the_law_gives_it_with_the_runs_name_and_a_band_to_it() -> (
    None
):
    fast = podsim.predict(**JOB, **FAST)
    model, cluster = load_model(JOB["model"]), load_cluster(JOB["on"], FAST["overrides"])
    plan = Plan(**dict(fast.plan))  # type: ignore[arg-type]
    assert fast.step_time == pytest.approx(law_seconds(model, cluster, [plan])[0])
    assert sum(fast.parts.values()) == pytest.approx(fast.step_time)
    run, band = fast.faster_than, fast.band
    assert run is not None
    assert band is not None
    assert any(run.id in text and f"{run.utilisation:.1%}" in text for text in fast.warnings)
    assert (1 + band.high) * fast.step_time >= fast.step_time * fast.mfu_6pd / run.utilisation * (1 - 1e-12)
    assert set(fast.software_range) == set(calibrated_software("ampere"))


def test_a_plan_within_measured_runs_has_no_such_remark() -> None:
    model, cluster = load_model(JOB["model"]), load_cluster(JOB["on"])
    plain = describe(model, cluster, Plan(global_batch=512, dp=32, tp=8, pp=2, recompute=2, zero=1))
    assert plain.faster_than is None
    assert not any("faster than any" in text for text in plain.warnings)


def test_measured_step_replaces_the_predicted_one_and_narrows_its_band() -> None:
    plan = {"tp": 8, "pp": 2, "micro_batch": 2, "zero": 1, "sequence_parallel": True}
    plain, own = podsim.predict(**JOB, **plan), podsim.predict(**JOB, **plan, measured="24.5s")
    assert own.step_time == pytest.approx(24.5)
    assert sum(own.parts.values()) == pytest.approx(24.5)
    assert own.law_time == pytest.approx(plain.step_time)
    assert own.band is not None
    assert plain.band is not None
    assert own.band.high - own.band.low <= plain.band.high - plain.band.low + 0.02
    ranked = podsim.plan(**JOB, limit={"tp": (8,)}, measured="24.5s@pp=2,micro_batch=2", top=2).ranked
    assert all(one.prediction.correction is not None for one in ranked)


@pytest.mark.parametrize("software", [None, "megatron-core"])
def test_a_change_of_software_by_a_measured_step_is_said_with_its_memory(software: str | None) -> None:
    job = {
        "model": "llama-3.1-8b",
        "on": "dgx-a100-80gb:16",
        "batch": 512,
        "limit": {"micro_batch": (1,)},
        "top": 1,
    }
    answer = podsim.plan(**job, measured="14.2s@tp=8,pp=1", software=software)  # type: ignore[arg-type]
    best = answer.ranked[0].prediction
    own = best.correction
    assert own is not None
    assert answer.optimism is None
    assert f"--software {own.software}" in best.command
    if software:
        assert (own.software, own.changes) == (software, "")
    else:
        assert own.software != "megatron-core"
        assert own.changes.startswith(f"{own.software} is assumed in place of megatron-core")
        assert " GB a GPU, not " in own.changes
        assert own.changes in best.warnings


def test_measured_step_beyond_the_peak_is_refused() -> None:
    with pytest.raises(PlanError, match="no step is that fast"):
        podsim.predict(**JOB, tp=8, measured="2s")


@pytest.mark.parametrize("text", ["fast", "-3s", "12s@tp", "0"])
def test_measured_step_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match=r"12\.3s"):
        podsim.predict(**JOB, tp=8, measured=text)
