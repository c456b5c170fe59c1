"""The cost of an engine's step: limits by hand, tables against the laws, and blocks of the cache."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.errors import NoFitError
from podsim.hardware.cluster import load_cluster
from podsim.serving.language_engines import load_language_engine
from podsim.serving.load.request_table import RequestTable
from podsim.serving.replica_memory import token_bytes, weight_bytes
from podsim.serving.serving_plan import ServingPlan
from podsim.serving.steady_load import Workload, mixed_curves, most_sequences, workload_of
from podsim.serving.step_cost import CacheRoom, cache_room, step_cost
from podsim.serving.step_laws import Passes, decoding_seconds, is_measured, make_passes, tokens_seconds
from podsim.workload.catalog import load_model

DGX = load_cluster("dgx-a100-80gb")
ENGINE = load_language_engine("vllm", DGX.gpu)


def test_a_lone_sequence_reads_the_weights_once() -> None:
    model, plan = load_model("llama-2-7b"), ServingPlan(engine="vllm")
    least = weight_bytes(model, plan) / DGX.gpu.memory_bandwidth
    seconds = step_cost(model, DGX, plan).seconds([], 1, 128)
    assert least < seconds < 1.8 * least


def test_tensor_parallelism_divides_weights_and_never_by_more_than_its_degree() -> None:
    model = load_model("llama-2-70b")
    tokens = np.array([1.0, 64.0, 4096.0])
    seconds = {}
    for tensor in (1, 8):
        plan = ServingPlan(engine="vllm", tensor=tensor)
        assert weight_bytes(model, plan) == pytest.approx(2 * 68.98e9 / tensor, rel=0.01)
        seconds[tensor] = tokens_seconds(Passes(model=model, cluster=DGX, plan=plan, engine=ENGINE), tokens)
    assert (seconds[8] > seconds[1] / 8).all()
    assert (seconds[8] < seconds[1] / 3).all()


def test_tables_give_the_law_at_their_points_and_lie_between_elsewhere() -> None:
    model, plan = load_model("llama-2-7b"), ServingPlan(engine="vllm")
    cost = step_cost(model, DGX, plan)
    at = cost.seconds([(512, 0)], 64, 1024)
    extra = cost.step + 65 * cost.request
    by_table = np.interp(576, cost.tokens, cost.prompted_seconds)
    decode = cost.decode_seconds[list(cost.decode_requests).index(64), list(cost.decode_context).index(1024)]
    prompt = cost.prompt_seconds[list(cost.prompt_new).index(512), 0]
    assert at == pytest.approx(extra + by_table + decode + prompt)
    assert cost.seconds([], 0, 0) == 0
    assert cost.seconds([], 96, 700) < cost.seconds([], 97, 700) < cost.seconds([], 97, 800)


def test_blocks_fill_what_weights_leave() -> None:
    model, plan = load_model("llama-2-7b"), ServingPlan(engine="vllm")
    room = cache_room(model, DGX, plan)
    assert room.token_bytes == 32 * 2 * 4096 * 2 == token_bytes(model, plan)
    used = room.blocks * room.block_tokens * room.token_bytes + weight_bytes(model, plan)
    assert 0.8 * 81920 < used / 2**20 < 0.92 * 81920
    assert room.sequences(17) == room.blocks // 2
    with pytest.raises(NoFitError, match="before any sequence"):
        cache_room(load_model("llama-2-70b"), DGX, plan)


def test_the_fullest_stage_has_the_layers_that_others_lack() -> None:
    """32 layers of Llama 2 7B on three stages: 11, 11 and 10. Its norms, table and head are in 16 bits, too."""
    model, plan = load_model("llama-2-7b"), ServingPlan(engine="vllm", pipeline=3)
    layer = 4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096
    assert token_bytes(model, plan) == pytest.approx(11 * 2 * 4096 * 2)
    assert weight_bytes(model, plan) == pytest.approx(2 * (11 * layer + 32000 * 4096 + 4096))


def test_eleven_requests_in_ten_seconds_are_one_a_second() -> None:
    table = RequestTable(arrival=np.arange(11.0), input_tokens=np.full(11, 8), output_tokens=np.full(11, 4))
    load = workload_of(table)
    assert (load.rate, load.input_tokens, load.output_tokens, load.input_spread) == (1.0, 8.0, 4.0, 0.0)
    assert load.context == 8 + 4 / 2
    assert workload_of(table, 3.0).rate == 3.0


def test_a_chunk_of_a_prompt_attends_to_half_of_the_others_on_average(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1,000 tokens in the 255 that a sequence leaves of 256: four chunks of 250 behind 0, 250, 500 and 750."""
    seen = []
    monkeypatch.setattr(
        "podsim.serving.steady_load.chunk_seconds",
        lambda cost, chunk, past: seen.append((chunk, past)) or np.zeros_like(chunk),
    )
    cost = step_cost(load_model("llama-2-7b"), DGX, ServingPlan(engine="vllm"))
    mixed_curves(cost, Workload(rate=1.0, input_tokens=1200.0, output_tokens=10.0, prefix_share=1 / 6))
    ((chunk, past),) = seen
    assert (chunk[0, 0], past[0, 0]) == pytest.approx((250.0, 200.0 + (0 + 250 + 500 + 750) / 4))


