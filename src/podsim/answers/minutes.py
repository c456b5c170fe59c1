"""Times to a target: benchmarks of a round on a cluster, and the batches and GPUs of one of them."""

from __future__ import annotations

from collections.abc import Mapping

from podsim.answers.answer import Answer, View
from podsim.records import dataclass


@dataclass(frozen=True, kw_only=True)
class TargetRun:
    """One training run to the target."""

    gpus: int
    batch: float
    """count. The samples (or tokens) of a step."""
    samples: float
    """count. The samples to the target, in expectation."""
    steps: float
    """count. The steps to the target."""
    epochs: float
    """count. The samples over those of an epoch."""
    rate: float
    """1/s. The samples of all GPUs in a second."""
    startup: float
    """s. The time before the first step."""
    training: float
    """s. The time of the steps."""
    evaluation: float
    """s. The time of the evaluations."""
    seconds: float
    """s. The time to the target."""
    seconds_low: float
    """s. The time of a lucky run: one in ten is faster."""
    seconds_high: float
    """s. The time of an unlucky run: one in ten is slower."""
    how: str
    """The network, the plan or the published steps that were costed."""

    @property
    def gpu_seconds(self) -> float:
        """s. The time of all GPUs together."""
        return self.seconds * self.gpus


@dataclass(frozen=True, kw_only=True)
class BenchmarkMinutes:
    """A benchmark at scale and on one node, predicted and published."""

    benchmark: str
    title: str
    target: str
    sample: str
    """The word for samples."""
    run: TargetRun | None
    """The run at scale; None where nothing can be predicted."""
    published: float | None
    """s. The time that was published for these GPUs."""
    node: TargetRun | None
    """The run on one node."""
    node_published: float | None
    """s. The time that was published for one node."""
    source: str
    """The sources of the published times."""
    role: str
    """The role of the published time: constants may have been fitted to calibrate, never to test."""
    node_role: str
    notes: tuple[str, ...]

    @property
    def error(self) -> float | None:
        """share. The predicted time over the published one, less 1."""
        return None if self.run is None or not self.published else self.run.seconds / self.published - 1

    @property
    def node_error(self) -> float | None:
        """share. The same on one node."""
        if self.node is None or not self.node_published:
            return None
        return self.node.seconds / self.node_published - 1


@dataclass(frozen=True, kw_only=True)
class MinutesTable(
    Answer,
    view=View(
        report="report.minutes_tables:minutes_report",
        rows="rows",
        figure="report.plot_plans:minutes_figure",
    ),
):
    """The benchmarks of a round on a cluster."""

    round: str
    cluster: str
    gpu: str
    rows: tuple[BenchmarkMinutes, ...]
    mean_error: float | None
    """share. The mean of the errors of all times that were published, without their signs; None without any."""
    compared: int
    """count. The number of these times."""
    mean_errors: Mapping[str, float]
    """share. The mean of the errors by role: constants may have been fitted to calibrate, never to test."""


@dataclass(frozen=True, kw_only=True)
class TargetChoice:
    """The best run on some GPUs."""

    run: TargetRun
    usd: float | None
    """USD. The money for the GPUs' time at the low end of the price; None without one."""
    saved: float | None
    """share. The time that it saves over the next fewer GPUs."""
    efficiency: float
    """share. The GPU time of the run that takes least of it, over that of this run."""


@dataclass(frozen=True, kw_only=True)
class TargetPlan(
    Answer,
    view=View(
        report="report.minutes_tables:target_report",
        rows="choices",
        figure="report.plot_plans:target_figure",
    ),
):
    """Batch and GPUs that take a benchmark to its target."""

    benchmark: str
    title: str
    target: str
    dataset: str
    sample: str
    """The word for samples."""
    round: str
    cluster: str
    gpu: str
    objective: str
    price: str
    """The price per GPU-hour, in words; "" without any."""
    choices: tuple[TargetChoice, ...]
    """The best run of each number of GPUs, fewest first."""
    best: TargetChoice
    end: TargetChoice
    """The choice at which strong scaling ends: twice the GPUs save less than a quarter of the time."""
    critical_batch: float
    """count. The batch that needs twice the samples of a small one."""
    why: str
    """The reason why strong scaling ends, in words."""
    notes: tuple[str, ...]
