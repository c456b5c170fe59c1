"""What layers of experts exchange under each dispatcher, held against published counts of copies and measured rates."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from podsim.hardware.cluster import load_cluster
from podsim.training.expert_exchange import distinct_targets, ep_bytes, exchange_seconds
from podsim.training.plan import Plan
from podsim.training.predict import predict_plan
from podsim.training.software import Software, load_software
from podsim.workload.catalog import load_model

DEEPSEEK = load_model("deepseek-v3")
BLOCK = next(block for block in DEEPSEEK.layers if block.experts)
SOFTWARE = replace(load_software("hai-llm"), expert_imbalance=1.0)


def parts(software: Software, ep: int, system: str = "hgx-h800:8") -> tuple[float, float]:
    plan = Plan(dp=64, ep=ep, global_batch=64, sequence=4096, software=software.name, zero=1).arrays()
    dispatch, combine = exchange_seconds(DEEPSEEK, BLOCK, load_cluster(system), plan, software)
    return float(dispatch[0]), float(combine[0])


@pytest.mark.parametrize(("choices", "targets"), [(1, 4), (2, 3), (3, 2), (2, 8)])
def test_distinct_targets_are_counted_over_all_choices(choices: int, targets: int) -> None:
    counts = [len(set(chosen)) for chosen in product(range(targets), repeat=choices)]
    assert distinct_targets(choices, np.array([targets]))[0] == pytest.approx(np.mean(counts))


def test_tokens_of_deepseek_reach_at_most_four_of_eight_nodes() -> None:
    """4 (1 - (3/4)^8) = 3.6 copies with the limit, 8 (1 - (7/8)^8) = 5.25 without, 8 by all-to-all."""
    plan = Plan(dp=64, ep=64, global_batch=64, sequence=4096).arrays()
    cluster, width = load_cluster("hgx-h800:8"), (1.03 + 2) / 2
    limited, free = (replace(BLOCK, top_groups=top) for top in (4, 0))
    sent = [
        float(ep_bytes(DEEPSEEK, block, cluster, plan, software)[0]) / (4096 * 7168)
        for block, software in (
            (limited, SOFTWARE), (free, SOFTWARE), (free, replace(SOFTWARE, dispatcher="alltoall")),
        )
    ]  # fmt: skip
    assert sent == pytest.approx([3.6 * width, 5.25 * width, 8 * width], rel=1e-3)


@pytest.mark.parametrize(
    ("ep", "rate_of_dispatch", "rate_of_combine"), [(8, 153, 158), (16, 43, 43), (32, 58, 57), (64, 51, 50)]
)
def test_exchanges_take_about_as_long_as_deepep_measured(
    ep: int, rate_of_dispatch: float, rate_of_combine: float
) -> None:
    """README of DeepEP, H800 with 400 Gb/s an adapter: GB/s of 4,096 tokens of 7,168 to 8 experts in 4 groups.

    Its rate counts one copy for each node of destination, the own node too; on one node, one for each GPU.
    """
    targets = min(ep / 8, 4) if ep > 8 else 8
    copies = targets * (1 - (1 - 1 / targets) ** 8)
    measured = [
        copies * 4096 * 7168 * b / (g * 1e9) for b, g in ((1.03, rate_of_dispatch), (2, rate_of_combine))
    ]
    assert parts(SOFTWARE, ep) == pytest.approx(measured, rel=0.2)


def test_an_all_gather_sends_every_token_to_every_rank_whatever_its_choices() -> None:
    gathered = replace(SOFTWARE, dispatcher="allgather")
    every = replace(SOFTWARE, dispatcher="alltoall")
    assert min(parts(gathered, 64)) > max(parts(every, 64))  # 64 copies, not 8
    assert max(parts(gathered, 4)) < min(parts(every, 4))  # 4 copies, not 8
    assert parts(replace(SOFTWARE, dispatcher="low-latency"), 64) == parts(every, 64)


def test_the_step_of_deepseek_on_its_own_plan_is_that_which_was_measured() -> None:
    """19.926 s, of which 2.06 s are bubble (arXiv 2505.09343, table 4): 2,048 H800, 15,360 sequences of 4,096 tokens.

    Norms, activations and wide latents are computed again (arXiv 2412.19437, section 3.2.3); its prediction of a second
    token, another layer and pass through the head, is not counted.
    """
    plan = Plan(
        pp=16, dp=128, ep=64, schedule="dualpipe", precision="fp8", global_batch=15360, sequence=4096, zero=1,
        software="hai-llm", recompute="selective", optimizer_precision="bf16",
    )  # fmt: skip
    prediction = predict_plan(DEEPSEEK, load_cluster("hgx-h800:256"), plan)
    assert prediction.step_time == pytest.approx(19.926, rel=0.15)
    assert prediction.parts["bubble"] == pytest.approx(2.06, rel=0.1)
