"""What failures leave of a long run: closed forms.

A run works for an interval, stops for its checkpoint, and so on. Failures come at random, independently of everything
(a Poisson process), also while the run restarts. A failure throws it back to its last complete checkpoint; it needs a
restart before it goes on, and a further failure in the restart begins the restart anew. Everything here follows
exactly from that; `reliability_runs` draws runs of the same process, and of what has no closed form.

Notation: T interval of work between checkpoints, d stall of a checkpoint, p seconds after the stall until the
checkpoint is complete (asynchronous writes), R restart, M mean time between failures of the whole job, all in s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.errors import PodsimError

Floats = NDArray[np.float64]
DAY = 86400.0


@dataclass(frozen=True, kw_only=True)
class LongRun:
    """A run of days or months that failures interrupt: the times that decide when it ends."""

    work: float
    """s of training without checkpoints, failures and slow nodes"""
    mtbf: float
    """s between failures of the whole job, mean"""
    interval: float
    """s of training between checkpoints"""
    stall: float
    """s that training stands still for a checkpoint"""
    persist: float = 0.0
    """s after the stall until the checkpoint is complete; a failure before that falls back to the one before"""
    restart: float = 0.0
    """s from a failure that is seen at once to the first step"""
    hang: float = 0.0
    """share of failures that nobody sees until a time-out ends the run"""
    timeout: float = 0.0
    """s of that time-out"""
    drain: float = 0.0
    """share of failures after which a node has to be replaced"""
    repair: float = 0.0
    """s until a replaced node is back among the spares, mean"""
    spares: int | None = None
    """nodes that stand by; None: there is always one"""
    spread: float = 0.0
    """standard deviation of the logarithm of the failure rate from run to run; `mtbf` is then the median"""
    slow: float = 0.0
    """share of nodes that run slowly without an error"""
    nodes: int = 1
    """nodes of the job, any of which may be slow: the slowest sets the pace"""
    slowdown: float = 0.0
    """share by which a step is longer beside a slow node"""
    found: float = math.inf
    """s of training until a slow node is found and swapped; infinite: never"""

    def __post_init__(self) -> None:
        """Raise PodsimError for numbers that describe no run, all of them."""
        positive = ("work", "mtbf", "interval")
        shares = ("hang", "drain", "slow")
        low = {name: getattr(self, name) for name in ("stall", "persist", "restart", "timeout", "repair")}
        low |= {"spread": self.spread, "slowdown": self.slowdown}
        if self.found != math.inf:
            low["found"] = self.found
        problems = check_numbers({name: getattr(self, name) for name in positive}, positive=True)
        problems += check_numbers(low)
        problems += check_numbers({name: getattr(self, name) for name in shares}, most=1.0)
        problems += check_counts({"nodes": self.nodes}, low=1)
        if self.spares is not None:
            problems += check_counts({"spares": self.spares}, low=0)
        if problems:
            raise PodsimError("; ".join(problems))


def check_numbers(
    values: Mapping[str, float], *, positive: bool = False, most: float = math.inf
) -> list[str]:
    """What is wrong of numbers that must be finite, not negative (or positive) and at most `most`."""
    rule = "positive" if positive else f"between 0 and {most:g}" if most < math.inf else "0 or more"
    return [
        f"{name}={value:g} must be a finite number, {rule}"
        for name, value in values.items()
        if not (math.isfinite(value) and value >= 0 and value <= most and (value > 0 or not positive))
    ]


def check_counts(values: Mapping[str, int], *, low: int) -> list[str]:
    """What is wrong of whole numbers that must be at least `low`."""
    return [
        f"{name}={value!r} must be a whole number, {low} or more"
        for name, value in values.items()
        if not isinstance(value, int) or isinstance(value, bool) or value < low
    ]


def young_interval_seconds(stall: ArrayLike, mtbf: ArrayLike) -> Floats:
    """s of training between checkpoints, first-order optimum: sqrt(2 d M).

    Source: J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17 (1974). Too long by
    about d for d far below M.
    """
    d, m = _stall_and_mtbf(stall, mtbf)
    return np.sqrt(2.0 * d * m)


def daly_interval_seconds(stall: ArrayLike, mtbf: ArrayLike) -> Floats:
    """s of training between checkpoints by Daly's series; M where d is 2 M or more.

    Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22 (2006).
    Within 0.6 % of the optimum for d up to M / 2.
    """
    d, m = _stall_and_mtbf(stall, mtbf)
    x = np.sqrt(d / (2.0 * m))
    return np.where(d < 2.0 * m, np.sqrt(2.0 * d * m) * (1.0 + x / 3.0 + x * x / 9.0) - d, m)


def best_interval_seconds(stall: ArrayLike, mtbf: ArrayLike) -> Floats:
    """s of training between checkpoints that makes `overhead` least, to rounding; neither R nor p moves it.

    Setting the derivative of (e^((T + d) / M) - 1) / T to zero gives, for u = T / M, 1 - u = e^(-u - d / M); Newton's
    method from Young's interval (capped at M, which bounds u) meets it.
    """
    d, m = _stall_and_mtbf(stall, mtbf)
    x = d / m
    u = np.minimum(np.sqrt(2.0 * x), 1.0)
    for _ in range(60):
        step = (-np.expm1(-(x + u)) - u) / u
        u = np.clip(u + step, 0.5 * u, 1.0)
        if np.all(np.abs(step) <= 1e-15):
            break
    return u * m


def _stall_and_mtbf(stall: ArrayLike, mtbf: ArrayLike) -> tuple[Floats, Floats]:
    d, m = np.asarray(stall, np.float64), np.asarray(mtbf, np.float64)
    problems = []
    for name, values in (("stall", d), ("mtbf", m)):
        wrong = values[~(np.isfinite(values) & (values > 0))]
        if wrong.size:
            problems.append(f"{name}={wrong.flat[0]:g} must be a finite number of seconds, positive")
    if problems:
        raise PodsimError("; ".join(problems))
    return d, m


def overhead(
    interval: ArrayLike,
    *,
    stall: ArrayLike,
    mtbf: ArrayLike,
    restart: ArrayLike = 0.0,
    persist: ArrayLike = 0.0,
) -> Floats:
    """Expected seconds of a long run for each second of training: M e^((R + p) / M) (e^((T + d) / M) - 1) / T.

    The efficiency, or effective share of the time, is 1 over it. By renewal: between two failures lie M seconds, in
    which as many intervals are kept as fit between R + p and the failure. Infinite where numbers overflow.
    Source: Daly 2006 for p = 0; p follows from the same argument.
    """
    t, d, m, r, p = (np.asarray(v, np.float64) for v in (interval, stall, mtbf, restart, persist))
    with np.errstate(over="ignore"):
        return np.asarray(m * np.exp((r + p) / m) * np.expm1((t + d) / m) / t)


def failure_free_seconds(run: LongRun) -> float:
    """s of a run that nothing interrupts and no node slows: work, every stall, and the last checkpoint's completion."""
    full, last = segments(run)
    return full * (run.interval + run.stall) + (last + run.stall if last else 0.0) + run.persist


