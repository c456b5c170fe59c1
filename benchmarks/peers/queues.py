"""A public trace of jobs in the queue: against SimPy and AccaSim."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from peer import about, ask, installed, seconds_of

from podsim.fleet.jobs import JobColumns, make_jobs
from podsim.fleet.policies import find_policy
from podsim.fleet.queue import Machine, run_queue
from podsim.fleet.traces import read_jobs

TRACE, GPUS = "philly-2", 352
"""A trace, and the GPUs on which its load is 0.98."""


def against_simpy(work: Path) -> str:
    """The part of the report on SimPy."""
    return _compare(work, "simpy", [("fifo", "fifo")])


def against_accasim(work: Path) -> str:
    """The part of the report on AccaSim."""
    return _compare(work, "accasim", [("fifo", "fifo"), ("easy", "fifo-skip"), ("easy", "easy")])


def _compare(work: Path, package: str, policies: list[tuple[str, str]]) -> str:
    python, version = installed(work, package)
    trace, machine = read_jobs(TRACE), Machine(nodes=GPUS, gpus_per_node=1)
    submit, seconds = np.rint(trace.submit), np.maximum(np.rint(trace.seconds), 1)
    jobs = make_jobs(JobColumns(ids=range(len(trace)), submit=submit, gpus=trace.gpus, seconds=seconds))
    rows = np.stack([submit, trace.gpus, seconds], axis=1).astype(int).tolist()
    text = about(package, version=version, count=len(rows), trace=TRACE, gpus=GPUS)
    for theirs, ours in policies:
        answer = ask(python, f"{package}_queue.py", {"jobs": rows, "gpus": GPUS, "policy": theirs})
        start = np.asarray(answer["start"])
        own = run_queue(jobs, machine, find_policy(ours)).start
        clocks = answer["seconds"], seconds_of(run_queue, jobs, machine, find_policy(ours))
        text += (
            f"| {theirs} | {ours} | {np.mean(start - submit):,.0f} s | {np.mean(own - submit):,.0f} s | "
            f"{np.abs(start - own).max():,.0f} s | {clocks[0]:.3g} s | {clocks[1]:.2g} s | "
            f"{clocks[0] / clocks[1]:,.0f} |\n"
        )
    return text
