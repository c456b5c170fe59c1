"""How long a pipeline takes: the longest paths through its schedule's table, as counts of what lies on them.

A schedule takes as long as the longest path through order and dependencies. The table is played with durations that
are typical of the model, and the path that turns out longest is kept as counts: so many passes of each kind through
each block, so many sends. A path is as long as the sum of its counts times the durations of a plan, so the longest of
a few paths bounds every play from below, and equals it where one of them is the critical one. The bubble is what a
path has beyond the work of one rank: nothing about a bubble is put in.

Axes: J paths, W kinds of work, B blocks, K plans (distinct keys), C columns (COLUMNS of B blocks).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from podsim.training.pipeline import part_blocks
from podsim.training.plan import SCHEDULE_CODES, SPLIT_BACKWARD, Array, Plan, Schedule
from podsim.training.schedules.table import Work
from podsim.training.unique import gathered

if TYPE_CHECKING:
    from podsim.training.schedules import ScheduleTable
    from podsim.workload.graph import Model

__all__ = ["PATH_KEY", "Chosen", "Paths", "paths_table"]

PATH_KEY = ("schedule", "pp", "virtual_stages", "dp", "micro_batch", "global_batch")
_LOOSE = tuple(int(code) for code in SPLIT_BACKWARD)
_NAMES = {code: name for name, code in SCHEDULE_CODES.items()}
_TYPICAL = ((1.0, 1.0, 1.0, 0.0, 0.01), (1.0, 1.0, 0.3, 0.3, 0.0), (1.5, 1.0, 0.6, 0.2, 0.25))
"""durations that paths are found with, relative to one layer's forward: (input gradient, weight gradient, how much the
head's share of the arithmetic weighs, a send, what a send takes of the compute stream)"""
_APART = (
    *_TYPICAL, (2.5, 1.0, 1.0, 0.0, 0.01), (1.2, 0.8, 1.5, 0.25, 0.02), (1.5, 1.0, 1.5, 0.0, 0.01),
    (2.0, 1.0, 0.5, 0.0, 0.01),
)  # fmt: skip
"""the same for schedules with weight gradients apart, whose longest path depends on durations more than others' does"""


@dataclass(frozen=True)
class Paths:
    """Counts along J paths of K pipelines; a path that a pipeline lacks repeats another."""

    forward_JBK: Array
    """forward passes through each block"""
    backward_JBK: Array
    """backward passes through each block, or gradients of the input alone"""
    apart_JBK: Array
    """gradients of the weights alone, less gradients of the input alone"""
    passes_JK: Array
    """forward actions"""
    layers_JK: Array
    """layers (not embedding nor head) that they pass through"""
    back_passes_JK: Array
    """backward actions; where the gradients are apart, one gathers weights and the other reduces: pairs of both"""
    back_layers_JK: Array
    back_edges_JK: Array
    """those that pass through the embedding"""
    ahead_JK: Array
    """activations sent from rank to rank that are waited for"""
    back_JK: Array
    """gradients sent back that are waited for"""
    sends_JK: Array
    """both"""
    charges_JK: Array
    """sends and receives that take the compute stream of their rank on the path"""
    closing_JK: Array
    """last backward passes of stages on the path, the very last apart"""
    staying_JK: Array
    """of these, those after which the path stays on their rank"""
    after_JK: Array
    """passes that follow there at least, before the next of these"""
    paired_JBK: Array
    """forward passes through each block beside another pass, which hides their exchanges"""
    paired_back_JBK: Array
    """backward passes beside another"""
    pairs_JK: Array
    """pairs of passes beside each other"""
    first_JK: Array
    """whether a path ends on the rank that holds the embedding"""

    def take(self, index: Array) -> Chosen:
        """The pipelines at an index."""
        return Chosen(self, index)


class Chosen:
    """Some of the pipelines' paths: columns of Paths under their names, gathered when they are first asked for."""

    def __init__(self, paths: Paths, index: Array) -> None:
        """Nothing is gathered yet."""
        self._paths, self._index = paths, index

    def take(self, rows: Array) -> Chosen:
        """Some of them."""
        return Chosen(self._paths, self._index[rows])

    def __getattr__(self, name: str) -> Array:
        """A column for the chosen pipelines."""
        column = gathered(getattr(self._paths, name), self._index)
        setattr(self, name, column)
        return column


class _Counts(NamedTuple):
    """One path."""

    works_WB: Array
    actions_W: Array
    ahead: Array
    back: Array
    charges: Array
    closing: Array
    staying: Array
    after: Array
    paired_WB: Array
    pairs: Array
    first: Array

    def plus(self, other: _Counts, times: float) -> _Counts:
        """This path and another so many times."""
        pairs: list[tuple[Array, Array]] = list(zip(self, other, strict=True))
        return _Counts(*(np.asarray(a + times * b) for a, b in pairs))

    def equals(self, other: _Counts) -> bool:
        """Whether both count the same."""
        pairs: list[tuple[Array, Array]] = list(zip(self, other, strict=True))
        return all(np.array_equal(a, b) for a, b in pairs)


