"""Laws of engines' kernels: their limits, and what a GPU takes that was not measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.errors import PodsimError
from podsim.hardware.catalog import load_gpu
from podsim.kernels.engine_attention import EngineAttention, decode_seconds, is_alone, prefill_seconds
from podsim.kernels.engine_constants import engine_constants
from podsim.kernels.engine_experts import EngineExperts, expert_rows, experts_seconds
from podsim.kernels.engine_run import EngineRun

RUNS = [
    EngineRun(engine=engine, precision="bf16", cache=cache)
    for engine in ("trtllm", "vllm")
    for cache in ("bf16", "fp8")
]
GPUS = ["a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm5-141gb", "b200", "gb300"]


def _attention(queries: float, keys: float, **sizes: float) -> EngineAttention:
    given = {
        "batch": 16.0,
        "heads": 32.0,
        "kv_heads": 8.0,
        "head_dim": 128.0,
        "value_dim": 128.0,
        "window": 0.0,
    } | sizes
    return EngineAttention(queries=np.array([queries]), keys=np.array([keys]),
                           **{name: np.array([value]) for name, value in given.items()})  # fmt: skip


@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.engine}-{run.cache}")
def test_attention_grows_and_a_window_never_slows_it(name: str, run: EngineRun) -> None:
    gpu = load_gpu(name)
    prefill = [prefill_seconds(gpu, run, _attention(n, n))[0] for n in (1024.0, 4096.0, 16384.0)]
    decode = [decode_seconds(gpu, run, _attention(1.0, n))[0] for n in (1024.0, 16384.0, 131072.0)]
    assert prefill == sorted(prefill)
    assert decode == sorted(decode)
    assert prefill_seconds(gpu, run, _attention(16384.0, 16384.0, window=512.0))[0] < prefill[-1]
    assert decode_seconds(gpu, run, _attention(1.0, 131072.0, window=512.0))[0] < decode[-1]


def test_long_decode_takes_the_time_of_its_bytes_on_each_gpu_of_an_architecture() -> None:
    run, shape = RUNS[2], _attention(1.0, 131072.0)
    bytes_ = 2 * 2 * 16 * 8 * 131072 * 128
    for name in ("h100-sxm5-80gb", "h200-sxm5-141gb"):
        gpu = load_gpu(name)
        assert 0.75 < bytes_ / gpu.memory_bandwidth / decode_seconds(gpu, run, shape)[0] < 1.0


def test_groups_beyond_the_tensor_cores_kernel_run_head_by_head() -> None:
    hopper, groups = load_gpu("h100-sxm5-80gb"), np.array([1.0, 2.0, 32.0, 64.0])
    assert is_alone(hopper, RUNS[0], groups).tolist() == [True, False, False, True]
    assert not is_alone(hopper, RUNS[2], groups).any()


def _experts(tokens: float, **sizes: float) -> EngineExperts:
    given = {"hidden": 4096.0, "inner": 2048.0, "top": 8.0, "experts": 128.0, "tensor_parallel": 1.0,
             "expert_parallel": 1.0, "skew": 0.0} | sizes  # fmt: skip
    return EngineExperts(
        tokens=np.array([tokens]), **{name: np.array([value]) for name, value in given.items()}
    )


def test_rows_of_experts_add_up_and_the_busiest_rank_has_the_most() -> None:
    assert expert_rows(_experts(100.0))[0].tolist() == [800.0, 128.0, 7.0]
    assert expert_rows(_experts(2.0))[0].tolist() == [16.0, 16.0, 1.0]
    rows, used, fullest = expert_rows(_experts(4096.0, skew=1.2))[0]
    assert rows == pytest.approx(8 * 4096, rel=0.02)
    assert used <= 128
    assert fullest <= 4096 + 1
    assert expert_rows(_experts(4096.0, skew=1.2, expert_parallel=8.0))[0][0] > 4096


def test_skew_costs_time_and_dividing_experts_saves_it() -> None:
    gpu, run = load_gpu("h200-sxm5-141gb"), EngineRun(engine="vllm", precision="bf16")
    even = experts_seconds(gpu, run, _experts(4096.0))[0]
    assert experts_seconds(gpu, run, _experts(4096.0, skew=1.2))[0] > even
    assert experts_seconds(gpu, run, _experts(4096.0, tensor_parallel=4.0))[0] < even


def test_a_kernel_that_was_not_measured_takes_the_nearest_of_its_engine() -> None:
    hopper = load_gpu("h200-sxm5-141gb")
    wanted = EngineRun(engine="vllm", kernel="vllm_flash_attn_fa5", precision="bf16", cache="fp8")
    assert engine_constants("prefill", hopper, wanted).key == "vllm/vllm_flash_attn_fa3/bf16/fp8"
    exact = replace(wanted, kernel="vllm_flash_attn_fa4", cache="bf16")
    assert engine_constants("prefill", hopper, exact).key == "vllm/vllm_flash_attn_fa4/bf16/bf16"
    with pytest.raises(PodsimError, match="was measured on ampere"):
        engine_constants("prefill", load_gpu("v100-sxm2-16gb"), wanted)
