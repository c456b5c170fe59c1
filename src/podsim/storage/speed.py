"""The speed at which accelerators take samples, and the time of a run from start to target.

A step of b samples on every accelerator of N nodes, from a run measured with b0 on one node:

    seconds(b, N) = seconds(b0, 1) x (b + half) / (b0 + half) + all-reduce(N) - all-reduce(1)

`half` is the batch that takes as long as a step's fixed part, from the rate of inference over batches. The all-reduces
are those of podsim.network.nccl, without overlap. An emulated accelerator (MLPerf Storage) sleeps for its step; the host
adds

    host_step + batch x record / host_bandwidth.

From start to target: (epochs + start) x epoch + evaluations. Epochs rise with the logarithm of the global batch,
through the runs of one software, and stay constant below them. `start`, in epochs, and the cost of an evaluated sample,
in trained ones, are means over the runs.

Source: rows with role `calibrate` of the MLPerf Training logs (catalog/workloads.toml). Known error (rows with role
`test`): docs/storage.md. Stops being true: MXNet's code of v0.7 on several nodes with less than its full batch was a
tenth to a quarter slower than this; its code of v1.1 is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from podsim.errors import StorageError
from podsim.hardware.cluster import Cluster
from podsim.network.nccl import Members, collective_seconds
from podsim.storage.workloads import Run, Workload


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
    run: Run | None = None

    @property
    def each(self) -> float:
        """Accelerator seconds of a sample."""
        return self.seconds / self.batch


def step_of(
    workload: Workload, cluster: Cluster, *, batch: int | None, accelerator: str, software: str
) -> Step:
    """The step of a workload on all GPUs of a cluster, or on emulated accelerators of a kind.

    batch: samples of one accelerator; default that of the benchmark or of the measured run. software: that of the run,
    e.g. mlperf-v0.7; default the first with a run on the GPU. Raises StorageError where nothing was measured.
    """
    if batch is not None and not 1 <= batch <= 1_000_000:
        raise StorageError(f"batch={batch}: 1 to 1,000,000 samples for one accelerator")
    if workload.steps:
        return _emulated_step(workload, cluster.gpu.name, batch, accelerator)
    if accelerator:
        raise StorageError(f"--accelerator {accelerator[:60]}: {workload.name} runs on the nodes' own GPUs")
    return measured_step(workload, cluster, batch, software)


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


def measured_step(workload: Workload, cluster: Cluster, batch: int | None, software: str) -> Step:
    """The step from a run on one node of the same GPU, or its kin of other memory.

    Raises StorageError where no run was measured.
    """
    gpu = cluster.gpu.name
    runs = [
        run
        for run in workload.runs
        if run.gpu.split("-")[0] == gpu.split("-")[0] and software in ("", run.software)
    ]
    if not runs:
        known = ", ".join(f"{run.gpu} ({run.software})" for run in workload.runs) or "none"
        asked = f" of {software[:60]}" if software else ""
        raise StorageError(f"no run of {workload.name}{asked} on {gpu} is known; there are: {known}")
    run = runs[0]
    count = batch or run.batch
    base = run.batch * run.accelerators / run.rate
    seconds = base * (count + workload.half_batch) / (run.batch + workload.half_batch)
    seconds += _exposed_seconds(workload, cluster) if cluster.nodes > 1 else 0.0
    return Step(
        accelerator=gpu, batch=count, seconds=seconds, compute=seconds, run=run,
        origin=f"{run.rate:,.0f} samples/s measured on {run.accelerators} {run.gpu} at {run.batch} each ({run.software}, "
        f"{run.row})",
    )  # fmt: skip


def _exposed_seconds(workload: Workload, cluster: Cluster) -> float:
    """Seconds that the all-reduce of the gradients takes longer than within one node."""
    per = cluster.gpus_per_node
    both = collective_seconds(
        "all_reduce",
        workload.gradient,
        cluster,
        Members(ranks=np.array([cluster.gpus, per]), ranks_per_node=per, sharing=1),
    )
    return max(float(both[0] - both[1]), 0.0)


def epochs_to_target(workload: Workload, run: Run, batch: int) -> float:
    """Epochs to the target at a global batch: linear in its logarithm through the runs of that software; else the
    run's own.

    A smaller batch than theirs needs the epochs of the smallest: large batches cost epochs, small ones do not save any.
    """
    alike = sorted(
        {(r.batch * r.accelerators, r.epochs) for r in workload.runs if r.software == run.software}
    )
    if len(alike) < 2:
        return run.epochs
    (low, fewer), (high, more) = alike[0], alike[-1]
    return fewer + (more - fewer) * math.log(max(batch, low) / low) / math.log(high / low)


def known_batches(workload: Workload, run: Run) -> tuple[int, int]:
    """Least and greatest global batch whose epochs are known for the software of a run."""
    alike = [r.batch * r.accelerators for r in workload.runs if r.software == run.software]
    return min(alike), max(alike)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def start_epochs(workload: Workload) -> float:
    """The further time of a run in epochs (start-up, a slower first epoch), as the mean of the runs."""
    return _mean(
        [(run.seconds - run.epochs * run.epoch_seconds - run.evaluation_seconds) / run.epoch_seconds
         for run in workload.runs]
    )  # fmt: skip


def evaluation_share(workload: Workload) -> float:
    """Cost of an evaluated sample in trained ones. Mean of the runs."""
    return _mean(
        [run.evaluation_seconds * run.rate / (evaluations(workload, run.epochs) * workload.validation)
         for run in workload.runs]
    )  # fmt: skip


def evaluations(workload: Workload, epochs: float) -> int:
    """How often a run is evaluated."""
    return math.ceil(epochs / workload.evaluate_every) if workload.evaluate_every else 0
