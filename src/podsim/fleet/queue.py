"""Run jobs through a queue: a Schedule says when, where and how often each ran."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from podsim.errors import ClusterError, PodsimError
from podsim.fleet.jobs import Jobs
from podsim.fleet.policies import Policy
from podsim.fleet.state import (
    BEST_FIT,
    DECISIONS,
    ENDED,
    FIRST_FIT,
    LATE,
    SPANS,
    SPLIT,
    SPREAD,
    Floats,
    Ints,
    Plant,
    Rules,
    State,
    Work,
    grow_spans,
    new_state,
)  # fmt: skip

PLACEMENTS = {"first-fit": FIRST_FIT, "best-fit": BEST_FIT, "spread": SPREAD}
"""first node that fits; fullest node that fits, and few leaves; GPUs anywhere on few nodes"""
_MOST_GPUS = 1_000_000
_SLICE = 0.1
"""s for which the kernel is left alone, at least about so long"""
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Equal nodes under leaf switches; one node of all GPUs is a machine that knows no place."""

    nodes: int = 1
    gpus_per_node: int
    nodes_per_leaf: int = 0
    """0: all under one"""
    placement: str = "best-fit"
    """key of PLACEMENTS"""

    def __post_init__(self) -> None:
        """Raise ClusterError for a machine that cannot be."""
        problems = [
            f"{name}={value}; it must be {low} to {_MOST_GPUS:,}"
            for name, value, low in (
                ("nodes", self.nodes, 1), ("gpus_per_node", self.gpus_per_node, 1),
                ("nodes_per_leaf", self.nodes_per_leaf, 0),
            )
            if not low <= value <= _MOST_GPUS
        ]  # fmt: skip
        if not problems and self.gpus > _MOST_GPUS:
            problems.append(f"{self.gpus:,} GPUs; a queue has at most {_MOST_GPUS:,}")
        if self.placement not in PLACEMENTS:
            problems.append(f"placement={self.placement!r} may be {', '.join(PLACEMENTS)}")
        if problems:
            raise ClusterError("; ".join(problems))

    @property
    def gpus(self) -> int:
        """GPUs of all nodes."""
        return self.nodes * self.gpus_per_node

    def plant(self) -> Plant:
        """The machine in arrays for the kernels."""
        leaf = (
            np.arange(self.nodes) // self.nodes_per_leaf
            if self.nodes_per_leaf
            else np.zeros(self.nodes, np.int64)
        )
        return Plant(size=self.gpus_per_node, leaf=leaf.astype(np.int64), rule=PLACEMENTS[self.placement])


@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    """When each job ran; arrays by job [J] and by span [S], spans in order of their start."""

    jobs: Jobs
    machine: Machine
    policy: Policy
    start: Floats
    """s, first start, [J]"""
    end: Floats
    """s, [J]"""
    runs: Ints
    """times it was started, [J]"""
    span_job: Ints
    """[S], as what follows"""
    span_start: Floats
    span_end: Floats
    span_node: Ints
    """first node"""
    span_reach: Ints
    """0 on one node, 1 on more, 2 under more than one leaf"""
    scattered: float
    """GPU seconds that were free and enough for the first in the queue, but too scattered for it"""
    decisions: int
    late: int
    """times a reservation could not be kept because GPUs were too scattered"""
    size: Floats
    """GPUs of each job, parts of one where it has a MIG instance, [J]"""
    span_gpu: Ints | None = None
    """GPU of the instance, [S], as the next: only where some jobs have instances"""
    span_slice: Ints | None = None
    """first memory slice of the instance"""
    relaid: int = 0
    """times a GPU was divided anew for a job"""
    spent: float = 0.0
    """GPU seconds that jobs waited for that"""
    lost: float = 0.0
    """GPU seconds that were free and of no use to a job of the trace, in the mean over them"""


def find_too_large(jobs: Jobs, machine: Machine) -> Ints:
    """Positions of the jobs that this machine can never run."""
    return np.flatnonzero(jobs.gpus > machine.gpus)


def run_queue(
    jobs: Jobs,
    machine: Machine,
    policy: Policy,
    shares: Mapping[str, float] | None = None,
    *,
    progress: Progress | None = None,
) -> Schedule:
    """Run the jobs through the queue of a machine under a policy.

    `shares` promises shares of the machine to users (others get none less than equal); `progress` is called with
    (jobs that have ended, all).  Raises PodsimError for jobs
    larger than the machine and for a policy that moves jobs whose speed depends on where they are.
    """
    large = find_too_large(jobs, machine)
    if len(large):
        examples = ", ".join(f"job {str(jobs.ids[j])[:40]}: {jobs.gpus[j]:,}" for j in large[:5])
        raise PodsimError(
            f"{len(large):,} jobs need more than the {machine.gpus:,} GPUs of the machine ({examples}); leave them out,"
            f" or give it {jobs.gpus.max():,} GPUs"
        )
    if jobs.mig:
        raise PodsimError(
            "some jobs ask for MIG instances; podsim.fleet.sliced.run_sliced has places for them"
        )
    if policy.moves and np.any(jobs.slow_JS != 1.0):
        raise PodsimError(
            f"policy {policy.name} moves running jobs free of charge, so their speed must not depend on place"
        )
    work, plant, rules = jobs.work(_shares(jobs, shares)), machine.plant(), policy.rules(machine.gpus)
    state = _play(work, plant, rules, progress)
    count = int(state.number[SPANS])
    spans = state.span_job[:count]
    start = np.full(len(jobs), np.inf)
    np.minimum.at(start, spans, state.span_start[:count])
    return Schedule(
        jobs=jobs, machine=machine, policy=policy, start=start, end=state.job["end"].copy(),
        runs=state.job["runs"].copy(),
        span_job=spans.copy(), span_start=state.span_start[:count].copy(), span_end=state.span_end[:count].copy(),
        span_node=state.span_node[:count].copy(), span_reach=state.span_reach[:count].copy(),
        size=jobs.gpus.astype(np.float64),
        scattered=float(state.time[SPLIT]), decisions=int(state.number[DECISIONS]), late=int(state.number[LATE]),
    )  # fmt: skip


def _play(work: Work, plant: Plant, rules: Rules, progress: Progress | None) -> State:
    """The state after the last job's end.

    The kernel hands back after so many rounds as take a fraction of a second: only then Ctrl-C is heard.
    """
    from podsim.fleet.engine import ALL_ENDED, PAUSE, ROOM, advance

    state, rounds, said = new_state(work, plant, rules), 16, PAUSE
    while said != ALL_ENDED:
        began = time.monotonic()
        said = advance(work, plant, rules, state, rounds)
        assert said in (ALL_ENDED, PAUSE, ROOM)
        if said == ROOM:
            state = grow_spans(state)
        if progress is not None:
            progress(int(state.number[ENDED]), len(work.job))
        took = time.monotonic() - began
        rounds = max(rounds // 2, 1) if took > 2 * _SLICE else rounds * 2 if took < _SLICE else rounds
    return state


def _shares(jobs: Jobs, shares: Mapping[str, float] | None) -> Floats | None:
    if shares is None:
        return None
    unknown = set(shares) - set(jobs.users)
    if unknown or any(not 0 < share <= 1 for share in shares.values()):
        raise PodsimError(
            f"shares must be above 0 and at most 1, of users of the trace: {dict(list(shares.items())[:5])}"
        )
    return np.array([shares.get(user, 1.0 / len(jobs.users)) for user in jobs.users])
