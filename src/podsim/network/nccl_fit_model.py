"""What the collective law gives for measured samples, with constants that are still being fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from podsim.network.nccl import candidate_fields, cost_CE
from podsim.network.nccl_constants import Fabric, Network
from podsim.network.nccl_paths import candidates
from podsim.network.nccl_tuner import Group, Wires, generation, placed, placed_at


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One measured collective: what was run, and how long it took."""

    sweep: str
    architecture: str
    collective: str
    nodes: int
    gpus: int
    launch: str
    version: str
    in_switch: bool
    """Whether NVLS could be picked: not for whole numbers of one byte, nor where an algorithm was forced."""
    size: float
    """B"""
    seconds: float


def predicted(
    fabric: Fabric, part: Sequence[Sample], wires: Mapping[str, Wires], network: Network | None = None
) -> NDArray[np.float64]:
    """Seconds of each sample by these constants; samples of one communicator are costed together."""
    together: dict[tuple[str, str, int, int, str, str, bool], list[int]] = {}
    for at, s in enumerate(part):
        key = (s.architecture, s.collective, s.nodes, s.gpus, s.launch, generation(s.version), s.in_switch)
        together.setdefault(key, []).append(at)
    out = np.empty(len(part))
    for (architecture, collective, nodes, gpus, launch, release, in_switch), where in together.items():
        ends = wires[architecture]
        if not in_switch and ends.topology == "nvswitch":
            ends = replace(ends, topology="nvlink")
        group = Group(gpus, gpus // nodes, 1.0, *placed_at(int(placed(ends, gpus // nodes, 1, None))))
        options = candidates(ends, collective, group, launch, release, fabric, network)
        sizes_E = np.array([part[at].size for at in where])
        out[where] = cost_CE(candidate_fields(options), sizes_E).min(axis=0)
    return out
