"""Collectives of a training step: the collective law, at the speed a framework reaches inside a step."""

from __future__ import annotations

import numpy as np

from podsim.hardware.cluster import Cluster
from podsim.network.nccl import collective_seconds
from podsim.training.plan import Array, Ints
from podsim.training.software import Software


def group_seconds(
    collective: str,
    size: Array,
    cluster: Cluster,
    software: Software,
    *,
    ranks: Ints,
    members: Array,
    sharing: Array | None = None,
    stride: Array | Ints = 1,
) -> Array:
    """Seconds of one collective of `size` bytes over groups of `ranks`, `members` of them on each node (broadcast).

    `stride` is how many GPUs one member is from the next. Conventions of size and sharing are those of
    podsim.network.nccl.collective_seconds.
    """
    if np.max(ranks) <= 1:
        return np.zeros(np.broadcast_shapes(np.shape(size), np.shape(ranks)))
    seconds = collective_seconds(
        collective,
        size,
        cluster,
        ranks=ranks,
        ranks_per_node=members,
        sharing=sharing,
        stride=stride,
        version=software.nccl,
    )
    spans = np.asarray(ranks) > members
    some = (np.asarray(members) > 1) & (np.asarray(members) < cluster.gpus_per_node)
    between = software.network_speed * np.where(some, software.detour, 1.0)
    return np.asarray(seconds / np.where(spans, between, software.collective_speed))
