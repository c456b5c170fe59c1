"""MLPerf's scenarios: against published results, and against each other."""

from __future__ import annotations

import pytest

import podsim
from podsim.answers.scenario_run import ScenarioRun
from podsim.errors import NoFitError, PodsimError
from podsim.hardware.mig.measured_slices import mig_rows

_PLACES = {"A100-40GB": "a100-40gb", "A100-80GB": "a100-80gb", "8x A100-80GB": "8xa100-80gb"}
_MODELS = {"resnet50": "resnet-50", "bert-99": "bert-large"}


def _asked(model: str, on: str, scenario: str, **options: str) -> ScenarioRun:
    answer = podsim.serve(model, on=on, scenario=scenario, **options)
    assert isinstance(answer, ScenarioRun)
    return answer


@pytest.mark.parametrize(("scenario", "mean"), [("Offline", 0.06), ("Server", 0.20)])
def test_published_rates_on_whole_gpus(scenario: str, mean: float) -> None:
    rows = [
        row for row in mig_rows()
        if row.id.startswith("MLPI") and row.model in _MODELS and row.slice == "full" and row.scenario == scenario
    ]  # fmt: skip
    assert all(row.role == "test" for row in rows)
    errors = [
        _asked(_MODELS[row.model], _PLACES[row.gpu], scenario.lower()).rate / row.value - 1 for row in rows
    ]
    assert len(errors) == {"Offline": 6, "Server": 2}[scenario]
    assert sum(map(abs, errors)) / len(errors) < mean


def test_a_tighter_limit_is_a_lower_rate_and_a_delay_costs_latency() -> None:
    loose, tight = (_asked("resnet-50", "t4", "server", latency=limit).rate for limit in ("15ms", "5ms"))
    assert tight < 0.97 * loose
    assert loose < _asked("resnet-50", "t4", "offline").rate
    waiting = _asked("resnet-50", "t4", "server", latency="15ms", queue_delay="4ms")
    assert waiting.points[0].p50 > 2 * _asked("resnet-50", "t4", "server", latency="15ms").points[0].p50


def test_the_last_point_of_a_given_rate_is_all_of_it() -> None:
    run = _asked("resnet-50", "t4", "server", latency="15ms", rate="100/s")
    assert [point.share for point in run.points][-1] == 1.0
    assert run.points[-1].rate == pytest.approx(100.0, rel=0.05)


def test_streams_of_one_and_of_eight() -> None:
    one, eight = (_asked("jasper", "a100", f"{each}-stream") for each in ("single", "multi"))
    assert one.latency < eight.latency < 8 * one.latency
    assert eight.rate > one.rate


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(NoFitError, match="on an idle t4"):
        _asked("resnet-50", "t4", "server", latency="10us")
    with pytest.raises(PodsimError, match="give one: --latency"):
        _asked("jasper", "t4", "server")
    with pytest.raises(PodsimError, match="percentile=100"):
        podsim.serve("resnet-50", on="t4", scenario="server", percentile=100.0)
