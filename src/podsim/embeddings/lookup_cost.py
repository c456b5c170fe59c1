"""What each way to place a table costs each GPU of a step: lookups, sent vectors, fetched rows, and memory.

    table_wise          one GPU has the table             column_wise         GPUs have some columns each
    row_wise            all GPUs have some rows each      data_parallel       all GPUs have the table
    table_row_wise, table_column_wise                     the GPUs of one node have some rows, or columns, each
    grid_shard          nodes have some columns each, their GPUs some rows of them

    forward, s     rows read, indices read, sums written, over the rate of memory; rows of less than 64 B cost 64
    backward, s    gradients of sums read, indices sorted (4 passes of 8 B), each distinct row updated, with its states
    sent, s        a sum for each sample and shard, or with deduplication each distinct row of a batch, if that is less;
                   gradients return; indices go first
    fetched, s     distinct rows that the GPU's cache lacks cross the link of their tier, and return
    shared, s      the reduction of gradients of replicated rows: data_parallel, or hot rows of any other way

Source: counting; names of TorchRec (github.com/meta-pytorch/torchrec, distributed/planner); hot rows as in HugeCTR's
hybrid embedding. Known error: docs/recommenders.md. Limits: lookups of tables are one fused kernel; traffic is even.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from podsim.axes import Floats
from podsim.embeddings.hit_rates import distinct_rows, hit_rate, hot_share
from podsim.embeddings.tables import ELEMENTS, EmbeddingTable

KINDS = (
    "data_parallel", "table_wise", "column_wise", "row_wise", "table_row_wise", "table_column_wise", "grid_shard",
)  # fmt: skip
"""ways to divide a table, as TorchRec names them"""
TIERS = ("hbm", "host", "nvme", "server")
"""where rows lie; those beyond the first have a cache in the GPU's memory"""
CACHED = (0.0, 0.02, 0.1, 0.3)
"""shares of a table that a GPU caches"""
_INDEX, _SORTED, _SECTOR = 8.0, 32.0, 64.0
_NARROWEST = 8
"""elements of the narrowest slice of columns"""
_HOTTEST = 4096


@dataclass(frozen=True, kw_only=True)
class Tier:
    """Where rows lie, as one GPU sees it."""

    capacity: float
    """B. The room in one pool."""
    pool: int
    """count. The GPUs that share a pool."""
    rate: float
    """B/s. The link of one GPU to it."""
    row_rate: float = math.inf
    """1/s. The rows that one GPU can read from it."""


@dataclass(frozen=True, kw_only=True)
class TableMachine:
    """What the placement of tables must know of GPUs, links and the step."""

    gpus: int
    node: int
    """count. The GPUs of a node."""
    batch: float
    """count. The samples of one GPU."""
    element: float
    """B. The size of an element that is sent."""
    memory_rate: float
    """B/s. The rate of lookups in the GPU's memory."""
    send_rate: float
    """B/s. The bytes that each GPU sends in an all-to-all; infinite on one GPU."""
    reduce_rate: float
    """B/s. The bytes of gradients that all GPUs reduce."""
    hidden: float
    """s. The time of a step in which rows can be fetched ahead; 0 without prefetch."""
    room: float
    """B. The memory of each GPU for tables."""
    tiers: tuple[Tier | None, ...]
    """The tiers in the order of TIERS; None for the GPU's memory, and where there is none."""
    dedup: bool = True
    """Whether a row that a batch wants several times is read and sent once, and hot rows are copied."""
    policy: str = "lfu"

    @property
    def samples(self) -> float:
        """count. The samples of all GPUs."""
        return self.batch * self.gpus

    def far_tiers(self) -> list[tuple[str, Tier]]:
        """The tiers beyond the GPU's memory, with their names."""
        return [(name, tier) for name, tier in zip(TIERS, self.tiers, strict=True) if tier is not None]


class Choice(NamedTuple):
    """One way to place a table: `blocks` alike, each of which loads `scope` GPUs."""

    kind: str
    columns: int
    tier: int
    cached: float
    """share. The rows in the cache."""
    hot: int
    """count. The rows that every GPU has."""
    scope: int
    blocks: int
    load: Floats
    """s. Forward, backward, sent, fetched, of each GPU of a block."""
    memory: float
    """B. The GPU's memory that each GPU of a block needs."""
    far: float
    """B. The memory of the tier that each GPU of a block needs."""
    shared: float
    """s. The time that every GPU needs."""
    hit_rate: float
    """share. The rows that are found in the cache; 1 in the GPU's memory."""


