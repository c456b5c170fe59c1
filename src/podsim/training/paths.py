"""How long a pipeline takes: the longest paths through its schedule's table, as counts of what lies on them.

A schedule takes as long as the longest path through order and dependencies. The table is played with durations that
are typical of the model, and the path that turns out longest is kept as counts: passes of each kind through each block,
and sends. A path is as long as the sum of its counts times the durations of a plan, so the longest of a few paths bounds
every play from below, and equals it where one of them is the critical one. The bubble is what a path has beyond the work
of one rank; no formula for it goes in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from podsim.axes import Shaped
from podsim.errors import NativeError
from podsim.native import is_compiled, load_library
from podsim.schedules.actions import ScheduleTable, Work
from podsim.schedules.entries import build
from podsim.schedules.joined import Joined, is_sending
from podsim.training.layout import Paths
from podsim.training.path_cache import Size, read_counts, write_counts
from podsim.training.pipeline_paths import (
    PathCounts,
    longest_paths,
    path_counts,
    simulated_counts,
    single_rank_counts,
)
from podsim.training.pipeline_stages import part_blocks
from podsim.training.plan import Plan
from podsim.training.plan_values import SCHEDULE_CODES, SPLIT_BACKWARD, Array, Schedule
from podsim.workload.model import Model

PATH_KEY = ("schedule", "pp", "virtual_stages", "dp", "micro_batch", "global_batch")
"""The plan fields that paths depend on."""
_LOOSE = tuple(int(code) for code in SPLIT_BACKWARD)
_NAMES = {code: name for name, code in SCHEDULE_CODES.items()}


class _Durations(NamedTuple):
    """Durations that paths are found with, relative to one layer's forward pass."""

    input: float
    """The gradient of a layer's input."""
    weight: float
    """The gradient of its weights."""
    head: float
    """The weight of the head's share of the arithmetic, forward."""
    head_back: float
    """The same backward."""
    send: float
    """A send from rank to rank."""
    charge: float
    """The compute-stream time of a send."""


_TYPICAL = (
    _Durations(1.0, 1.0, 1.0, 1.0, 0.0, 0.01),
    _Durations(1.0, 1.0, 0.3, 0.3, 0.3, 0.0),
    _Durations(1.5, 1.0, 0.6, 0.6, 0.2, 0.25),
)
_SLOW = _Durations(1.0, 1.0, 1.0, 1.0, 20.0, 0.0)
"""Durations on a slow network, whose path has most sends; the last of each set."""
_IN_TURN = (
    *_TYPICAL,
    _Durations(1.0, 1.0, 1.0, 0.0, 0.1, 0.0),
    _Durations(1.0, 1.0, 0.0, 1.0, 0.1, 0.0),
    _SLOW,
)
"""Durations for schedules with all forward passes before the backward ones: each half waits for its own slowest rank, as
no head is computed again."""
_APART = (
    *_TYPICAL,
    _Durations(2.5, 1.0, 1.0, 1.0, 0.0, 0.01),
    _Durations(1.2, 0.8, 1.5, 1.5, 0.25, 0.02),
    _Durations(1.5, 1.0, 1.5, 1.5, 0.0, 0.01),
    _Durations(2.0, 1.0, 0.5, 0.5, 0.0, 0.01),
    _SLOW,
)
"""Durations for schedules with separate weight gradients, whose longest path depends more on them."""
_USUAL = (*_TYPICAL, _SLOW)
"""Durations for all others."""
_AT_ONCE = 1_000_000
"""The number of actions of the tables that are played together."""
_FEW = 20_000
"""The number of actions from which the C core is loaded and what it counts is kept on disk; numpy plays fewer."""
_MANY = 2_000_000
"""The number of actions from which playing with numpy takes longer than compiling the C core."""
_LONGEST = 2048
"""The number of micro-batches up to which a table with uneven growth is played in full."""
_ROUNDS = 64
"""The number of rounds of micro-batches over which the growth of longer tables is taken."""


