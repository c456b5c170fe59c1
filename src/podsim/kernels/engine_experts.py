"""Seconds of a mixture of experts in inference engines: the kernels of one rank's experts.

Tokens choose `top` experts each; a rank holds experts / expert_parallel of them, and tensor_parallel divides each. Row
counts come from the distribution: even, or a power law of tokens over experts as aiconfigurator draws it, where the
rank is the busiest of its group. Tokens are counted over the whole group (found from rows with expert_parallel > 1).

    arithmetic = (rows + fill x experts in use) x work of a row / (peak x share)
    memory     = weights of the experts in use / (bandwidth x memory)
    seconds    = launch + (arithmetic^sharpness + memory^sharpness)^(1 / sharpness) + rows moved
                 + tokens x token + experts x expert + hot x the arithmetic of the fullest expert

An expert has three matrices, or two without a gate.
Known error: the evidence of each entry of hardware/catalog/engines/moe.toml, and `podsim validate --table kernels-moe`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Shaped
from podsim.fitting import Values
from podsim.hardware.parts import Gpu
from podsim.kernels.engine_constants import engine_constants, engine_file
from podsim.kernels.engine_run import EngineRun, format_bytes, format_peak

_DRAWS = 4
"""random deals of experts to ranks, of which the mean counts"""
_MOST_SHARE = 0.8
"""the largest share of the tokens that aiconfigurator's power law gives an expert, before scaling"""


@dataclass(frozen=True, kw_only=True)
class EngineExperts:
    """Sizes of calls of experts, arrays of one shape."""

    tokens: Floats
    hidden: Floats
    inner: Floats
    """count. The inner width of an expert, undivided."""
    top: Floats
    experts: Floats
    tensor_parallel: Floats
    expert_parallel: Floats
    skew: Floats
    """The exponent of the power law of tokens over experts; 0 is even."""


def experts_seconds(gpu: Gpu, run: EngineRun, shape: EngineExperts) -> Floats:
    """Seconds of the experts of one rank; PodsimError for an architecture that was not measured."""
    return experts_law(engine_constants("moe", gpu, run).values, gpu, run, shape, expert_rows(shape))


def experts_law(
    c: Values, gpu: Gpu, run: EngineRun, shape: EngineExperts, columns: Shaped[Floats, "call count"]
) -> Floats:
    """Seconds by the law alone; `columns` are those of expert_rows."""
    rows, used, fullest = columns.T
    matrices = np.where(is_gated(run, shape), 3.0, 2.0)
    weights = shape.hidden * shape.inner / shape.tensor_parallel * matrices
    peak = format_peak(gpu, run.precision) * c["share"]
    arithmetic = 2 * (rows + c["fill"] * used) * weights / peak
    memory = used * weights * format_bytes(run.precision) / (gpu.memory_bandwidth * c["memory"])
    core = (arithmetic ** c["sharpness"] + memory ** c["sharpness"]) ** (1 / c["sharpness"])
    moved = rows * (4 * shape.hidden + 2 * matrices * shape.inner / shape.tensor_parallel)
    ends = shape.tokens * c["token"] + shape.experts / shape.expert_parallel * c["expert"]
    hot = c["hot"] * 2 * fullest * weights / peak
    return np.asarray(c["launch"] + core + moved * c["moved"] / gpu.memory_bandwidth + ends + hot)


def is_gated(run: EngineRun, shape: EngineExperts) -> NDArray[np.bool_]:
    """Whether experts have a gate: three matrices instead of two.

    A table says so in the kernel's name, or by the widths of a network without gates (moe.toml, [ungated]).
    """
    ungated = engine_file("moe")["ungated"]["widths"]
    known = [(shape.hidden == hidden) & (shape.inner == inner) for hidden, inner in ungated]
    return np.asarray(~np.any(known, axis=0) & ("nongated" not in run.kernel))


def expert_rows(shape: EngineExperts) -> Floats:
    """(rows, experts in use, rows of the fullest expert) of the busiest rank of each call, shape (calls, 3)."""
    columns = (shape.tokens, shape.top, shape.experts, shape.expert_parallel, shape.skew)
    calls = zip(*(np.broadcast_to(column, shape.tokens.shape).tolist() for column in columns), strict=True)
    return np.array([_rank_rows(*call) for call in calls]).reshape(-1, 3)


@lru_cache(maxsize=65536)
def _rank_rows(
    tokens: float, top: float, experts: float, parallel: float, skew: float
) -> tuple[float, float, float]:
    """(rows, experts in use, rows of the fullest expert) of the busiest rank."""
    local, count = max(1, int(experts // parallel)), int(experts)
    pairs = tokens * top
    if not skew:
        full, over = divmod(pairs, experts)
        fuller = min(local, round(over / parallel + 0.49))
        return full * local + fuller, float(local if full else fuller), full + bool(fuller)
    loads = _power_law(tokens, pairs, count, skew)
    ranks = count // local
    deals = []
    for seed in range(_DRAWS):
        random = np.random.default_rng(seed)
        dealt = np.floor(loads + random.random(count))[random.permutation(count)][: ranks * local].reshape(
            ranks, local
        )
        busiest = dealt[dealt.sum(axis=1).argmax()]
        deals.append((busiest.sum(), (busiest > 0).sum(), busiest.max()))
    rows, used, fullest = np.mean(deals, axis=0).tolist()
    return rows, used, fullest


def _power_law(tokens: float, pairs: float, count: int, skew: float) -> Floats:
    """Rows of each expert at the quantiles of a bounded power law, which sum to the pairs; none above the tokens."""
    quantiles = (np.arange(count) + 0.5) / count
    power = 1.0 - skew if skew != 1.0 else -1e-6
    most = max(_MOST_SHARE * tokens, 2.0)
    loads = ((most**power - 1) * quantiles + 1) ** (1 / power)
    loads = np.minimum(loads * (pairs / loads.sum()), tokens)
    return np.asarray(np.minimum(loads * (pairs / loads.sum()), tokens))