def paths_table(model: Model, plan: Plan) -> Paths:
    """Paths of K plans that differ in PATH_KEY."""
    columns = (plan.schedule, plan.pp, plan.virtual_stages, plan.micro_batches)
    keys = zip(*(np.broadcast_to(np.atleast_1d(c), plan.size).tolist() for c in columns), strict=True)
    return _stacked(model.order, len(model.kinds), _block_shares(model), tuple(keys))


@lru_cache(maxsize=64)
def _stacked(
    order: tuple[int, ...], width: int, shares: tuple[float, ...], keys: tuple[tuple[int, ...], ...]
) -> Paths:
    """Paths of pipelines (schedule, ranks, chunks, micro-batches), side by side."""
    found = [_paths(order, width, shares, *map(int, key)) for key in keys]
    depth = max(len(paths) for paths in found)
    full = [paths + (paths[0],) * (depth - len(paths)) for paths in found]

    def stacked(field: int) -> Array:
        return np.moveaxis(np.array([[path[field] for path in paths] for paths in full], dtype=float), 0, -1)

    (
        works_JWBK,
        actions_JWK,
        ahead_JK,
        back_JK,
        charges_JK,
        closing_JK,
        staying_JK,
        after_JK,
        paired_JWBK,
        pairs_JK,
        first_JK,
    ) = map(stacked, range(len(_Counts._fields)))
    inner_JWK = works_JWBK[:, :, 1:-1].sum(axis=2)
    forward, backward, data, weight = (int(work) for work in Work)
    whole = [
        columns[:, backward] + np.minimum(columns[:, data], columns[:, weight])
        for columns in (actions_JWK, inner_JWK, works_JWBK[:, :, 0])
    ]
    return Paths(
        forward_JBK=works_JWBK[:, forward], backward_JBK=works_JWBK[:, backward] + works_JWBK[:, data],
        apart_JBK=works_JWBK[:, weight] - works_JWBK[:, data], passes_JK=actions_JWK[:, forward],
        layers_JK=inner_JWK[:, forward], back_passes_JK=whole[0], back_layers_JK=whole[1], back_edges_JK=whole[2],
        ahead_JK=ahead_JK, back_JK=back_JK, sends_JK=ahead_JK + back_JK, charges_JK=charges_JK, closing_JK=closing_JK,
        staying_JK=staying_JK, after_JK=after_JK,
        paired_JBK=paired_JWBK[:, forward], paired_back_JBK=paired_JWBK[:, backward] + paired_JWBK[:, data],
        pairs_JK=pairs_JK, first_JK=first_JK > 0,
    )  # fmt: skip


def _block_shares(model: Model) -> tuple[float, ...]:
    """Arithmetic of each block's forward pass over that of the first kind of layer, in steps of a tenth."""
    flops = []
    for block in model.kinds:
        gemms = sum(op.n * op.k * (block.top_k if op.expert else 1) for op in block.ops if op.kind == "gemm")
        cores = sum(op.heads * op.head_dim * 2 * model.sequence for op in block.ops if op.kind == "attention")
        flops.append(float(gemms + cores))
    return tuple(round(f / max(flops[1], 1.0), 1) for f in flops)


@lru_cache(maxsize=16384)
def _paths(
    order: tuple[int, ...], width: int, shares: tuple[float, ...], schedule: int, p: int, v: int, m: int
) -> tuple[_Counts, ...]:
    """Distinct paths of one pipeline; beyond a few rounds of micro-batches each grows by the same counts a round."""
    if p == 1:
        counts = np.bincount(np.array([0, *order, width - 1]), minlength=width).astype(float)
        works = np.zeros((4, width))
        works[:2] = m * counts
        none = np.zeros(())
        return (
            _Counts(
                works_WB=works, actions_W=np.array([m, m, 0.0, 0.0]), ahead=none, back=none, charges=none, closing=none,
                staying=none, after=none, paired_WB=np.zeros_like(works), pairs=none, first=np.ones(()),
            ),
        )  # fmt: skip
    short = 3 * p + m % p
    if m <= short + p:
        return _distinct(list(_each(order, width, shares, schedule, p, v, m)))
    few, more = (_each(order, width, shares, schedule, p, v, n) for n in (short, short + p))
    steps = [b.plus(a, -1.0) for a, b in zip(few, more, strict=True)]
    if len(order) % (p * v) or schedule in _LOOSE:  # it may not grow alike: then every micro-batch is played
        last = _each(order, width, shares, schedule, p, v, short + 2 * p)
        if any(not b.plus(step, 1.0).equals(c) for b, step, c in zip(more, steps, last, strict=True)):
            return _distinct(list(_each(order, width, shares, schedule, p, v, m)))
    return _distinct([a.plus(step, (m - short) / p) for a, step in zip(few, steps, strict=True)])


