"""`podsim plan --to-target`: batch and GPUs that take a benchmark to its target soonest, or for the least money."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from podsim.accuracy.target_runs import fastest_run, target_run
from podsim.answers.minutes import TargetChoice, TargetPlan, TargetRun
from podsim.errors import ClusterError, NoFitError, PlanError, PodsimError, raise_all
from podsim.fleet.price_offers import price_offer
from podsim.hardware.catalog import cluster_entry, find
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.learning.benchmarks import Benchmark, convergence_law, find_benchmark, usual_round
from podsim.options.plan_options import TargetOptions
from podsim.options.question import Progress, options_of

_MOST = 4096
"""GPUs tried of a system whose number of nodes is left open"""
_END = 0.25
"""share of the time that twice the GPUs must save, half of the ideal, or strong scaling has ended"""
_MEANINGFUL = ("model", "on", "gpus", "batch", "objective", "price", "to_target", "round", "overrides")
_OBJECTIVES = ("time", "cost")


def plan_target(options: TargetOptions, progress: Progress | None = None) -> TargetPlan:
    """Batch and GPUs for the least time, or with objective "cost" the least money. Raises PodsimError."""
    _check(options)
    benchmark = find_benchmark(str(options.model), options.round)
    date = "" if options.round else _date(str(options.on))
    round = options.round or usual_round(benchmark, date)
    cluster = _cluster(options)
    offer = price_offer(str(options.price), cluster, objective=options.objective)
    runs = _runs(benchmark, round, cluster, options.batch, progress)
    choices = _choices(runs, offer.low if offer else None)
    key = {"time": lambda choice: choice.run.seconds, "cost": lambda choice: choice.run.gpu_seconds}
    best = min(choices, key=key[options.objective])
    end = _end(choices)
    law = convergence_law(benchmark, round)
    said = (
        [f"{options.on} is of {date}, so the software is of {round}; --round takes another"] if date else []
    )
    return TargetPlan(
        benchmark=benchmark.name, title=benchmark.title, target=benchmark.target, dataset=benchmark.dataset,
        sample=benchmark.sample, round=round, cluster=cluster.name, gpu=cluster.gpu.name,
        objective=options.objective, price=offer.words if offer else "",
        choices=choices, best=best, end=end,
        critical_batch=law.critical_batch, why=_why(choices[0].run, end.run, benchmark.sample, law.critical_batch),
        notes=(*said, *_notes(benchmark, choices, law.smallest, law.largest)),
    )  # fmt: skip


def _check(options: TargetOptions) -> None:
    given = options_of(TargetOptions)
    stray = [
        f"--{name.replace('_', '-')}"
        for name, known in given.items()
        if name not in _MEANINGFUL and getattr(options, name) != known.default
    ]
    problems = [f"with --to-target these have no meaning: {', '.join(stray)}"] if stray else []
    if options.objective not in _OBJECTIVES:
        problems.append(f"objective={options.objective}: with --to-target it is time or cost")
    raise_all(problems, PlanError)


def _date(on: str) -> str:
    """The month of a machine that the catalog has as it was then, or ""."""
    kind, name = find(on.partition(":")[0]) or ("", "")
    return cluster_entry(name)[1].date if kind == "cluster" else ""


def _cluster(options: TargetOptions) -> Cluster:
    """All GPUs that may be used: those asked for, those of a cluster, or many of a system without a number."""
    overrides = dict(options.overrides or {})
    base = load_cluster(options.on, overrides, options.gpus)
    text = str(options.on)
    if options.gpus is not None or ":" in text or text.endswith(".toml") or base.nodes > 1:
        return base
    try:
        return load_cluster(options.on, overrides, max(_MOST, base.gpus))
    except ClusterError:
        return base


def _runs(
    benchmark: Benchmark, round: str, cluster: Cluster, batch: int | str | None, progress: Progress | None
) -> list[TargetRun]:
    """The fastest run of each number of GPUs; raises the first problem where none can run."""
    runs, problems = [], []
    counts = list(_gpu_counts(cluster))
    for number, gpus in enumerate(counts):
        try:
            part = cluster.subset(gpus)
            if batch is None:
                runs.append(fastest_run(benchmark, round, part))
            else:
                runs.append(target_run(benchmark, round, part, _batch(batch)))
        except PodsimError as problem:
            problems.append(problem)
        if progress:
            progress(number + 1, len(counts))
    if not runs:
        raise (
            problems[0] if problems else NoFitError([f"{benchmark.title} runs on no GPUs of {cluster.name}"])
        )
    return runs


def _batch(text: int | str) -> float:
    try:
        batch = float(text)
    except ValueError:
        batch = 0.0
    if not 1 <= batch < 1e12:
        raise PodsimError(f"batch={str(text)[:40]!r}: give the samples of a step, such as 2048")
    return batch


def _gpu_counts(cluster: Cluster) -> Iterable[int]:
    """1, 2, 4 … of a node, then whole nodes, doubling, and all GPUs."""
    each = cluster.gpus_per_node
    counts = {2**power for power in range(each.bit_length()) if 2**power <= each}
    nodes = 1
    while nodes * each <= cluster.gpus:
        counts.add(nodes * each)
        nodes *= 2
    return sorted({count for count in counts if count <= cluster.gpus} | {cluster.gpus})


def _choices(runs: list[TargetRun], price: float | None) -> tuple[TargetChoice, ...]:
    """The runs with money and what each saves; `price` in USD/s of a GPU, None without."""
    least = min(run.gpu_seconds for run in runs)
    made = [
        TargetChoice(
            run=run, usd=None if price is None else run.gpu_seconds * price, saved=None,
            efficiency=least / run.gpu_seconds,
        )
        for run in runs
    ]  # fmt: skip
    saved = [1 - after.run.seconds / before.run.seconds for before, after in pairwise(made)]
    return (made[0], *(replace(choice, saved=share) for choice, share in zip(made[1:], saved, strict=True)))


def _end(choices: tuple[TargetChoice, ...]) -> TargetChoice:
    """The first choice after which twice the GPUs would save less than a quarter of the time."""
    for before, after in pairwise(choices):
        doublings = math.log2(after.run.gpus / before.run.gpus)
        if 1 - (after.run.seconds / before.run.seconds) ** (1 / doublings) < _END:
            return before
    return choices[-1]


def _why(first: TargetRun, end: TargetRun, sample: str, critical: float) -> str:
    """Which of three factors costs most on the way from the fewest GPUs to the end."""
    growth = end.samples / first.samples
    speed = end.rate / end.gpus / (first.rate / first.gpus)
    fixed = (end.startup + end.evaluation) / end.seconds
    reasons = {
        growth: f"a batch of {end.batch:,.0f} needs {growth:.2f} times the {sample} (critical batch {critical:,.0f})",
        1 / speed: f"a GPU does {speed:.0%} of the work that it does alone: communication and small batches",
        1 / (1 - fixed): f"startup and evaluation are {fixed:.0%} of the time",
    }
    return reasons[max(reasons)]


def _notes(
    benchmark: Benchmark, choices: tuple[TargetChoice, ...], smallest: float, largest: float
) -> tuple[str, ...]:
    beyond = [choice for choice in choices if not smallest <= choice.run.batch <= largest]
    far = f"published batches are {smallest:,.0f} to {largest:,.0f}; beyond them the law is extrapolated"
    return tuple(filter(None, (far if beyond else "", benchmark.note)))
