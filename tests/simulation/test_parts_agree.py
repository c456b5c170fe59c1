"""The parts of a step are the same by closed form and by simulation. PODSIM_LONG=1 compares 200 plans, not 15."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

import podsim
from podsim.errors import PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.simulation.events import play
from podsim.simulation.lower import lower
from podsim.simulation.replayed_parts import step_parts
from podsim.training.plan import Plan
from podsim.training.predict import predict_plan
from podsim.training.step import SPLIT, exposed_parts
from podsim.workload.catalog import load_model

PLANS = 200 if os.environ.get("PODSIM_LONG") else 15
PART = 0.05
"""share of a part within which both agree"""
STEP = 0.002
"""share of the step within which they do"""
PAIRS = 0.06
"""the same with pairs of passes, whose order in the simulation hides other exchanges: docs/laws/step.md"""
STRICT = 0.15
"""share of the plans in which the two steps themselves differ by more than that"""
SCHEDULES = (
    ("1f1b", 1), ("1f1b", 1), ("interleaved", 2), ("interleaved", 3), ("gpipe", 1), ("zb-h1", 1), ("zb-v", 2),
    ("dualpipe", 1), ("breadth-first", 2),
)  # fmt: skip
MODELS = ("gpt2", "bert-large", "llama-3.1-8b", "llama-3.1-70b", "gpt3-175b", "mixtral-8x7b", "deepseek-v3")


def random_plans(seed):
    """Endless legal plans: (model, cluster, plan)."""
    dice = Random(seed)
    while True:
        model, per = load_model(dice.choice(MODELS)), dice.choice((1, 2, 4, 8, 16, 32))
        cluster = load_cluster(f"{dice.choice(('dgx-a100', 'dgx-h100', 'dgx-b200'))}:{per}")
        tp, pp, cp = dice.choice((1, 2, 4, 8)), dice.choice((1, 2, 4, 8)), dice.choice((1, 1, 1, 2))
        schedule, chunks = dice.choice(SCHEDULES) if pp > 1 else ("1f1b", 1)
        recompute, layers = dice.choice((("none", 0), ("selective", 0), ("full", 0), ("full", 1)))
        micro, count = (
            dice.choice((1, 2, 4)),
            dice.choice((1, 2, 4, 8, 16)) * (pp if dice.random() < 0.7 else 1),
        )
        flags = {name: dice.random() < 0.6 for name in ("overlap_grad", "overlap_param", "overlap_tp")}
        fields = {
            "tp": tp, "pp": pp, "cp": cp, "ep": dice.choice((1, 2, 4, 8)) if model.has_experts else 1,
            "dp": cluster.gpus // (tp * pp * cp), "micro_batch": micro, "zero": dice.choice((0, 1, 1, 2, 3)),
            "schedule": schedule, "virtual_stages": chunks, "recompute": recompute, "recompute_layers": layers,
            "sequence_parallel": tp > 1 and dice.random() < 0.5, **flags,
        }  # fmt: skip
        if fields["dp"] * tp * pp * cp != cluster.gpus or count * pp * model.layer_count > 30_000:
            continue
        try:
            plan = Plan(global_batch=micro * fields["dp"] * count, **fields)
        except PodsimError:
            continue
        if not plan.problems(model, cluster):
            yield model, cluster, plan


def compared(count: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(schedule, parts by closed form, parts by simulation) of so many plans."""
    for (model, cluster, plan), _ in zip(random_plans(7), range(count), strict=False):
        lowered = lower(model, cluster, plan, kernels=False)
        parts = predict_plan(model, cluster, plan).parts, step_parts(lowered, play(lowered.ops), plan)
        yield plan.describe()["schedule"], *(np.array([own[name] for name in SPLIT]) for own in parts)


@pytest.fixture(scope="module")
def plans():
    return list(compared(PLANS))


def test_each_part_agrees_as_far_as_the_steps_do(plans):
    for schedule, law, simulated in plans:
        step = simulated.sum()
        share = PAIRS if schedule == "dualpipe" else STEP
        allowed = np.maximum(PART * simulated, share * step) + abs(law.sum() - step)
        assert np.all(np.abs(law - simulated) <= allowed), (schedule, law / step, simulated / step)


def test_parts_differ_only_where_the_steps_do(plans):
    differ = [
        np.any(np.abs(law - simulated) > np.maximum(PART * simulated, STEP * simulated.sum()))
        for _, law, simulated in plans
    ]
    assert np.mean(differ) <= STRICT


def test_no_part_is_negative(plans):
    assert all(min(law.min(), simulated.min()) >= 0 for _, law, simulated in plans)


def test_parts_are_what_the_step_loses_without_them():
    """By hand: 10 s, 8 s without exchanges, 7 s without sends too; passes of 4 s, optimizer and host of 1 and 0.5 s."""
    passes = np.array([2.0, 1.0, 0.25, 0.75, 0.0, 0.0])
    parts = exposed_parts(
        [np.array(10.0), np.array(8.0), np.array(7.0)], passes, np.array(1.0), np.array(0.5)
    )
    assert dict(zip(SPLIT, parts.tolist(), strict=True)) == {
        "compute": 2.0, "memory": 1.0, "launch": 0.25, "tp": 0.75, "cp": 0.0, "ep": 0.0, "pp": 1.0, "dp": 2.0,
        "bubble": 1.5, "optimizer": 1.0, "host": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize("asked", [
    ("gpt3-175b", {"on": "selene", "gpus": 512, "tp": 8, "pp": 8, "zero": 1, "batch": 256, "sequence_parallel": True}),
    ("llama-3.1-8b", {"on": "dgx-h100:2", "tp": 4, "pp": 2, "batch": 32, "precision": "fp8"}),
], ids=["gpt3", "fp8"])  # fmt: skip
def test_the_closed_form_is_the_figure_of_predict(asked):
    model, options = asked
    assert podsim.simulate(model, **options).closed_form == podsim.predict(model, **options).step_time