class _Blocks(NamedTuple):
    """What paths need to know of a model."""

    order: tuple[int, ...]
    """The kind of each layer."""
    width: int
    """The number of kinds of blocks."""
    shares: tuple[float, ...]
    """The arithmetic of each block's forward pass, relative to the first kind of layer, in tenths."""


class _Size(NamedTuple):
    """A pipeline, or its table."""

    schedule: int
    ranks: int
    chunks: int
    micro_batches: int


def paths_table(model: Model, plan: Plan) -> Paths:
    """Paths of plans that differ in PATH_KEY."""
    rows = plan.rows(("schedule", "pp", "virtual_stages", "micro_batches"))
    blocks = _Blocks(model.order, len(model.kinds), _block_shares(model))
    return _stacked_paths(blocks, tuple(_Size(*map(int, row)) for row in rows))


@lru_cache(maxsize=64)
def _stacked_paths(model: _Blocks, sizes: tuple[_Size, ...]) -> Paths:
    """Paths of pipelines side by side."""
    tables = _pipeline_counts(model, sizes)
    depth = np.arange(max(len(table) for table in tables))
    stacked = np.stack([table[np.where(depth < len(table), depth, 0)] for table in tables])
    counts = PathCounts.from_table(np.moveaxis(stacked, 0, 1), model.width)

    def plans_last(column: Shaped[Array, "path plan ..."]) -> Shaped[Array, "path ... plan"]:
        return np.ascontiguousarray(np.moveaxis(column, 1, -1))

    works, paired = plans_last(counts.works), plans_last(counts.paired)
    actions, layers = plans_last(counts.actions), works[:, :, 1:-1].sum(axis=2)
    forward_sends, backward_sends = plans_last(counts.forward_sends), plans_last(counts.backward_sends)
    is_apart = any(size.schedule in _LOOSE for size in sizes)
    return Paths(
        forward=works[:, Work.FORWARD],
        backward=works[:, Work.BACKWARD] + works[:, Work.INPUT],
        weight=works[:, Work.WEIGHT] - works[:, Work.INPUT] if is_apart else None,
        forward_passes=actions[:, Work.FORWARD],
        forward_layers=layers[:, Work.FORWARD],
        backward_passes=_whole_backward(actions),
        backward_layers=_whole_backward(layers),
        backward_embeddings=_whole_backward(works[:, :, 0]),
        forward_sends=forward_sends,
        backward_sends=backward_sends,
        sends=forward_sends + backward_sends,
        far_sends=np.ascontiguousarray(np.moveaxis(counts.far_sends, -1, 0)),
        charges=plans_last(counts.charges),
        closing=plans_last(counts.closing),
        staying=plans_last(counts.staying),
        passes_after=plans_last(counts.passes_after),
        paired_forward=paired[:, Work.FORWARD],
        paired_backward=paired[:, Work.BACKWARD] + paired[:, Work.INPUT],
        pairs=plans_last(counts.pairs),
        ends_first=plans_last(counts.ends_first) > 0,
    )


def _whole_backward(works: Shaped[Array, "path work plan"]) -> Shaped[Array, "path plan"]:
    """Backward passes, and pairs of both gradients where these are apart."""
    pairs = np.minimum(works[:, Work.INPUT], works[:, Work.WEIGHT])
    return np.asarray(works[:, Work.BACKWARD] + pairs)


def _block_shares(model: Model) -> tuple[float, ...]:
    """Arithmetic of each block, as _Blocks has it."""
    flops = []
    for block in model.kinds:
        gemms = sum(op.n * op.k * (block.top_k if op.expert else 1) for op in block.ops if op.kind == "gemm")
        cores = sum(op.heads * op.head_dim * 2 * model.sequence for op in block.ops if op.kind == "attention")
        flops.append(float(gemms + cores))
    return tuple(round(f / max(flops[1], 1.0), 1) for f in flops)


