"""Seconds of memory-bound kernels.

    seconds = latency + (bytes + startup) / (bandwidth x share) x slower

`slower` is 1 but on processors that were measured with operands in their caches and beyond: there it grows with the
logarithm of the bytes between the two sizes. An optimizer's update is measured as a whole, and has no such factor.

The constants are those of streaming reads: products of a weight matrix with one to four tokens, which is what
was measured on each GPU in hundreds of sizes, the faster ones weighted more. Known error: those rows, median
5 % (A100), 3 % (H100, H200). That kernels which also write, and elementwise ones, stream at the same share is
assumed. The copy engine is slower (superbenchmark: 1.12 TB/s, reads and writes together, of 1.555 on an A100
of 40 GB). Operands that stay in the L2 cache can be faster.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from podsim.axes import Floats
from podsim.errors import PlanError
from podsim.hardware.parts import Gpu
from podsim.kernels.constants import MemoryConstants, kernel_constants


def memory_seconds(gpu: Gpu, bytes_: npt.ArrayLike) -> Floats:
    """Seconds of a memory-bound kernel on the GPU that moves `bytes_` (B, reads and writes together).

    Any shape; zero bytes are no kernel and take no time. Raises PlanError for bytes that are negative or not
    finite.
    """
    moved = np.asarray(bytes_, float)
    c = kernel_constants(gpu).memory
    return _stream_seconds(gpu, c, moved, _spill_factor(c, moved) if c.spill else 1.0)


def _stream_seconds(gpu: Gpu, c: MemoryConstants, moved: Floats, slower: Floats | float = 1.0) -> Floats:
    wrong = ~((moved >= 0) & (moved < np.inf))
    if wrong.any():
        raise PlanError([f"bytes_={moved[wrong].flat[0]:g} must be finite, and zero or more"])
    seconds = c.latency + (moved + c.startup) / (gpu.memory_bandwidth * c.share) * slower
    return np.asarray(np.where(moved > 0, seconds, 0.0))


def _spill_factor(c: MemoryConstants, moved: Floats) -> Floats:
    """Times that a byte takes longer than in the caches: 1 up to `near`, most from `far` on, between by the logarithm."""
    beyond = np.log(np.clip(moved, c.near, c.far) / c.near) / np.log(c.far / c.near)
    return np.asarray(1.0 + c.spill * beyond)


def optimizer_seconds(gpu: Gpu, parameters: npt.ArrayLike, bytes_per_parameter: npt.ArrayLike) -> Floats:
    """Seconds of a fused optimizer update that reads and writes `bytes_per_parameter` B for each parameter.

    Adam on bf16 weights with fp32 master weights and gradients moves 30 B: it reads the gradient, master
    weight and two moments (16 B) and writes the last three and the bf16 weight (14 B).
    """
    moved = np.asarray(parameters, float) * np.asarray(bytes_per_parameter, float)
    return _stream_seconds(gpu, kernel_constants(gpu).memory, moved)
