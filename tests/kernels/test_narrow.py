"""Products too narrow for tiles: bytes, or arithmetic of the plain units; all others are the product law's."""

from __future__ import annotations

import pytest

from podsim.hardware.catalog import load_gpu
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.gemm import gemm_seconds
from podsim.kernels.narrow import product_seconds

V100, A100 = load_gpu("v100-sxm2-16gb"), load_gpu("a100-sxm4-80gb")


@pytest.mark.parametrize(("m", "n", "k", "batch"), [(1 << 20, 1, 128, 1), (27, 27, 128, 65536)])
def test_narrow_products_are_bound_by_bytes(m: int, n: int, k: int, batch: int) -> None:
    moved = 4.0 * batch * (k * (m + n) + m * n)
    found = product_seconds(V100, m, n, k, batch=batch, precision="fp32")
    assert found == pytest.approx(memory_seconds(V100, moved))
    assert found < gemm_seconds(V100, m, n, k, batch=batch, precision="fp32") / 2


def test_or_by_the_arithmetic_of_plain_units() -> None:
    found = product_seconds(V100, 4096, 32, 32, batch=4096, precision="fp16")
    law = gemm_seconds(V100, 4096, 32, 32, batch=4096, precision="fp16")
    assert 2 * 4096 * 4096 * 32 * 32 / V100.peaks["fp32"] <= found <= law


def test_the_widest_narrow_batch_is_quicker_than_the_law() -> None:
    sizes = {"m": 32, "n": 32, "k": 500, "batch": 4096, "precision": "fp32"}
    assert product_seconds(V100, **sizes) < gemm_seconds(V100, **sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("m", "n", "k", "batch"),
    [(16, 4096, 1024, 1), (33, 33, 64, 100), (512, 512, 64, 64), (4096, 32, 8, 1), (4096, 33, 8, 4096)],
)
def test_others_are_the_product_laws(m: int, n: int, k: int, batch: int) -> None:
    found = product_seconds(A100, m, n, k, batch=batch, precision="bf16")
    assert found == gemm_seconds(A100, m, n, k, batch=batch, precision="bf16")
