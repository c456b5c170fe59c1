"""Weight streaming: bounds of a step, the limits of the maker, and what the search says."""

from __future__ import annotations

import pytest

import podsim
from podsim.errors import ClusterError, PlanError, PodsimError

LINK = 150e9
"""B/s of a system's adapters, each way"""
NAMES = ("111m", "256m", "590m", "1.3b", "2.7b", "6.7b", "13b")
PUBLISHED = (2.6e18, 1.3e19, 6.1e19, 2.8e20, 1.1e21, 6.3e21, 2.3e22)
"""FLOPs of the training of Cerebras-GPT (arXiv 2304.03208, recalled)"""


@pytest.mark.parametrize(("name", "published"), list(zip(NAMES, PUBLISHED, strict=True)))
def test_training_flops_of_published_models(name: str, published: float) -> None:
    """Twenty tokens a parameter take the FLOPs of the paper, which counts the lookup as a product (Chinchilla)."""
    answer = podsim.predict(f"cerebras-gpt-{name}", on="cs-2:1", batch=16)
    assert answer.training is not None
    peak = podsim.load_cluster("cs-2").gpu.peaks["bf16"]
    model = podsim.load_model(f"cerebras-gpt-{name}")
    lookup = 6.0 * model.vocab * model.hidden * answer.training.tokens
    assert answer.mfu * peak * answer.training.seconds + lookup == pytest.approx(published, rel=0.13)


@pytest.mark.parametrize("micro_batch", [1, 3, 15])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_a_step_is_never_faster_than_products_or_streams(micro_batch: int, recompute: str) -> None:
    answer = podsim.predict(
        "cerebras-gpt-6.7b", on="andromeda", batch=720, micro_batch=micro_batch, recompute=recompute
    )
    cluster = podsim.load_cluster("andromeda")
    batches = 720 // 16 // micro_batch
    weights = 2.0 * podsim.load_model("cerebras-gpt-6.7b").parameters
    assert (
        answer.step_time >= batches * 2 * weights / LINK * 0.97
    )  # tied tables stream with the embedding only
    flops = answer.hfu * answer.step_time * 16 * cluster.gpu.peaks["bf16"]
    assert answer.step_time * (1 + answer.band.low) >= flops / 16 / cluster.gpu.peaks["bf16"] * 0.999
    assert sum(answer.parts.values()) == pytest.approx(answer.step_time)


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_a_wafer_holds_no_optimizer(recompute: str) -> None:
    """It is in MemoryX; a layer that is computed again needs a buffer for what it keeps."""
    told = podsim.predict("cerebras-gpt-1.3b", on="cs-3:1", batch=4, recompute=recompute)
    held = told.memory_kinds
    assert (held["optimizer"], held["floor"], held["buffers"] > 0) == (0.0, 0.0, recompute == "full")
    assert sum(held.values()) == told.memory


def test_streams_do_not_grow_with_systems() -> None:
    """SwarmX broadcasts: twice the systems with twice the batch take the same step."""
    one, many = (
        podsim.predict("cerebras-gpt-13b", on=f"cs-2:{n}", batch=4 * n, micro_batch=4) for n in (1, 64)
    )
    assert many.step_time == pytest.approx(one.step_time)


def test_the_search_takes_the_best_of_all_predictions() -> None:
    result = podsim.plan("cerebras-gpt-1.3b", on="cs-3:4", batch=48)
    tried = [
        podsim.predict("cerebras-gpt-1.3b", on="cs-3:4", batch=48, micro_batch=size, recompute=way)
        for size in (1, 2, 3, 4, 6, 12)
        for way in ("none", "selective", "full")
    ]
    assert result.evaluated == len(tried)
    assert result.ranked[0].prediction.step_time == min(each.step_time for each in tried if each.fits)


@pytest.mark.parametrize(
    ("question", "error", "says"),
    [
        (lambda: podsim.predict("gpt2", on="cs-2:16", tp=2), PlanError, "tp, pp, cp and ep are 1"),
        (lambda: podsim.predict("gpt2", on="cs-2:193"), ClusterError, "at most 192"),
        (lambda: podsim.plan("gpt2", on="cs-2:4", batch=6), PlanError, "6"),
        (lambda: podsim.plan("gpt2", on="cs-2:4", limit={"tp": 2}), PlanError, "dp=4"),
        (lambda: podsim.plan("gpt2", on="cs-2:4", objective="energy"), PlanError, "time or memory"),
        (lambda: podsim.simulate("gpt2", on="cs-2:4"), PodsimError, "weights stream"),
        (lambda: podsim.collective("all-reduce", on="cs-2:4"), PodsimError, "SwarmX"),
    ],
)
def test_what_wafers_refuse(question, error, says) -> None:
    with pytest.raises(error, match=says):
        question()


def test_a_prediction_takes_the_best_of_what_is_open() -> None:
    """The search finds the same; what the user gives stays, and the command printed repeats the plan."""
    best = podsim.plan("cerebras-gpt-13b", on="andromeda", batch=720).ranked[0].prediction
    taken = podsim.predict("cerebras-gpt-13b", on="andromeda", batch=720)
    assert (taken.step_time, taken.plan) == (best.step_time, best.plan)
    one = podsim.predict("cerebras-gpt-13b", on="andromeda", batch=720, micro_batch=1, recompute="none")
    assert (one.plan["micro_batch"], one.plan["recompute"]) == (1, "none")
    assert "--micro-batch 1 --recompute none" in one.command
    assert one.step_time > 5 * taken.step_time
