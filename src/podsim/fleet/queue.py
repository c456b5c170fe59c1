"""The simulation of a queue of jobs. Its result is a Schedule with the runs of each job."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

import podsim.fleet.queue_state as codes
from podsim.axes import Floats, Ints
from podsim.errors import ClusterError, PodsimError, raise_all
from podsim.fleet.elastic import goodput_rates
from podsim.fleet.jobs import Jobs
from podsim.fleet.operations import Operations, Outages, endless_jobs
from podsim.fleet.policies import Policy
from podsim.fleet.queue_engine import ALL_ENDED, MORE, PAUSE, ROOM, STUCK, advance
from podsim.fleet.queue_state import Plant, Rules, State, Work, grow_spans, new_state
from podsim.native import c_struct

PLACEMENTS = {"first-fit": codes.FIRST_FIT, "best-fit": codes.BEST_FIT, "spread": codes.SPREAD}
"""The placements: the first node that fits; the fullest node that fits, and few leaves; any GPUs on few nodes."""
_MOST_GPUS = 1_000_000
_PATIENCE = 40
"""The number of draws of failures after which an idle machine with waiting jobs is an error."""
_SLICE = 0.1
"""s. The approximate time of one call of the kernel."""
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Equal nodes under leaf switches; a single node with all GPUs means a machine without topology."""

    nodes: int = 1
    gpus_per_node: int
    nodes_per_leaf: int = 0
    """The number of nodes under a leaf switch; 0: all nodes."""
    placement: str = "best-fit"
    """A key of PLACEMENTS."""

    def __post_init__(self) -> None:
        """Raise ClusterError for an impossible machine."""
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
        raise_all(problems, ClusterError)

    @property
    def gpus(self) -> int:
        """The number of GPUs of all nodes."""
        return self.nodes * self.gpus_per_node

    def plant(self) -> Plant:
        """The machine as arrays for the kernels."""
        leaf = (
            np.arange(self.nodes) // self.nodes_per_leaf
            if self.nodes_per_leaf
            else np.zeros(self.nodes, np.int64)
        )
        return Plant(
            size=self.gpus_per_node, leaf=leaf.astype(np.int64), rule=PLACEMENTS[self.placement], nodes=self.nodes,
            leaves=int(leaf.max()) + 1, changes=False, accesses=1, allowed=np.ones(self.nodes, np.uint8),
            window=np.zeros(0, codes.WINDOW_RECORD), windows=0, opens=np.zeros(0, np.uint8), bell=np.zeros(0), bells=0,
            outage=np.zeros(0, codes.OUTAGE_RECORD), outages=0, horizon=np.inf,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    """The runs of each job: arrays by job [J] and by span [S], with spans in order of their start."""

    jobs: Jobs
    machine: Machine
    policy: Policy
    start: Floats
    """s. The first start, [J]."""
    end: Floats
    """s. The end, [J]."""
    runs: Ints
    """The number of starts, [J]."""
    span_job: Ints
    """The job of each span, [S]; the next fields have the same shape."""
    span_start: Floats
    span_end: Floats
    span_node: Ints
    """The first node of each span."""
    span_reach: Ints
    """The distance class of each span: 0 on one node, 1 under one leaf, 2 under several."""
    scattered: float
    """The GPU-seconds that were free and enough for the first job of the queue, but too scattered."""
    decisions: int
    late: int
    """The number of missed reservations, because GPUs were too scattered."""
    size: Floats
    """The number of GPUs that each job asks for, a fraction for a MIG instance, [J]."""
    span_size: Floats
    """The number of GPUs of each span, [S]."""
    failed: int = 0
    """The number of times that a failure stopped a job."""
    undone: float = 0.0
    """The GPU-seconds of work that failures lost."""
    away: float = 0.0
    """The GPU-seconds of nodes out of service."""
    span_gpu: Ints | None = None
    """The GPU of each span's instance, [S]; None without MIG jobs, as the next field."""
    span_slice: Ints | None = None
    """The first memory slice of each span's instance."""
    relaid: int = 0
    """The number of times that a GPU's layout changed for a job."""
    spent: float = 0.0
    """The GPU-seconds that jobs held before their first step: start, restart, container, change of a layout."""
    lost: float = 0.0
    """The GPU-seconds that were free but useless to a job, in the mean over the trace."""


def find_too_large(jobs: Jobs, machine: Machine) -> Ints:
    """The positions of the jobs that are too large for this machine."""
    return np.flatnonzero(jobs.gpus > machine.gpus)


def run_queue(
    jobs: Jobs,
    machine: Machine,
    policy: Policy,
    *,
    operations: Operations | None = None,
    progress: Progress | None = None,
) -> Schedule:
    """The schedule of jobs in the queue of a machine under a policy.

    `operations` says what happens to the nodes; `progress` is called with (ended jobs, all jobs).  Raises PodsimError for
    jobs larger than the machine, for a policy that moves jobs whose speed depends on their placement, and for jobs that
    would never end.
    """
    large = find_too_large(jobs, machine)
    if len(large):
        examples = ", ".join(f"job {str(jobs.ids[j])[:40]}: {jobs.gpus[j]:,}" for j in large[:5])
        raise PodsimError(
            f"{len(large):,} jobs need more than the {machine.gpus:,} GPUs of the machine ({examples}); leave them out,"
            f" or give it {jobs.gpus.max():,} GPUs"
        )
    if jobs.mig:
        raise PodsimError("some jobs need MIG instances; use podsim.fleet.sliced.run_sliced")
    if policy.moves and np.any(jobs.slow != 1.0):
        raise PodsimError(
            f"policy {policy.name} moves running jobs at no cost, so their speed must not depend on placement"
        )
    work, plant, rules = jobs.work(), machine.plant(), policy.rules(machine.gpus)
    outages = None
    if operations is not None:
        _check_operations(jobs, machine, policy, operations)
        work.job["tier"] = operations.tiers_of(jobs) if policy.tiers else 0
    if operations is not None and not operations.is_empty:
        plant, work.job["access"] = operations.change(plant, jobs)
        outages = Outages(operations, machine.nodes)
        plant = outages.extend(plant, 0.0)
    if policy.elastic:
        work = work._replace(goodput=goodput_rates(jobs, policy, operations, machine.gpus_per_node))
    state = _play(work, plant, rules, progress, outages)
    count = int(state.number[codes.SPANS])
    spans = state.span_job[:count]
    start = np.full(len(jobs), np.inf)
    np.minimum.at(start, spans, state.span_start[:count])
    return Schedule(
        jobs=jobs, machine=machine, policy=policy, start=start, end=state.job["end"].copy(),
        runs=state.job["runs"].copy(),
        span_job=spans.copy(), span_start=state.span_start[:count].copy(), span_end=state.span_end[:count].copy(),
        span_node=state.span_node[:count].copy(), span_reach=state.span_reach[:count].copy(),
        size=jobs.gpus.astype(np.float64), span_size=state.span_gpus[:count].astype(np.float64),
        failed=int(state.number[codes.FAILED]), undone=float(state.time[codes.LOST]),
        away=float(state.time[codes.AWAY]) * machine.gpus_per_node,
        spent=float(state.time[codes.SPENT]), late=int(state.number[codes.LATE]),
        scattered=float(state.time[codes.SPLIT]), decisions=int(state.number[codes.DECISIONS]),
    )  # fmt: skip


def _check_operations(jobs: Jobs, machine: Machine, policy: Policy, operations: Operations) -> None:
    """Raise PodsimError for a policy that cannot live with changes, and for jobs that would never start or end."""
    if policy.backfill == "conservative" and not (operations.is_empty and not policy.tiers):
        raise PodsimError(
            "policy conservative reserves GPUs of a machine that does not change; with failures, drains, windows,"
            " partitions or tiers take easy"
        )
    room = operations.room_for(jobs, machine.nodes, machine.gpus_per_node)
    small = np.flatnonzero(jobs.gpus > room)
    if len(small):
        raise PodsimError(
            f"job {str(jobs.ids[small[0]])[:40]}: {jobs.gpus[small[0]]:,} GPUs, but the nodes that it may use have"
            f" {room[small[0]]:,} in service"
        )
    cycle = policy.saves + policy.checkpoint if policy.saves else 0.0
    endless = endless_jobs(jobs, operations, machine.gpus_per_node, cycle, max(policy.start, policy.restart))
    if endless:
        raise PodsimError(
            f"{', '.join(endless)}: failures come faster than its progress is saved; save more often, as --saves 10min"
        )


def _play(
    work: Work, plant: Plant, rules: Rules, progress: Progress | None, outages: Outages | None
) -> State:
    """The state after the last job's end.

    The kernel returns after a number of rounds that take a fraction of a second, so that Ctrl-C works.
    """
    state, rounds, said, idle, ended = new_state(work, plant, rules), 16, PAUSE, 0, 0
    inputs, struct = [c_struct(part) for part in (work, plant, rules)], c_struct(state)
    while said != ALL_ENDED:
        began = time.monotonic()
        said = advance(*inputs, struct, rounds)
        assert said in (ALL_ENDED, PAUSE, ROOM) or outages is not None
        is_idle = state.number[codes.ENDED] == ended and not state.number[codes.BUSY]
        idle = idle + 1 if said == MORE and is_idle else 0
        ended = state.number[codes.ENDED]
        if said == STUCK or idle > _PATIENCE:
            raise PodsimError(_never_started(state))
        if said == MORE and outages is not None:
            plant = outages.extend(plant, plant.horizon)
            state.number[codes.OUTAGE], inputs[1] = 0, c_struct(plant)
        if said == ROOM:
            state = grow_spans(state)
            struct = c_struct(state)
        if progress is not None:
            progress(int(state.number[codes.ENDED]), len(work.job))
        took = time.monotonic() - began
        rounds = max(rounds // 2, 1) if took > 2 * _SLICE else rounds * 2 if took < _SLICE else rounds
    return state


def _never_started(state: State) -> str:
    left = np.flatnonzero(state.job["status"] == codes.WAITING)
    return (
        f"{len(left):,} jobs never start, as number {left[0] + 1:,} of the trace: the nodes"
        " that they may use are out of service, or closed for a window before their limit"
    )


def part_of(progress: Progress | None, index: int, count: int) -> Progress | None:
    """What counts the jobs of one of several policies, or the orders of a packer, after those before it."""
    if progress is None:
        return None
    return lambda done, total: progress(index * total + done, count * total)
