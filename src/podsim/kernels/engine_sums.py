"""Seconds of the all-reduce that inference engines run in place of NCCL's, over NVLink in one node.

    one shot   reads the buffers of all others      first + rank x ranks + (ranks - 1) x bytes / (NVLink x share)
    two shots  a reduce-scatter, an all-gather      second + rank x ranks + bus factor x bytes / (NVLink x far)
    beyond     NCCL's ring or tree                  third + bus factor x bytes / (NVLink x large)

The fastest counts, as the engines' own rules choose nearly. Source: aiconfigurator's tables of TensorRT-LLM and vLLM
(reference/raw/kernels, *_custom_allreduce_*), fitted on 2 and 4 GPUs. Known error: the evidence of each entry of
hardware/catalog/engines/all-reduce.toml; where an engine changes its kernel, up to a factor of two. Not covered: GPUs
without NVLink to all others and more than one node, where engines call NCCL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.axes import Floats
from podsim.fitting import Values
from podsim.hardware.parts import Gpu
from podsim.kernels.engine_constants import engine_constants
from podsim.kernels.engine_run import EngineRun


@dataclass(frozen=True, kw_only=True)
class EngineSum:
    """Sizes of all-reduces, arrays of one shape."""

    ranks: Floats
    bytes: Floats
    """B. The buffer of one GPU."""
    bus: Floats
    """factor. The bus factor of an all-reduce: the bytes that a GPU passes on, over those of its buffer."""


def sums_seconds(gpu: Gpu, run: EngineRun, shape: EngineSum) -> Floats:
    """Seconds of all-reduces in one node; PodsimError for an architecture that was not measured."""
    return sums_law(engine_constants("all-reduce", gpu, run).values, gpu, shape)


def sums_law(c: Values, gpu: Gpu, shape: EngineSum) -> Floats:
    """Seconds by the law alone."""
    ranks, link = shape.ranks, gpu.nvlink
    divided = shape.bus * shape.bytes
    single = c["first"] + (ranks - 1) * shape.bytes / (link * c["share"])
    double = c["second"] + divided / (link * c["far"])
    waiting = c["rank"] * ranks
    return np.minimum(np.minimum(single, double) + waiting, c["third"] + divided / (link * c["large"]))
