"""Seconds of the loop of a recurrent layer: the law of products on one step, and the gates, as often as there are steps.

    forward          steps x (product of m samples, k of the hidden state, n gates; then the gates)
    state            steps x (gates' gradients; then the product with k and n exchanged)
    weight           one product, whose depth is all samples of all steps

The gates of a step move, for each element of the state and with g gates, 3 g + 3 elements forward (both products and
the cell are read; gates, cell and state written) and 2 g + 6 backward (gates, both cells and three gradients are read;
those of gates and cell written).
A step's product is small and fills a GPU badly: a batched product of all steps would be far too fast. Weights are
read again at every step, from the L2 cache where they fit: the law of products has been fitted on such repetitions.
Known error: no recurrent kernel was measured alone. Stops being true: kernels that keep the recurrent weights in
registers (cuDNN's persistent ones, for some sizes), and layers whose steps overlap.
Source: Appleyard, Kočiský and Blunsom 2016, arxiv.org/abs/1604.01946.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from podsim.errors import PlanError, check_name
from podsim.hardware.parts import Gpu
from podsim.kernels.elementwise import memory_seconds
from podsim.kernels.gemm import gemm_seconds, operand_bytes, positive

PARTS = ("forward", "state", "weight")


def recurrent_seconds(
    gpu: Gpu,
    part: str,
    *,
    steps: npt.ArrayLike,
    batch: npt.ArrayLike,
    m: npt.ArrayLike,
    n: npt.ArrayLike,
    k: npt.ArrayLike,
    precision: str,
) -> npt.NDArray[np.float64]:
    """Seconds of all steps of a layer whose `batch` directions run side by side; sizes broadcast.

    `part` is forward, state (the gradient that goes from step to step) or weight. Raises PlanError for another part,
    for sizes that are not positive, and for a precision the GPU has not.
    """
    check_name("part", part, PARTS, PlanError)
    often, ways, rows, gates, state = positive(steps=steps, batch=batch, m=m, n=n, k=k)
    if part == "weight":
        return gemm_seconds(
            gpu, state, gates, rows * often, batch=ways, precision=precision, kernel="grouped"
        )
    backward = part == "state"
    deep, wide = (gates, state) if backward else (state, gates)
    product = gemm_seconds(gpu, rows, wide, deep, batch=ways, precision=precision, kernel="grouped")
    gates_per_state = gates / state
    elements = (
        ways * rows * state * (2.0 * gates_per_state + 6.0 if backward else 3.0 * gates_per_state + 3.0)
    )
    return np.asarray(often * (product + memory_seconds(gpu, elements * operand_bytes(precision))))
