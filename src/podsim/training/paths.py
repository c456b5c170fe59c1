"""How long a pipeline takes: the longest paths through its schedule's table, as counts of what lies on them.

A schedule takes as long as the longest path through order and dependencies. The table is played with durations that
are typical of the model, and the path that turns out longest is kept as counts: so many passes of each kind through
each block, so many sends. A path is as long as the sum of its counts times the durations of a plan, so the longest of
a few paths bounds every play from below, and equals it where one of them is the critical one. The bubble is what a
path has beyond the work of one rank: nothing about a bubble is put in.

Axes: J paths, W kinds of work, B blocks, K plans (distinct keys), S stages, D durations, Q paths of a table, C counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from podsim.schedules import ScheduleTable
from podsim.schedules.actions import Work
from podsim.schedules.entries import build
from podsim.schedules.joined import Joined
from podsim.training.paths_counts import Counts, alone, counted
from podsim.training.paths_played import longest_paths
from podsim.training.pipeline import part_blocks
from podsim.training.plan import SCHEDULE_CODES, SPLIT_BACKWARD, Array, Plan, Schedule
from podsim.training.unique import gathered
from podsim.workload.graph import Model

PATH_KEY = ("schedule", "pp", "virtual_stages", "dp", "micro_batch", "global_batch")
_LOOSE = tuple(int(code) for code in SPLIT_BACKWARD)
_NAMES = {code: name for name, code in SCHEDULE_CODES.items()}
_TYPICAL = ((1.0, 1.0, 1.0, 1.0, 0.0, 0.01), (1.0, 1.0, 0.3, 0.3, 0.3, 0.0), (1.5, 1.0, 0.6, 0.6, 0.2, 0.25))
"""durations that paths are found with, relative to one layer's forward: (input gradient, weight gradient, how much the
head's share of the arithmetic weighs forward, and backward, a send, what a send takes of the compute stream)"""
_IN_TURN = (*_TYPICAL, (1.0, 1.0, 1.0, 0.0, 0.1, 0.0), (1.0, 1.0, 0.0, 1.0, 0.1, 0.0))
"""the same for schedules with all forward passes before the backward ones: each half waits for its own slowest rank, as a
head is not computed again"""
_APART = (
    *_TYPICAL, (2.5, 1.0, 1.0, 1.0, 0.0, 0.01), (1.2, 0.8, 1.5, 1.5, 0.25, 0.02), (1.5, 1.0, 1.5, 1.5, 0.0, 0.01),
    (2.0, 1.0, 0.5, 0.5, 0.0, 0.01),
)  # fmt: skip
"""the same for schedules with weight gradients apart, whose longest path depends on durations more than others' does"""
_AT_ONCE = 1_000_000
"""actions of tables that are played together"""
_LONGEST = 2048
"""micro-batches up to which a table that does not grow alike is played whole"""
_ROUNDS = 64
"""rounds of micro-batches that the growth of longer ones is taken over"""


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
    far_XJK: Array
    """of both, those to another node if so many ranks share one (plan.BESIDE)"""
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


class _Blocks(NamedTuple):
    """What paths need to know of a model."""

    order: tuple[int, ...]
    """kind of each layer"""
    width: int
    """kinds of blocks"""
    shares: tuple[float, ...]
    """arithmetic of each block's forward pass over that of the first kind of layer, in steps of a tenth"""


_Sizes: TypeAlias = tuple[int, int, int, int]
"""of a pipeline or its table: schedule, ranks, chunks, micro-batches"""


def paths_table(model: Model, plan: Plan) -> Paths:
    """Paths of K plans that differ in PATH_KEY."""
    keys = plan.rows(("schedule", "pp", "virtual_stages", "micro_batches"))
    return _stacked(_Blocks(model.order, len(model.kinds), _block_shares(model)), tuple(keys))


