"""Seconds of a collective as NCCL would run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from podsim.hardware.cluster import Cluster

__all__ = ["bus_factor", "collective_seconds", "send_seconds"]


def bus_factor(collective: str, ranks: ArrayLike) -> NDArray[np.float64]:
    """Bus bandwidth over algorithm bandwidth, by nccl-tests' conventions."""
    n = np.maximum(np.asarray(ranks, dtype=float), 1.0)
    if collective == "all_reduce":
        return np.asarray(2.0 * (n - 1.0) / n)
    if collective in ("all_gather", "reduce_scatter", "all_to_all"):
        return np.asarray((n - 1.0) / n)
    return np.where(n > 1, 1.0, 0.0)


def collective_seconds(
    collective: str,
    size: ArrayLike,
    cluster: Cluster,
    *,
    ranks: ArrayLike,
    ranks_per_node: ArrayLike,
    sharing: ArrayLike | None = None,
    launch: str = "process",
    version: str = "2.18",
    detail: bool = False,
) -> NDArray[np.float64]:
    """Seconds of one collective."""
    size_, n, g = np.broadcast_arrays(
        np.asarray(size, dtype=float), np.asarray(ranks, dtype=float), np.asarray(ranks_per_node, dtype=float)
    )
    g = np.minimum(g, n)
    nodes = np.ceil(n / g)
    share = np.maximum(cluster.gpus_per_node // g, 1.0) if sharing is None else np.asarray(sharing, dtype=float)
    intra = 0.78 * cluster.nvlink.bandwidth
    inter = 0.94 * cluster.network.bandwidth * cluster.nics / share if cluster.nics else intra
    rate = np.where(nodes > 1, np.minimum(inter, intra), intra)
    seconds = 12e-6 + (n - 1) * 1e-6 + (nodes - 1) * 4e-6 + size_ * bus_factor(collective, n) / rate * (1 + 0.15)
    return np.where(n > 1, seconds, 0.0)


def send_seconds(
    size: ArrayLike, cluster: Cluster, *, crosses_node: ArrayLike, sharing: ArrayLike = 1
) -> NDArray[np.float64]:
    """Seconds of one point-to-point send."""
    rate = np.where(
        np.asarray(crosses_node),
        0.94 * cluster.network.bandwidth / np.asarray(sharing, dtype=float),
        0.65 * cluster.nvlink.bandwidth,
    )
    return np.asarray(10e-6 + np.asarray(size, dtype=float) / rate)