def table_choices(
    table: EmbeddingTable,
    state: float,
    machine: TableMachine,
    *,
    kinds: tuple[str, ...] = KINDS,
    far: bool = True,
) -> list[Choice]:
    """The ways to place a table whose rows have `state` bytes of the optimizer; `far`: not in the GPU's memory only."""
    made = []
    for kind, columns, rows, scope, blocks in _shapes(table, machine):
        if kind not in kinds:
            continue
        hot = _hot_rows(table, machine) if machine.dedup and kind != "data_parallel" else 0
        for rows_hot in {0, hot}:
            made.append(
                _choice(table, state, machine, (kind, columns, rows, scope, blocks), 0, 1.0, rows_hot)
            )
        if kind == "data_parallel" or not far:
            continue
        for tier in range(1, len(TIERS)):
            if machine.tiers[tier] is not None:
                shape = (kind, columns, rows, scope, blocks)
                made += [_choice(table, state, machine, shape, tier, share, 0) for share in CACHED]
    return made


def _shapes(table: EmbeddingTable, machine: TableMachine) -> Iterator[tuple[str, int, int, int, int]]:
    """(way, slices of columns, slices of rows, GPUs of a block, blocks) that the machine and the width allow."""
    gpus, node = machine.gpus, machine.node
    nodes = gpus // node
    slices = [
        n for n in (2, 4, 8, 16) if n <= gpus and table.width % n == 0 and table.width // n >= _NARROWEST
    ]
    yield "table_wise", 1, 1, 1, 1
    if gpus == 1:
        return
    yield "data_parallel", 1, 1, gpus, 1
    if table.rows >= gpus:
        yield "row_wise", 1, gpus, gpus, 1
    for n in slices:
        yield "column_wise", n, 1, 1, n
    if nodes > 1 and node > 1:
        if table.rows >= node:
            yield "table_row_wise", 1, node, node, 1
            for n in slices:
                if n <= nodes:
                    yield "grid_shard", n, node, node, n
        if table.width % node == 0 and table.width // node >= _NARROWEST:
            yield "table_column_wise", node, 1, node, 1


def _choice(
    table: EmbeddingTable, state: float, machine: TableMachine, shape: tuple[str, int, int, int, int], tier: int,
    share: float, hot: int,
) -> Choice:  # fmt: skip
    kind, columns, shards, scope, blocks = shape
    is_copied = kind == "data_parallel"
    width, stored = table.width / columns, ELEMENTS[table.precision]
    samples = machine.batch if is_copied else machine.samples
    spared = hot_share(table.rows, hot, table.skew) if hot else 0.0
    pooling = table.pooling * (1.0 - spared)
    asked = samples * pooling / shards  # lookups of one GPU
    rows = table.rows / shards
    distinct = distinct_rows(table.rows, samples * table.pooling, table.skew) * (1.0 - spared) / shards
    read = distinct if machine.dedup else asked
    vectors = samples * min(1.0, pooling / shards)
    if machine.dedup and not is_copied:
        of_gpu = distinct_rows(table.rows, machine.batch * table.pooling, table.skew) * (1.0 - spared)
        vectors = min(vectors, of_gpu * machine.gpus / shards)
    row = math.ceil(width * stored / _SECTOR) * _SECTOR
    made = vectors * width * machine.element
    forward = read * row + asked * _INDEX + made
    back = made + asked * _SORTED + distinct * (2.0 * row + 2.0 * state / columns)
    local = machine.batch * table.pooling * spared * (3.0 * row + 2.0 * table.width * machine.element)
    size = rows * (width * stored + state / columns)
    sent = 0.0 if is_copied else 2.0 * made + machine.batch * pooling * _INDEX * columns / scope / blocks
    fetched, hits = 0.0, 1.0
    if tier:
        hits = hit_rate(
            table.rows,
            share * table.rows,
            table.skew,
            machine.policy,
            batch=max(samples * table.pooling, 1.0),
        )
        missed, source = distinct * (1.0 - hits), machine.tiers[tier]
        assert source is not None
        fetched = 2.0 * max(
            missed * (width * stored + state / columns) / source.rate, missed / source.row_rate
        )
    reduced = table.rows if is_copied else hot
    return Choice(
        kind=kind, columns=columns, tier=tier, cached=share, hot=hot, scope=scope, blocks=blocks,
        load=np.array([
            forward / machine.memory_rate, back / machine.memory_rate, sent / machine.send_rate, fetched,
        ]),
        memory=size * share, far=size if tier else 0.0,
        shared=local / machine.memory_rate + reduced * table.width * stored / machine.reduce_rate, hit_rate=hits,
    )  # fmt: skip


def _hot_rows(table: EmbeddingTable, machine: TableMachine) -> int:
    """The popular rows that are worth a copy on every GPU: they spare more sent vectors than their reduction costs."""
    best, chosen = 0.0, 0
    vector = table.width * machine.element
    hot = min(table.rows // 2, _HOTTEST)
    while machine.gpus > 1 and hot >= 16:
        spared = hot_share(table.rows, hot, table.skew)
        saved = 2 * machine.batch * min(table.pooling, 1.0) * vector * spared / machine.send_rate
        gain = saved - hot * table.width * ELEMENTS[table.precision] / machine.reduce_rate
        best, chosen = max((best, chosen), (gain, hot))
        hot //= 4
    return chosen
