from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

from podsim.hardware.cluster import Cluster, load_cluster
from podsim.workload.catalog import load_model
from podsim.workload.graph import Model


def pytest_configure() -> None:
    """Loaded machines are slow; and a shell starts what runs behind it with Ctrl-C ignored, which some tests need."""
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def selene() -> Cluster:
    return load_cluster("selene")


@pytest.fixture(scope="session")
def node() -> Cluster:
    return load_cluster("dgx-a100-80gb:1")


@pytest.fixture(scope="session")
def gpt3() -> Model:
    return load_model("gpt3-175b")


@pytest.fixture(scope="session")
def gpt22() -> Model:
    return load_model("gpt-22b")
