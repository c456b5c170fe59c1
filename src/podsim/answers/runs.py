"""The results of a long training run: its checkpoints, its failures, the days it takes. Plain values in SI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.answer import Answer, View, call
from podsim.answers.fields import shown
from podsim.answers.quantiles import Quantiles
from podsim.units import duration, format_quantity

LOSSES = {
    "training": "training",
    "checkpoints": "waiting for checkpoints",
    "repeated": "work done again after failures",
    "restarting": "noticing failures and restarting",
    "waiting": "waiting for a node to be repaired",
    "slow": "steps slowed by a slow node",
}
"""where the time of a run goes, worded"""


def _speed(rate: float) -> str:
    return format_quantity(rate, "B/s", digits=3)


@dataclass(frozen=True, kw_only=True)
class CheckpointTime(Answer):
    """What a checkpoint of one plan holds, how long training waits for it, and how long it takes to read back."""

    model: str
    cluster: str
    gpus: int = shown("GPUs")
    nodes: int
    plan: Mapping[str, object] = shown(of_row=lambda answer: call("report.predictions:layout", answer.plan))
    to: str
    """The target: store, neighbour or local."""
    store: str
    """The name of the store; empty for other targets."""
    mode: str
    """The mode: sync or async."""
    writers: str
    """The writers: all (data-parallel ranks divide what they share) or replica (the first of them writes it)."""
    size: float
    """B. The size of the checkpoint."""
    per_parameter: float = shown("a parameter", lambda size: f"{size:.1f} B")
    """B. The size per parameter of the model."""
    files: int = shown("ranks that write")
    """The number of ranks that write."""
    largest: float = shown("one rank at most")
    """B. The bytes of the rank that writes most."""
    write: float = shown("complete after", duration)
    """s. The time from the start of the checkpoint until it is complete."""
    stall: float = shown("training waits", duration)
    """s. The time that training stands still."""
    persist: float = shown(is_hidden=True)
    """s. The time from the end of the stall until the checkpoint is complete."""
    read: float = shown("reading back", duration)
    """s. The time to read back what every rank needs."""
    read_size: float = shown("bytes read")
    """B. The bytes that all ranks read."""
    write_speed: float = shown(format=_speed)
    """B/s. The speed of the write, over all ranks."""
    bottleneck: str = shown("full when writing")
    """The fullest link of the write."""
    bottleneck_bandwidth: float = shown("its bandwidth", _speed)
    """B/s. The bandwidth of that link, for one of its kind."""
    read_bottleneck: str = shown("full when reading")
    """The fullest link of the read."""
    interval: float = shown("a checkpoint every", duration)
    """s. The training time between checkpoints: the requested one, otherwise the best."""
    interval_steps: int = shown("in steps", remark="")
    share: float = shown("share of the time", ":.2%")
    """share. The share of the time that checkpoints take at that interval, without failures."""
    mtbf: float = shown("a failure every", duration)
    """s. The mean time between failures of the job, for the best interval."""
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class IntervalPoint:
    """The efficiency at one interval between checkpoints."""

    interval: float
    """s. The training time between checkpoints."""
    efficiency: float
    """share. The share of the time in training."""


@dataclass(frozen=True, kw_only=True)
class Goodput(
    Answer,
    view=View(
        report="report.run_tables:goodput_report",
        figure="report.plot_runs:goodput_figure",
        chart="Intervals and days",
    ),
):
    """A training run with failures: the best interval, the efficiency, and the days it takes."""

    model: str
    cluster: str
    gpus: int
    nodes: int
    plan: Mapping[str, object]
    tokens: float
    """count. The number of tokens to train."""
    steps: int
    step_time: float
    """s. The time of one step, predicted or given."""
    checkpoint: CheckpointTime
    rate: float
    """1/s. The failure rate of one node; 0 if the mean time between failures was given."""
    rate_source: str
    mtbf: float
    """s. The mean time between failures of the job."""
    restart: float
    """s. The time from a failure that is seen at once to the first step, with loading."""
    load: float
    """s. The part of the restart that reads the checkpoint."""
    hang: float
    """share. The share of failures that only a time-out shows."""
    timeout: float
    """s. The length of that time-out."""
    spares: int
    """The number of spare nodes."""
    interval: float
    """s. The training time between checkpoints."""
    interval_steps: int
    young: float
    """s. The best interval to first order (Young)."""
    daly: float
    """s. The best interval by Daly's series."""
    best: float
    """s. The interval with the least expected time."""
    efficiency: float
    """share. The long-run share of the time in training, at the interval."""
    first_order: float
    """share. The efficiency by the first-order formula of Kokolis et al.; below zero if failures are very frequent."""
    blocked: float
    """share. The long-run share of the time without enough nodes."""
    work: float
    """s. The time of training alone."""
    failure_free: float
    """s. The duration with checkpoints and no failure."""
    expected: float | None
    """s. The duration with failures in closed form; None if there is none."""
    seconds: Quantiles
    """s. The simulated duration with failures."""
    effective: Quantiles
    """The simulated share of the time in training."""
    interruptions: Quantiles
    """The simulated number of failures of a run."""
    unfinished: float
    """share. The share of the simulated runs that were given up."""
    losses: Mapping[str, float]
    """s. The time of the mean run by cause; the sum is its duration."""
    curve: tuple[IntervalPoint, ...]
    """The long-run efficiency over the interval."""
    edges: tuple[float, ...]
    """s. The edges of the histogram; the longest hundredth of the runs is beyond."""
    counts: tuple[int, ...]
    """The number of simulated runs that end between two edges."""
    runs: int
    """The number of simulated runs."""
    seed: int
    warnings: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
