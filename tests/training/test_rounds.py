"""ZeRO 2 under interleaved pipelines, and parts without a layer: what Llama 3 405B ran on 8,192 and 16,384 GPUs."""

from typing import Any

import pytest

import podsim
from podsim.errors import PlanError
from podsim.schedules.actions import chunk_sizes

JOB: dict[str, Any] = {
    "model": "llama-3.1-405b", "on": "grand-teton-h100", "gpus": 8192, "batch": 1024, "tp": 8, "pp": 16,
    "virtual_stages": 8, "sequence_parallel": True, "software": "meta-2024",
}  # fmt: skip


def gradients(plan: dict[str, int]) -> float:
    return max(stage.kinds["gradients"] for stage in podsim.predict(**{**JOB, **plan}).stages)


def test_the_first_and_the_last_of_128_parts_of_126_layers_hold_embedding_and_head_alone() -> None:
    assert chunk_sizes(126, 128) == [0, *[1] * 126, 0]
    with pytest.raises(PlanError, match="more than layers=126"):
        podsim.predict(**{**JOB, "virtual_stages": 9})


def test_a_round_leaves_the_gradients_of_one_chunk_of_eight_undivided() -> None:
    """8 layers on 8 ranks in fp32: whole, or 1/8 of a rank's for the round and 1/64 that it keeps of all."""
    layer = (301_989_888 + 268_435_456 + 1_744_830_464 + 872_415_232) / 8 + 2 * 16384
    assert gradients({"gpus": 8192, "zero": 1}) == pytest.approx(8 * layer * 4, rel=1e-4)
    assert gradients({"gpus": 8192, "zero": 2}) == pytest.approx(8 * layer * 4 * (1 / 8 + 1 / 64), rel=1e-4)


def test_one_round_takes_what_one_reduction_takes_and_a_second_one_adds_to_it() -> None:
    one = [podsim.predict(**JOB, zero=level).step_time for level in (1, 2)]
    assert one[1] == pytest.approx(one[0], rel=1e-12)  # 16 micro-batches, 16 stages
    two = [podsim.predict(**{**JOB, "batch": 2048}, zero=level).step_time for level in (1, 2)]
    assert two[0] < two[1] < 1.05 * two[0]


def test_a_framework_that_keeps_gradients_whole_has_no_zero_2_in_a_pipeline() -> None:
    with pytest.raises(PlanError, match="zero=2 with pp=16 on nemo-2024"):
        podsim.predict(**{**JOB, "software": "nemo-2024"}, zero=2)
    with pytest.raises(PlanError, match="zero=2 with pp=16"):
        podsim.predict(**{**JOB, "virtual_stages": 1}, zero=2)
