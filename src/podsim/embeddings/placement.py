"""The best placement of tables: which way each is divided, and on which GPUs its parts lie.

    step's tables, s    max forward + max backward + max sent + max(0, max fetched - hidden) + sum of shared
    each max            over the GPUs of the sums of the parts on them

The search starts from several proposals: every table takes the way with the least time of all GPUs, where parts larger
than a share of the mean load of a GPU are not allowed, and bytes have a price that makes them fit. Parts are put on GPUs
in order of size, each where the step grows least. Then tables on the busiest GPUs are taken off and put back in every
way, singly and in pairs, as long as the step gains. Source: proposers, partitioner and performance model of TorchRec's
planner, which takes the sum for each GPU. Known error: at most 1 % above an exhaustive search of small cases (tests).
The bound is the least time of all GPUs over their number, which no placement can beat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, permutations, product
from typing import NamedTuple

import numpy as np

from podsim.axes import Floats
from podsim.embeddings.lookup_cost import KINDS, Choice, TableMachine, table_choices
from podsim.embeddings.tables import TableSet
from podsim.errors import NoFitError
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
    rows = [(table, tables.state_bytes(table)) for table in tables.tables]
    layouts: list[Layout] = []
    for far in (False, True):
        ways = (table_choices(table, state, machine, kinds=kinds, far=far) for table, state in rows)
        choices = [_without_worse([way for way in some if way.memory <= machine.room]) for some in ways]
        layout = _best(choices, machine) if all(choices) else None
        if layout is not None:
            layouts.append(layout)
            is_easy = layout.memory.max() < _FULL * machine.room or layout.seconds <= _CLOSE * layout.bound
            if is_easy or len(rows) > _MANY:
                break
    if layouts:
        return min(layouts, key=lambda layout: layout.seconds)
    size = tables.bytes + sum(table.rows * state for table, state in rows)
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
        table_choices(
            table, tables.state_bytes(table), machine, kinds=("table_wise", "column_wise"), far=False
        )
        for table in tables.tables
    ]
    state = _State.filled(
        [[way for way in some if way.memory <= machine.room] or some for some in ways], machine
    )
    return None if state is None else state.layout(sum(_amortised(some[0], machine.gpus) for some in ways))


def _best(choices: list[list[Choice]], machine: TableMachine) -> Layout | None:
    """The best of all proposals, improved; None if none fits."""
    bound = sum(min(_amortised(way, machine.gpus) for way in ways) for ways in choices)
    states = [state for state in _proposals(choices, machine) if state is not None]
    if not states:
        return None
    states.sort(key=lambda state: state.seconds())
    different = {round(state.seconds() / states[0].seconds(), 4): state for state in reversed(states)}
    for share in sorted(different)[:_STARTS]:
        _improve(different[share], choices, bound)
    return min(states, key=lambda state: state.seconds()).layout(bound)


def _proposals(choices: list[list[Choice]], machine: TableMachine) -> Iterator[_State | None]:
    """A placement for each largest part, with the lowest price of memory at which all tables have room."""
    cost = [np.array([_amortised(way, machine.gpus, 4) for way in ways]) for ways in choices]
    part = [np.array([float(way.load.sum()) for way in ways]) for ways in choices]
    size = [np.array([way.memory * way.scope * way.blocks for way in ways]) for ways in choices]
    for splitting in _SPLITTING if len(choices) <= _MANY else _SPLITTING[2:3]:
        value = [least + splitting * some for least, some in zip(cost, part, strict=True)]
        for room in _ROOM:
            price = _lowest_price(value, size, room * machine.room * machine.gpus)
            order = [
                np.argsort(cost + price * some, kind="stable") for cost, some in zip(value, size, strict=True)
            ]
            state = _State.filled(
                [[ways[at] for at in at_once] for ways, at_once in zip(choices, order, strict=True)], machine
            )
            if state is not None:
                yield state
                if len(choices) > _FEW:
                    break


def _lowest_price(value: list[Floats], size: list[Floats], room: float) -> float:
    """s/B. The lowest price of memory at which the cheapest ways of all tables have room, or else a very high one."""

    def is_fitting(price: float) -> bool:
        cheapest = [int((cost + price * some).argmin()) for cost, some in zip(value, size, strict=True)]
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


class _State:
    """A placement that grows and shrinks table by table."""

    def __init__(self, machine: TableMachine, tables: int) -> None:
        self.machine = machine
        self.loads = np.zeros((machine.gpus, 4))
        self.memory = np.zeros(machine.gpus)
        self.far = [np.zeros(machine.gpus // tier.pool if tier else 1) for tier in machine.tiers]
        self.shared = 0.0
        self.trials = 0
        self.choices: list[Choice | None] = [None] * tables
        self.positions: list[tuple[int, ...]] = [()] * tables

    @classmethod
    def filled(cls, ways: list[list[Choice]], machine: TableMachine) -> _State | None:
        """The placement of tables in order of size, each in the first of its ways that has room; None if none has."""
        state = cls(machine, len(ways))
        weight = max(sum(_amortised(table[0], machine.gpus) for table in ways), 1e-30)

        def size(n: int) -> tuple[int, float]:
            first = ways[n][0]
            return -first.scope, -max(float(first.load.sum()) / weight, first.memory / max(machine.room, 1.0))

        order = sorted(range(len(ways)), key=size)
        return state if all(any(state.put(n, way) for way in ways[n]) for n in order) else None

    def seconds(self) -> float:
        """The time that the tables add to a step."""
        return float(self._seconds(self.loads.max(axis=0))) + self.shared

    def _seconds(self, peak: Floats) -> Floats:
        return np.asarray(peak[..., :3].sum(axis=-1) + np.maximum(peak[..., 3] - self.machine.hidden, 0.0))

    def put(self, table: int, choice: Choice) -> bool:
        """Place a table where the step grows least; False, with nothing changed, if it has no room."""
        self.choices[table], self.positions[table] = choice, ()
        self.shared += choice.shared
        for _ in range(choice.blocks):
            position = self._position(choice)
            if position < 0:
                self.take(table)
                return False
            self._add(choice, position, 1.0)
            self.positions[table] += (position,)
        return True

    def put_at(self, table: int, choice: Choice, positions: tuple[int, ...]) -> None:
        """Place a table on given GPUs."""
        self.choices[table], self.positions[table] = choice, positions
        self.shared += choice.shared
        for position in positions:
            self._add(choice, position, 1.0)

    def take(self, table: int) -> None:
        """Take a table off its GPUs."""
        choice = self.choices[table]
        assert choice is not None
        for position in self.positions[table]:
            self._add(choice, position, -1.0)
        self.shared -= choice.shared
        self.choices[table], self.positions[table] = None, ()

    def _add(self, choice: Choice, position: int, sign: float) -> None:
        gpus = slice(position * choice.scope, (position + 1) * choice.scope)
        self.loads[gpus] += sign * choice.load
        self.memory[gpus] += sign * choice.memory
        tier = self.machine.tiers[choice.tier]
        if tier is not None:
            pools = slice(gpus.start // tier.pool, max(gpus.stop // tier.pool, gpus.start // tier.pool + 1))
            self.far[choice.tier][pools] += sign * choice.far * min(choice.scope, tier.pool)

    def _position(self, choice: Choice) -> int:
        """The GPUs where a part of the table lets the step grow least; -1 if it has no room."""
        scope, room = choice.scope, self.machine.room
        self.trials += 1
        loads, memory = self.loads, self.memory
        if scope > 1:
            loads, memory = loads.reshape(-1, scope, 4).max(axis=1), memory.reshape(-1, scope).max(axis=1)
        blocks = loads + choice.load
        seconds = self._seconds(np.maximum(blocks, loads.max(axis=0)))
        seconds = seconds + 1e-3 * blocks.sum(axis=1)  # of equals, the least busy
        full = memory + choice.memory > room
        seconds = seconds + 1e-4 * seconds.max() * memory / max(room, 1.0)
        tier = self.machine.tiers[choice.tier]
        if tier is not None:
            pool = np.arange(len(blocks)) * scope // tier.pool
            more = choice.far * min(scope, tier.pool)
            full |= self.far[choice.tier][pool] + more > tier.capacity
        seconds[full] = np.inf
        best = int(seconds.argmin())
        return -1 if np.isinf(seconds[best]) else best

    def layout(self, bound: float) -> Layout:
        """The placement as plain values."""
        peak = self.loads.max(axis=0)
        exposed = max(float(peak[3]) - self.machine.hidden, 0.0)
        choices = tuple(choice for choice in self.choices if choice is not None)
        positions = tuple(
            tuple(at * choice.scope for at in where)
            for choice, where in zip(choices, self.positions, strict=True)
        )
        return Layout(
            choices=choices, positions=positions, seconds=float(self.seconds()),
            parts=(*(float(seconds) for seconds in peak[:3]), exposed, self.shared), memory=self.memory.copy(),
            far=tuple(float(tier.max()) for tier in self.far), loads=self.loads.copy(), bound=bound,
        )  # fmt: skip


def _improve(state: _State, choices: list[list[Choice]], bound: float) -> None:
    """Put tables back in other ways, singly and in pairs, while that gains."""
    end = state.trials + (3 if len(choices) <= _FEW else 1) * _TRIALS
    for is_paired in (False, True):
        gained = True
        while gained:
            gained = False
            for moved in _pairs(state, choices) if is_paired else [(n,) for n in _busy(state)]:
                if state.trials > end or state.seconds() <= _CLOSE * bound:
                    return
                gained |= _moved(state, choices, moved)


def _busy(state: _State) -> list[int]:
    """The tables on the busiest GPUs, and those on all of them; the costly ones first."""
    peaks = {int(gpu) for gpu in state.loads.argmax(axis=0)}
    busy = []
    for n, choice in enumerate(state.choices):
        assert choice is not None
        spans = [range(at * choice.scope, (at + 1) * choice.scope) for at in state.positions[n]]
        if choice.shared or any(gpu in span for span in spans for gpu in peaks):
            busy.append((-float(choice.load.sum() + choice.shared), n))
    return [n for _, n in sorted(busy)]


def _pairs(state: _State, choices: list[list[Choice]]) -> Iterator[tuple[int, ...]]:
    busy = _busy(state)
    if len(choices) <= _FEW:
        return combinations(range(len(choices)), 2)
    return ((first, second) for first in busy[:12] for second in range(len(choices)) if second != first)


def _moved(state: _State, choices: list[list[Choice]], moved: tuple[int, ...]) -> bool:
    """Whether taking tables off and putting them back in the best ways gains; they stay so."""
    before = float(state.seconds())
    kept = [(n, each, state.positions[n]) for n in moved if (each := state.choices[n]) is not None]
    for n in moved:
        state.take(n)
    best, better = before * (1 - 1e-9), None
    is_free = len(moved) == 1 or len(choices) <= _FEW
    ways = [choices[n] if is_free else [old] for n, old, _ in kept]
    for trial in _trials(moved, ways):
        placed = []
        for n, choice in trial:
            if not state.put(n, choice):
                break
            placed.append(n)
        else:
            seconds = float(state.seconds())
            if seconds < best:
                best, better = seconds, [(n, choice, state.positions[n]) for n, choice in trial]
        for n in placed:
            state.take(n)
    for n, choice, positions in better or kept:
        state.put_at(n, choice, positions)
    return better is not None


def _trials(moved: tuple[int, ...], ways: list[list[Choice]]) -> Iterator[tuple[tuple[int, Choice], ...]]:
    """The ways to put tables back, in every order."""
    for taken in product(*ways):
        yield from permutations(zip(moved, taken, strict=True))


def _without_worse(ways: list[Choice]) -> list[Choice]:
    """The ways of a table without those that need no less of anything than another that is divided alike."""
    figures = [np.array([*way.load, way.memory, way.far, way.shared]) for way in ways]
    kept: list[int] = []
    for n in sorted(range(len(ways)), key=lambda n: float(figures[n][:4].sum() + figures[n][6])):
        alike = [at for at in kept if (ways[at].scope, ways[at].blocks) == (ways[n].scope, ways[n].blocks)]
        if not any((figures[at] <= figures[n]).all() and ways[at].tier in (0, ways[n].tier) for at in alike):
            kept.append(n)
    return [ways[n] for n in kept]
