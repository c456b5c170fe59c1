"""Kernels of many sizes cost what they cost when they were recorded: all GPUs, number formats, layouts, odd sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_values import check

from podsim.errors import PodsimError
from podsim.hardware.catalog import load_gpu, names
from podsim.kernels.attention import AttentionShape, attention_seconds, fused_algorithm
from podsim.kernels.convolutions import PARTS, ConvShape, conv_seconds
from podsim.kernels.elementwise import memory_seconds, optimizer_seconds
from podsim.kernels.engine_attention import EngineAttention, decode_seconds, prefill_seconds
from podsim.kernels.engine_constants import LAWS, engine_constants
from podsim.kernels.engine_experts import EngineExperts, experts_seconds
from podsim.kernels.engine_run import FORMATS, EngineRun, engine_gemm_seconds, format_bytes, format_peak
from podsim.kernels.engine_sums import EngineSum, sums_seconds
from podsim.kernels.engine_work import attention_work, experts_work, gemm_work, least_seconds
from podsim.kernels.gemm import gemm_seconds, gemm_source, operand_bytes, peak_of, result_bytes
from podsim.kernels.narrow import product_seconds
from podsim.kernels.power_clock import borrowed_clock, clock_share
from podsim.kernels.recurrent import recurrent_seconds

FILE = Path(__file__).with_name("kernel_costs.json.gz")
SHAPES = np.array([  # m, n, k, batch: thin, odd, off the grids, beyond them, batches and long runs of k
    (1, 4096, 4096, 1), (3, 12288, 1000, 1), (17, 257, 65, 1), (300, 5120, 5120, 1), (4096, 4096, 4096, 1),
    (1027, 2050, 1030, 1), (32, 64, 1e6, 1), (8192, 28672, 8192, 1), (2048, 2048, 128, 24), (130, 66, 62, 100),
    (32, 32, 7, 2048), (33, 32, 500, 3), (1, 1, 1, 1), (2.5e5, 1536, 384, 1), (512, 1000, 2048, 2), (96, 80, 48, 7),
]).T  # fmt: skip
PRECISIONS = (
    "fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4", "mxfp8", "nvfp4", "fp8_block", "int8_wo", "int4_wo",
)  # fmt: skip
FEW = ("v100-sxm2-16gb", "a100-sxm4-80gb", "h100-sxm5-80gb", "b200", "tpu-v6e", "rtx-2080-ti", "a10")
GPUS = [name for name in names("gpu") if load_gpu(name).architecture != "wafer"]


def told(function: Any, *args: Any, **options: Any) -> Any:
    """What a function returns, or what it says against it."""
    try:
        return function(*args, **options)
    except PodsimError as problem:
        return str(problem)


@pytest.mark.parametrize("name", GPUS)
def test_products(name: str) -> None:
    gpu, (m, n, k, batch) = load_gpu(name), SHAPES
    seconds = {each: told(gemm_seconds, gpu, m, n, k, batch=batch, precision=each) for each in PRECISIONS}
    sources = [
        told(gemm_source, gpu, *SHAPES[:3, at], each)
        for at in (0, 3, 4, 6)
        for each in ("bf16", "fp8", "fp64")
    ]
    peaks = [told(peak_of, gpu, each) for each in PRECISIONS]
    share = np.array([0.0, 0.3, 0.6, 0.8, 1.0])
    clocks = [told(each, gpu, share) for each in (clock_share, borrowed_clock)]
    moved = np.array([0.0, 1.0, 1e5, 3e7, 1e10])
    check(FILE, f"products {name}", [
        {key: value[::2] if isinstance(value, np.ndarray) else value for key, value in seconds.items()}, sources, peaks,
        clocks, memory_seconds(gpu, moved), optimizer_seconds(gpu, moved, 18.0),
    ])  # fmt: skip


@pytest.mark.parametrize("name", FEW)
def test_products_of_other_kernels(name: str) -> None:
    gpu, (m, n, k, batch) = load_gpu(name), SHAPES
    kernels = ("plain", "accumulating", "grouped", "engine")
    found = {
        f"{layout} {kernel} {each}": told(
            gemm_seconds, gpu, m, n, k, batch=batch, precision=each, layout=layout, kernel=kernel
        )
        for layout, kernel in [("nn", "plain"), ("nt", "plain"), *(("tn", kernel) for kernel in kernels)]
        for each in ("fp16", "bf16", "fp8", "int4_wo")
    }
    long = replace(gpu, is_sustained=True)
    found["long"] = told(gemm_seconds, long, m, n, k, batch=batch, precision="bf16")
    found |= {
        f"narrow {each}": told(product_seconds, gpu, m, n, k, batch=batch, precision=each)
        for each in PRECISIONS
    }
    steps = {
        "steps": 50,
        "batch": np.array([1, 2]),
        "m": 64,
        "n": np.array([2048, 96]),
        "k": np.array([512, 24]),
    }
    for part in ("forward", "state", "weight", "odd"):
        found[f"recurrent {part}"] = told(recurrent_seconds, gpu, part, **steps, precision="fp16")
    check(FILE, f"others {name}", found)


@pytest.mark.parametrize("name", FEW)
def test_attention(name: str) -> None:
    gpu, found = load_gpu(name), {}
    for causal, window in ((True, 0), (False, 0), (True, 700), (True, -1)):
        shape = AttentionShape(
            batch=np.array([1, 2, 16, 3, 1]), heads=np.array([8, 32, 16, 12, 40]), kv_heads=np.array([8, 4, 16, 1, 8]),
            queries=np.array([512, 4096, 1, 777, 32768]), keys=np.array([512, 4096, 9000, 777, 32768]),
            head_dim=np.array([64, 128, 128, 80, 256]), value_dim=np.array([64, 128, 128, 80, 128]),
            causal=causal, window=window,
        )  # fmt: skip
        for algorithm in ("flash1", "flash2", "flash3", "triton", "unfused", "odd"):
            found[f"runs {algorithm}"] = fused_algorithm(gpu, algorithm)
            for direction in ("forward", "backward"):
                options: dict[str, Any] = {"algorithm": algorithm, "direction": direction}
                for dropout, fused, precision in (
                    [(False, True, "fp16"), (True, False, "fp16"), (False, False, "fp32")]
                    if algorithm == "unfused" else [(False, True, "fp16")]
                ):  # fmt: skip
                    key = f"{algorithm} {direction} {causal} {window} {dropout} {fused} {precision}"
                    found[key] = told(
                        attention_seconds, gpu, shape, precision=precision, dropout=dropout, fused_softmax=fused,
                        **options,
                    )  # fmt: skip
    check(FILE, f"attention {name}", found)


@pytest.mark.parametrize("name", FEW)
def test_convolutions(name: str) -> None:
    gpu, found = load_gpu(name), {}
    sizes = np.array([  # samples, channels, filters, groups, window, positions, inputs
        (32, 64, 64, 1, 9, 3136, 3136), (32, 256, 64, 1, 1, 3136, 3136), (64, 128, 128, 32, 9, 784, 3136),
        (8, 96, 96, 96, 25, 784, 784), (256, 3, 64, 1, 49, 12544, 50176), (16, 512, 512, 512, 33, 400, 400),
        (4, 1024, 2048, 1, 1, 49, 196), (2, 60, 60, 20, 26, 5000, 5300), (128, 256, 256, 1, 9, 196, 210),
        (1, 7, 5, 1, 9, 100, 121), (16, 64, 128, 16, 9, 56, 56),
    ]).T  # fmt: skip
    keys = ("batch", "channels", "filters", "groups", "window", "positions", "inputs")
    for transposed in (False, True):
        shape = ConvShape(**dict(zip(keys, sizes, strict=True)), transposed=transposed)
        for part in (*PARTS, "odd"):
            for each in ("fp32", "tf32", "fp16"):
                found[f"{part} {transposed} {each}"] = told(conv_seconds, gpu, part, shape, precision=each)
    check(FILE, f"convolutions {name}", found)


RUNS = [
    EngineRun(engine=engine, kernel=kernel, precision=precision, cache=cache)
    for engine in ("trtllm", "vllm", "sglang")
    for kernel, precision, cache in [
        ("", "bf16", "bf16"), ("", "bf16", "fp8"), ("", "fp8", ""), ("vllm_flash_attn_fa3", "bf16", "bf16"),
        ("torch_flow", "fp8", "fp8"), ("torch_flow_min_latency", "nvfp4", "fp8"), ("", "int4_wo", "bf16"),
    ]
]  # fmt: skip


@pytest.mark.parametrize("name", ["a100-sxm4-80gb", "h200-sxm5-141gb", "b200", "l40s", "v100-sxm2-16gb"])
def test_engines(name: str) -> None:
    gpu, found = load_gpu(name), {}
    columns = np.array([  # sequences, queries, keys, heads, heads of keys, widths, window
        (1, 512, 512, 32, 8, 128, 128, 0), (16, 100, 4096, 32, 32, 64, 64, 0), (4, 8192, 8192, 64, 8, 128, 128, 1024),
        (256, 1, 3000, 96, 1, 128, 128, 0), (8, 1, 500, 16, 16, 96, 96, 128), (3, 40, 40, 128, 1, 576, 512, 0),
        (512, 1, 20, 8, 8, 256, 256, 0),
    ], float).T  # fmt: skip
    fields = ("batch", "queries", "keys", "heads", "kv_heads", "head_dim", "value_dim", "window")
    shape = EngineAttention(**dict(zip(fields, columns, strict=True)))
    calls = np.array([
        (1, 4096, 2048, 8, 128, 1, 1, 0), (7, 7168, 2048, 8, 256, 1, 8, 1.2), (500, 4096, 14336, 2, 8, 4, 1, 0),
        (9000, 2048, 768, 8, 128, 1, 4, 0.8), (64, 2880, 2880, 4, 128, 2, 2, 1.01), (3, 2688, 1856, 6, 128, 1, 2, 0),
    ], float).T  # fmt: skip
    fields = ("tokens", "hidden", "inner", "top", "experts", "tensor_parallel", "expert_parallel", "skew")
    experts = EngineExperts(**dict(zip(fields, calls, strict=True)))
    sums = EngineSum(
        ranks=np.array([2.0, 4.0, 8.0, 8.0]), bytes=np.array([1e3, 1e5, 4e6, 1e9]),
        bus=np.array([1.0, 1.5, 1.75, 1.75]),
    )  # fmt: skip
    for run in RUNS:
        key = f"{run.engine} {run.kernel} {run.precision} {run.cache}"
        found[key] = [
            told(prefill_seconds, gpu, run, shape), told(decode_seconds, gpu, run, shape),
            told(decode_seconds, gpu, run, shape, shares_keys=True),
            told(decode_seconds, gpu, run, shape, shares_keys=False),
            told(prefill_seconds, gpu, run, shape, law="mla-prefill"),
            told(decode_seconds, gpu, run, shape, law="mla-decode"),
            told(experts_seconds, gpu, run, experts), told(sums_seconds, gpu, run, sums),
            told(engine_gemm_seconds, gpu, run, *SHAPES[:3, ::3]), gemm_work(run, 3, 5, 7), attention_work(run, shape),
            experts_work(run, experts), told(least_seconds, gpu, run.precision, 1e12, 1e9),
            told(least_seconds, gpu, run.precision, 1e9, 1e9),
            [told(lambda law, run=run: engine_constants(law, gpu, run).key, law) for law in LAWS],
        ]  # fmt: skip
    for each in sorted(set(FORMATS.values())):
        found[f"format {each}"] = [format_bytes(each), told(format_peak, gpu, each)]
    check(FILE, f"engines {name}", found)


def test_widths() -> None:
    check(FILE, "widths", {each: [operand_bytes(each), result_bytes(each)] for each in PRECISIONS})