@lru_cache(maxsize=64)
def _stacked(model: _Blocks, keys: tuple[_Sizes, ...]) -> Paths:
    """Paths of pipelines side by side."""
    found = _paths(model, [(int(s), int(p), int(v), int(m)) for s, p, v, m in keys])
    depth = max(len(paths) for paths in found)
    rows_KJ = [np.where(np.arange(depth) < len(paths), np.arange(depth), 0) for paths in found]
    counts = Counts(
        np.stack([paths[row_J] for paths, row_J in zip(found, rows_KJ, strict=True)]), model.width
    )

    def last(column: Array) -> Array:
        return np.ascontiguousarray(np.moveaxis(column, 0, -1))

    works_JWBK, paired_JWBK = last(counts.works_WB), last(counts.paired_WB)
    actions_JWK, inner_JWK = last(counts.actions_W), works_JWBK[:, :, 1:-1].sum(axis=2)
    forward, backward, data, weight = (int(work) for work in Work)
    whole = [
        columns[:, backward] + np.minimum(columns[:, data], columns[:, weight])
        for columns in (actions_JWK, inner_JWK, works_JWBK[:, :, 0])
    ]
    ahead_JK, back_JK = last(counts.ahead), last(counts.back)
    return Paths(
        forward_JBK=works_JWBK[:, forward], backward_JBK=works_JWBK[:, backward] + works_JWBK[:, data],
        apart_JBK=works_JWBK[:, weight] - works_JWBK[:, data], passes_JK=actions_JWK[:, forward],
        layers_JK=inner_JWK[:, forward], back_passes_JK=whole[0], back_layers_JK=whole[1], back_edges_JK=whole[2],
        ahead_JK=ahead_JK, back_JK=back_JK, sends_JK=ahead_JK + back_JK,
        far_XJK=np.ascontiguousarray(np.moveaxis(counts.far_X, (0, 1), (2, 1))), charges_JK=last(counts.charges),
        closing_JK=last(counts.closing), staying_JK=last(counts.staying), after_JK=last(counts.after),
        paired_JBK=paired_JWBK[:, forward], paired_back_JBK=paired_JWBK[:, backward] + paired_JWBK[:, data],
        pairs_JK=last(counts.pairs), first_JK=last(counts.first) > 0,
    )  # fmt: skip


def _block_shares(model: Model) -> tuple[float, ...]:
    flops = []
    for block in model.kinds:
        gemms = sum(op.n * op.k * (block.top_k if op.expert else 1) for op in block.ops if op.kind == "gemm")
        cores = sum(op.heads * op.head_dim * 2 * model.sequence for op in block.ops if op.kind == "attention")
        flops.append(float(gemms + cores))
    return tuple(round(f / max(flops[1], 1.0), 1) for f in flops)


def _paths(model: _Blocks, keys: Sequence[_Sizes]) -> list[Array]:
    """Counts of the distinct paths of each pipeline (J, C); beyond a few rounds each grows by the same counts a round."""
    played = _each(model, [size for key in keys for size in _played_for(model, key)])
    found = [_grown(model, key, played) for key in keys]
    uneven = [key for key, paths in zip(keys, found, strict=True) if paths is None]
    played = _each(model, [size for key in uneven for size in _long_for(key)])
    return [
        _on_average(key, played) if paths is None else paths for key, paths in zip(keys, found, strict=True)
    ]


def _long_for(key: _Sizes) -> list[_Sizes]:
    """Sizes of the tables to play for a pipeline that does not grow alike: its own, or two with many rounds."""
    schedule, p, v, m = key
    if m <= _LONGEST:
        return [key]
    return [(schedule, p, v, _ROUNDS * rounds * p + m % p) for rounds in (1, 2)]


def _on_average(key: _Sizes, played: Mapping[_Sizes, Array]) -> Array:
    """Counts of such a pipeline's paths: its own, or what many rounds add on average (a path's, but for their mean)."""
    _, p, _, m = key
    few, *more = (played[size] for size in _long_for(key))
    if not more:
        return _distinct(few)
    rounds = (m - m % p) / p - _ROUNDS
    return _distinct(few + rounds / _ROUNDS * (more[0] - few))


def _played_for(model: _Blocks, key: _Sizes) -> list[_Sizes]:
    """Sizes of the tables to play for a pipeline: its own, or some with few rounds of micro-batches."""
    schedule, p, v, m = key
    short = 3 * p + m % p
    if p == 1:
        return []
    if m <= short + p:
        return [key]
    # where it may not grow alike, a third says whether it does
    rounds = 3 if len(model.order) % (p * v) or schedule in _LOOSE else 2
    return [(schedule, p, v, short + more * p) for more in range(rounds)]


