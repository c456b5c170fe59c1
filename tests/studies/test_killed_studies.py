"""Studies whose processes are killed: nothing is lost, and the table stays the same."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import podsim
from podsim.answers.study import StudyResult, StudyRow

STUDY: dict[str, Any] = {
    "common": {"model": "gpt2", "tokens": "10G"},
    "grid": {"on": ["dgx-a100-80gb", "dgx-h100", "dgx-v100"], "gpus": [1, 2, 4, 8]},
}
SCRIPT = "import podsim, sys; podsim.study({study!r}, executor='serial', store={store!r})"
_PATIENCE = 60
"""s after which a process that does not get ahead fails the test"""


def table(result: StudyResult) -> list[tuple[Any, ...]]:
    return [
        (row.settings, row.status, row.plan, row.step_time, row.training, row.cost) for row in result.rows
    ]


@pytest.fixture(scope="module")
def undisturbed() -> StudyResult:
    return podsim.study(STUDY, executor="serial")


def test_a_killed_study_loses_nothing(tmp_path: Path, undisturbed: StudyResult) -> None:
    store = tmp_path / "answers.sqlite"
    script = SCRIPT.format(study=STUDY, store=str(store))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", script], env=environment) as running:
        until = time.monotonic() + _PATIENCE
        while answered(store) < 3 and time.monotonic() < until and running.poll() is None:
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
    kept = answered(store)
    assert 3 <= kept < 12
    rest = podsim.study(STUDY, executor="serial", store=store)
    assert (rest.reused, rest.computed) == (kept, 12 - kept)
    assert table(rest) == table(undisturbed)


def answered(store: Path) -> int:
    if not store.exists():
        return 0
    with sqlite3.connect(store, timeout=10) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM answers").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


def test_processes_share_a_study_and_survive_a_death(undisturbed: StudyResult) -> None:
    def kill(number: int, row: StudyRow) -> None:
        if not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    killed: list[Any] = []
    result = podsim.study(STUDY, executor="processes:2", each=kill)
    assert killed
    assert table(result) == table(undisturbed)


@pytest.mark.filterwarnings("ignore")
def test_a_dask_worker_that_dies_changes_nothing(undisturbed: StudyResult) -> None:
    distributed = pytest.importorskip("distributed")

    def kill(number: int, row: StudyRow) -> None:
        answers.append(number)
        if len(answers) == 4:
            os.kill(cluster.workers[0].process.pid, signal.SIGKILL)

    answers: list[int] = []
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster:
        result = podsim.study(STUDY, executor=f"dask:{cluster.scheduler_address}", each=kill)
    assert len(answers) == 12
    assert table(result) == table(undisturbed)


def test_mpi_ranks_answer(undisturbed: StudyResult, tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    launcher = shutil.which("mpiexec")
    if launcher is None:
        pytest.skip("no mpiexec")
    store = tmp_path / "answers.sqlite"
    script = tmp_path / "ranks.py"
    script.write_text(f"import podsim\npodsim.study({STUDY!r}, executor='mpi', store={str(store)!r})\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [launcher, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(script)]
    subprocess.run(command, env=environment, check=True, timeout=_PATIENCE, capture_output=True)
    assert answered(store) == 12
    result = podsim.study(STUDY, executor="serial", store=store)
    assert result.computed == 0
    assert table(result) == table(undisturbed)
