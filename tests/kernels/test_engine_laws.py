"""Laws of engines' kernels: their limits, and what a GPU takes that was not measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.errors import PodsimError
from podsim.hardware.catalog import load_gpu
from podsim.kernels import engine_experts
from podsim.kernels.engine_attention import (
    EngineAttention,
    decode_law,
    decode_seconds,
    is_alone,
    prefill_law,
    prefill_seconds,
)
from podsim.kernels.engine_constants import engine_constants
from podsim.kernels.engine_experts import EngineExperts, _power_law, expert_rows, experts_law, experts_seconds
from podsim.kernels.engine_run import (
    EngineRun,
    attention_peak,
    format_bytes,
    format_peak,
    library_precision,
    precision_name,
)
from podsim.kernels.engine_sums import EngineSum, sums_law, sums_seconds
from podsim.kernels.engine_work import attention_work, experts_work, gemm_work, least_seconds

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


ROUND = replace(
    load_gpu("a100-sxm4-80gb"), sms=100, memory_bandwidth=1e12, l2=50e6, peaks={"bf16": 1e14, "fp8": 2e14}
)
"""a GPU of round numbers"""


def test_work_around_prefill_moves_the_heads_again() -> None:
    """32 heads of queries, 8 of keys, 8 of values, 128 wide in 16 bits: 12,288 B a token."""
    c = dict.fromkeys(("packed", "rounding", "fill", "block", "tail", "launch", "token_head", "token"), 0.0)
    none, once = (
        prefill_law(c | {"share_128": 1.0, "moved": moved}, ROUND, RUNS[0], _attention(64.0, 64.0))[0]
        for moved in (0.0, 1.0)
    )
    assert once - none == pytest.approx(16 * 64 * 12288 / 1e12)


@pytest.mark.parametrize(("of_cache", "faster"), [(0.01, 3.0), (1.0, 2.0), (100.0, 1.0)])
def test_decode_reads_faster_what_the_cache_holds(of_cache: float, faster: float) -> None:
    """`near` = 3 times as fast far below the L2 cache, half of the gain at its size, none far above."""
    c = dict.fromkeys(("again", "block", "moved", "launch", "token"), 0.0)
    c |= {"occupancy": 1.0, "key_128": 1e-30, "share_128": 1.0, "near": 3.0, "arithmetic": 1e9}
    keys = of_cache * 50e6 / (16 * 8 * (128 + 128) * 2)
    seconds = decode_law(c, ROUND, RUNS[0], _attention(1.0, keys))[0]
    assert seconds == pytest.approx(of_cache * 50e6 / 1e12 / faster, rel=1e-3)


@pytest.mark.parametrize(
    ("kv_heads", "is_alone", "rows"),
    [(8.0, False, 8 * 16), (1.0, False, 32), (2.0, False, 2 * 16), (8.0, True, 32)],
)
def test_decode_computes_at_least_sixteen_rows_for_each_head_of_keys(
    kv_heads: float, is_alone: bool, rows: float
) -> None:
    """32 heads 128 wide over a million keys, two products each, on tensor cores of 100 TFLOP/s; all else is free."""
    c = dict.fromkeys(("again", "block", "moved", "launch", "token"), 0.0)
    c |= {"occupancy": 1.0, "key_128": 1e-30, "share_128": 1e6, "near": 1.0, "arithmetic": 0.5}
    shape = _attention(1.0, 1e6, kv_heads=kv_heads)
    seconds = decode_law(c, ROUND, RUNS[0], shape, is_alone=is_alone)[0]
    assert seconds == pytest.approx(2 * 2 * 16 * rows * 1e6 * 128 / (0.5 * 1e14), rel=1e-6)


@pytest.mark.parametrize("alone", [True, False])
def test_heads_that_do_not_share_keys_have_constants_and_rows_of_their_own(alone: bool) -> None:
    gpu, run, shape = load_gpu("h100-sxm5-80gb"), RUNS[0], _attention(1.0, 65536.0, kv_heads=16.0)
    constants = engine_constants("decode", gpu, run, "alone" if alone else "grouped").values
    told = decode_seconds(gpu, run, shape, shares_keys=not alone)
    assert told == pytest.approx(decode_law(constants, gpu, run, shape, is_alone=alone))
    assert told[0] != pytest.approx(decode_law(constants, gpu, run, shape, is_alone=not alone)[0])


MOE = dict.fromkeys(("fill", "launch", "moved", "token", "expert", "hot"), 0.0) | {
    "share": 1.0, "memory": 1.0, "sharpness": 2.0,
}  # fmt: skip


@pytest.mark.parametrize(("changes", "seconds"), [
    ({}, 5e-3),  # 3 ms of arithmetic and 4 ms of memory, sharpness 2
    ({"moved": 1.0}, 5e-3 + 1000 * (4 * 1000 + 2 * 3 * 500) / 1e12),  # inputs and outputs, and three inner widths
    ({"token": 1e-6}, 5e-3 + 1e-6 * 64),
    ({"expert": 1e-6}, 5e-3 + 1e-6 * 16),  # of 128 experts on 8 ranks
    ({"hot": 1.0}, 5e-3 + 0.3e-3),  # a tenth of the rows are of one expert
    ({"launch": 1e-3}, 6e-3),
])  # fmt: skip
def test_experts_by_hand(changes: dict[str, float], seconds: float) -> None:
    weights = 1000 * 500 * 3
    gpu = replace(
        ROUND, peaks={"bf16": 2 * 1000 * weights / 3e-3}, memory_bandwidth=1e12
    )  # 1,000 rows in 3 ms
    rows = np.array([[1000.0, 4e-3 * 1e12 / (2 * weights), 100.0]])
    shape = _experts(64.0, hidden=1000.0, inner=500.0, expert_parallel=8.0)
    assert experts_law(MOE | changes, gpu, RUNS[2], shape, rows)[0] == pytest.approx(seconds)


def test_a_power_law_of_exponent_two_gives_one_of_two_experts_three_quarters() -> None:
    """Its quantiles 1 / (1 - q) at 1/4 and 3/4 are 4/3 and 4."""
    fullest = expert_rows(_experts(1e6, experts=2.0, top=1.0, skew=2.0))[0][2]
    assert fullest == pytest.approx(0.75e6, rel=1e-4)


def test_few_tokens_spread_as_two_do() -> None:
    """Quantiles of 1 to 2 with exponent two, 1 / (1 - q / 2) at 1/4 and 3/4: 8/7 and 8/5, of a sum of 96/35."""
    loads = engine_experts._power_law(1.0, 1.0, 2, 2.0)
    assert loads == pytest.approx([8 / 7 * 35 / 96, 8 / 5 * 35 / 96])
    # of two pairs 5/6 and 7/6; what is above the one token is spread, once more: 5/6 x 2 / (5/6 + 1)
    assert engine_experts._power_law(1.0, 2.0, 2, 2.0) == pytest.approx([10 / 11, 1.0])


def test_an_exponent_of_one_is_geometric() -> None:
    few, many = engine_experts._power_law(1000.0, 100.0, 2, 1.0)
    most = engine_experts._MOST_SHARE * 1000
    assert few + many == pytest.approx(100.0)
    assert many / few == pytest.approx(most**0.5, rel=1e-3)


def test_few_tokens_have_a_power_law_up_to_two() -> None:
    """Of 2 tokens, 0.8 are below 2: 1 / (1 - q / 2) at 1/4 and 3/4 is as 5 to 7. Of 3 it is 2.4: as 27 to 41."""
    assert _power_law(2.0, 2.0, 2, 2.0) == pytest.approx([5 / 6, 7 / 6])
    assert _power_law(3.0, 3.0, 2, 2.0) == pytest.approx([81 / 68, 123 / 68])


def test_work_of_products_and_experts() -> None:
    """FP8 operands of one byte, results of two; experts without a gate have two matrices, others three."""
    fp8 = EngineRun(engine="vllm", precision="fp8")
    assert gemm_work(fp8, 3.0, 5.0, 7.0) == (2 * 3 * 5 * 7, (3 + 5) * 7 + 2 * 3 * 5)
    shape = _experts(100.0, hidden=64.0, inner=32.0)  # 800 rows, all 128 experts in use
    for run, matrices in ((fp8, 3), (replace(fp8, kernel="nongated"), 2)):
        flops, moved = experts_work(run, shape)
        assert flops[0] == 2 * 800 * matrices * 64 * 32
        assert moved[0] == 128 * matrices * 64 * 32 + 4 * 800 * 64


@pytest.mark.parametrize(
    ("names", "bits", "peak"),
    [
        (("bf16", "fp16", ""), 16, 1), (("fp32",), 32, 3), (("tf32",), 32, 4), (("fp8", "fp8_block"), 8, 2),
        (("mxfp8",), 8 + 8 / 32, 2), (("nvfp4",), 4 + 8 / 16, 5), (("int8", "int8_sq"), 8, 6), (("int8_wo",), 8, 1),
        (("int4_wo", "w4a16_mxfp4"), 4 + 8 / 32, 1), (("w4a8_mxfp4_mxfp8", "w4afp8"), 4 + 8 / 32, 2),
        (("int4",), 4, 7), (("fp64",), 64, 8),
    ],
)  # fmt: skip
def test_formats_have_their_bits_and_their_arithmetic(names: tuple[str, ...], bits: float, peak: int) -> None:
    """Scales of 8 bits stand for 32 elements, of NVFP4 for 16; weights alone are multiplied in 16 bits."""
    peaks = ("bf16", "fp8", "fp32", "tf32", "fp4", "int8", "int4", "fp64_tensor")
    gpu = replace(
        ROUND, peaks={name: float(at) for at, name in enumerate(peaks, 1)} | {"fp16": 1.0, "fp64": 0.5}
    )
    for name in names:
        assert format_bytes(name) == pytest.approx(bits / 8, rel=6e-3)
        assert format_peak(gpu, name) == peak
    with pytest.raises(PodsimError, match="has no fp4 arithmetic; it has bf16, fp8"):
        format_peak(ROUND, "nvfp4")


def test_names_of_formats() -> None:
    assert [precision_name(text) for text in ("half", "auto", "sq", "w4a8_mxfp4_fp8")] == [
        "fp16", "bf16", "int8", "w4a8_mxfp4_mxfp8",
    ]  # fmt: skip
    assert [library_precision(text) for text in ("FP64_tensor", "fp4", "bf16", "fp8_e4m3")] == [
        "fp64", "nvfp4", "bf16", "fp8",
    ]  # fmt: skip
    with pytest.raises(PodsimError, match="unknown number format 'bfloat61'"):
        precision_name("bfloat61")


@pytest.mark.parametrize(
    ("queries", "keys", "window", "pairs", "read"),
    [
        (4.0, 4.0, 0.0, 1 + 2 + 3 + 4, 4), (1.0, 100.0, 0.0, 100, 100), (2.0, 10.0, 0.0, 9 + 10, 10),
        (4.0, 4.0, 2.0, 1 + 2 + 2 + 2, 4), (1.0, 100.0, 30.0, 30, 31), (4.0, 100.0, 200.0, 97 + 98 + 99 + 100, 100),
    ],
)  # fmt: skip
def test_work_of_attention(queries: float, keys: float, window: float, pairs: int, read: int) -> None:
    """Two heads of 8 wide queries and 8 wide values, one of keys; 3 sequences, with the cache in one byte."""
    shape = _attention(
        queries, keys, batch=3.0, heads=2.0, kv_heads=1.0, head_dim=8.0, value_dim=8.0, window=window
    )
    flops, moved = attention_work(RUNS[1], shape)
    assert flops[0] == 2 * 3 * 2 * pairs * (8 + 8)
    assert moved[0] == 3 * (2 * 2 * queries * (8 + 8) + read * (8 + 8))


def test_latent_keys_are_read_once_for_keys_and_values() -> None:
    shape = _attention(1.0, 100.0, batch=1.0, heads=16.0, kv_heads=1.0, head_dim=576.0, value_dim=512.0)
    assert attention_work(RUNS[0], shape)[1][0] == 2 * 16 * (576 + 512) + 2 * 576 * 100
    apart = _attention(1.0, 100.0, batch=1.0, heads=2.0, kv_heads=2.0, head_dim=192.0, value_dim=128.0)
    assert attention_work(RUNS[0], apart)[1][0] == 2 * 2 * 320 + 2 * 2 * 320 * 100


def test_the_longer_of_arithmetic_and_bytes_limits() -> None:
    assert least_seconds(ROUND, "bf16", 1e14, 1e12) == (1.0, "arithmetic")
    assert least_seconds(ROUND, "fp8", 1e14, 1e12) == (1.0, "memory")


def test_packed_heads_share_blocks_of_queries() -> None:
    """64 queries of 32 heads: packed by fours they fill 16 x 8 x 2 blocks on 100 SMs; alone, 16 x 32 half-empty ones."""
    c = dict.fromkeys(("rounding", "fill", "block", "tail", "launch", "token_head", "token", "moved"), 0.0)
    c |= {"rounding": 1e9, "share_128": 1.0}
    gpu = replace(ROUND, memory_bandwidth=1e30)
    alone, packed = (
        prefill_law(c | {"packed": flag}, gpu, RUNS[2], _attention(64.0, 1024.0))[0] for flag in (0.0, 1.0)
    )
    block = 2 * 128 * 256 * 1024 / 1e12  # of 128 rows against 1,024 keys
    assert (alone, packed) == pytest.approx((512 / 100 * block, 256 / 100 * block))


@pytest.mark.parametrize(("width", "products", "exponentials"), [(64.0, 32768, 1.0), (128.0, 65536, 0.5)])
def test_prefill_adds_exponentials_to_products(width: float, products: float, exponentials: float) -> None:
    """128 queries against 128 keys of 100 blocks: a block's products at 1e12 FLOP/s of an SM, 128 exponentials a key."""
    c = dict.fromkeys(
        ("packed", "rounding", "fill", "block", "tail", "launch", "token_head", "token", "moved"), 0.0
    )
    c |= {"rounding": 1e9, f"share_{width:.0f}": 1.0, "exponent": 0.5}
    shape = _attention(128.0, 128.0, batch=100.0, heads=1.0, kv_heads=1.0, head_dim=width, value_dim=width)
    gpu = replace(ROUND, memory_bandwidth=1e30, exponentials=16.0 / exponentials, clock=1e9)
    seconds = 128 * (products / 1e12 + 128 * 0.5 * exponentials / 16e9)
    assert prefill_law(c, gpu, RUNS[0], shape)[0] == pytest.approx(seconds)


