"""Random long runs, thousands at once, failure by failure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats
from podsim.errors import PodsimError
from podsim.fleet.reliability import (
    HORIZON,
    LongRun,
    blocked_share,
    check_counts,
    failure_free_seconds,
    overhead,
    segments,
    steady_restart_seconds,
)

MOST_RUNS = 1_000_000
_NEVER = 1e-9
"""The probability of no spares below which spares are ignored."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunSamples:
    """The result of each run, [run]."""

    seconds: Floats
    """s. The time from the first step to the last checkpoint; infinite for an abandoned run."""
    failures: NDArray[np.int64]
    """The number of failures until the end of the run."""
    restarting: Floats
    """s. The time from failures to the next step, or to the next failure."""
    waiting: Floats
    """s. The time without enough nodes."""
    slowed: Floats
    """s. The time that slow nodes added to steps."""

    @property
    def unfinished(self) -> float:
        """The share of abandoned runs."""
        return float(np.isinf(self.seconds).mean())


class _State:
    """The runs that have not ended, in arrays over them."""

    arrays = (
        "number",
        "mtbf",
        "clock",
        "left",
        "failures",
        "restarting",
        "waiting",
        "slowed",
        "slow",
        "ready",
    )

    def __init__(self, run: LongRun, runs: int, rng: np.random.Generator) -> None:
        full, last = segments(run)
        self.number = np.arange(runs)
        self.mtbf = run.mtbf * np.exp(
            run.spread * rng.standard_normal(runs) if run.spread else np.zeros(runs)
        )
        self.clock, self.restarting, self.waiting, self.slowed = np.zeros((4, runs))
        self.left = np.full(runs, full * (run.interval + run.stall) + (last + run.stall if last else 0.0))
        self.failures = np.zeros(runs, np.int64)
        is_slow = rng.random(runs) < 1.0 - (1.0 - run.slow) ** run.nodes
        self.slow = np.where(is_slow & (run.slowdown > 0), run.found, 0.0)
        self.ready = np.zeros((runs, count_repair_slots(run)))

    def keep(self, rows: NDArray[np.bool_]) -> None:
        """Drop the other runs."""
        for name in self.arrays:
            setattr(self, name, getattr(self, name)[rows])


def count_repair_slots(run: LongRun) -> int:
    """The number of repair slots to track: spares + 1, or 0 if they never all fill."""
    if run.spares is None or run.drain == 0.0 or run.repair == 0.0:
        return 0
    worst = run.drain * run.repair / run.mtbf * math.exp(4.0 * run.spread)
    return run.spares + 1 if blocked_share(run.spares, worst) > _NEVER else 0


def simulate_runs(run: LongRun, runs: int, rng: np.random.Generator) -> RunSamples:
    """Draw the run `runs` times; equal seeds give equal samples.

    Each pass of the loop takes every run to its next failure. The exponential time to it, minus the restart and the
    completion of a checkpoint, gives the full intervals that are kept. Exact for the process of `reliability`. Beyond
    its closed forms, spares can run out (a run waits for the first repair, exponential, without failures meanwhile),
    rates can differ between runs, and slow nodes can be found. Raises PodsimError for no runs.
    """
    problems = check_counts({"runs": runs}, low=1)
    if problems or runs > MOST_RUNS:
        raise PodsimError("; ".join(problems) or f"runs={runs:,}: at most {MOST_RUNS:,} can be drawn")
    out = RunSamples(
        seconds=np.full(runs, np.inf), failures=np.zeros(runs, np.int64), restarting=np.zeros(runs),
        waiting=np.zeros(runs), slowed=np.zeros(runs),
    )  # fmt: skip
    horizon = HORIZON * failure_free_seconds(run)
    state = _State(run, runs, rng)
    _drop_hopeless(run, state, out, horizon)
    first = True
    while state.number.size:
        over = _advance_to_failure(run, state, out, rng, first=first) | (state.clock > horizon)
        if over.any():
            for name in ("failures", "restarting", "waiting", "slowed"):
                getattr(out, name)[state.number[over]] = getattr(state, name)[over]
            state.keep(~over)
        _replace(run, state, rng)
        first = False
    return out


def _drop_hopeless(run: LongRun, state: _State, out: RunSamples, horizon: float) -> None:
    """Abandon the runs with expected seconds beyond the horizon: they would fail a million times before it."""
    restart = steady_restart_seconds(run, state.mtbf)
    pays = overhead(run.interval, stall=run.stall, mtbf=state.mtbf, restart=restart, persist=run.persist)
    hopeless = pays * run.work > horizon
    out.failures[hopeless] = np.rint(np.minimum(horizon / state.mtbf[hopeless], 1e18)).astype(np.int64)
    state.keep(~hopeless)


def _advance_to_failure(
    run: LongRun, state: _State, out: RunSamples, rng: np.random.Generator, *, first: bool
) -> NDArray[np.bool_]:
    """Advance every run to its next failure, or to its end, which is recorded. Whether each run has ended."""
    n = state.number.size
    failure = state.mtbf * rng.standard_exponential(n)
    restart = np.zeros(n)
    if not first:
        restart += run.restart
        if run.hang:
            restart += run.timeout * (rng.random(n) < run.hang)
    trained = failure - restart
    kept = np.maximum(trained - run.persist, 0.0)  # later checkpoints are incomplete
    factor = 1.0 + run.slowdown
    if run.slow and run.slowdown:
        early = np.minimum(kept, state.slow)
        kept = kept - early + early / factor
        behind = np.minimum(state.left * (factor - 1.0), state.slow * (1.0 - 1.0 / factor))
    else:
        behind = np.zeros(n)
    ended = kept >= state.left
    out.seconds[state.number[ended]] = (state.clock + restart + state.left + behind + run.persist)[ended]
    state.restarting += np.minimum(failure, restart)
    state.clock += failure
    state.failures += ~ended
    span = run.interval + run.stall
    state.left -= np.where(ended, 0.0, np.floor(kept / span) * span)
    if run.slow and run.slowdown:
        went = np.minimum(np.maximum(trained, 0.0), state.slow)
        state.slowed += np.where(ended, behind, went * (1.0 - 1.0 / factor))
        state.slow = np.maximum(state.slow - went, 0.0)
    return ended


def _replace(run: LongRun, state: _State, rng: np.random.Generator) -> None:
    """Replace nodes after failures: a run without a spare waits, and a new node may be slow."""
    n = state.number.size
    watched, slow = state.ready.shape[1] > 0, run.slow > 0 and run.slowdown > 0
    if not (watched or slow) or not run.drain:
        return
    gone = np.flatnonzero(rng.random(n) < run.drain)
    if slow:
        hit = gone[rng.random(gone.size) < run.slow]
        state.slow[hit] = run.found
    if watched:
        ready = state.ready[gone]
        slot = ready.argmin(axis=1)
        state.ready[gone, slot] = state.clock[gone] + run.repair * rng.standard_exponential(gone.size)
        wait = np.maximum(state.ready[gone].min(axis=1) - state.clock[gone], 0.0)
        state.waiting[gone] += wait
        state.clock[gone] += wait