def _distinct(paths: list[_Counts]) -> tuple[_Counts, ...]:
    known: dict[bytes, _Counts] = {}
    for path in paths:
        known.setdefault(np.concatenate([np.ravel(part) for part in path]).tobytes(), path)
    return tuple(known.values())


@lru_cache(maxsize=4096)
def _each(
    order: tuple[int, ...], width: int, shares: tuple[float, ...], schedule: int, p: int, v: int, m: int
) -> tuple[_Counts, ...]:
    """The longest path for each of the typical durations; where any rank may end last, that of the first rank too."""
    from podsim.training.compiled import quickest
    from podsim.training.paths_engine import longest
    from podsim.training.schedules import build, play_table

    table = build(_NAMES[Schedule(schedule)], p, v, m)
    blocks = part_blocks(order, width, table.parts)
    counts_SB = np.stack([np.bincount(np.array(blocks[part]), minlength=width) for part in table.stage_part])
    abroad = _abroad(table)
    need = table.need
    out = []
    loose, early = schedule in _LOOSE, _first_ranks(table)
    for data, weight, head, send, charge in _APART if loose else _TYPICAL:
        layer_B = np.maximum(np.array(shares), 0.02)
        layer_B[-1] *= head
        whole_S = counts_SB @ layer_B
        seconds_WS = np.stack([whole_S, (data + weight) * whole_S, data * whole_S, weight * whole_S])
        seconds_WS[:3] += charge * abroad
        # a send leaves when the pass is done, beside what it takes of the compute stream
        start, end = play_table(table, seconds_WS, send - charge, overlap=0.0)
        forward = table.work == Work.FORWARD
        ends = [int(end.argmax())] + ([int(np.where(early[table.rank], end, -1.0).argmax())] if loose else [])
        for last in ends:
            path, *sends = quickest(longest, len(table))(
                start, end, need, table.rank, table.pointer, table.beside, forward, send - charge, last
            )
            out.append(_counted(table, path, sends, counts_SB, abroad))
    return tuple(out)


def _stays(ends: Array, rank: Array) -> tuple[int, int]:
    """(closing passes after which the path stays on their rank, passes that follow there at least before another).

    `ends`: which actions of the path, last first, are closing passes.
    """
    following = []
    for at in np.flatnonzero(ends[1:]) + 1:
        count = 1
        while count < at and rank[at - count] == rank[at] and not ends[at - count]:
            count += 1
        if rank[at - 1] == rank[at]:
            following.append(count)
    return len(following), min(following, default=0)


def _first_ranks(table: ScheduleTable) -> Array:
    """Whether a rank holds the model's first part."""
    out = np.zeros(table.ranks, bool)
    out[table.stage_rank[table.stage_part == 0]] = True
    return out


def _abroad(table: ScheduleTable) -> Array:
    """Whether a stage has a neighbour on another rank, as 0 or 1."""
    out = np.zeros(table.stages)
    for other in (table.stage_before, table.stage_after):
        out = np.maximum(out, (other >= 0) & (table.stage_rank[other] != table.stage_rank))
    return out


def _counted(table: ScheduleTable, path: Array, sends: list[int], counts_SB: Array, abroad: Array) -> _Counts:
    work, stage = table.work[path], table.stage[path]
    works = np.zeros((4, counts_SB.shape[1]))
    np.add.at(works, work, counts_SB[stage].astype(float))
    pair = (table.beside | np.append(table.beside[1:], False))[path]
    paired = np.zeros_like(works)
    np.add.at(paired, work[pair], counts_SB[stage[pair]].astype(float))
    ahead, back = (np.array(float(n)) for n in sends)
    charged = np.array((abroad[stage] * (work != Work.WEIGHT)).sum()) - ahead - back
    gradient = np.flatnonzero((table.work == Work.BACKWARD) | (table.work == Work.WEIGHT))
    last = np.full(table.stages, -1)
    last[table.stage[gradient]] = gradient
    ends = last[stage] == path
    staying, after = _stays(ends, table.rank[path])
    first = np.array(float(_first_ranks(table)[table.rank[path[0]]]))
    return _Counts(
        works, np.bincount(work, minlength=4).astype(float), ahead, back, charged,
        np.array(float(max(ends.sum() - 1, 0))), np.array(float(staying)), np.array(float(after)), paired,
        np.array(pair.sum() / 2.0), first,
    )  # fmt: skip
