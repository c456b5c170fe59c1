"""Runs of a benchmark to its target on a cluster: one batch, the best batch, and what submissions took."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from podsim.accuracy.benchmark_rates import shared_rates
from podsim.accuracy.measured_runs import read_cluster
from podsim.accuracy.tables import load
from podsim.answers.minutes import TargetRun
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.learning.benchmarks import Benchmark, convergence_law, target_seconds

_REACH = 2.0
"""factor. How far from the published batches a batch is chosen."""
_BATCHES = 9


class Submission(NamedTuple):
    """What a submission of MLPerf Training ran and took."""

    gpus: int
    batch: float
    seconds: float
    role: str
    source: str
    framework: str


def target_run(
    benchmark: Benchmark, round: str, cluster: Cluster, batch: float, samples: float | None = None,
    framework: str = "",
) -> TargetRun:  # fmt: skip
    """The run with a batch on all GPUs; `samples` replaces the law's, `framework` the usual one. Raises PodsimError."""
    _check_batch(benchmark, round, batch)
    rate = shared_rates().rate(benchmark, round, cluster, batch, framework)
    if samples is None:
        points = convergence_law(benchmark, round)([batch])
        expected, low, high = (float(part[0]) for part in (points.samples, points.low, points.high))
    else:
        expected = low = high = samples
    times = [target_seconds(benchmark, count, rate.rate) for count in (expected, low, high)]
    return TargetRun(
        gpus=cluster.gpus, batch=batch, samples=expected, steps=expected / batch, epochs=expected / benchmark.epoch,
        rate=rate.rate, startup=times[0].startup, training=times[0].steps, evaluation=times[0].evaluation,
        seconds=times[0].total, seconds_low=times[1].total, seconds_high=times[2].total, how=rate.how,
    )  # fmt: skip


def _check_batch(benchmark: Benchmark, round: str, batch: float) -> None:
    """Raise PodsimError for another batch of a benchmark whose steps are known with the published ones only."""
    if benchmark.steps is None or not benchmark.steps.batch:
        return
    known = sorted({point.batch for point in convergence_law(benchmark, round).points})
    if batch not in known:
        text = " and ".join(f"{each:,.0f}" for each in known)
        raise PodsimError(f"batch={batch:g}: {benchmark.title} is known with a batch of {text} only").offer(
            batch=known[0]
        )


def fastest_run(
    benchmark: Benchmark, round: str, cluster: Cluster, samples: float | None = None
) -> TargetRun:
    """The run with the batch that takes the least time on all GPUs; raises PodsimError where no batch can run."""
    runs, problems = [], []
    for batch in candidate_batches(benchmark, round, cluster.gpus):
        try:
            runs.append(target_run(benchmark, round, cluster, batch, samples))
        except PodsimError as problem:
            problems.append(problem)
    if not runs:
        raise problems[0]
    return min(runs, key=lambda run: run.seconds)


def candidate_batches(benchmark: Benchmark, round: str, gpus: int) -> tuple[float, ...]:
    """Batches within reach of the published ones: those, and multiples of the GPUs between."""
    law = convergence_law(benchmark, round)
    if benchmark.steps and benchmark.steps.batch:
        return tuple(sorted({point.batch for point in law.points}))
    low, high = law.smallest / _REACH, law.largest * _REACH
    spread = np.geomspace(low, high, _BATCHES)
    batches = {max(1.0, round_to(batch, gpus)) for batch in spread} | {point.batch for point in law.points}
    return tuple(sorted(batch for batch in batches if low <= batch <= high))


def round_to(batch: float, gpus: int) -> float:
    """The multiple of the GPUs nearest to a batch; below one sample a GPU, a whole part of them."""
    if batch >= gpus:
        return float(round(batch / gpus) * gpus)
    return float(2 ** round(math.log2(max(batch, 1.0))))


def submissions(benchmark: Benchmark, round: str, cluster: Cluster) -> tuple[Submission, ...]:
    """The published runs of a round on the cluster's kind of GPU, fastest first."""
    names = {benchmark.name, *benchmark.also}
    runs = [
        Submission(
            gpus=int(row.number("n_accelerators") or 0), batch=row.number("global_batch") or 0.0,
            seconds=60.0 * (row.number("minutes_score") or math.inf), role=row.role, source=row.source,
            framework=row.text("framework"),
        )
        for row in load("minutes")
        if row.text("version") == round and row.text("benchmark") in names and row.number("global_batch")
        and (settings := row.text("cluster")) and read_cluster(settings).gpu.name == cluster.gpu.name
    ]  # fmt: skip
    return tuple(sorted(runs, key=lambda run: run.seconds))
