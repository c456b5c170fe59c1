from __future__ import annotations

import pytest

from podsim.hardware.cluster import Cluster, load_cluster
from podsim.workload.catalog import load_model
from podsim.workload.model import Model


@pytest.fixture(scope="session")
def two() -> Cluster:
    return load_cluster("dgx-a100-80gb:2")


@pytest.fixture(scope="session")
def small() -> Model:
    return load_model("gpt-1.7b")
