"""Steps of a training run on the shaped links of an emulated cluster, played: passes, tensor exchanges, sends, gradients.

What each rank runs follows from the plan as the lab runs it: gloo's collectives are rings, a reduce-scatter is an
all-reduce of which each rank keeps its part, and a pipeline stage receives where PyTorch's runtime posts it. The compute
of a pass is the processor time that the run measured. Source of the order of sends and receives: `_add_send_recv` of
torch.distributed.pipelining.schedules.
Known error: processors that other programs use; buckets of DistributedDataParallel close at a tensor, here at a size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from podsim.acceptance.shaped_links import emulated_buckets, emulated_fabric
from podsim.answers.trained import MeasuredTraining
from podsim.errors import LabError
from podsim.lab.collective_job import sum_table
from podsim.lab.training.training_plan import gpt_plan
from podsim.network.collectives import Table
from podsim.network.collectives.algorithms import servers
from podsim.network.collectives.rings import ring_all_gather, ring_all_reduce
from podsim.schedules.actions import ScheduleTable, Work
from podsim.schedules.entries import build
from podsim.simulation.rank_ops import ELEMENT, RankOps
from podsim.simulation.shaped_play import simulate_shaped
from podsim.training.memory import weight_table
from podsim.training.pipeline_stages import part_blocks
from podsim.training.plan import Plan
from podsim.workload.specification import Transformer
from podsim.workload.transformer import build as build_model

_STEPS = 3
"""steps that are played; the last one counts"""
_FIRST, _BUCKET = 1 << 20, 25 << 20
"""B of the first bucket of DistributedDataParallel, and of the others"""


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A plan as it was run, and what its ranks move."""

    run: MeasuredTraining
    plan: Plan
    network: Transformer
    table: ScheduleTable
    all_reduce: Table | None
    gradients: tuple[float, ...]
    """B. The gradients of a rank of each pipeline rank."""
    moves: bool = True
    """Whether anything is sent; otherwise ranks only compute."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(tensor ranks, replicas, pipeline ranks)."""
        return int(self.plan.tp), int(self.plan.dp), int(self.plan.pp)

    @property
    def activations(self) -> float:
        """B of the activations of a micro-batch between two layers."""
        return float(int(self.plan.micro_batch) * self.network.sequence * self.network.hidden * ELEMENT)

    def rank(self, pipe: int, replica: int, tensor: int) -> int:
        """The number of a rank in the job."""
        tp, dp, _ = self.shape
        return (pipe * dp + replica) * tp + tensor

    def seconds(self, kind: str, times: int = 1) -> float:
        """Seconds of one of `times` spans of a kind in a step, on processors that ranks share."""
        tp, dp, _ = self.shape
        return self.run.processor.get(kind, 0.0) / times * max(tp * dp / self.run.cores, 1.0)


def emulated_step(run: MeasuredTraining) -> tuple[float, dict[str, float]]:
    """(s of a step of a run on emulated links, s by part: what ranks compute, and what links add).

    Raises LabError for a run that was divided by ZeRO, or kept nothing of its processor time.
    """
    case = _case(run)
    seconds, computed = _played(case), _played(replace(case, moves=False))
    return seconds, {"compute": computed, "links": seconds - computed}


def _case(run: MeasuredTraining) -> _Case:
    if not run.processor:
        raise LabError("the run says nothing of its processor time; train again with this version of podsim")
    if int(run.plan["zero"]):
        raise LabError(f"zero={run.plan['zero']} on emulated links is not played; train with zero 0")
    if run.emulated is None or run.emulated.ranks != run.ranks:
        raise LabError(f"{run.ranks} ranks trained on links of other ranks; all of them must take part")
    wanted = ("tp", "pp", "dp", "virtual_stages", "micro_batch", "schedule", "sequence_parallel", "recompute")
    given: dict[str, Any] = {name: run.plan.get(name) for name in wanted}
    given |= {
        "batch": int(run.plan["global_batch"]),
        "sequence": run.sequence,
        "overrides": dict(run.changes),
    }
    plan, network = gpt_plan(run.model, given, run.ranks)
    model, parts = build_model(network), int(plan.pp) * int(plan.virtual_stages)
    table = build(str(run.plan.get("schedule", "1f1b")) if int(plan.pp) > 1 else "gpipe", int(plan.pp),
                  int(plan.virtual_stages), int(plan.micro_batches))  # fmt: skip
    blocks, weights = part_blocks(model.order, len(model.kinds), parts), weight_table(model, plan.arrays())
    sizes = [ELEMENT * float((weights.trained or weights).dense[list(part), 0].sum()) for part in blocks]
    if network.tied and parts == 1:
        sizes[0] -= ELEMENT * float(weights.tied[0])
    held = [
        sum(
            sizes[int(part)]
            for part, rank in zip(table.stage_part, table.stage_rank, strict=True)
            if rank == pipe
        )
        for pipe in range(table.ranks)
    ]
    return _Case(
        run=run, plan=plan, network=network, table=table, gradients=tuple(held),
        all_reduce=sum_table(run.all_reduce, *servers(int(plan.dp))),
    )  # fmt: skip


def _played(case: _Case) -> float:
    """Seconds of the last of some steps in a row."""
    entered = _Steps(case)
    ends = [entered.step() for _ in range(_STEPS)]
    made = case.run.emulated
    assert made is not None
    ops = entered.ops.ops(emulated_fabric(made, case.run.message))
    buckets = emulated_buckets(made)
    end = simulate_shaped(ops, buckets)[1]
    last = [float(end[each].max()) for each in ends]
    return last[-1] - last[-2]


