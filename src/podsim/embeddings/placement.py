"""The best placement of tables: which way each is divided, and on which GPUs its parts lie.

    step's tables, s    max forward + max backward + max sent + max(0, max fetched - hidden) + sum of shared
    each max            over the GPUs of the sums of the parts on them

The search starts from several proposals: every table takes the way with the least time of all GPUs, where parts larger
than a share of the mean load of a GPU are not allowed, and bytes have a price that makes them fit. Parts are put on GPUs
in order of size, each where the step grows least. Then tables on the busiest GPUs are taken off and put back in every
way, singly and in pairs, as long as the step gains: placement.c. Source: proposers, partitioner and performance model of
TorchRec's planner, which takes the sum for each GPU. Known error: at most 1 % above an exhaustive search of small cases
(tests). The bound is the least time of all GPUs over their number, which no placement can beat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from podsim.axes import Floats, Ints
from podsim.embeddings.lookup_cost import KINDS, Choice, TableMachine, table_choices
from podsim.embeddings.tables import TableSet
from podsim.errors import NoFitError
from podsim.native import c_function, c_struct
from podsim.units import format_quantity

_SPLITTING = (0.0, 0.02, 0.1, 0.3, 1.0)
"""weights of the load of a part beside the load of all GPUs: what a proposal pays for parts that are hard to balance"""
_ROOM = (1.0, 0.97, 0.9, 0.8)
"""shares of all memory that a proposal fills, until its parts have room on the GPUs"""
_FEW = 12
"""tables of a case so small that pairs of them are put back in all ways"""
_TRIALS = 4_000
"""parts of tables that the improvement puts on GPUs"""
_MANY = 100
"""tables of a case so large that one proposal is improved"""
_FULL = 0.5
"""share of the memory of a GPU up to which tables are not tried elsewhere"""
_STARTS = 3
"""different proposals that are improved"""
_CLOSE = 1.001
"""of the bound: near enough to stop"""


class Layout(NamedTuple):
    """A placement: for each table its way, and the first GPU of each of its parts."""

    choices: tuple[Choice, ...]
    positions: tuple[tuple[int, ...], ...]
    seconds: float
    """s. The time that tables add to a step."""
    parts: tuple[float, ...]
    """s. Forward, backward, sent, fetched and not hidden, shared."""
    memory: Floats
    """B. The memory of each GPU, [gpus]."""
    far: tuple[float, ...]
    """B. The fullest pool of each tier."""
    loads: Floats
    """s. Forward, backward, sent, fetched, [gpus, parts]."""
    bound: float
    """s. A time that no placement can beat."""


@lru_cache(maxsize=64)
def place_tables(tables: TableSet, machine: TableMachine, *, kinds: tuple[str, ...] = KINDS) -> Layout:
    """The best placement. Raises NoFitError if the tables fit nowhere."""
    rows = [(each, tables.state_bytes(each)) for each in tables.tables]
    layouts: list[Layout] = []
    for far in (False, True):
        ways = (table_choices(each, state, machine, kinds=kinds, far=far) for each, state in rows)
        choices = [_without_worse([each for each in some if each.memory <= machine.room]) for some in ways]
        layout = _best(choices, machine) if all(choices) else None
        if layout is not None:
            layouts.append(layout)
            is_easy = layout.memory.max() < _FULL * machine.room or layout.seconds <= _CLOSE * layout.bound
            if is_easy or len(rows) > _MANY:
                break
    if layouts:
        return min(layouts, key=lambda layout: layout.seconds)
    size = tables.bytes + sum(each.rows * state for each, state in rows)
    room = {"hbm": machine.room * machine.gpus}
    room |= {name: tier.capacity * machine.gpus / tier.pool for name, tier in machine.far_tiers()}
    said = ", ".join(f"{format_quantity(value, 'B')} in {name}" for name, value in room.items())
    by = "" if kinds == KINDS else f" by {', '.join(kinds)}"
    raise NoFitError([
        f"{len(rows)} embedding tables of {format_quantity(size, 'B')} with optimizer states fit nowhere: {said} "
        f"of {machine.gpus} GPU{'s' * (machine.gpus > 1)}{by}; take more GPUs, --servers 8 or narrower rows"
    ])  # fmt: skip


def whole_tables(tables: TableSet, machine: TableMachine) -> Layout | None:
    """Whole tables on single GPUs, in the fewest slices of columns where they do not fit; None if they fit nowhere."""
    machine = replace(machine, dedup=False)
    ways = [
        table_choices(each, tables.state_bytes(each), machine, kinds=("table_wise", "column_wise"), far=False)
        for each in tables.tables
    ]
    choices = [[way for way in some if way.memory <= machine.room] or some for some in ways]
    state = _State(choices, machine)
    bound = sum(_amortised(some[0], machine.gpus) for some in ways)
    return state.layout(bound) if state.fill([range(len(some)) for some in choices]) else None


def _best(choices: list[list[Choice]], machine: TableMachine) -> Layout | None:
    """The best of all proposals, improved; None if none fits."""
    bound = sum(min(_amortised(each, machine.gpus) for each in ways) for ways in choices)
    states = sorted(_proposals(choices, machine), key=_State.seconds)
    if not states:
        return None
    different = {round(state.seconds() / states[0].seconds(), 4): state for state in reversed(states)}
    for share in sorted(different)[:_STARTS]:
        _improve(different[share], bound)
    return min(states, key=lambda state: state.seconds()).layout(bound)


def _proposals(choices: list[list[Choice]], machine: TableMachine) -> Iterator[_State]:
    """A placement for each largest part, with the lowest price of memory at which all tables have room."""
    cost = [np.array([_amortised(each, machine.gpus, 4) for each in ways]) for ways in choices]
    part = [np.array([float(each.load.sum()) for each in ways]) for ways in choices]
    size = [np.array([each.memory * each.scope * each.blocks for each in ways]) for ways in choices]
    for splitting in _SPLITTING if len(choices) <= _MANY else _SPLITTING[2:3]:
        value = [each + splitting * some for each, some in zip(cost, part, strict=True)]
        for room in _ROOM:
            price = _lowest_price(value, size, room * machine.room * machine.gpus)
            order = [
                np.argsort(each + price * some, kind="stable") for each, some in zip(value, size, strict=True)
            ]
            state = _State(choices, machine)
            if state.fill(order):
                yield state
                if len(choices) > _FEW:
                    break


def _lowest_price(value: list[Floats], size: list[Floats], room: float) -> float:
    """s/B. The lowest price of memory at which the cheapest ways of all tables have room, or else a very high one."""

    def is_fitting(price: float) -> bool:
        cheapest = [int((each + price * some).argmin()) for each, some in zip(value, size, strict=True)]
        return sum(float(some[at]) for some, at in zip(size, cheapest, strict=True)) <= room

    if is_fitting(0.0):
        return 0.0
    low, high = -40.0, 5.0  # decimal logarithm
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if is_fitting(10.0**middle) else (middle, high)
    return float(10.0**high)


def _amortised(choice: Choice, gpus: int, parts: int = 3) -> float:
    """The seconds of all GPUs over their number: less than any placement with it can take, without fetched rows."""
    return float(choice.load[:parts].sum()) * choice.scope * choice.blocks / gpus + choice.shared


class Ways(NamedTuple):
    """The ways of all tables, W, those of one table side by side, and what the machine has; placement.h mirrors it."""

    load: Floats
    """s. Forward, backward, sent, fetched, of each GPU of a block, [W, 4]."""
    memory: Floats
    far: Floats
    shared: Floats
    scope: Ints
    blocks: Ints
    tier: Ints
    first: Ints
    """The position of the first way of each table, and W."""
    pool: Ints
    """count. The GPUs that share a pool of each tier; 0 without one."""
    capacity: Floats
    gpus: int
    most: int
    """count. The most blocks of a way."""
    room: float
    hidden: float


class Placed(NamedTuple):
    """Which way each table has, and where its parts lie; placement.h mirrors it."""

    loads: Floats
    """s. Forward, backward, sent, fetched, [gpus, 4]."""
    memory: Floats
    far: Floats
    """B. The bytes in each pool, [tiers, gpus]: a tier has at most as many pools as there are GPUs."""
    shared: Floats
    trials: Ints
    """count. The parts of tables that were put on GPUs."""
    way: Ints
    """The position of the way of each table; -1 for a table that lies nowhere."""
    position: Ints
    """The GPUs of each part over the scope of its way, [tables, most blocks]."""
    kept: Ints
    seconds: Floats


_placed_seconds = c_function("placed_seconds", Ways, Placed, result=float)
_put_table = c_function("put_table", Ways, Placed, int, int, result=bool)
_move_tables = c_function("move_tables", Ways, Placed, Ints, int, bool, result=bool)


class _State:
    """A placement that grows and shrinks table by table."""

    def __init__(self, choices: list[list[Choice]], machine: TableMachine) -> None:
        self.machine, self.choices = machine, list(chain.from_iterable(choices))
        columns = {
            name: np.array([getattr(each, name) for each in self.choices]) for name in Ways._fields[:7]
        }
        gpus, most = machine.gpus, int(columns["blocks"].max())
        self.ways = Ways(
            **columns, first=np.cumsum([0, *map(len, choices)]), gpus=gpus, most=most, room=machine.room,
            hidden=machine.hidden, pool=np.array([tier.pool if tier else 0 for tier in machine.tiers]),
            capacity=np.array([tier.capacity if tier else 0.0 for tier in machine.tiers]),
        )  # fmt: skip
        self.placed = Placed(
            loads=np.zeros((gpus, 4)), memory=np.zeros(gpus), far=np.zeros((len(machine.tiers), gpus)),
            shared=np.zeros(1), trials=np.zeros(1, np.int64), way=np.full(len(choices), -1),
            position=np.full((len(choices), most), -1), kept=np.zeros(4 * (most + 1), np.int64), seconds=np.zeros(gpus),
        )  # fmt: skip
        self._in_c = c_struct(self.ways), c_struct(self.placed)

    def fill(self, orders: Sequence[Iterable[int]]) -> bool:
        """Place tables in order of size, each in the first of its ways, in their order, that has room; False if none."""
        rows = [
            [first + at for at in order]
            for first, order in zip(self.ways.first.tolist(), orders, strict=False)
        ]
        firsts = [self.choices[ways[0]] for ways in rows]
        weight = max(sum(_amortised(each, self.machine.gpus) for each in firsts), 1e-30)
        room = max(self.machine.room, 1.0)

        def size(n: int) -> tuple[int, float]:
            return -firsts[n].scope, -max(float(firsts[n].load.sum()) / weight, firsts[n].memory / room)

        order = sorted(range(len(rows)), key=size)
        return all(any(_put_table(*self._in_c, n, way) for way in rows[n]) for n in order)

    def seconds(self) -> float:
        """The time that the tables add to a step."""
        return _placed_seconds(*self._in_c)

    def move(self, tables: tuple[int, ...]) -> bool:
        """Whether taking a table or a pair off and putting them back in the best ways gains; they stay so."""
        is_free = len(tables) == 1 or len(self.placed.way) <= _FEW
        return _move_tables(*self._in_c, np.array(tables), len(tables), is_free)

    def busy(self) -> list[tuple[int]]:
        """The tables on the busiest GPUs, and those on all of them; the costly ones first."""
        peaks, busy = self.placed.loads.argmax(axis=0).tolist(), []
        for n, (choice, positions) in enumerate(self.located()):
            if choice.shared or any(gpu // choice.scope in positions for gpu in peaks):
                busy.append((-float(choice.load.sum() + choice.shared), n))
        return [(n,) for _, n in sorted(busy)]

    def located(self) -> list[tuple[Choice, list[int]]]:
        """(its way, the positions of its parts) of each table."""
        rows = zip(self.placed.way.tolist(), self.placed.position.tolist(), strict=True)
        return [(self.choices[way], row[: self.choices[way].blocks]) for way, row in rows]

    def layout(self, bound: float) -> Layout:
        """The placement as plain values."""
        loads, memory, far, shared = self.placed[:4]
        peak = loads.max(axis=0)
        exposed = max(float(peak[3]) - self.machine.hidden, 0.0)
        located = self.located()
        return Layout(
            choices=tuple(choice for choice, _ in located),
            positions=tuple(tuple(at * choice.scope for at in positions) for choice, positions in located),
            seconds=self.seconds(), parts=(*(float(each) for each in peak[:3]), exposed, float(shared[0])),
            memory=memory, far=tuple(far.max(axis=1).tolist()), loads=loads, bound=bound,
        )  # fmt: skip


def _improve(state: _State, bound: float) -> None:
    """Put tables back in other ways, singly and in pairs, while that gains."""
    end = state.placed.trials[0] + (3 if len(state.placed.way) <= _FEW else 1) * _TRIALS
    for moves in (_State.busy, _pairs):
        gained = True
        while gained:
            gained = False
            for moved in moves(state):
                if state.placed.trials[0] > end or state.seconds() <= _CLOSE * bound:
                    return
                gained |= state.move(moved)


def _pairs(state: _State) -> Iterator[tuple[int, int]]:
    tables = len(state.placed.way)
    if tables <= _FEW:
        return combinations(range(tables), 2)
    return ((first, second) for (first,) in state.busy()[:12] for second in range(tables) if second != first)


def _without_worse(ways: list[Choice]) -> list[Choice]:
    """The ways of a table without those that need no less of anything than another that is divided alike."""
    figures = [np.array([*each.load, each.memory, each.far, each.shared]) for each in ways]
    kept: list[int] = []
    for n in sorted(range(len(ways)), key=lambda n: float(figures[n][:4].sum() + figures[n][6])):
        alike = [at for at in kept if (ways[at].scope, ways[at].blocks) == (ways[n].scope, ways[n].blocks)]
        if not any((figures[at] <= figures[n]).all() and ways[at].tier in (0, ways[n].tier) for at in alike):
            kept.append(n)
    return [ways[n] for n in kept]
