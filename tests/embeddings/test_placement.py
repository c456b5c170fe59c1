"""Placements of tables against an exhaustive search, and what they must keep."""

from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest

from podsim.embeddings.lookup_cost import Choice, TableMachine, Tier, table_choices
from podsim.embeddings.placement import Layout, place_tables, whole_tables
from podsim.embeddings.tables import EmbeddingTable, TableSet, table_sets
from podsim.errors import NoFitError


def _machine(
    gpus: int, *, node: int = 8, room: float = 6e10, batch: float = 4096.0, hidden: float = 0.0
) -> TableMachine:
    host = Tier(capacity=1e12, pool=min(node, gpus), rate=24e9)
    return TableMachine(
        gpus=gpus, node=min(node, gpus), batch=batch, element=2.0, memory_rate=1.5e12, send_rate=2e11, reduce_rate=1.5e11,
        hidden=hidden, room=room, tiers=(None, host, None, None),
    )  # fmt: skip


def _tables(seed: int, number: int) -> TableSet:
    random = np.random.default_rng(seed)
    tables = tuple(
        EmbeddingTable(
            name=str(n), rows=int(10 ** random.uniform(2, 8)), width=int(random.choice([16, 64, 128])),
            pooling=float(random.integers(1, 60)), skew=float(random.uniform(0.6, 1.3)),
        )
        for n in range(number)
    )  # fmt: skip
    return TableSet(name="random", title="random", tables=tables, optimizer="rowwise-adagrad")


def _exhaustive(tables: TableSet, machine: TableMachine, kinds: tuple[str, ...]) -> float:
    """The least seconds of all ways and all GPUs of every table."""
    loads, memory, shared = np.zeros((1, machine.gpus, 4)), np.zeros((1, machine.gpus)), np.zeros(1)
    for table in tables.tables:
        one = []
        for way in table_choices(table, tables.state_bytes(table), machine, kinds=kinds):
            for positions in combinations_with_replacement(range(machine.gpus // way.scope), way.blocks):
                load, held = np.zeros((machine.gpus, 4)), np.zeros(machine.gpus)
                for at in positions:
                    load[at * way.scope : (at + 1) * way.scope] += way.load
                    held[at * way.scope : (at + 1) * way.scope] += way.memory
                one.append((load, held, way.shared))
        loads = (loads[:, None] + np.array([each[0] for each in one])).reshape(-1, machine.gpus, 4)
        memory = (memory[:, None] + np.array([each[1] for each in one])).reshape(-1, machine.gpus)
        shared = (shared[:, None] + np.array([each[2] for each in one])).ravel()
        fits = memory.max(axis=1) <= machine.room
        loads, memory, shared = loads[fits], memory[fits], shared[fits]
    peak = loads.max(axis=1)
    return float((peak[:, :3].sum(axis=1) + np.maximum(peak[:, 3] - machine.hidden, 0) + shared).min())


@pytest.mark.parametrize(
    ("seed", "gpus", "number", "share"), [(0, 2, 4, 0.7), (2, 3, 3, 0.4), (3, 4, 3, 1.2)]
)
def test_best_of_all_placements(seed: int, gpus: int, number: int, share: float) -> None:
    tables = _tables(seed, number)
    machine = _machine(gpus, room=share * tables.bytes / gpus, hidden=1e-5)
    kinds = ("table_wise", "row_wise", "data_parallel")
    assert place_tables(tables, machine, kinds=kinds).seconds <= 1.01 * _exhaustive(tables, machine, kinds)


def _check(layout: Layout, machine: TableMachine) -> None:
    """Loads and memory are the sums of the parts on each GPU, and within the room."""
    loads, memory = np.zeros((machine.gpus, 4)), np.zeros(machine.gpus)
    for way, positions in zip(layout.choices, layout.positions, strict=True):
        for at in positions:
            loads[at : at + way.scope] += way.load
            memory[at : at + way.scope] += way.memory
    assert np.allclose(loads, layout.loads, atol=1e-12)
    assert np.allclose(memory, layout.memory, atol=1.0)
    assert memory.max() <= machine.room
    assert layout.seconds == pytest.approx(sum(layout.parts))
    assert layout.seconds >= layout.bound * (1 - 1e-9)


def _way(kind: str, columns: int, rows: int, batch: float, *, dedup: bool) -> Choice:
    table = EmbeddingTable(name="t", rows=rows, width=64, pooling=2.0, skew=0.0)
    machine = replace(_machine(4, batch=batch), dedup=dedup)
    return next(
        w for w in table_choices(table, 8.0, machine, kinds=(kind,), far=False) if w.columns == columns
    )


def test_columns_and_rows_by_hand() -> None:
    """64 samples look up 128 rows of 64 fp32 values, each with 8 B of state: four GPUs have 16 columns, or 250 rows."""
    columns, rows = _way("column_wise", 4, 1000, 16, dedup=False), _way("row_wise", 1, 1000, 16, dedup=False)
    made, part = 64 * 16 * 2, 32 * 64 * 2  # a sum for each sample; of rows, one for each lookup
    assert columns.load[0] * 1.5e12 == pytest.approx(128 * 64 + 128 * 8 + made)
    assert rows.load[0] * 1.5e12 == pytest.approx(32 * 256 + 32 * 8 + part)
    assert [way.load[2] * 2e11 for way in (columns, rows)] == pytest.approx([2 * made + 256, 2 * part + 64])
    assert columns.memory == rows.memory == 1000 * (16 * 4 + 8 / 4)


def test_a_batch_sends_each_row_of_a_small_table_once_to_each_gpu() -> None:
    """Of four rows every GPU wants all, however many of its 1,000 samples look them up; its owner has one of them."""
    assert _way("row_wise", 1, 4, 1000, dedup=True).load[2] * 2e11 == pytest.approx(2 * 4 * 64 * 2 + 4000)


def test_thousand_tables() -> None:
    machine = _machine(64)
    tables = _tables(7, 1000)
    layout = place_tables(tables, machine)
    _check(layout, machine)
    assert layout.seconds < 2.0 * layout.bound


def test_divided_tables_beat_whole_ones() -> None:
    machine = _machine(8)
    tables = table_sets()["criteo-multi-hot"]
    whole, best = whole_tables(tables, machine), place_tables(tables, machine)
    assert whole is not None
    _check(best, machine)
    assert {way.kind for way in whole.choices} == {"table_wise"}
    assert best.seconds < 0.5 * whole.seconds


def test_tables_spill_to_host_memory() -> None:
    machine = _machine(1)
    layout = place_tables(table_sets()["criteo-40m"], machine)
    _check(layout, machine)
    far = [way for way in layout.choices if way.tier]
    assert far
    assert all(0 <= way.hit_rate < 1 for way in far)
    assert layout.far[1] <= 1e12


def test_nowhere() -> None:
    with pytest.raises(NoFitError, match="fit nowhere"):
        place_tables(table_sets()["criteo-extra-large"], _machine(1, room=1e9, batch=64.0).__class__(**{
            **vars(_machine(1, room=1e9)), "tiers": (None,) * 4,
        }))  # fmt: skip
