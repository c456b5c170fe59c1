"""More work never takes less time, and a faster link never more."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from podsim.hardware.cluster import load_cluster
from podsim.training.batch import step_cost
from podsim.training.plan import Plan
from podsim.workload.catalog import load_model

GPT = load_model("gpt-18b")
ROUNDING = 1e-9


@pytest.mark.parametrize("software", ["megatron-core", "torchtitan-2024-compile"])
@pytest.mark.parametrize("pp", [1, 2, 8])
def test_more_micro_batches_never_take_less_time(software: str, pp: int) -> None:
    """Weights that a pipeline gathers once a step are paid by as many passes as it has stages, not by fewer."""
    for dp, zero, overlap in itertools.product((2, 3, 8), (0, 1, 2, 3), (True, False)):
        cluster = load_cluster(f"dgx-a100-80gb:{-(-pp * dp // 8)}")
        plan = Plan(
            pp=pp, dp=dp, zero=zero, micro_batch=1, global_batch=dp * np.arange(1, 21), overlap_grad=overlap,
            overlap_param=overlap, software=software,
        )  # fmt: skip
        seconds = step_cost(GPT, cluster, plan).seconds
        assert (np.diff(seconds) >= -ROUNDING * seconds[1:]).all(), (dp, zero, overlap)


@pytest.mark.parametrize("link", ["network", "nvlink"])
def test_a_faster_link_never_makes_a_step_slower(link: str) -> None:
    slow = load_cluster("dgx-a100-80gb:8")
    own = getattr(slow, link)
    fast = replace(slow, **{link: replace(own, bandwidth=2 * own.bandwidth)})
    for tp, pp, zero, schedule in itertools.product(
        (1, 4), (1, 4), (0, 1, 3), ("1f1b", "interleaved", "zb-h1")
    ):
        chunks = 2 if schedule == "interleaved" else 1
        if pp == 1 and schedule != "1f1b":
            continue
        dp = 64 // tp // pp
        plan = Plan(
            tp=tp, pp=pp, dp=dp, zero=zero, micro_batch=1, virtual_stages=chunks, schedule=schedule,
            global_batch=dp * np.array([4, 8, 12]),
        )  # fmt: skip
        before, after = (step_cost(GPT, cluster, plan).seconds for cluster in (slow, fast))
        assert (after <= before * (1 + ROUNDING)).all(), (tp, pp, zero, schedule)
