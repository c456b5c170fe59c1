"""Speed of the kernel laws: a search asks for 1e5 products at once, a prediction for fifteen."""

from __future__ import annotations

import numpy as np
import pytest

from podsim.hardware.catalog import load_gpu
from podsim.kernels.attention import AttentionShape, attention_seconds
from podsim.kernels.constants import load_constants
from podsim.kernels.gemm import gemm_seconds

A100 = load_gpu("a100-sxm4-80gb")


@pytest.mark.parametrize("count", [15, 100_000])
def test_products(benchmark, count):
    rng = np.random.default_rng(0)
    m, n, k = (np.round(2.0 ** rng.uniform(6, 16, count) / 8) * 8 for _ in range(3))
    gemm_seconds(A100, 8, 8, 8)
    benchmark(gemm_seconds, A100, m, n, k)


def test_attention(benchmark):
    sizes = {"batch": np.arange(1.0, 16.0), "heads": 32, "kv_heads": 8, "queries": 2048, "keys": 2048}
    benchmark(attention_seconds, A100, AttentionShape(**sizes, head_dim=128, value_dim=128, causal=True))


def test_loading(benchmark):
    def load() -> None:
        load_constants.cache_clear()
        load_constants("a100-sxm4-80gb")

    benchmark(load)
