"""Speed of the collective law: one call, and 100,000 elements at once."""

from __future__ import annotations

import numpy as np
import pytest

from podsim.hardware.cluster import load_cluster
from podsim.network.nccl import Members, collective_seconds

CLUSTER = load_cluster("dgx-a100-80gb:4")


def test_one_call(benchmark) -> None:
    benchmark(lambda: collective_seconds("all_reduce", 1e8, CLUSTER, Members(ranks=16, ranks_per_node=8)))


@pytest.mark.parametrize("mixed", [False, True])
def test_a_hundred_thousand(benchmark, mixed: bool) -> None:
    random = np.random.default_rng(0)
    size = 10 ** random.uniform(2, 10, 100_000)
    ranks = 2 ** random.integers(0, 12, 100_000) if mixed else np.array(16)
    members = np.minimum(ranks, 2 ** random.integers(0, 4, 100_000) if mixed else 8)
    benchmark(
        lambda: collective_seconds("all_reduce", size, CLUSTER, Members(ranks=ranks, ranks_per_node=members))
    )
