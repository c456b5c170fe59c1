from pathlib import Path

import pytest
from tests.monitoring.small_day import FAULTS, write_day


@pytest.fixture(scope="session")
def ill_day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_day(tmp_path_factory.mktemp("ill"), *FAULTS)


@pytest.fixture(scope="session")
def healthy_day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_day(tmp_path_factory.mktemp("healthy"))
