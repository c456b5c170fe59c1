"""One static law: a batch by hand, and static batches, a request alone and a server under hardly any load agree."""

from __future__ import annotations

import numpy as np
import pytest

import podsim
from podsim.hardware.cluster import load_cluster
from podsim.serving.serving_plan import ServingPlan
from podsim.serving.static_batches import StaticRequest, static_row
from podsim.serving.step_cost import StepCost
from podsim.serving.step_laws import make_passes
from podsim.workload.catalog import load_model

COST = StepCost(
    step=1.0, request=0.5, tokens=np.array([1.0, 2.0]), tokens_seconds=np.array([0.001, 0.002]),
    mixed_seconds=np.array([0.002, 0.004]), decode_requests=np.array([1.0, 2.0]),
    decode_context=np.array([1.0, 2.0]), decode_seconds=np.array([[0.01, 0.02], [0.02, 0.04]]),
    prompt_new=np.array([1.0, 2.0]), prompt_past=np.array([0.0]), prompt_seconds=np.array([[0.1], [0.2]]),
)  # fmt: skip
"""Steps of 1 s and 0.5 s a sequence; 1 ms a token, 2 ms in steps of prompts; 10 ms a key, 100 ms a new token."""


def _row(batch: int, request: StaticRequest, **plan: int) -> tuple[float, float, float]:
    made = make_passes(load_model("gpt2"), load_cluster("h100"), ServingPlan(engine="vllm", **plan))
    row = static_row(made, COST, request, batch)
    assert sum(row.parts.values()) == pytest.approx(row.latency)
    return row.first_token, row.token, row.latency


def test_whole_prompts_fill_steps_by_hand() -> None:
    """Three prompts of 10 tokens, two in a step: 2 steps, 3 sequences, 30 tokens; then 4 steps of 3 tokens."""
    first = 2 * 1.0 + 3 * 0.5 + 30 * 0.002 + 30 * 0.1
    each = 1.0 + 3 * 0.5 + 3 * 0.001 + 3 * 12.5 * 0.01  # contexts of 11 to 14 tokens
    request = StaticRequest(tokens=10, output=5, is_chunked=False)
    assert _row(3, request, max_batched_tokens=25) == pytest.approx((first, each, first + 4 * each))


def test_chunks_of_prompts_fill_steps_by_hand() -> None:
    """25 and 5 tokens: the third prompt is in both steps, so there are 4 chunks, for each of which the host has work."""
    first = 2 * 1.0 + 4 * 0.5 + 30 * 0.002 + 30 * 0.1
    assert _row(3, StaticRequest(tokens=10, output=5), max_batched_tokens=25)[0] == pytest.approx(first)


def test_stages_work_on_parts_of_a_batch_by_hand() -> None:
    """Two prompts over two stages: each takes a whole pass, and the second ends half a pass after the first."""
    one = 1.0 + 0.5 + 10 * 0.002 + 10 * 0.1
    assert _row(2, StaticRequest(tokens=10, output=5), pipeline=2)[0] == pytest.approx(1.5 * one)


@pytest.mark.parametrize(
    ("model", "on", "tokens", "output", "plan"),
    [
        ("llama-3.1-8b", "h100", 1024, 128, {}),
        ("llama-3.1-8b", "h100", 10_000, 64, {"engine": "vllm"}),
        ("llama-3.1-70b", "4xh100", 300, 100, {"engine": "vllm", "tp": 2, "pp": 2}),
        ("deepseek-v3", "dgx-h200", 700, 64, {"engine": "sglang", "tp": 8, "precision": "fp8_block"}),
    ],
)
def test_a_request_alone_takes_what_a_batch_of_one_takes(
    model: str, on: str, tokens: int, output: int, plan: dict[str, object]
) -> None:
    row = podsim.serve(model, on=on, batch="1", tokens=tokens, output=output, **plan).rows[0]
    lengths = {"input_tokens": str(tokens), "output_tokens": str(output)}
    for load in (
        {"clients": 1, "requests": 30},
        {"rate": f"{0.1 / row.latency}/s", "requests": 30, "arrivals": "even"},
    ):
        served = podsim.serve(model, on=on, replicas=1, **load, **lengths, **plan)
        times = {times.name: times.p50 for times in served.rows}
        assert times["first token"] == pytest.approx(row.first_token, rel=0.005)
        assert times["each token"] == pytest.approx(row.token, rel=0.005)
        assert times["end to end"] == pytest.approx(row.latency, rel=0.005)


@pytest.mark.parametrize(("tokens", "batch"), [(1000, 8), (1000, 32), (3000, 7)])
def test_a_server_of_static_batches_takes_what_a_batch_takes(tokens: int, batch: int) -> None:
    """Clients that all wait for one batch: it ends for all of them at once."""
    row = podsim.serve("llama-3.1-8b", on="h100", batch=str(batch), tokens=tokens, output=50).rows[0]
    served = podsim.serve(
        "llama-3.1-8b", on="h100", clients=batch, requests=20 * batch, input_tokens=str(tokens), output_tokens="50",
        max_batch=batch, scheduler="static",
    )  # fmt: skip
    assert next(times.mean for times in served.rows if times.name == "end to end") == pytest.approx(
        row.latency, rel=0.005
    )