def segments(run: LongRun) -> tuple[int, float]:
    """(whole intervals, s of work in a shorter last one): each ends with a checkpoint."""
    count = run.work / run.interval
    full = int(count * (1.0 + 1e-12))
    last = run.work - full * run.interval
    return full, last if last > 1e-9 * run.interval else 0.0


def expected_seconds(run: LongRun) -> float:
    """Mean s of a run with failures; exact while a spare node is always there.

    Every interval, as every completion of a checkpoint, is a renewal: sum over them of M (e^(s / M) - 1) with s its
    seconds, times the mean cost of coming back, 1 / E[e^(-(R + p) / M)]. Slow nodes lengthen all by a factor, if one is
    among the nodes. Raises PodsimError for what has no closed form: a spread of rates, slow nodes that are found or
    that come as replacements.
    """
    if run.spread or (run.slow and run.slowdown and (run.drain or run.found != math.inf)):
        raise PodsimError(
            "a spread of rates and slow nodes that come and go have no closed form; simulate_runs draws them"
        )
    beside = 1.0 - (1.0 - run.slow) ** run.nodes
    mean = (1.0 - beside) * _expected_at_pace(run, 1.0)
    return mean + beside * _expected_at_pace(run, 1.0 + run.slowdown) if beside else mean


def steady_restart_seconds(run: LongRun, mtbf: ArrayLike) -> Floats:
    """s of the one restart time that costs as much in the long run as restarts with and without a time-out do."""
    m = np.asarray(mtbf, np.float64)
    return np.asarray(run.restart - m * np.log1p(run.hang * np.expm1(-run.timeout / m)))


def _expected_at_pace(run: LongRun, pace: float) -> float:
    """The same at one pace."""
    m = run.mtbf
    full, last = segments(run)
    try:
        kept = full * math.expm1(pace * (run.interval + run.stall) / m)
        kept += math.expm1(pace * (last + run.stall) / m) if last else 0.0
        return (
            m
            * (kept - math.expm1(-run.persist / m))
            * math.exp((float(steady_restart_seconds(run, m)) + run.persist) / m)
        )
    except OverflowError:
        return math.inf


def blocked_share(spares: int, replaced: float) -> float:
    """Share of the time that a run waits for a repair, with so many spares and `replaced` nodes in repair on average.

    `replaced` is repair time over the time between replacements while the run works. Nothing fails while it waits, so
    this is Erlang's loss formula with spares + 1 servers, whatever the repair times' distribution (A. K. Erlang,
    1917). Long run only: a run starts with all spares there.
    """
    problems = check_numbers({"replaced": replaced}) + check_counts({"spares": spares}, low=0)
    if problems:
        raise PodsimError("; ".join(problems))
    share = 1.0
    for servers in range(1, spares + 2):
        share = replaced * share / (servers + replaced * share)
    return share


def first_order_efficiency(nodes: int, rate: float, start: float, interval: float, write: float) -> float:
    """Effective share of the time to first order: (1 - N r (u + T / 2)) / (1 + w / T), r per node and s.

    u is the start-up, w the write, T the interval, all s. Source: Kokolis et al. 2025 (Meta's RSC clusters). Falls
    below zero where failures crowd; `overhead` does not.
    """
    return (1.0 - nodes * rate * (start + interval / 2.0)) / (1.0 + write / interval)
