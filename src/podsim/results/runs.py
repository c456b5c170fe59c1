"""What is said of a long training run: its checkpoints, its failures, the days it takes. Plain values in SI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LOSSES = {
    "training": "training",
    "checkpoints": "waiting for checkpoints",
    "repeated": "work done again after failures",
    "restarting": "noticing failures and restarting",
    "waiting": "waiting for a node to be repaired",
    "slow": "steps slowed by a slow node",
}
"""where the time of a run goes, worded"""


@dataclass(frozen=True, kw_only=True)
class CheckpointTime:
    """What a checkpoint of one plan holds, how long training waits for it, and how long it takes to read back."""

    model: str
    cluster: str
    gpus: int
    nodes: int
    plan: Mapping[str, object]
    to: str
    """store, neighbour or local"""
    store: str
    """name of the store; empty for other places"""
    mode: str
    """sync or async"""
    writers: str
    """all: the data-parallel ranks divide what they hold in common; replica: the first of them writes it"""
    size: float
    """B of the checkpoint"""
    per_parameter: float
    """B for each parameter of the model"""
    files: int
    """ranks that write"""
    largest: float
    """B of the rank that writes most"""
    write: float
    """s from the start of the checkpoint until it is complete"""
    stall: float
    """s that training stands still"""
    persist: float
    """s after the stall until it is complete"""
    read: float
    """s to read back what every rank needs"""
    read_size: float
    """B that all ranks read"""
    write_speed: float
    """B/s of the write, all ranks together"""
    bottleneck: str
    """the fullest link of the write"""
    bottleneck_bandwidth: float
    """B/s of that link, one of all that are like it"""
    read_bottleneck: str
    """the fullest link of the read"""
    interval: float
    """s of training between checkpoints, where one was asked about, else the best"""
    interval_steps: int
    """steps in it"""
    share: float
    """share of the time that checkpoints take at that interval, without failures"""
    mtbf: float
    """s between failures of the job, which the best interval is for"""
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """A quantity over the simulated runs."""

    low: float
    """SI, 5 % of the runs are below"""
    median: float
    """SI"""
    mean: float
    """SI, over the runs that finish"""
    high: float
    """SI, 5 % of the runs are above; infinite where so many do not finish"""


@dataclass(frozen=True, kw_only=True)
class IntervalPoint:
    """What is left of the time at one interval between checkpoints."""

    interval: float
    """s of training"""
    efficiency: float
    """share of the time that is training"""


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """A training run with failures: the best interval, what is left of the time, the days it takes."""

    model: str
    cluster: str
    gpus: int
    nodes: int
    plan: Mapping[str, object]
    tokens: float
    """to train"""
    steps: int
    step_time: float
    """s"""
    checkpoint: CheckpointTime
    rate: float
    """1/s, failures of one node; 0 where the mean time between failures was given"""
    rate_source: str
    mtbf: float
    """s between failures of the job"""
    restart: float
    """s from a failure that is seen at once to the first step, loading included"""
    load: float
    """s of it that read the checkpoint"""
    hang: float
    """share of failures that only a time-out shows"""
    timeout: float
    """s of that time-out"""
    spares: int
    """nodes that stand by"""
    interval: float
    """s of training between checkpoints"""
    interval_steps: int
    """steps in it"""
    young: float
    """s, best interval to first order"""
    daly: float
    """s, best interval by Daly's series"""
    best: float
    """s, the interval at which the expected time is least"""
    efficiency: float
    """share of the time that is training, long-run expectation at the interval"""
    first_order: float
    """the same by the first-order formula of Kokolis et al."""
    blocked: float
    """share of the time without enough nodes, long-run expectation"""
    work: float
    """s of training alone"""
    failure_free: float
    """s with checkpoints and no failure"""
    expected: float | None
    """s with failures, in closed form; None where there is none"""
    seconds: Quantiles
    """s with failures, simulated"""
    effective: Quantiles
    """share of the time that is training, simulated"""
    interruptions: Quantiles
    """failures of a run, simulated"""
    unfinished: float
    """share of the simulated runs given up"""
    losses: Mapping[str, float]
    """s of the mean run by where they go; their sum is its seconds"""
    curve: tuple[IntervalPoint, ...]
    """long-run efficiency over the interval"""
    edges: tuple[float, ...]
    """s, edges of the histogram; the longest hundredth of the runs is beyond"""
    counts: tuple[int, ...]
    """simulated runs that end between two edges"""
    runs: int
    """simulated"""
    seed: int
    warnings: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