def _pipeline_counts(model: _Blocks, sizes: Sequence[_Size]) -> list[Shaped[Array, "path count"]]:
    """Counts of the distinct paths of each pipeline; after a few rounds, every further round adds the same counts."""
    played = _simulated_counts(model, [short for size in sizes for short in _short_sizes(size)])
    grown = [_grown_counts(model, size, played) for size in sizes]
    uneven = [size for size, counts in zip(sizes, grown, strict=True) if counts is None]
    played = _simulated_counts(model, [long for size in uneven for long in _long_sizes(size)])
    return [
        _average_counts(size, played) if counts is None else counts
        for size, counts in zip(sizes, grown, strict=True)
    ]


def _short_sizes(size: _Size) -> list[_Size]:
    """Sizes of the tables to play for a pipeline: its own, or some with few rounds of micro-batches."""
    ranks, short = size.ranks, 3 * size.ranks + size.micro_batches % size.ranks
    if ranks == 1:
        return []
    if size.micro_batches <= short + ranks:
        return [size]
    return [size._replace(micro_batches=short + rounds * ranks) for rounds in range(3)]


def _slow_rows(size: _Size) -> int:
    """The number of paths for `_SLOW`, which come last: where any rank may end last, two."""
    return 2 if size.schedule in _LOOSE else 1


def _long_sizes(size: _Size) -> list[_Size]:
    """Sizes of the tables to play for a pipeline with uneven growth: its own, or two with many rounds."""
    if size.micro_batches <= _LONGEST:
        return [size]
    rest = size.micro_batches % size.ranks
    return [size._replace(micro_batches=_ROUNDS * times * size.ranks + rest) for times in (1, 2)]


def _grown_counts(
    model: _Blocks, size: _Size, played: Mapping[_Size, Array]
) -> Shaped[Array, "path count"] | None:
    """Counts of a pipeline's paths from shorter pipelines; None if their growth is uneven.

    The path with most sends is left out where it is another one in each of them.
    """
    ranks, micro_batches = size.ranks, size.micro_batches
    if ranks == 1:
        blocks = np.bincount(part_blocks(model.order, model.width, 1)[0], minlength=model.width)
        return single_rank_counts(blocks, micro_batches)
    few, *others = (played[short] for short in _short_sizes(size))
    if not others:
        return _distinct_rows(few)
    step = others[0] - few
    is_even, slow = (others[0] + step == others[1]).all(axis=1), _slow_rows(size)
    may_be_uneven = len(model.order) % (ranks * size.chunks) or size.schedule in _LOOSE
    if may_be_uneven and not is_even[:-slow].all():
        return None
    is_even[:-slow] = True
    rounds = (micro_batches - 3 * ranks - micro_batches % ranks) / ranks
    return _distinct_rows((few + rounds * step)[is_even])


def _average_counts(size: _Size, played: Mapping[_Size, Array]) -> Shaped[Array, "path count"]:
    """Counts of the paths of a pipeline with uneven growth: its own, or with the mean growth of many rounds."""
    few, *others = (played[long] for long in _long_sizes(size))
    if not others:
        return _distinct_rows(few)
    rounds = (size.micro_batches - size.micro_batches % size.ranks) / size.ranks - _ROUNDS
    return _distinct_rows((few + rounds / _ROUNDS * (others[0] - few))[: -_slow_rows(size)])


def _distinct_rows(counts: Shaped[Array, "path count"]) -> Shaped[Array, "path count"]:
    """The distinct paths, in order of first occurrence."""
    known: dict[bytes, int] = {}
    for number, path in enumerate(counts):
        known.setdefault(path.tobytes(), number)
    return counts[list(known.values())]


@lru_cache(maxsize=16384)
def _cell(model: _Blocks, size: _Size) -> list[Array]:
    """A cell for the counts of a table, which is empty until the table is played with others."""
    return []