def test_a_cache_in_fp8_has_products_in_fp8() -> None:
    assert attention_peak(ROUND, RUNS[1]) == 2e14
    assert attention_peak(replace(ROUND, peaks={"bf16": 1e14}), RUNS[1]) == 1e14


def test_forced_blocks_of_short_sequences_cost_waves() -> None:
    """64 sequences in 32 blocks each on 100 SMs: 20.48 waves of 10 us; one block each beyond the batch: one wave."""
    c = dict.fromkeys(("again", "moved", "launch", "token", "near"), 0.0)
    c |= {"occupancy": 1.0, "key_128": 1e-30, "share_128": 1.0, "near": 1.0, "arithmetic": 1e9, "block": 1e-5}
    shape = _attention(1.0, 64.0, batch=64.0, heads=1.0, kv_heads=1.0)
    forced = decode_law(c | {"forced": 32.0, "forced_batch": 64.0}, ROUND, RUNS[2], shape)[0]
    assert forced == pytest.approx(20.48e-5, rel=1e-3)
    assert decode_law(c | {"forced": 32.0, "forced_batch": 63.0}, ROUND, RUNS[2], shape)[0] == pytest.approx(
        1e-5, rel=1e-2
    )


@pytest.mark.parametrize(
    ("heads", "is_alone", "rows"),
    [(32.0, False, 8 * 16), (128.0, False, 128), (256.0, False, 256), (32.0, True, 32)],
)
def test_decode_multiplies_at_least_sixteen_rows_a_group(heads: float, is_alone: bool, rows: int) -> None:
    """Scores and values of 1,024 keys, 128 wide, for 16 sequences: 4 FLOP each, at 1e14 FLOP/s."""
    c = dict.fromkeys(("again", "moved", "launch", "token", "block"), 0.0)
    c |= {"occupancy": 1.0, "key_128": 1e-30, "share_128": 1.0, "near": 1.0, "arithmetic": 0.5}
    gpu = replace(ROUND, memory_bandwidth=1e30)
    found = decode_law(c, gpu, RUNS[2], _attention(1.0, 1024.0, heads=heads), is_alone=is_alone)[0]
    assert found == pytest.approx(4 * 16 * rows * 1024 * 128 / (0.5 * 1e14))


