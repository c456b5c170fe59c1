"""Constants of fused attention from measured rows: forward, backward, or both together.

Rows of serving programs (prefill) hold more than the kernel: keys and values are written to a paged cache, by a
thread block for each token, and then read page by page. So they share the forward law up to three constants of their
own, which are fitted beside the others and dropped: a factor, the bytes of keys and values once more, a time for each
token. Predictions of such rows (reference/held_out_fits.py) have the latter two and not the factor, which is an error of
the law or another build of the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from podsim.axes import Floats
from podsim.fitting import Fit, Parameter, Values, solve
from podsim.hardware.parts import Gpu
from podsim.kernels.attention import flash_law
from podsim.kernels.constants import (
    Evidence,
    FlashConstants,
    MemoryConstants,
)
from podsim.kernels.fit_products import evidence_of
from podsim.kernels.measured_kernels import KernelRows

_SHAPE = {
    "share_64": Parameter(start=0.6, low=0.05, high=1.0, scale=0.1),
    "share_128": Parameter(start=0.68, low=0.05, high=1.0, scale=0.1),
    "fill": Parameter(start=80.0, low=0.0, high=1000.0, scale=60.0),
    "tail": Parameter(start=0.3, low=0.0, high=2.0, scale=0.3),
    "backward_64": Parameter(start=0.9, low=0.4, high=1.3, scale=0.1),
    "backward_128": Parameter(start=0.9, low=0.4, high=1.3, scale=0.1),
    "backward_fill": Parameter(start=100.0, low=0.0, high=1000.0, scale=60.0),
}
SERVING = {
    "factor": Parameter(start=1.0, low=0.7, high=1.4, scale=0.1),
    "traffic": Parameter(start=2.0, low=0.0, high=6.0, scale=0.5),
    "token": Parameter(start=6e-9, low=0.0, high=60e-9, scale=2e-9),
}
"""Of serving rows: factor on the law, writes of keys and values in their own bytes, s of a token's thread block."""
_FIT = Fit(parameters=_SHAPE | SERVING, softness=0.1, pull=0.03, differences=(1e-2, 1e-3), evaluations=80)
_FLASH3_GAIN = 1.6
"""speed of flash3 over flash2 backward: 1.5 to 1.75 (FlashAttention-3, arxiv.org/abs/2407.08608)"""


def fit_flash(
    rows: KernelRows, gpu: Gpu, algorithm: str, memory: MemoryConstants, fitted: Mapping[str, FlashConstants]
) -> tuple[FlashConstants, Evidence] | None:
    """Constants of `algorithm` on `gpu` and their evidence; None where nothing but serving was measured.

    Serving rows count for flash3 from compute capability 9, for flash2 below. Without a backward row, the
    backward share of flash3 is set from that of flash2 (in `fitted`) by the gain its authors report.
    """
    serving = algorithm == serving_algorithm(gpu)
    part = rows.take((rows.op == algorithm) | (serving & (rows.op == "prefill")))
    own = part.op == algorithm
    if not own.any():
        return None
    constants = _fit(part, gpu, memory)
    note = "bars of figures" + (
        f", and {int((~own).sum())} serving rows for the shape" if not own.all() else ""
    )
    two = fitted.get("flash2")
    if not (part.direction[own] != "fwd").any() and two is not None:
        ratio = two.share_128 * two.backward_128 * _FLASH3_GAIN / constants.share_128
        constants = FlashConstants(
            share_64=constants.share_64, share_128=constants.share_128, fill=constants.fill,
            tail=constants.tail, backward_64=ratio, backward_128=ratio, backward_fill=two.backward_fill,
        )  # fmt: skip
        note += (
            f"; backward not measured: {_FLASH3_GAIN} times the speed of flash2 (arxiv.org/abs/2407.08608)"
        )
    drawn = part.take(own)
    predicted, _ = flash_seconds(constants, drawn, gpu, memory)
    evidence = evidence_of(predicted / drawn.seconds - 1, part.source, note + "; errors of the fit itself")
    return constants, evidence


def serving_algorithm(gpu: Gpu) -> str:
    """The algorithm that serving programs run on `gpu`."""
    return "flash3" if gpu.compute_capability >= 9 else "flash2"


def write_seconds(rows: KernelRows, moved: Floats, values: Values) -> Floats:
    """s to write keys and values to the paged cache; `moved` are the s to move them once."""
    return np.asarray(moved * values["traffic"] + rows.batch * rows.tokens * values["token"])


def flash_seconds(
    constants: FlashConstants, rows: KernelRows, gpu: Gpu, memory: MemoryConstants
) -> tuple[Floats, Floats]:
    """(seconds by the law, s to move keys and values once), shape (R,)."""
    bandwidth = gpu.memory_bandwidth * memory.share
    sizes = [rows.batch, rows.heads, rows.kv_heads, rows.tokens, rows.tokens, rows.head_dim, rows.head_dim]
    machine = (float(gpu.sms), gpu.peaks["bf16"], bandwidth)
    seconds = np.zeros(len(rows))
    for causal in (False, True):
        for backward, kinds in ((False, ("fwd", "fwd+bwd")), (True, ("bwd", "fwd+bwd"))):
            these = np.isin(rows.direction, kinds) & (rows.causal == causal)
            part = [size[these] for size in sizes]
            seconds[these] += flash_law(constants, machine, part, causal=causal, backward=backward)
    moved = 4.0 * rows.batch * rows.tokens * rows.head_dim * rows.kv_heads
    return seconds, np.asarray(moved / bandwidth)


def _fit(rows: KernelRows, gpu: Gpu, memory: MemoryConstants) -> FlashConstants:
    serving = rows.op == "prefill"
    kinds = np.char.add(rows.source, rows.direction)
    _, which, counts = np.unique(kinds, return_inverse=True, return_counts=True)
    weights = np.sqrt(100 / counts[which])

    def residuals(values: Values) -> Floats:
        seconds, moved = flash_seconds(_constants(values), rows, gpu, memory)
        served = seconds * values["factor"] + write_seconds(rows, moved, values)
        return np.asarray(np.log(np.where(serving, served, seconds) / rows.seconds) * weights)

    return _constants(solve(_FIT, residuals).values)


def _constants(values: Values) -> FlashConstants:
    return FlashConstants(**{name: values[name] for name in _SHAPE})
