"""The speed at which accelerators take samples.

A benchmark of MLPerf Training takes them as `podsim mlperf` says (podsim.accuracy.target_runs). An emulated accelerator
(MLPerf Storage) sleeps for its step; the host adds

    host_step + batch x record / host_bandwidth.

Source: catalog/workloads.toml. Known error: docs/storage.md, docs/time-to-train.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsim.accuracy.target_runs import submissions, target_run
from podsim.answers.minutes import TargetRun
from podsim.errors import StorageError
from podsim.hardware.cluster import Cluster
from podsim.learning.benchmarks import convergence_law, find_benchmark
from podsim.storage.workloads import Workload

_ROUND = "mlperf-"
"""before the round, in the name of a benchmark's software"""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of every accelerator."""

    accelerator: str
    batch: int
    """The number of samples of one accelerator."""
    seconds: float
    """s. The time of the step."""
    compute: float
    """s. The part of it that counts as the accelerator's work."""
    origin: str
    """The origin, in words."""
    software: str = ""
    """The software of a benchmark, by its round, such as mlperf-v0.7."""
    target: TargetRun | None = None
    """The run of a benchmark to its target without a limit of storage; None: no target is known."""
    evaluated: float = 1.0
    """factor. The cost of an evaluated sample in trained ones."""

    @property
    def each(self) -> float:
        """Accelerator seconds of a sample."""
        return self.seconds / self.batch


def step_of(
    workload: Workload, cluster: Cluster, *, batch: int | None, accelerator: str, software: str
) -> Step:
    """The step of a workload on all GPUs of a cluster, or on emulated accelerators of a kind.

    batch: samples of one accelerator; default that of the benchmark's submission on one node, or the workload's, but
    no larger global batch than the critical one, which takes twice the samples.
    software: the round of the benchmark, e.g. mlperf-v1.1. Raises PodsimError where no step is known.
    """
    if batch is not None and not 1 <= batch <= 1_000_000:
        raise StorageError(f"batch={batch}: 1 to 1,000,000 samples for one accelerator")
    if workload.steps:
        return _emulated_step(workload, cluster.gpu.name, batch, accelerator)
    if accelerator:
        raise StorageError(f"--accelerator {accelerator[:60]}: {workload.name} runs on the nodes' own GPUs")
    return _trained_step(workload, cluster, batch, software)


def _emulated_step(workload: Workload, gpu: str, batch: int | None, accelerator: str) -> Step:
    kind = (accelerator or gpu.split("-", maxsplit=1)[0]).lower()
    if kind not in workload.steps:
        known = ", ".join(workload.steps)
        raise StorageError(
            f"{workload.name} prescribes no step for {kind[:60]!r}; give --accelerator, one of {known}"
        )
    count = batch or workload.batch
    compute = workload.steps[kind] * count / workload.batch
    host = workload.host_step + count * workload.record / workload.host_bandwidth
    given = f"{workload.steps[kind]:g} s for {workload.batch} sample(s)"
    if workload.threshold:
        given += f", prescribed by the benchmark; plus {host * 1e3:.3g} ms of the host"
    else:
        given += f", taken from its source: {workload.title}"
    return Step(accelerator=kind, batch=count, seconds=compute + host, compute=compute, origin=given)


def _trained_step(workload: Workload, cluster: Cluster, batch: int | None, software: str) -> Step:
    """The step of a benchmark of MLPerf Training on all GPUs, as `podsim mlperf` has it."""
    software = software or workload.software
    round = software.removeprefix(_ROUND)
    if round == software:
        raise StorageError(
            f"software {software[:60]!r}: {workload.name} takes a round of MLPerf Training, such as {workload.software}"
        )
    benchmark = find_benchmark(workload.benchmark, round)
    on_node = (run for run in submissions(benchmark, round, cluster) if run.gpus == cluster.gpus_per_node)
    usual = next((int(run.batch / run.gpus) for run in on_node), workload.batch)
    most = convergence_law(benchmark, round).critical_batch / cluster.gpus
    count = batch or max(1, min(usual, int(most)))
    target = target_run(benchmark, round, cluster, float(count * cluster.gpus))
    seconds = count * cluster.gpus / target.rate
    return Step(
        accelerator=cluster.gpu.name, batch=count, seconds=seconds, compute=seconds, software=software, target=target,
        evaluated=1.0 / benchmark.evaluation.speed if benchmark.evaluation else 1.0,
        origin=f"{target.rate:,.0f} samples/s on {cluster.gpus} {cluster.gpu.name} ({software}: {target.how})",
    )  # fmt: skip
