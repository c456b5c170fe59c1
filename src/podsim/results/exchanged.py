"""What data-parallel workers that exchange gradients over many steps come to: plain values in SI that name no formula."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.results.simulated import LinkUse
from podsim.results.timeline import Timeline


@dataclass(frozen=True, kw_only=True)
class ExchangeRun:
    """Many steps of data-parallel workers, played out.

    A round is what lies between two exchanges of a worker: one step, or several local ones. All figures are of the time
    until the first worker has finished its last round: until then all of them work.
    """

    name: str
    """what is trained, where"""
    exchange: str
    """bsp, ps, ssp or async"""
    bound: int | None
    """rounds that the fastest worker may be ahead of the slowest; None: any number"""
    workers: int
    """workers that exchange"""
    members: int
    """replicas of a worker, which add up their gradients before it exchanges them"""
    servers: int
    """0 for an all-reduce"""
    beside: bool
    """servers share the workers' adapters"""
    every: int
    """steps of a round"""
    overlap: float
    """share of a step's compute beside which its gradients already leave"""
    steps: int
    """of each worker, at most"""
    gradients: float
    """B that a worker sends a round"""
    weights: float
    """B that it gets a round"""
    compute: float
    """s of a step of a worker, mean over workers and steps, before anything waits"""
    seconds: float
    """s that were looked at"""
    steps_per_second: float
    """1/s, steps of a worker, mean"""
    updates_per_second: float
    """1/s, gradients that were added to the weights, of all workers"""
    samples_per_second: float | None
    """1/s, of all workers; None if the samples of a step are not known"""
    idle: float
    """share of its time in which a worker does not compute, mean over workers"""
    moving: float
    """share of its time in which it waits for its gradients or weights to move, mean"""
    waiting: float
    """share of its time in which it waits for other workers, mean"""
    idle_each: tuple[float, ...]
    """share of its time in which each worker does not compute"""
    staleness: float
    """others' updates between a worker's read and its write, mean over writes"""
    staleness_p99: float
    """others' updates that 99 % of the writes stay within"""
    staleness_most: int
    """others' updates of the stalest write"""
    histogram: tuple[int, ...]
    """writes by staleness, from 0"""
    ahead: int
    """rounds that a worker was ahead of the slowest at most, when it read"""
    links: tuple[LinkUse, ...]
    """what one server received and sent"""
    timeline: Timeline
    """when each worker computed, exchanged and waited"""


@dataclass(frozen=True, kw_only=True)
class Tradeoff:
    """The same workers with the same durations, exchanging in several ways: idle time against staleness."""

    name: str
    """what is trained, where"""
    runs: tuple[ExchangeRun, ...]
    """by all-reduce first, then by servers, the tightest bound first"""