@pytest.mark.parametrize(
    ("heads", "shares_keys", "family"),
    [(32.0, None, "grouped"), (512.0, None, "alone"), (32.0, False, "alone"), (512.0, True, "grouped")],
)
def test_decode_runs_in_the_kernel_asked_for(heads: float, shares_keys: bool | None, family: str) -> None:
    hopper, shape = load_gpu("h100-sxm5-80gb"), _attention(1.0, 8192.0, heads=heads)
    constants = engine_constants("decode", hopper, RUNS[0], family).values
    by_law = decode_law(constants, hopper, RUNS[0], shape, is_alone=family == "alone")
    assert decode_seconds(hopper, RUNS[0], shape, shares_keys=shares_keys) == pytest.approx(by_law)


def test_an_all_reduce_takes_the_fastest_of_three_ways() -> None:
    """On 4 GPUs at 100 GB/s, 1 us a rank: 3 buffers at half the rate after 1 us, 1.5 at 0.6 after 3, at 0.9 after 50."""
    c = {"first": 1e-6, "second": 3e-6, "third": 5e-5, "rank": 1e-6, "share": 0.5, "far": 0.6, "large": 0.9}
    sizes = EngineSum(ranks=np.full(3, 4.0), bytes=np.array([1e4, 1e6, 1e9]), bus=np.full(3, 1.5))
    one_shot, two_shot, beyond = 1e-6 + 4e-6 + 3e4 / 5e10, 3e-6 + 4e-6 + 1.5e6 / 6e10, 5e-5 + 1.5e9 / 9e10
    seconds = sums_law(c, replace(ROUND, nvlinks=10, nvlink_bandwidth=1e10), sizes)
    assert seconds == pytest.approx([one_shot, two_shot, beyond])
    hopper = load_gpu("h100-sxm5-80gb")
    measured = engine_constants("all-reduce", hopper, RUNS[0]).values
    assert sums_seconds(hopper, RUNS[0], sizes) == pytest.approx(sums_law(measured, hopper, sizes))


