"""Collectives of a step: which share of the law's speed a framework's groups reach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.hardware.cluster import load_cluster
from podsim.training.shapes import group_seconds
from podsim.training.software import load_software


@pytest.mark.parametrize(
    ("ranks", "members", "slower"), [(32, 8, 1.0), (16, 4, 2.0), (8, 2, 2.0), (4, 1, 1.0), (4, 4, 1.0)]
)
def test_groups_with_some_of_a_nodes_gpus_take_a_detour(ranks: int, members: int, slower: float) -> None:
    """Before PXN the last of several GPUs of a node reaches the ring's adapter through the processor."""
    cluster, software = load_cluster("dgx-a100-80gb:4"), load_software("megatron-2021")
    detoured = replace(cluster, system=replace(cluster.system, detour=0.5))
    straight, slow = (
        group_seconds(
            "all_reduce", np.array([1e9]), machine, software, ranks=np.array([ranks]),
            members=np.array([float(members)]), sharing=np.array([8.0 / members]),
        )[0]
        for machine in (cluster, detoured)
    )  # fmt: skip
    assert slow / straight == pytest.approx(slower)
