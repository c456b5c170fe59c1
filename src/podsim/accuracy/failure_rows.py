"""Published failures of long jobs against the queue: one job on a machine of its size, with the rate of a study."""

from __future__ import annotations

from typing import Any

from podsim.accuracy.score import assess
from podsim.answers.comparison import ComparedRow, Comparison
from podsim.fleet.jobs import Job, jobs_of
from podsim.fleet.operations import Operations
from podsim.fleet.policies import find_policy
from podsim.fleet.queue import Machine, run_queue
from podsim.fleet.reliability import best_interval_seconds
from podsim.fleet.reliability_rates import load_study, recovery
from podsim.packaged import packaged_toml
from podsim.units import parse_quantity

TABLE = "failures"
_FAILURES = 2000
"""The expected number of failures of a simulated job, for a deviation of 2 %."""


def packaged_failures() -> Comparison:
    """Times between failures, and times to train for an hour, in s."""
    rows = packaged_toml("accuracy/failures.toml")["row"]
    sources = tuple(sorted({load_study(row["study"]).source for row in rows}))
    made = Comparison(
        table=TABLE, title="Failures of long jobs", what="seconds", rows=tuple(_compare_row(row) for row in rows),
        sources=sources,
    )  # fmt: skip
    return assess(made)


def _compare_row(row: dict[str, Any]) -> ComparedRow:
    """A published figure and the simulated one."""
    study, known = load_study(row["study"]), {name: constant.value for name, constant in recovery().items()}
    mtbf = 8 / row["gpus"] / study.rate
    stall = parse_quantity(row.get("stall", "1 s"), "s", what="stall")
    policy = find_policy(
        "easy", saves=float(best_interval_seconds(stall, mtbf)), checkpoint=stall,
        restart=known["start"] + known["hang"] * known["timeout"],
    )  # fmt: skip
    job = Job(id="long", submit=0, gpus=row["gpus"], seconds=_FAILURES * mtbf)
    machine = Machine(nodes=row["gpus"] // 8, gpus_per_node=8)
    run = run_queue(jobs_of([job]), machine, policy, operations=Operations(rate=study.rate))
    is_rate = "between" in row
    what = "between failures" if is_rate else "for an hour of training"
    return ComparedRow(
        id=f"{row['study']}, {row['gpus']:,} GPUs, {what}", role=row["role"], table=TABLE, group=what,
        predicted=float(run.end[0]) / run.failed if is_rate else 3600 * float(run.end[0]) / job.seconds,
        measured=parse_quantity(row["between"], "s", what="between") if is_rate else 3600 / row["effective"],
    )  # fmt: skip
