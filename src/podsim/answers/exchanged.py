"""What data-parallel workers that exchange gradients over many steps come to: plain values in SI that name no formula."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.simulated import LinkUse
from podsim.answers.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class LossTime:
    """The time in which workers reach a loss."""

    loss: float
    """factor. The loss that was asked for."""
    source: str
    """The origin of the rounds in step, in words."""
    in_step: float
    """count. The rounds of all workers' batches to the loss, in step."""
    growth: float
    """factor. The rounds of this exchange over those in step."""
    error: float
    """share. The mean error of the growth on the runs that it was fitted to."""
    seconds: float
    """s. The time to the loss."""


@dataclass(frozen=True, kw_only=True)
class ExchangeRun(
    Answer,
    view=View(
        report="report.worker_tables:exchange_report",
        data="report.worker_tables:exchange_data",
        charts="timeline.link_plots:exchange_charts",
    ),
):
    """Many steps of data-parallel workers, played out.

    A round is what lies between two exchanges of a worker: one step, or several local ones. All figures are of the time
    until the first worker has finished its last round: until then all of them work.
    """

    name: str
    """The model and the cluster."""
    exchange: str
    """The exchange: bsp, ps, ssp, async, local or diloco."""
    bound: int | None
    """The number of rounds that the fastest worker may be ahead of the slowest; None: any."""
    workers: int
    members: int
    """The number of replicas of a worker, which add up their gradients before it exchanges them."""
    servers: int
    """The number of servers; 0 for an all-reduce."""
    beside: bool
    """Whether servers share the workers' adapters."""
    every: int
    """The number of steps of a round."""
    overlap: float
    """share. The share of a step's compute during which its gradients may already leave."""
    steps: int
    """The largest number of steps of a worker."""
    gradients: float
    """B. The gradients that a worker sends in a round."""
    weights: float
    """B. The weights that a worker receives in a round."""
    compute: float
    """s. The compute time of a worker's step, as a mean over workers and steps."""
    seconds: float
    """s. The time that was evaluated."""
    steps_per_second: float
    """1/s. The rate of steps of a worker, as a mean."""
    updates_per_second: float
    """1/s. The rate of updates of the weights, over all workers."""
    samples_per_second: float | None
    """1/s. The rate of samples, over all workers; None if the samples of a step are unknown."""
    idle: float
    """share. The share of time in which a worker does not compute, as a mean over workers."""
    moving: float
    """share. The share of time in which it waits for gradients or weights to move, as a mean."""
    waiting: float
    """share. The share of time in which it waits for other workers, as a mean."""
    idle_each: tuple[float, ...]
    """share. The share of time in which each worker does not compute."""
    staleness: float
    """factor. The number of others' updates between a worker's read and its write, as a mean over writes."""
    staleness_p99: float
    """factor. The number of others' updates that 99 % of the writes do not exceed."""
    staleness_most: int
    """The number of others' updates of the stalest write."""
    histogram: tuple[int, ...]
    """The number of writes by staleness, from 0."""
    ahead: int
    """The largest number of rounds that a worker was ahead of the slowest when it read."""
    links: tuple[LinkUse, ...]
    """The traffic of one server."""
    timeline: Timeline
    """The computing, exchanging and waiting of each worker."""
    to_loss: LossTime | None = None
    """The time to a loss; None if none was asked for."""


@dataclass(frozen=True, kw_only=True)
class Tradeoff(
    Answer,
    view=View(
        report="report.worker_tables:tradeoff_report",
        rows="report.worker_tables:tradeoff_rows",
        figure="report.plot_training:tradeoff_figure",
        data="report.worker_tables:tradeoff_data",
        chart="Idle time against staleness",
    ),
):
    """The same workers with the same durations, exchanging in several ways: idle time against staleness."""

    name: str
    """The model and the cluster."""
    runs: tuple[ExchangeRun, ...]
    """The runs: all-reduce first, then servers from the tightest bound on."""

    @property
    def first(self) -> ExchangeRun | None:
        """The run that reaches the loss first; None if no loss was asked for."""
        timed = [run for run in self.runs if run.to_loss is not None]
        return min(timed, key=lambda run: run.to_loss.seconds if run.to_loss else 0.0, default=None)
