from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

# Before numpy is loaded. Fits of a few constants took twenty times as long with threads that wait for one another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")  # the same last digits of a fit on every processor

import pytest
from hypothesis import HealthCheck, settings

from podsim.cli import mistakes
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.workload.catalog import load_model
from podsim.workload.model import Model

HERE = Path(__file__).parent
PROGRAMS = {"browser": "chromium", "fio": "fio", "prometheus": "prometheus"}
"""the program, and Debian's package, that tests of a marker need"""


def pytest_configure(config: pytest.Config) -> None:
    """Loaded machines are slow; and a shell starts what runs behind it with Ctrl-C ignored, which some tests need."""
    patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("any machine", patient)
    settings.register_profile("quick", patient, max_examples=25)
    settings.load_profile("quick" if config.option.markexpr == "quick" else "any machine")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(100_000, 20, 20)  # garbage is a third of the time of tests that read every module
    if (
        getattr(config.option, "dist", "no") == "load"
    ):  # with -n: a file's fixtures are made once, long files begin
        config.option.dist, config.option.loadscopereorder = "loadfile", False


def pytest_collection_finish() -> None:
    """Leave all modules and tests out of the search for garbage: they stay to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def whole_messages() -> Iterator[None]:
    """Messages in long lines, with every problem; `tests/cli/test_first_tries.py` reads them as a terminal has them."""
    measure, mistakes.message_room = mistakes.message_room, lambda: (10_000, 1_000)
    yield
    mistakes.message_room = measure


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as quick what slow.txt does not list, skip what needs a program that is not there; the longest files begin."""
    slow = [line for line in (HERE / "slow.txt").read_text("utf-8").splitlines() if not line.startswith("#")]
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = {HERE / line.partition("::")[0]: -number for number, line in enumerate(reversed(slow))}
        items.sort(key=lambda item: place.get(item.path, 1))
    slow_names = set(slow)
    for item in items:
        name = f"{item.path.relative_to(HERE).as_posix()}::{item.name}"
        if not {name, name.partition("[")[0]} & slow_names:
            item.add_marker("quick")
        if item.get_closest_marker("long") and not os.environ.get("PODSIM_LONG"):
            item.add_marker(pytest.mark.skip(reason="long: PODSIM_LONG=1 runs it"))
        for mark, program in PROGRAMS.items():
            if item.get_closest_marker(mark) and shutil.which(program) is None:
                item.add_marker(pytest.mark.skip(reason=f"{program} is not installed: apt install {program}"))


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