class _Steps:
    """The ops of steps in a row."""

    def __init__(self, case: _Case) -> None:
        self.case, self.ops = case, RankOps(case.run.ranks)
        self.last = {rank: self.ops.compute(rank, 0.0) for rank in range(case.run.ranks)}
        self.order = list(_actions(case.table))

    def step(self) -> list[int]:
        """Enter one step; its last op on each rank."""
        case, table = self.case, self.case.table
        tp, dp, _ = case.shape
        arrived: dict[tuple[int, int], int] = {}
        for action, receiver in self.order:
            pipe = int(table.rank[action])
            for replica in range(dp):
                members = [case.rank(pipe, replica, tensor) for tensor in range(tp)]
                self._pass(action, members, arrived)
                if receiver is not None and case.moves:
                    for tensor, rank in enumerate(members):
                        there = case.rank(int(table.rank[receiver]), replica, tensor)
                        posted = self.ops.compute(there, 0.0, [self.last[there]])
                        self.last[there] = posted
                        arrived[receiver, there] = self.ops.send(
                            rank, there, case.activations, [self.last[rank], posted]
                        )
        self._gradients()
        for rank in self.last:
            self._compute(rank, case.seconds("optimizer"))
        return list(self.last.values())

    def _compute(self, rank: int, seconds: float, after: Sequence[int] = ()) -> None:
        self.last[rank] = self.ops.compute(rank, seconds, [self.last[rank], *after])

    def _pass(self, action: int, members: Sequence[int], arrived: dict[tuple[int, int], int]) -> None:
        """A pass of a micro-batch on the tensor ranks of a stage."""
        case, table = self.case, self.case.table
        work = Work(int(table.work[action]))
        exchanges = list(_exchanges(case, int(table.stage[action]), work)) if len(members) > 1 else []
        kind = {Work.FORWARD: "forward", Work.WEIGHT: "backward weight"}.get(work, "backward")
        times = int((table.work[table.row(int(table.rank[action]))] == work).sum())
        part = case.seconds(kind, times) / (len(exchanges) + 1)
        for rank in members:
            self._compute(rank, part, [arrived[action, rank]] if (action, rank) in arrived else [])
        for ring, size in exchanges:
            self._together(ring(len(members)), size, members)
            for rank in members:
                self._compute(rank, part)

    def _together(self, table: Table, size: float, members: Sequence[int]) -> None:
        if self.case.moves and len(members) > 1:
            self.last |= self.ops.collective(table, size, members, self.last, table.name)

    def _gradients(self) -> None:
        """Gradients added up over the replicas."""
        case = self.case
        tp, dp, pp = case.shape
        for pipe in range(pp):
            left = case.gradients[pipe]
            sizes = [left]
            if case.plan.overlap_grad and tp == pp == 1:
                rest = max(left - _FIRST, 0.0)
                sizes = [min(left, _FIRST), *[_BUCKET] * int(rest // _BUCKET), rest % _BUCKET]
            for tensor in range(tp):
                members = [case.rank(pipe, replica, tensor) for replica in range(dp)]
                for rank in members:
                    self._compute(rank, case.seconds("gradients"))
                for size in sizes:
                    self._together(case.all_reduce or ring_all_reduce(dp), size, members)


def _exchanges(case: _Case, stage: int, work: Work) -> Iterator[tuple[partial[Table], float]]:
    """(ring, B) of the tensor exchanges of a pass, in order; those of a weight gradient alone are none."""
    table, network, each = case.table, case.network, case.activations
    part = int(table.stage_part[stage])
    layers = (
        len(part_blocks((1,) * network.layers, 3, table.parts)[part])
        - (part == 0)
        - (part == table.parts - 1)
    )
    reduce, gather = partial(ring_all_reduce), partial(ring_all_gather)
    divided = bool(case.plan.sequence_parallel)
    meeting = [(gather, each), (reduce, each)] if divided else [(reduce, each)]
    logits = (gather, float(int(case.plan.micro_batch) * network.sequence * network.vocab * ELEMENT))
    inside = meeting * (2 * layers)
    if work == Work.FORWARD:
        if part == 0:
            yield reduce, each
            if network.position == "learned":
                yield reduce, float(network.sequence * network.hidden * ELEMENT)
        yield from inside
        if part == table.parts - 1:
            yield from [(gather, each), logits] if divided else [logits]
    elif work != Work.WEIGHT:
        if part == table.parts - 1:
            yield reduce, each
        again = case.plan.describe()["recompute"] == "full"
        yield from inside * (2 if again else 1)


def _actions(table: ScheduleTable) -> Iterator[tuple[int, int | None]]:
    """(action, the action on another rank that needs it) in the order in which PyTorch enters sends and receives."""
    need = table.need
    waiting = {rank: list(range(*table.row(rank).indices(len(table)))) for rank in range(table.ranks)}
    entered = np.zeros(len(table), bool)
    wanted = {int(need[action]): action for action in np.flatnonzero(table.abroad).tolist()}
    while any(waiting.values()):
        for rank in range(table.ranks):
            if waiting[rank] and (need[waiting[rank][0]] < 0 or entered[need[waiting[rank][0]]]):
                action = waiting[rank].pop(0)
                entered[action] = True
                yield action, wanted.get(action)
