"""Placements of tables against an exhaustive search, and what they must keep."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

from podsim.embeddings.lookup_cost import TableMachine, Tier, table_choices
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
