"""Long runs drawn at random: thousands at once, failure by failure.

Axes: R runs, S places in repair (spares + 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podsim.errors import PodsimError
from podsim.fleet.reliability import (
    LongRun,
    blocked_share,
    check_counts,
    failure_free_seconds,
    overhead,
    segments,
    steady_restart_seconds,
)

Floats = NDArray[np.float64]
HORIZON = 5.0
"""a run is given up after so many times the seconds it would take without failures, or at once if it is expected to"""
MOST_RUNS = 1_000_000
_NEVER = 1e-9
"""a chance of an empty shelf of spares below which the shelf need not be watched"""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunSamples:
    """What became of each run, [R]."""

    seconds: Floats
    """s from the first step to the last checkpoint; infinite for a run given up"""
    failures: NDArray[np.int64]
    """until the end, or until it was given up"""
    restarting: Floats
    """s from failures to the next step, or to the next failure"""
    waiting: Floats
    """s without enough nodes"""
    slowed: Floats
    """s that a slow node added to steps"""

    @property
    def unfinished(self) -> float:
        """Share of the runs given up."""
        return float(np.isinf(self.seconds).mean())


class _State:
    """The runs still going on; every array is [R of them]."""

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
        "ready_RS",
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
        beside = rng.random(runs) < 1.0 - (1.0 - run.slow) ** run.nodes
        self.slow = np.where(beside & (run.slowdown > 0), run.found, 0.0)
        self.ready_RS = np.zeros((runs, count_repair_slots(run)))

    def keep(self, rows: NDArray[np.bool_]) -> None:
        """Drop the other rows."""
        for name in self.arrays:
            setattr(self, name, getattr(self, name)[rows])


def count_repair_slots(run: LongRun) -> int:
    """Places in repair to watch: spares + 1, or none where they will not all be taken."""
    if run.spares is None or run.drain == 0.0 or run.repair == 0.0:
        return 0
    worst = run.drain * run.repair / run.mtbf * math.exp(4.0 * run.spread)
    return run.spares + 1 if blocked_share(run.spares, worst) > _NEVER else 0


def simulate_runs(run: LongRun, runs: int, rng: np.random.Generator) -> RunSamples:
    """Draw the run so many times; the same seed gives the same samples.

    One pass of the loop takes every run to its next failure: the exponential time to it, less the restart and the
    completion of a checkpoint, gives the whole intervals that are kept. Exact for the process of `reliability`;
    beyond its closed forms come spares that run out (a run waits for the first repair, exponential, and nothing fails
    meanwhile), rates that differ from run to run, and slow nodes that are found. Raises PodsimError for no runs.
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
    """Give up the runs whose expected seconds are beyond the horizon: they would fail a million times before it."""
    restart = steady_restart_seconds(run, state.mtbf)
    pays = overhead(run.interval, stall=run.stall, mtbf=state.mtbf, restart=restart, persist=run.persist)
    hopeless = pays * run.work > horizon
    out.failures[hopeless] = np.rint(np.minimum(horizon / state.mtbf[hopeless], 1e18)).astype(np.int64)
    state.keep(~hopeless)


def _advance_to_failure(
    run: LongRun, state: _State, out: RunSamples, rng: np.random.Generator, *, first: bool
) -> NDArray[np.bool_]:
    """Move every run to its next failure, or to its end, which is written down; which have ended."""
    n = state.number.size
    failure = state.mtbf * rng.standard_exponential(n)
    restart = np.zeros(n)
    if not first:
        restart += run.restart
        if run.hang:
            restart += run.timeout * (rng.random(n) < run.hang)
    trained = failure - restart
    kept = np.maximum(trained - run.persist, 0.0)  # what is younger is not complete
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
    """After a failure: some nodes go to repair, a run without a spare waits, and a new node may be a slow one."""
    n = state.number.size
    watched, slow = state.ready_RS.shape[1] > 0, run.slow > 0 and run.slowdown > 0
    if not (watched or slow) or not run.drain:
        return
    gone = np.flatnonzero(rng.random(n) < run.drain)
    if slow:
        hit = gone[rng.random(gone.size) < run.slow]
        state.slow[hit] = run.found
    if watched:
        ready = state.ready_RS[gone]
        slot = ready.argmin(axis=1)
        state.ready_RS[gone, slot] = state.clock[gone] + run.repair * rng.standard_exponential(gone.size)
        wait = np.maximum(state.ready_RS[gone].min(axis=1) - state.clock[gone], 0.0)
        state.waiting[gone] += wait
        state.clock[gone] += wait
