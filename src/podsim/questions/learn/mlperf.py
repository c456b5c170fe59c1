"""`podsim mlperf`: minutes to the targets of a round of MLPerf Training on a cluster, predicted and published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import MISSING, dataclass

import numpy as np

from podsim.accuracy.target_runs import Submission, fastest_run, submissions, target_run
from podsim.answers.minutes import BenchmarkMinutes, MinutesTable, TargetRun
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.learning.benchmarks import Benchmark, benchmarks_of, find_benchmark, round_number
from podsim.options.output_options import PlotOutput
from podsim.options.question import option, question

_LARGEST = 1e12


@dataclass(frozen=True, kw_only=True)
class MlperfOptions:
    """A round of MLPerf Training, and where it runs."""

    round: str = option(MISSING, "A round, v0.5 to v6.1.", argument=True, example="v0.7", also=("version",))
    on: str = option(
        MISSING, "GPU, system, cluster or TOML file: selene-2020-06, dgx-h100:8 (nodes).", example="dgx-h100:8",
        complete="clusters", also=("cluster", "system", "hardware", "machine"),
    )  # fmt: skip
    benchmark: Sequence[str] = option(
        (),
        "A benchmark of the round: bert, resnet, llama2_70b_lora, … Repeatable; default all.",
        also=("task", "model"),
    )
    gpus: int | None = option(
        None,
        "GPUs; default those of the fastest submission on this GPU, or else all.",
        also=("ngpus", "num-gpus"),
    )
    batch: float | None = option(
        None, "Samples of a step (tokens for transformer); default as submitted, or else the fastest.",
        also=("global-batch", "batch-size"),
    )  # fmt: skip
    samples: float | None = option(None, "Samples to the target, in place of the law's.")
    framework: str = option("", "Framework of a submission, as MXNet; default that of the fastest.")


@question(
    MlperfOptions,
    output=PlotOutput,
)
def mlperf(options: MlperfOptions) -> MinutesTable:
    """Predict the minutes to the target of each benchmark of a round, at scale and on one node.

    Where submissions ran on the cluster's GPU, the fastest of them gives GPUs and batch, and its minutes stand beside
    the prediction. Elsewhere the batch is the one with the shortest time. Raises PodsimError for anything unusable.
    """
    _check(options)
    round = "v" + ".".join(str(number) for number in round_number(options.round))
    names = (options.benchmark,) if isinstance(options.benchmark, str) else options.benchmark
    asked = tuple(find_benchmark(name, round) for name in names) or benchmarks_of(round)
    cluster = load_cluster(options.on, {}, options.gpus)
    if options.gpus:
        cluster = cluster.subset(options.gpus)
    rows = tuple(_row(benchmark, round, cluster, options) for benchmark in asked)
    cells = [cell for row in rows for cell in ((row.role, row.error), (row.node_role, row.node_error))]
    errors = [(role, abs(error)) for role, error in cells if error is not None]
    if all(row.run is None and row.node is None for row in rows):
        raise PodsimError("; ".join(dict.fromkeys(note for row in rows for note in row.notes)))
    return MinutesTable(
        round=round, cluster=cluster.name, gpu=cluster.gpu.name, rows=rows, compared=len(errors),
        mean_error=float(np.mean([error for _, error in errors])) if errors else None,
        mean_errors={
            role: float(np.mean([error for known, error in errors if known == role]))
            for role in sorted({role for role, _ in errors})
        },
    )  # fmt: skip


def _check(options: MlperfOptions) -> None:
    for name in ("batch", "samples"):
        value = getattr(options, name)
        if value is not None and not (math.isfinite(value) and 0 < value <= _LARGEST):
            raise PodsimError(f"{name}={value:g}: give a number above 0, such as 2048")


def _row(benchmark: Benchmark, round: str, cluster: Cluster, options: MlperfOptions) -> BenchmarkMinutes:
    """A benchmark at scale and on a node."""
    known = [run for run in submissions(benchmark, round, cluster) if run.gpus <= cluster.gpus]
    if options.gpus:
        known = [run for run in known if run.gpus == options.gpus]
    if options.batch:
        known = [run for run in known if run.batch == options.batch]
    known = [run for run in known if options.framework.lower() in run.framework.lower()]
    best = known[0] if known else None
    node = next((run for run in known if run.gpus == cluster.gpus_per_node), None)
    part = cluster.subset(best.gpus) if best else cluster
    run, problem = _run(benchmark, round, part, best, options)
    on_node = None
    if cluster.gpus > cluster.gpus_per_node and not options.gpus:
        on_node, _ = _run(benchmark, round, cluster.subset(cluster.gpus_per_node), node, options)
    published = [entry for entry in (best, node) if entry]
    return BenchmarkMinutes(
        benchmark=benchmark.name, title=benchmark.title, target=benchmark.target, sample=benchmark.sample,
        run=run, published=_seconds(best, run), node=on_node, node_published=_seconds(node, on_node),
        source="; ".join(dict.fromkeys(entry.source for entry in published)),
        role=best.role if best else "", node_role=node.role if node else "",
        notes=tuple(filter(None, (problem, benchmark.note))),
    )  # fmt: skip


def _seconds(submission: Submission | None, run: TargetRun | None) -> float | None:
    return submission.seconds if submission and run else None


def _run(
    benchmark: Benchmark, round: str, cluster: Cluster, submission: Submission | None, options: MlperfOptions,
) -> tuple[TargetRun | None, str]:  # fmt: skip
    """(the run, "") or (None, why there is none)."""
    batch = options.batch or (submission.batch if submission else None)
    framework = submission.framework if submission and submission.batch == batch else options.framework
    try:
        if batch is None:
            return fastest_run(benchmark, round, cluster, options.samples), ""
        return target_run(benchmark, round, cluster, batch, options.samples, framework), ""
    except PodsimError as problem:
        return None, str(problem)
