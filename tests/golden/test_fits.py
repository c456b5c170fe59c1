"""What each fit asks of the solver stays: its parameters, bounds, weights, and residuals near the start.

The solver is a double: it keeps what it was given and the residuals at two points, and answers with one beside the start.
So constants that a fit on few rows would hide are seen, in milliseconds, and what follows from the answer is, too.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_values import check

from podsim.accuracy import bars, calibrate_software
from podsim.accuracy.calibration import calibrate_tables
from podsim.accuracy.price_kernels import price_kernels
from podsim.accuracy.tables import load, training_rows
from podsim.errors import PodsimError
from podsim.fitting import Fit, Parameter, Residuals, Solution, Values
from podsim.hardware.catalog import load_gpu
from podsim.kernels import fit_attention, fit_host, fit_kernels, fit_products
from podsim.kernels.constants import kernel_constants
from podsim.kernels.measured_kernels import KernelRows, kernel_rows
from reference import held_out_fits

FILE = Path(__file__).with_name("fits.json.gz")
V100, A100, H100 = (load_gpu(name) for name in ("v100-sxm2-16gb", "a100-sxm4-80gb", "h100-sxm5-80gb"))
Asked = list[Any]


def moved(parameters: dict[str, Parameter], share: float) -> Values:
    """Values a share of the way from the start to the nearer of the bounds."""
    return {
        name: each.start + share * (each.high - each.start if index % 2 else each.low - each.start)
        for index, (name, each) in enumerate(parameters.items())
    }


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    kept: Asked = []

    def solve(fit: Fit, residuals: Residuals) -> Solution:
        points = [moved(dict(fit.parameters), share) for share in (0.0, 0.1)]
        found = [residuals(point) for point in points]
        kept.append([asdict(fit), [[*each[::11], each.sum(), np.abs(each).sum()] for each in found]])
        return Solution(dict(points[1]), 1.0)

    def solve_by_search(parameters: dict[str, Parameter], residuals: Residuals) -> Solution:
        return solve(Fit(parameters=parameters, softness=0.0), residuals)

    for module in (fit_kernels, fit_products, fit_attention, calibrate_software, held_out_fits):
        monkeypatch.setattr(module, "solve", solve)
    monkeypatch.setattr(fit_host, "solve_by_search", solve_by_search)
    return kept


def rows_of(gpu: str, sizes: list[tuple[float, ...]], **cells: str) -> KernelRows:
    """Rows with times that follow no law, and so tell nothing of one."""
    same, table = {"gpu": gpu, "op": "gemm", "dtype": "bf16", "source": "made"} | cells, []
    for at, (m, n, k, b) in enumerate(sizes):
        seconds = 8e-6 + k * b * (m + n) / 1e12 + 2 * m * n * k * b / 4e13 * (1 + (at * 7 % 11) / 20)
        table += [
            same | {"m": f"{m}", "n": f"{n}", "k": f"{k}", "batch": f"{b}", "latency_ms": f"{1e3 * seconds}"}
        ]
    return kernel_rows(table)


def joined(*parts: KernelRows) -> KernelRows:
    return KernelRows(
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in KernelRows.__dataclass_fields__
        }
    )


GRID = [
    (m, n, k, 1) for m in (16, 256, 2000, 4096) for n in (64, 1024, 2048, 8192) for k in (128, 1024, 5120)
]
DENSE = [(2.0**m, 2.0**n, 2.0**k, 1) for m in range(2, 14) for n in range(6, 14) for k in range(7, 11)]
SPREAD = [
    (64 + 8 * (at * 37 % 191), 64 + 16 * (at * 53 % 97), 128 + 64 * (at * 29 % 61), 1) for at in range(330)
]
THIN = [
    (m, n, k, 1)
    for m in (1, 2, 3, 4, 6, 8)
    for n in (1000, 1024, 2048, 3072, 9000)
    for k in (512, 1024, 2048, 4096, 8192)
]
ODD = [
    (m, n + d, k + d, 1)
    for m in (512, 4096)
    for n in (2048, 8192)
    for k in (2048, 8192)
    for d in (0, 1, 2, 3)
]
MANY = [
    (m, n, k, b) for m in (64, 1024) for n in (64, 1024) for k in (64, 130, 1001, 4096) for b in (1, 12, 96)
]
HOST = {"source": "EleutherAI made"}
ENGINE = {"source": "aiconfigurator, made"}


def attention_rows(gpu: str, op: str, direction: str, causal: str) -> KernelRows:
    table = [
        {
            "gpu": gpu, "op": op, "dtype": "bf16", "source": "made", "batch": f"{b}", "heads": f"{h}",
            "kv_heads": f"{kv}", "seq_len": f"{s}", "head_dim": f"{d}", "causal": causal, "direction": direction,
            "latency_ms": f"{1e3 * (5e-6 + b * h * s * s * d / 2e13 * (1 + (b + h + s) % 7 / 9))}",
        }
        for b in (1, 16) for h, kv in ((8, 8), (32, 4), (64, 1)) for s in (512, 2048, 8192) for d in (64, 128, 80)
    ]  # fmt: skip
    return kernel_rows(table)


GEMMS = {
    "a lender": (A100, [rows_of(A100.name, GRID), rows_of(A100.name, GRID, **HOST), rows_of(A100.name, THIN),
                        rows_of(A100.name, ODD * 3, dtype="fp16"), rows_of(A100.name, MANY, op="bmm"),
                        rows_of(A100.name, GRID[20:], clock="sustained")]),
    "a chip with batches": (V100, [rows_of(V100.name, GRID, dtype="fp16"),
                                   rows_of(V100.name, MANY, op="bmm", dtype="fp16"),
                                   rows_of(V100.name, GRID[:40], dtype="fp16", clock="sustained", **HOST)]),
    "narrow formats": (H100, [
        rows_of(H100.name, GRID + THIN, dtype=each, **ENGINE) for each in ("bf16", "fp8", "int8_wo")]),
    "a grid": (H100, [rows_of(H100.name, DENSE), rows_of(H100.name, THIN, dtype="fp16")]),
    "sizes off a grid": (H100, [rows_of(H100.name, SPREAD), rows_of(H100.name, THIN)]),
    "a published rate": (load_gpu("gb200"), [rows_of(A100.name, GRID)]),
    "published beside measured": (A100, [rows_of(A100.name, THIN + GRID, dtype="fp16")]),
    "a board of a chip": (replace(load_gpu("a100-pcie-80gb"), name="a100-custom"), [
        rows_of("a100-custom", GRID[:20]), rows_of(A100.name, ODD), rows_of(A100.name, MANY, op="bmm")]),
    "attention": (A100, [rows_of(A100.name, THIN), *(
        attention_rows(A100.name, op, direction, causal)
        for op, direction, causal in [("flash1", "fwd+bwd", "yes"), ("flash2", "fwd", "no"), ("flash2", "bwd", "yes"),
                                      ("prefill attention", "fwd", "yes"), ("triton", "fwd", "no")])]),
    "attention of Hopper": (H100, [rows_of(H100.name, THIN), *(
        attention_rows(H100.name, op, direction, "yes")
        for op, direction in [("flash2", "fwd+bwd"), ("flash3", "fwd"), ("prefill attention", "fwd")])]),
    "no row": (load_gpu("a30"), [rows_of(A100.name, GRID)]),
    "no stream of a lender": (A100, [rows_of(A100.name, GRID[-9:])]),
}  # fmt: skip


def told(function: Any, *args: Any, **options: Any) -> Any:
    """What a function returns, or what it says against it."""
    try:
        return function(*args, **options)
    except PodsimError as problem:
        return str(problem)


@pytest.mark.parametrize("name", GEMMS)
def test_constants_of_a_gpu(name: str, asked: Asked) -> None:
    gpu, parts = GEMMS[name]
    fitted = told(fit_kernels.fit_gpu, joined(*parts), gpu)
    if not isinstance(fitted, str):
        grids = {key: [each.log_m, each.log_n, each.log_k, each.logs[::3, ::3, ::3], each.measured.sum()]
                 for key, each in fitted.corrections.items()}  # fmt: skip
        fitted = asdict(replace(fitted, corrections={})) | {"corrections": grids}
    check(FILE, f"constants, {name}", [asked, fitted])


def test_predictions_of_rows_held_out(asked: Asked) -> None:
    hosted, batches = (
        rows_of(A100.name, GRID * 2, **HOST),
        rows_of(V100.name, MANY, op="bmm", dtype="fp16", **HOST),
    )
    serving = attention_rows(A100.name, "prefill attention", "fwd", "yes")
    found = [
        told(fit_kernels.cross_validate, hosted, A100), told(fit_kernels.cross_validate, hosted, A100, folds=3, seed=2),
        told(fit_kernels.cross_validate, hosted.take(np.arange(4)), A100), fit_kernels.host_seconds(hosted, A100),
        fit_kernels.host_seconds(joined(hosted, rows_of(A100.name, GRID)), A100),
        told(held_out_fits.cross_validate_batches, batches, V100),
        told(held_out_fits.cross_validate_batches, batches, V100, folds=2, seed=3),
        told(held_out_fits.cross_validate_batches, batches.take(np.arange(19)), V100),
        told(held_out_fits.cross_validate_batches, batches.take(np.arange(20)), V100),
        told(held_out_fits.cross_validate_serving, serving, A100),
        told(held_out_fits.cross_validate_serving, serving, A100, folds=4, seed=5),
        told(held_out_fits.cross_validate_serving, serving.take(np.arange(49)), A100),
        told(held_out_fits.cross_validate_serving, serving.take(np.arange(50)), A100),
    ]  # fmt: skip
    checks = [
        (each.errors(), each.errors(law=True)) for each in found if isinstance(each, fit_products.Check)
    ]
    check(FILE, "held out", [asked, found, checks])


def test_batches_and_long_runs(asked: Asked) -> None:
    constants, found = kernel_constants(V100).gemm["fp16"], []
    for count in (18, 19, 20, 21, 48):
        batches = rows_of(V100.name, [size for size in MANY if size[3] > 1][:count], op="bmm", dtype="fp16")
        long = rows_of(V100.name, GRID[:count], dtype="fp16", clock="sustained")
        found += [
            fit_products.fit_batches(batches, V100, constants),
            fit_products.fit_long_runs(long, V100, constants),
        ]
    accumulated = rows_of(V100.name, MANY + GRID, op="bmm", dtype="fp16", accumulate="yes", clock="sustained")
    found += [fit_products.law_seconds(constants, V100, accumulated), fit_products.law_seconds(
        kernel_constants(H100).gemm["fp8"], H100, rows_of(H100.name, ODD, dtype="fp8", **ENGINE))]  # fmt: skip
    check(FILE, "batches", [asked, found])


def test_tables_of_a_user(asked: Asked) -> None:
    products, times = load("gemm-a100"), load("collectives")
    thin, part = replace(products, rows=products.rows[::25]), replace(products, rows=products.rows[3::90])
    found = [
        told(calibrate_tables, tables, gpus, None, is_own=is_own)
        for tables, gpus, is_own in [
            ([part], [], True), ([part], ["no-such"], True), ([load("llm")], [], True),
            ([replace(times, rows=times.rows[:1])], ["a30"], False), ([replace(times, rows=())], [], True),
        ]
    ]  # fmt: skip
    priced = price_kernels(thin, cross_validate=False)
    check(
        FILE, "tables", [asked, found, held_out_fits.fit_held_out_kernels(thin), priced.groups, priced.notes]
    )


def test_constants_of_a_host(asked: Asked) -> None:
    m, n, k, _ = np.array(GRID, float).T
    found: list[Any] = []
    for launch in (1e-6, 0.0, 3e-3):
        rows = fit_host.Products(m, n, k, 1e-5 + 6 * m * n * k / 3e10, "fp32")
        found.append(fit_host.fit_products(rows, 4e10, 2e10, launch))
    for sizes in ([1e4, 1e6, 2e6, 5e7], [1e4, 1.9e6, 2.1e6, 1e7], [1e4, 1e5], [1e3, 3e6]):
        size = np.array(sizes)
        for seconds in (1e-5 + size / 5e9, size / 5e9, 1e-9 + 0 * size, (1e-3 - size / 1e12)):
            found.append(fit_host.fit_streams(fit_host.Streams(size, seconds)))
            found.append(fit_host.fit_line(size, seconds))
    check(FILE, "host", [asked, found])


IDS = {
    "SC21-0001", "DGXC-0259", "MBB-0008", "MLM20-0001", "IE-0001", "IE-0005", "IE-0011", "IE-0019", "IE-0025", "mlp00079",
    "dle00294", "dle00503", "dle01420", "mlp00078",
}  # fmt: skip
ENTRIES = {
    "megatron-2021": ("gemm_speed", "host_step", "memory_speed", "tp_overlap"),
    "nemo-2025.hopper": ("gemm_speed", "late_gather"),
    "nemo-2026.blackwell": ("collective_speed", "cast_bytes", "vtrain-a100.detour"),
    "megatron-2020.volta": ("gemm_speed", "dgx-2.network_speed"),
    "internevo-2024": ("host_step", "host_kernel", "contention", "slow_nodes"),
    "mlperf-mxnet": ("conv_speed", "host_kernel"),
    "dle-pytorch": ("elementwise_traffic",),
    "mlperf-hugectr": ("host_step",),
    "megatron-2022": (),
    "no-such": ("gemm_speed",),
    "nemo-2022": ("gemm_sped",),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_constants_of_software(name: str, asked: Asked) -> None:
    rows = training_rows()
    texts = [row for row in rows if row["id"] in IDS] + rows[:: len(rows) // 40]
    texts += [{**texts[0], "step_time_s": "x"}]
    fitted = told(calibrate_software.fit_software, texts, name, ENTRIES[name])
    text = "" if isinstance(fitted, str) else calibrate_software.toml_entry(name, fitted)
    check(FILE, f"software, {name}", [asked, fitted, text])


DECLARED = {
    bars: bars.BARS,
    calibrate_software: [calibrate_software.CONSTANTS, calibrate_software.SYSTEM_CONSTANTS],
    fit_products: [fit_products.LONG, fit_products.UNMEASURED],
}


@pytest.mark.parametrize("module", DECLARED, ids=lambda module: module.__name__)
def test_what_a_module_declares(module: Any) -> None:
    check(FILE, f"declared, {module.__name__}", DECLARED[module])
