"""The effect of failures on a long run: closed forms.

A run works for an interval, stops for its checkpoint, and so on. Failures are a Poisson process, independent of the
run, and also strike while it restarts. A failure throws the run back to its last complete checkpoint. It then needs a
restart; another failure during the restart makes it begin again. All results follow exactly from this process;
`reliability_runs` draws runs of the same process, and of extensions without closed forms.

Notation: T interval of work between checkpoints, d stall of a checkpoint, p seconds after the stall until the
checkpoint is complete (asynchronous writes), R restart, M mean time between failures of the whole job, all in s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from podsim.axes import Floats
from podsim.errors import PodsimError, raise_all
from podsim.records import dataclass

DAY = 86400.0


@dataclass(frozen=True, kw_only=True)
class LongRun:
    """A run of days or months with failures: the times that determine its end."""

    work: float
    """s. The training time without checkpoints, failures and slow nodes."""
    mtbf: float
    """s. The mean time between failures of the job."""
    interval: float
    """s. The training time between checkpoints."""
    stall: float
    """s. The time that training stops for a checkpoint."""
    persist: float = 0.0
    """s. The time after the stall until the checkpoint is complete; an earlier failure falls back to the previous one."""
    restart: float = 0.0
    """s. The time from a failure that is detected at once to the first step."""
    hang: float = 0.0
    """share. The failures that remain undetected until a time-out."""
    timeout: float = 0.0
    """s. The time-out."""
    drain: float = 0.0
    """share. The failures that require the replacement of a node."""
    repair: float = 0.0
    """s. The mean time until a replaced node is back among the spares."""
    spares: int | None = None
    """The number of spare nodes; None: there is always one."""
    spread: float = 0.0
    """factor. The standard deviation of the logarithm of the failure rate over runs; `mtbf` is then the median."""
    slow: float = 0.0
    """share. The nodes that run slowly without an error."""
    nodes: int = 1
    """The number of nodes of the job; the slowest one sets the pace."""
    slowdown: float = 0.0
    """share. The growth of a step with a slow node (straggler)."""
    found: float = math.inf
    """s. The training time until a slow node is found and swapped; infinite: never."""

    def __post_init__(self) -> None:
        """Raise PodsimError with all impossible numbers."""
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
        raise_all(problems)


def check_numbers(
    values: Mapping[str, float], *, positive: bool = False, most: float = math.inf
) -> list[str]:
    """The problems of numbers that must be finite, not negative (or positive) and at most `most`."""
    rule = "positive" if positive else f"between 0 and {most:g}" if most < math.inf else "0 or more"
    return [
        f"{name}={value:g} must be a finite number, {rule}"
        for name, value in values.items()
        if not (math.isfinite(value) and value >= 0 and value <= most and (value > 0 or not positive))
    ]


def check_counts(values: Mapping[str, int], *, low: int) -> list[str]:
    """The problems of integers that must be at least `low`."""
    return [
        f"{name}={value!r} must be a whole number, {low} or more"
        for name, value in values.items()
        if not isinstance(value, int) or isinstance(value, bool) or value < low
    ]


def young_interval_seconds(stall: ArrayLike, mtbf: ArrayLike) -> Floats:
    """Seconds of training between checkpoints, first-order optimum: sqrt(2 d M).

    Source: J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17 (1974). Too long by
    about d for d far below M.
    """
    d, m = _stall_and_mtbf(stall, mtbf)
    return np.sqrt(2.0 * d * m)


def daly_interval_seconds(stall: ArrayLike, mtbf: ArrayLike) -> Floats:
    """Seconds of training between checkpoints by Daly's series; M for d of 2 M or more.

    Source: J. T. Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22 (2006).
    Within 0.6 % of the optimum for d up to M / 2.
    """
    d, m = _stall_and_mtbf(stall, mtbf)
    x = np.sqrt(d / (2.0 * m))
    return np.where(d < 2.0 * m, np.sqrt(2.0 * d * m) * (1.0 + x / 3.0 + x * x / 9.0) - d, m)


def best_interval_seconds(stall: ArrayLike, mtbf: ArrayLike) -> Floats:
    """Seconds of training between checkpoints that minimise `overhead`, to rounding, whatever R and p.

    The derivative of (e^((T + d) / M) - 1) / T is zero where 1 - u = e^(-u - d / M), with u = T / M. Newton's method
    from Young's interval (capped at M, the bound of u) converges to this u.
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
    raise_all(problems)
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

    Its inverse is the efficiency, or effective share of the time. By renewal: M seconds pass between two failures, and
    the intervals that fit between R + p and the failure are kept. Infinite if numbers overflow.
    Source: Daly 2006 for p = 0; p follows from the same argument.
    """
    t, d, m, r, p = (np.asarray(v, np.float64) for v in (interval, stall, mtbf, restart, persist))
    with np.errstate(over="ignore"):
        return np.asarray(m * np.exp((r + p) / m) * np.expm1((t + d) / m) / t)


def failure_free_seconds(run: LongRun) -> float:
    """Seconds of a run without failures and slow nodes: work, all stalls, and the completion of the last checkpoint."""
    full, last = segments(run)
    return full * (run.interval + run.stall) + (last + run.stall if last else 0.0) + run.persist


def segments(run: LongRun) -> tuple[int, float]:
    """(number of full intervals, s of work in a shorter last one); each ends with a checkpoint."""
    count = run.work / run.interval
    full = int(count * (1.0 + 1e-12))
    last = run.work - full * run.interval
    return full, last if last > 1e-9 * run.interval else 0.0


def expected_seconds(run: LongRun) -> float:
    """Mean seconds of a run with failures; exact if there is always a spare node.

    Each interval and each completion of a checkpoint is a renewal: the sum of M (e^(s / M) - 1) over their seconds s,
    times the mean cost of a restart, 1 / E[e^(-(R + p) / M)]. A slow node among the nodes lengthens all by a factor.
    Raises PodsimError for cases without a closed form: a spread of rates, slow nodes that are found or come as
    replacements.
    """
    if run.spread or (run.slow and run.slowdown and (run.drain or run.found != math.inf)):
        raise PodsimError(
            "a spread of rates and slow nodes that come and go have no closed form; simulate_runs draws them"
        )
    slow_chance = 1.0 - (1.0 - run.slow) ** run.nodes
    mean = (1.0 - slow_chance) * _expected_at_pace(run, 1.0)
    return mean + slow_chance * _expected_at_pace(run, 1.0 + run.slowdown) if slow_chance else mean


def steady_restart_seconds(run: LongRun, mtbf: ArrayLike) -> Floats:
    """Seconds of the single restart time with the same long-run cost as restarts with and without a time-out."""
    m = np.asarray(mtbf, np.float64)
    return np.asarray(run.restart - m * np.log1p(run.hang * np.expm1(-run.timeout / m)))


def _expected_at_pace(run: LongRun, pace: float) -> float:
    """Mean seconds of a run at one pace."""
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
    """The share of the time that a run waits for a repair, with `spares` and on average `replaced` nodes in repair.

    `replaced` is repair time over the time between replacements while the run works. Nothing fails while it waits, so
    this is Erlang's loss formula with spares + 1 servers, for any distribution of repair times (A. K. Erlang, 1917).
    It holds in the long run only: a run starts with all spares.
    """
    problems = check_numbers({"replaced": replaced}) + check_counts({"spares": spares}, low=0)
    raise_all(problems)
    share = 1.0
    for servers in range(1, spares + 2):
        share = replaced * share / (servers + replaced * share)
    return share


def first_order_efficiency(nodes: int, rate: float, start: float, interval: float, write: float) -> float:
    """The effective share of the time to first order: (1 - N r (u + T / 2)) / (1 + w / T), r per node and s.

    u is the start-up, w the write, T the interval, all in s. Source: Kokolis et al. 2025 (Meta's RSC clusters). Limits:
    it falls below zero for frequent failures, unlike `overhead`.
    """
    return (1.0 - nodes * rate * (start + interval / 2.0)) / (1.0 + write / interval)


HORIZON = 5.0
"""The time after which a run is abandoned, over its time without failures; hopeless runs are abandoned at once."""
