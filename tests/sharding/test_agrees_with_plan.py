"""One question, two commands: what `podsim shard` says of a plan is what `podsim predict` and `podsim plan` say."""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest

from podsim.hardware.cluster import load_cluster
from podsim.questions.train.plan import plan
from podsim.questions.train.predict import predict
from podsim.questions.train.shard import shard
from podsim.sharding.plan_annotations import plan_mesh
from podsim.training.plan import Plan
from podsim.training.search_limits import SEARCHED
from podsim.training.search_space import space
from podsim.training.software import default_software, load_software
from podsim.workload.catalog import load_model

_CASES = [
    (model, on)
    for model in ("llama-3.1-8b", "llama-3-70b", "mixtral-8x7b")
    for on in ("dgx-a100-80gb:8", "dgx-h100:8")
]
_FEW = [("llama-3.1-8b", "dgx-h100:8"), ("llama-3-70b", "dgx-h100:8")]
_PLANS = 40 if os.environ.get("PODSIM_LONG") else 6
_BESIDE = ("virtual_stages", "schedule", "pp")
"""fields of pipelines"""


@pytest.mark.parametrize(("model", "on"), _CASES if os.environ.get("PODSIM_LONG") else _FEW)
def test_the_best_sharding_is_no_slower_than_the_best_plan_without_a_pipeline(model: str, on: str) -> None:
    options = {"on": on, "gpus": 64, "batch": 64}
    best = plan(model, **options, limit={"pp": [1]}).ranked[0].prediction
    answer = shard(model, **options)
    assert answer.fits
    assert answer.step_time <= 1.02 * best.step_time
    if not answer.beyond:
        said = predict(model, **options, **_words(answer.plan))
        assert answer.step_time == pytest.approx(said.step_time, rel=1e-9)
        assert answer.memory == pytest.approx(said.memory, rel=1e-9)
    assert answer.command.startswith(f"podsim predict {model} --on {on} --gpus 64 --batch 64")


@pytest.mark.parametrize(("model", "on", "gpus"), [
    ("llama-3.1-8b", "dgx-a100-80gb:2", 16), ("mixtral-8x7b", "dgx-h100:4", 32), ("t5-11b", "dgx-h100:2", 16),
])  # fmt: skip
def test_random_plans_have_one_price(model: str, on: str, gpus: int) -> None:
    random = Random(f"{model} {on}")
    options = {"on": on, "gpus": gpus, "batch": 4 * gpus, "sequence": 2048}
    cluster = load_cluster(on, None, gpus)
    network = load_model(model, {"sequence": "2048"})
    software = load_software(default_software(cluster.gpu), cluster.gpu)
    fixed = Plan(global_batch=4 * gpus, sequence=2048, software=software.name)
    legal = space(network, cluster, fixed, gpus, {"pp": (1,)}, software)
    modes = [legal.columns(np.array(mode)) for mode in range(len(legal.modes))]
    drawn = (
        legal.rows.take(random.choice(each.rows)).having(
            {**random.choice(modes), "zero": each.zero, "shard": each.shard}
        )
        for each in random.choices(legal.divisions, k=20 * _PLANS)
    )
    for one_plan in [each for each in drawn if plan_mesh(each) is not None][:_PLANS]:
        words = _words(one_plan.describe())
        said = predict(model, **options, **words)
        limit = {name: [words[name]] for name in words if name in SEARCHED and name not in (*_BESIDE, "dp")}
        searched = shard(model, **options, limit=limit)
        given = shard(model, **options, limit=limit, mesh=searched.mesh, annotate=searched.annotations)
        assert given.step_time == pytest.approx(searched.step_time, rel=1e-9), words
        assert searched.step_time <= said.step_time * (1 + 1e-9) or not said.fits
        for name in ("tp", "cp", "ep", "zero", "micro_batch", "recompute"):
            assert searched.plan[name] == words[name]
        if not searched.beyond:
            same = predict(model, **options, **_words(searched.plan))
            assert searched.step_time == pytest.approx(same.step_time, rel=1e-9), words
            assert searched.memory == pytest.approx(same.memory, rel=1e-9), words


def _words(values: dict[str, object]) -> dict[str, object]:
    """The fields of a plan that users give."""
    return {name: values[name] for name in SEARCHED if name in values}
