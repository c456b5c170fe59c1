"""What a prediction assumes, and what a reader should doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest

import podsim
from podsim.accuracy.bands_networks import network_residuals
from podsim.accuracy.stated_prediction import assumptions, warnings
from podsim.answers.prediction import Prediction
from podsim.hardware.cluster import load_cluster
from podsim.training.plan import Plan
from podsim.workload.catalog import load_model

PLAN = Plan(tp=2, pp=4, dp=1, global_batch=8, precision="bf16", software="megatron-core", sequence=1024)
CLUSTER = load_cluster("dgx-h100:1")
MODEL = load_model("gpt-1.7b")


@pytest.mark.parametrize(
    ("changes", "words", "absent"),
    [
        ({}, "software: ", "kept until the gradient of the weights"),
        ({"schedule": "zb-h1"}, "kept until the gradient of the weights is made", "two ranks"),
        ({"schedule": "dualpipe"}, "trains each part of the model on two ranks", "never drains"),
        ({"software": "megatron-2020"}, "; it has no ", "zzz"),
    ],
)
def test_sentences_of_a_plan(changes: dict[str, str], words: str, absent: str) -> None:
    said = " / ".join(assumptions(MODEL, CLUSTER, PLAN.having(changes), default_batch=False))
    assert words in said
    assert absent not in said


def test_software_that_has_all_says_nothing_of_lacks() -> None:
    (first, *_) = assumptions(MODEL, CLUSTER, PLAN, default_batch=False)
    assert "it has no" not in first or "(a search leaves these out)" in first


@pytest.fixture(scope="module")
def prediction() -> Prediction:
    return podsim.predict("gpt-1.7b", on="dgx-h100:1", tp=2, pp=4, batch=8)


@pytest.mark.parametrize(
    ("share", "uneven", "words"),
    [
        (0.92, 2.9, None),
        (0.93, 2.9, "tight: it may fail, as one run in five needs 8% more memory; 7.5% is left"),
        (0.5, 3.1, "the fullest stage needs 3 times the memory of the emptiest"),
    ],
)
def test_doubts_about_memory(prediction: Prediction, share: float, uneven: float, words: str | None) -> None:
    first = prediction.stages[0]
    stages = tuple(
        replace(first, kinds={kind: size * factor for kind, size in first.kinds.items()})
        for factor in (1.0, uneven)
    )
    given = replace(prediction, memory_limit=prediction.memory / share, stages=stages, fits=True)
    said = [each for each in warnings(MODEL, given, CLUSTER, PLAN) if "memory" in each]
    assert (words is None and not said) or (words is not None and len(said) == 1 and words in said[0])


def test_runs_of_a_network_are_evidence_by_the_network_and_not_by_its_name() -> None:
    captured = [row for row in network_residuals() if row.features.network == "bert-large-128"]
    count = sum((row.features.architecture, row.features.precision) == ("ampere", "tf32") for row in captured)
    large, small = (
        podsim.predict(name, on="dgx-a100:1", precision="tf32").warnings for name in ("bert-large", "gpt2")
    )
    assert count > 0
    assert any(f"{count} of bert-large-128" in text for text in large)
    assert not any("no measured run" in text for text in large)
    assert any("no measured run" in text for text in small)
