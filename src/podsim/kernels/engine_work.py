"""The least time of a kernel of an engine: its arithmetic at the peak, or its bytes at the memory's bandwidth."""

from __future__ import annotations

import numpy as np

from podsim.axes import Floats
from podsim.hardware.parts import Gpu
from podsim.kernels.engine_attention import EngineAttention
from podsim.kernels.engine_experts import EngineExperts, expert_rows, is_gated
from podsim.kernels.engine_run import EngineRun, format_bytes, format_peak


def least_seconds(gpu: Gpu, precision: str, flops: float, moved: float) -> tuple[float, str]:
    """(s at full peak, what limits it: arithmetic or memory)."""
    arithmetic, memory = flops / format_peak(gpu, precision), moved / gpu.memory_bandwidth
    return max(arithmetic, memory), "arithmetic" if arithmetic >= memory else "memory"


def gemm_work(run: EngineRun, m: float, n: float, k: float) -> tuple[float, float]:
    """(FLOP, B) of a product with a 16-bit result."""
    return 2 * m * n * k, format_bytes(run.precision) * (m + n) * k + 2 * m * n


def attention_work(run: EngineRun, shape: EngineAttention) -> tuple[Floats, Floats]:
    """(FLOP, B) of causal attention; a decode step has one query."""
    limit = np.where(shape.window > 0, np.minimum(shape.window, shape.keys), shape.keys)
    before = shape.keys - shape.queries
    full = np.clip(shape.keys - limit, 0.0, shape.queries)  # queries that see the whole window
    rest = shape.queries - full
    pairs = full * limit + rest * (before + (rest + 1) / 2)
    products = shape.head_dim + shape.value_dim
    flops = 2 * shape.batch * shape.heads * pairs * products
    is_latent = (shape.head_dim != shape.value_dim) & (shape.kv_heads == 1)
    stored = np.where(is_latent, shape.head_dim, products) * np.minimum(shape.keys, limit + shape.queries)
    new = 2 * shape.heads * shape.queries * products
    return flops, shape.batch * (new + format_bytes(run.cache) * shape.kv_heads * stored)


def experts_work(run: EngineRun, shape: EngineExperts) -> tuple[Floats, Floats]:
    """(FLOP, B) of the experts of the busiest rank."""
    rows, used, _ = expert_rows(shape).T
    weights = np.where(is_gated(run, shape), 3.0, 2.0) * shape.hidden * shape.inner / shape.tensor_parallel
    return 2 * rows * weights, used * weights * format_bytes(run.precision) + 4 * rows * shape.hidden
