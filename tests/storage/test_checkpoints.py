"""What a checkpoint holds: published sizes, and what every way of dividing it keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import PodsimError
from podsim.storage.checkpoints import state_of
from podsim.training.plan import Plan
from podsim.workload.catalog import load_model

PLAN = Plan(tp=8, pp=8, dp=4, global_batch=64, zero=1)
MODEL = load_model("gpt3-175b")
MIXTURE = load_model("mixtral-8x7b")

SIZES = [
    # model, published bytes, largest difference: binary units where a source prints them as GB (see checkpoints.toml)
    ("gpt-1t", 13.8e12, 0.025),  # Narayanan et al. 2021
    ("bloom-176b", 2.3 * 2**40, 0.03),  # 2.3 TB, one digit
    ("llama-3.1-8b", 105 * 2**30, 0.005),  # MLPerf Storage 2.0, as the next two
    ("llama-3.1-70b", 912 * 2**30, 0.01),
    ("llama-3.1-405b", 5290 * 2**30, 0.001),
]


@pytest.mark.parametrize(("name", "published", "off"), SIZES)
def test_published_sizes(name: str, published: float, off: float) -> None:
    plan = Plan(precision="bf16")
    assert state_of(load_model(name), plan).size == pytest.approx(published, rel=off)


def test_weights_alone_of_bloom() -> None:
    """329 GB of bf16 weights are GiB: what the binary reading of 2.3 TB rests on."""
    assert load_model("bloom-176b").parameters * 2 / 2**30 == pytest.approx(329, rel=0.003)


def test_bytes_of_a_parameter() -> None:
    for precision, moments, each in (("bf16", "fp32", 14.0), ("fp32", "fp32", 12.0), ("bf16", "bf16", 10.0)):
        plan = Plan(precision=precision, optimizer_precision=moments)
        assert state_of(MODEL, plan).size == pytest.approx(MODEL.parameters * each, rel=1e-3)


plans = st.builds(
    lambda tp, pp, dp, cp, zero, part: Plan(
        tp=tp, pp=pp, dp=dp, cp=cp, zero=zero, shard=dp * cp // part if zero == 3 and dp * cp % part == 0 else 0,
        global_batch=dp,
    ),
    st.sampled_from([1, 2, 8]), st.sampled_from([1, 3, 8]), st.sampled_from([1, 2, 8]), st.sampled_from([1, 2]),
    st.integers(0, 3), st.sampled_from([1, 2]),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(plans)
def test_every_way_of_writing_keeps_every_byte_once(plan: Plan) -> None:
    shared, alone = (state_of(MODEL, plan, writers=writers) for writers in ("all", "replica"))
    assert shared.size == pytest.approx(alone.size)
    assert shared.size == pytest.approx(state_of(MODEL, replace(plan, zero=0, shard=0)).size)
    assert len(shared.written) == plan.gpus
    assert shared.written.max() <= alone.written.max() * (1 + 1e-9)
    assert (alone.written <= alone.held * (1 + 1e-9)).all()
    assert shared.held.sum() >= shared.size * (1 - 1e-9)


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([8, 16]), st.integers(0, 3))
def test_experts_are_kept_once_too(ep: int, dp: int, zero: int) -> None:
    plan = Plan(dp=dp, ep=ep, zero=zero, global_batch=dp)
    for writers in ("all", "replica"):
        assert state_of(MIXTURE, plan, writers=writers).size == pytest.approx(
            MIXTURE.parameters * 14, rel=1e-3
        )


def test_who_writes_what() -> None:
    """Without ZeRO one replica of four writes all; with ZeRO 1 the others add their shards of the optimizer."""
    plain = state_of(MODEL, replace(PLAN, zero=0), writers="replica").written.reshape(8, 4, 8)
    assert (plain[:, 0] > 0).all()
    assert (plain[:, 1:] == 0).all()
    sharded = state_of(MODEL, PLAN, writers="replica").written.reshape(8, 4, 8)
    assert (sharded > 0).all()
    assert sharded[1, 1, 0] / sharded[1, 0, 0] == pytest.approx(12 / 4 / (2 + 12 / 4))
    shared = state_of(MODEL, PLAN).written.reshape(8, 4, 8)
    assert np.ptp(shared[1]) == pytest.approx(0)


def test_the_first_stage_writes_its_embedding() -> None:
    by_stage = state_of(MODEL, PLAN).written.reshape(8, -1).sum(axis=1)
    assert by_stage.argmax() in (0, 7)
    assert by_stage[3] == pytest.approx(by_stage[4])


def test_zero_divides_what_is_read_back() -> None:
    held = [state_of(MODEL, replace(PLAN, zero=zero)).held.sum() / MODEL.parameters for zero in (0, 1, 3)]
    assert held == pytest.approx([4 * 14, 4 * 2 + 12, 14], rel=2e-3)


def test_unknown_writers() -> None:
    with pytest.raises(PodsimError, match="writers='some' may be all, replica"):
        state_of(MODEL, PLAN, writers="some")
