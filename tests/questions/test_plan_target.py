"""`podsim plan --to-target`: batch and GPUs of a benchmark, and where strong scaling ends."""

from __future__ import annotations

from pathlib import Path

import pytest

import podsim
from podsim.answers.minutes import TargetPlan
from podsim.answers.prediction import PlanResult
from podsim.errors import PodsimError
from podsim.learning.benchmarks import convergence_law, find_benchmark
from podsim.questions.train.plan import plan


def planned(**options: object) -> TargetPlan:
    answer = plan(**{"model": "bert", "on": "selene-2020-06", "to_target": True, "round": "v0.7", **options})
    assert isinstance(answer, TargetPlan)
    return answer


def test_bert_on_selene() -> None:
    plan = planned()
    gpus = [choice.run.gpus for choice in plan.choices]
    assert gpus == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 2240]
    seconds = [choice.run.seconds for choice in plan.choices]
    assert seconds == sorted(seconds, reverse=True)
    assert plan.best.run.seconds == min(seconds)
    batches = [choice.run.batch for choice in plan.choices]
    assert batches == sorted(batches)
    assert "critical batch" in plan.why
    assert plan.choices[0].saved is None


@pytest.mark.parametrize(
    ("model", "on", "round"),
    [
        ("bert", "selene-2020-06", "v0.7"),  # results of July 2020
        ("bert", "selene-2020-11", "v1.0"),  # of June 2021
        ("retinanet", "selene-2020-06", "v2.0"),  # its first
        ("bert", "dgx-a100-40gb", "v5.0"),  # of no month
    ],
)
def test_a_machine_of_a_month_has_the_software_of_the_next_round(model: str, on: str, round: str) -> None:
    plan = planned(model=model, on=on, round="", gpus=8)
    assert plan.round == round
    assert any("--round" in note for note in plan.notes) == on.startswith("selene-")


def test_strong_scaling_ends_with_convergence() -> None:
    plan = planned(model="resnet", on="dgx-a100-40gb")
    assert plan.end.run.gpus < plan.choices[-1].run.gpus
    after = plan.choices[plan.choices.index(plan.end) + 1]
    assert after.saved is not None
    assert after.saved < 0.25
    assert plan.end.run.batch > 0.5 * convergence_law(find_benchmark("resnet"), "v0.7").critical_batch


def test_the_least_money_takes_fewer_gpus() -> None:
    cheap, fast = planned(objective="cost", price="2", gpus=256), planned(gpus=256)
    assert cheap.best.usd
    assert cheap.best.run.gpus < fast.best.run.gpus
    run = cheap.best.run
    assert cheap.best.usd == pytest.approx(run.gpus * run.seconds / 3600 * 2)
    assert all(choice.run.batch == 1024 for choice in planned(gpus=64, batch=1024).choices)


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = planned(gpus=64).plot()
    assert [axes.get_ylabel() for axes in figure.axes] == ["minutes to the target"]


def test_designs_of_a_study() -> None:
    study = {
        "question": "target",
        "common": {"on": "dgx-h100:2"},
        "design": [{"model": "bert"}, {"model": "bret"}],
    }
    known, unknown = podsim.study(study).rows
    assert (known.status, known.model, known.gpus) == ("fits", "BERT-large", 16)
    assert known.training
    assert known.cost
    assert "did you mean" in unknown.reason


def test_without_a_target_it_is_the_search() -> None:
    assert isinstance(plan(model="gpt2", on="dgx-a100-80gb:1", top=1), PlanResult)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "bret"}, "did you mean bert"),
        ({"round": "v5.0", "model": "gnmt"}, "v0.5 to v0.7"),
        ({"limit": {"tp": "2"}}, "no meaning: --limit"),
        ({"objective": "memory"}, "time or cost"),
        ({"batch": "many"}, "samples of a step"),
        ({"price": "gold"}, "unknown price"),
    ],
)
def test_bad_input_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(PodsimError, match=message):
        planned(**options)