def _simulated_counts(model: _Blocks, sizes: Sequence[_Size]) -> dict[_Size, Shaped[Array, "path count"]]:
    """Counts of the longest path of each table for each of the typical durations.

    Where any rank may end last, the longest path that ends on the first rank counts too.
    """
    cells = {size: _cell(model, size) for size in sizes}
    absent = [size for size, cell in cells.items() if not cell]
    is_large = sum(map(_actions, absent)) > _FEW
    kept = read_counts(model) if is_large else {}
    new: dict[tuple[_Durations, ...], list[_Size]] = {_USUAL: [], _IN_TURN: [], _APART: []}
    for size in absent:
        if size in kept:
            cells[size].append(kept[size])
        else:
            new[_typical_durations(size.schedule)].append(size)
    played: dict[Size, Array] = {}
    for typical, own_sizes in new.items():
        for some, tables in _batches(own_sizes):
            counts = _table_counts(model, tables, typical)
            for size, own in zip(some, np.split(counts, len(some)), strict=True):
                cells[size].append(own)
                played[size] = own
    if is_large:
        write_counts(model, played)
    return {size: cell[0] for size, cell in cells.items()}


def _actions(size: _Size) -> int:
    """The passes in a pipeline's table."""
    return 2 * size.ranks * size.chunks * size.micro_batches


def _table_counts(
    model: _Blocks, tables: Sequence[ScheduleTable], typical: tuple[_Durations, ...]
) -> Shaped[Array, "path count"]:
    """Counts of the longest paths of some tables: by the C core, or side by side with numpy if few or without a core."""
    send = np.array([durations.send - durations.charge for durations in typical])
    blocks = [_stage_blocks(model, table) for table in tables]
    is_loose = typical is _APART
    actions = sum(map(len, tables))
    if actions > _FEW and has_core(may_compile=actions > _MANY):
        return np.concatenate([
            simulated_counts(
                table, held, _stage_seconds(model, held, is_sending(table), typical), send, first=is_loose
            )
            for table, held in zip(tables, blocks, strict=True)
        ])  # fmt: skip
    joined, held = Joined(tables), np.concatenate(blocks)
    seconds = _stage_seconds(model, held, joined.is_sending, typical)
    return path_counts(joined, longest_paths(joined, seconds, send, first=is_loose), held)


@cache
def has_core(*, may_compile: bool) -> bool:
    """Whether the C core is there, or can be compiled."""
    try:
        return bool((may_compile or is_compiled()) and load_library())
    except NativeError:
        return False


def _typical_durations(schedule: int) -> tuple[_Durations, ...]:
    """The durations that a schedule's paths are found with."""
    if schedule in _LOOSE:
        return _APART
    return _IN_TURN if schedule in (Schedule.GPIPE, Schedule.BREADTH_FIRST) else _USUAL


def _batches(sizes: Sequence[_Size]) -> Iterator[tuple[list[_Size], list[ScheduleTable]]]:
    """The tables of these sizes, in batches that memory holds."""
    some: list[_Size] = []
    tables: list[ScheduleTable] = []
    for size in sizes:
        some.append(size)
        tables.append(build(_NAMES[Schedule(size.schedule)], size.ranks, size.chunks, size.micro_batches))
        if sum(map(len, tables)) > _AT_ONCE:
            yield some, tables
            some, tables = [], []
    if some:
        yield some, tables


def _stage_blocks(model: _Blocks, table: ScheduleTable) -> Shaped[Array, "stage block"]:
    """Copies of each block in each stage."""
    parts = part_blocks(model.order, model.width, table.parts)
    return np.stack([np.bincount(part, minlength=model.width) for part in parts])[table.stage_part]


def _stage_seconds(
    model: _Blocks,
    blocks: Shaped[Array, "stage block"],
    is_abroad: Shaped[Array, "stage"],
    typical: Sequence[_Durations],
) -> Shaped[Array, "work stage duration"]:
    """Seconds of each kind of work on each stage, relative to one layer's forward pass."""
    layer = np.maximum(np.array(model.shares), 0.02)
    columns = []
    for durations in typical:
        forward = blocks @ np.append(layer[:-1], durations.head * layer[-1])
        back = blocks @ np.append(layer[:-1], durations.head_back * layer[-1])
        both = durations.input + durations.weight
        seconds = np.stack([forward, both * back, durations.input * back, durations.weight * back])
        # a send leaves after the pass, and takes some of the compute stream
        seconds[: Work.WEIGHT] += durations.charge * is_abroad
        columns.append(seconds)
    return np.stack(columns, axis=2)