def _grown(model: _Blocks, key: _Sizes, played: Mapping[_Sizes, Array]) -> Array | None:
    """Counts of a pipeline's paths from those of shorter ones; None where these do not grow alike."""
    _, p, _, m = key
    if p == 1:
        return alone(np.bincount(np.array([0, *model.order, model.width - 1]), minlength=model.width), m)
    few, *others = (played[size] for size in _played_for(model, key))
    if not others:
        return _distinct(few)
    step = others[0] - few
    if len(others) > 1 and not np.array_equal(others[0] + step, others[1]):
        return None
    return _distinct(few + (m - 3 * p - m % p) / p * step)


def _distinct(counts_QC: Array) -> Array:
    known: dict[bytes, int] = {}
    for number, path_C in enumerate(counts_QC):
        known.setdefault(path_C.tobytes(), number)
    return counts_QC[list(known.values())]


@lru_cache(maxsize=16384)
def _cell(model: _Blocks, size: _Sizes) -> list[Array]:
    """Where the paths of a table are kept once it was played; many are played at once, so each is filled in later."""
    return []


def _each(model: _Blocks, sizes: Sequence[_Sizes]) -> dict[_Sizes, Array]:
    """Counts of the longest path of each table for each of the typical durations (Q, C).

    Where any rank may end last, those of the longest that ends on the first rank too.
    """
    cells = {size: _cell(model, size) for size in sizes}
    new_T: dict[tuple[tuple[float, ...], ...], list[_Sizes]] = {_TYPICAL: [], _IN_TURN: [], _APART: []}
    for size, cell in cells.items():
        if not cell:
            new_T[_typical(size[0])].append(size)
    for typical, new in new_T.items():
        for some, tables in _batches(new):
            joined = Joined(tables)
            counts_SB = np.concatenate([_blocks_of_stages(model, table) for table in tables])
            seconds_WSD = _durations(model, counts_SB, joined.is_sending, typical)
            send_D = np.array([send - charge for *_, send, charge in typical])
            traced = longest_paths(joined, seconds_WSD, send_D, first=typical is _APART)
            counts_QC = counted(joined, traced, counts_SB)
            for size, own_QC in zip(some, np.split(counts_QC, len(some)), strict=True):
                cells[size].append(own_QC)
    return {size: cell[0] for size, cell in cells.items()}


def _typical(schedule: int) -> tuple[tuple[float, ...], ...]:
    """The durations that a schedule's paths are found with."""
    if schedule in _LOOSE:
        return _APART
    return _IN_TURN if schedule in (Schedule.GPIPE, Schedule.BREADTH_FIRST) else _TYPICAL


def _batches(sizes: Sequence[_Sizes]) -> Iterator[tuple[list[_Sizes], list[ScheduleTable]]]:
    """The tables of these sizes, so many at once that memory holds them."""
    some: list[_Sizes] = []
    tables: list[ScheduleTable] = []
    for schedule, p, v, m in sizes:
        some.append((schedule, p, v, m))
        tables.append(build(_NAMES[Schedule(schedule)], p, v, m))
        if sum(map(len, tables)) > _AT_ONCE:
            yield some, tables
            some, tables = [], []
    if some:
        yield some, tables


def _blocks_of_stages(model: _Blocks, table: ScheduleTable) -> Array:
    """Copies of each block in each stage (S, B)."""
    parts = part_blocks(model.order, model.width, table.parts)
    return np.stack([np.bincount(part, minlength=model.width) for part in parts])[table.stage_part]


def _durations(
    model: _Blocks, counts_SB: Array, abroad_S: Array, typical: Sequence[tuple[float, ...]]
) -> Array:
    """Seconds of each kind of work on each stage, relative to one layer's forward pass (W, S, D)."""
    out = []
    layer_B = np.maximum(np.array(model.shares), 0.02)
    for data, weight, head, head_back, _, charge in typical:
        ahead_S, back_S = (
            counts_SB @ np.append(layer_B[:-1], share * layer_B[-1]) for share in (head, head_back)
        )
        seconds_WS = np.stack([ahead_S, (data + weight) * back_S, data * back_S, weight * back_S])
        # a send leaves when the pass is done, beside what it takes of the compute stream
        seconds_WS[:3] += charge * abroad_S
        out.append(seconds_WS)
    return np.stack(out, axis=2)
