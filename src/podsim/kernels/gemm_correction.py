"""What the GEMM law leaves over on a GPU, over the grid of measured sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from podsim.axes import Floats, Shaped
from podsim.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Correction:
    """What the GEMM law leaves over, smoothed over the measured sizes: log(measured / law)."""

    log_m: Floats
    """factor. The log2 of the measured m, increasing."""
    log_n: Floats
    log_k: Floats
    logs: Shaped[Floats, "m n k"]
    measured: Shaped[npt.NDArray[np.bool_], "m n k"]
    """The sizes that have a measurement."""


def read_correction(stream: Any) -> Correction:
    """Correction of an opened npz file, whose logs are kept as integers in units of 1e-4."""
    with np.load(stream, allow_pickle=False) as packed:
        shape = tuple(len(packed[a]) for a in ("m", "n", "k"))
        bits = np.unpackbits(packed["measured"], count=int(np.prod(shape))).astype(bool)
        return Correction(
            log_m=np.log2(packed["m"]),
            log_n=np.log2(packed["n"]),
            log_k=np.log2(packed["k"]),
            logs=packed["logs"].astype(float) * 1e-4,
            measured=bits.reshape(shape),
        )
