"""The inputs of the packing of requests as arrays, and the loop over requests, which packing_kernels.c runs.

R kinds of request, N nodes, G GPUs of the largest node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints, Shaped
from podsim.native import c_function


class Wanted(NamedTuple):
    """The kinds of request; `kinds` are those for GPUs, `weight` the share of each among them."""

    cpu: Floats
    memory: Floats
    gpus: Ints
    share: Ints
    allowed: Shaped[NDArray[np.bool_], "request model"]
    kinds: Ints
    weight: Floats
    requests: int
    """The number of kinds of request, R."""
    models: int
    """The number of models of GPU."""
    sharers: int
    """The number of kinds of request for GPUs."""


class NodesNow(NamedTuple):
    """The free resources. Scores are cached by kind and node until the node changes (its version rises)."""

    cpu: Floats
    memory: Floats
    free: Shaped[Ints, "server gpu"]
    """The free thousandths of each GPU; -1 beyond the GPUs of a node."""
    model: Ints
    most: Floats
    """The cores, memory and GPU thousandths of the largest node."""
    version: Ints
    seen: Shaped[Ints, "request server"]
    score: Shaped[Floats, "request server"]
    held: Shaped[Ints, "request server"]
    """The number of requests of a kind on a node."""
    spare: Ints
    """The buffer for a node's GPUs, [G]."""
    useless: Floats
    """The fragmentation of each node in GPU thousandths, for FGD, [N]."""
    nodes: int
    """The number of nodes, N."""
    gpus: int
    """The number of GPUs of the largest node, G."""


pack_requests = c_function(
    "pack_requests", Wanted, NodesNow, Ints, int, int, Floats, NDArray[np.bool_], result=float
)
"""Place requests, by packer; sets whether each was placed. The useless GPU thousandths at the end."""
