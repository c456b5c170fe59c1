"""The bars of studies: `python benchmarks/study_bars.py [POINTS]`, 10,000 points by default.

Seconds on one process and on two; the same after a SIGKILL half way and a second start; the same on a Dask cluster of
two workers of which one is killed half way.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

import podsim
from podsim.answers.study import StudyResult

FILE = Path(__file__).with_name("study_10000.toml")
SCRIPT = "import json, podsim, sys; podsim.study(json.loads(sys.argv[1]), executor='processes:2', store=sys.argv[2])"


def main(points: int) -> None:
    """Print every bar."""
    study = tomllib.loads(FILE.read_text("utf-8"))
    batches = study["grid"]["batch"]
    study["grid"]["batch"] = batches[: max(1, round(points / 2000))]
    seconds, tables = {}, {}
    for executor in ("serial", "processes:2"):
        started = time.perf_counter()
        tables[executor] = table(podsim.study(study, executor=executor))
        seconds[executor] = time.perf_counter() - started
    count = len(tables["serial"])
    print(f"{count:,} points: {seconds['serial']:.1f} s on one process, {seconds['processes:2']:.1f} s on two, "
          f"{seconds['serial'] / seconds['processes:2']:.2f} times as fast")  # fmt: skip
    print("the same table:", tables["serial"] == tables["processes:2"])
    killed(study, tables["serial"])
    on_dask(study, tables["serial"])


def table(result: StudyResult) -> list[tuple[Any, ...]]:
    """What a study says, without how long it took."""
    return [
        (row.settings, row.status, row.plan, row.step_time, row.training, row.cost) for row in result.rows
    ]


def killed(study: dict[str, Any], expected: list[tuple[Any, ...]]) -> None:
    """Kill a study when half of its answers are kept, and start it again."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "answers.sqlite"
        with subprocess.Popen([sys.executable, "-c", SCRIPT, json.dumps(study), str(store)]) as running:
            while running.poll() is None and kept(store) < len(expected) // 2:
                time.sleep(0.2)
            running.send_signal(signal.SIGKILL)
        before = kept(store)
        result = podsim.study(study, executor="processes:2", store=store)
        print(f"killed after {before:,} answers: {result.reused:,} reused, {result.computed:,} computed; "
              f"the same table: {table(result) == expected}")  # fmt: skip


def kept(store: Path) -> int:
    """The number of answers in a store."""
    if not store.exists():
        return 0
    with sqlite3.connect(store, timeout=30) as connection:
        try:
            return int(connection.execute("SELECT count(*) FROM answers").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


def on_dask(study: dict[str, Any], expected: list[tuple[Any, ...]]) -> None:
    """Kill one of two workers when half of the answers have come."""
    from distributed import LocalCluster

    answers = 0

    def kill(number: int, row: object) -> None:
        nonlocal answers
        answers += 1
        if answers == len(expected) // 2:
            os.kill(cluster.workers[0].process.pid, signal.SIGKILL)

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        started = time.perf_counter()
        result = podsim.study(study, executor=f"dask:{cluster.scheduler_address}", each=kill)
        seconds = time.perf_counter() - started
    print(f"Dask, one of two workers killed: {seconds:.1f} s; the same table: {table(result) == expected}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