@pytest.mark.parametrize(
    ("sizes", "pairs", "keys"),
    [
        ({"queries": 4.0, "keys": 4.0}, 4 * 5 / 2, 4),  # a triangle
        ({"queries": 4.0, "keys": 10.0}, 6 * 4 + 4 * 5 / 2, 10),
        ({"queries": 1.0, "keys": 10.0}, 10, 10),
        (
            {"queries": 4.0, "keys": 10.0, "window": 3.0},
            4 * 3,
            7,
        ),  # each query sees three, and they see seven in all
        ({"queries": 4.0, "keys": 4.0, "window": 3.0}, 1 * 3 + 3 * 4 / 2, 4),
        ({"queries": 4.0, "keys": 4.0, "window": 8.0}, 4 * 5 / 2, 4),
    ],
)
def test_work_of_causal_attention(sizes: dict[str, float], pairs: float, keys: float) -> None:
    """16 sequences, 32 heads over 8 of keys, 128 wide: queries and results in 2 B, the cache in 1 B."""
    run = EngineRun(engine="vllm", precision="bf16", cache="fp8")
    flops, moved = attention_work(run, _attention(**sizes))
    assert flops[0] == 2 * 16 * 32 * pairs * 256
    assert moved[0] == 16 * (2 * 32 * sizes["queries"] * 256 + 8 * keys * 256)
    latent, cached = attention_work(run, _attention(**sizes, head_dim=576.0, value_dim=512.0, kv_heads=1.0))
    assert latent[0] == 2 * 16 * 32 * pairs * (576 + 512)
    assert cached[0] == 16 * (
        2 * 32 * sizes["queries"] * (576 + 512) + keys * 576
    )  # values are a part of the keys


def test_what_limits_a_kernel() -> None:
    """1e12 B/s, and 1e14 FLOP/s in 16 bits."""
    assert least_seconds(ROUND, "bf16", 1e14, 0.9e12) == (1.0, "arithmetic")
    assert least_seconds(ROUND, "bf16", 1e14, 1e12) == (1.0, "arithmetic")
    assert least_seconds(ROUND, "bf16", 1e14, 2e12) == (2.0, "memory")
    assert least_seconds(ROUND, "fp8", 1e14, 0.0) == (0.5, "arithmetic")