def test_a_sequence_takes_whole_blocks_and_none_beyond() -> None:
    """100 blocks of 16 tokens of 2 B: 64 B of state fill two of them, 65 B a part of a third."""
    load = Workload(rate=1.0, input_tokens=24.0, output_tokens=16.0)  # 32 tokens at the mean, two blocks
    for state, each in ((0.0, 2), (64.0, 4), (65.0, 5)):
        room = CacheRoom(block_tokens=16, blocks=100, token_bytes=2.0, state_bytes=state)
        assert room.state_blocks == each - 2
        assert room.sequences(32) == most_sequences(room, load) == 100 // each


def test_latent_attention_keeps_one_copy_a_gpu_and_groups_of_attention_hold_their_own_sequences() -> None:
    model, on = load_model("deepseek-v3"), load_cluster("dgx-h100:2")
    whole, groups = (
        cache_room(
            model, on, ServingPlan(engine="vllm", precision="fp8_block", tensor=16, expert=16, data_attention=many)
        )
        for many in (1, 16)
    )  # fmt: skip
    assert groups.token_bytes == 61 * (512 + 64) * 2
    assert whole.token_bytes == 16 * groups.token_bytes
    assert groups.blocks > 8 * whole.blocks


def test_another_architectures_kernels_stand_in_at_shares_of_the_gpus_own_figures() -> None:
    """A GPU of CDNA 3 decodes as one of Hopper with 0.8 of its bandwidth and half of its peaks; A100s stand for none."""
    plan, model = ServingPlan(engine="sglang"), load_model("llama-2-7b")
    amd = load_cluster("mi300x")
    shares = {
        "memory_bandwidth": 0.8 * amd.gpu.memory_bandwidth,
        "peaks": {k: v / 2 for k, v in amd.gpu.peaks.items()},
    }
    like = replace(amd.gpu, architecture="hopper", **shares)
    asked = np.array([64.0]), np.array([4096.0])
    seconds = [
        decoding_seconds(make_passes(model, cluster, plan), *asked)[0]
        for cluster in (amd, replace(amd, system=replace(amd.system, gpu=like)))
    ]
    assert seconds[0] == pytest.approx(seconds[1])
    assert seconds[0] > 64 * 4096 * token_bytes(model, plan) / shares["memory_bandwidth"]
    assert not is_measured(amd.gpu)
    assert is_measured(DGX.gpu)


def test_older_releases_wait_longer_on_an_architecture() -> None:
    cdna, hopper = load_cluster("mi300x").gpu, load_cluster("h100").gpu
    assert load_language_engine("sglang 0.5.9", cdna).step == 9e-3
    assert load_language_engine("sglang 0.5.12", cdna).step == load_language_engine("sglang", hopper).step
    assert load_language_engine("sglang 0.5.9", hopper).step == load_language_engine("sglang", hopper).step
