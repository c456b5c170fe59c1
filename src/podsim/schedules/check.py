"""Whether a table can run: every pass once, in an order that ends, on the rank that holds the stage."""

from __future__ import annotations

import numpy as np

from podsim.axes import Bools, Ints, Shaped
from podsim.errors import ScheduleError, raise_all
from podsim.schedules.actions import LETTERS, ScheduleTable, Work, action_text, updates_before
from podsim.schedules.player import simulate_table, unit_seconds

_SHOWN = 6
"""examples named of each kind of problem"""


def check_schedule(table: ScheduleTable) -> ScheduleTable:
    """The table itself, or ScheduleError with all that is wrong with it."""
    problems = schedule_problems(table)
    raise_all(problems, ScheduleError)
    return table


def schedule_problems(table: ScheduleTable) -> list[str]:
    """All that is wrong with a table, one sentence for each kind of problem, with the first few examples."""
    problems = _numbers(table) or _stages(table)
    if problems:
        return problems  # the rest looks things up by these numbers
    problems = [*_placement(table), *_counts(table), *_order(table)]
    if not problems:
        problems = _deadlock(table) + _versions(table)
    return problems


def _some_text(actions: list[str]) -> str:
    """The first few of a list."""
    more = len(actions) - _SHOWN
    return ", ".join(actions[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _action_names(table: ScheduleTable, wrong: Bools) -> str:
    return _some_text([action_text(table, a) for a in np.flatnonzero(wrong)[: _SHOWN + 1].tolist()]) + _count(
        wrong
    )


def _count(wrong: Bools) -> str:
    n = int(wrong.sum())
    return f" ({n} actions)" if n > _SHOWN else ""


def _numbers(table: ScheduleTable) -> list[str]:
    """Columns hold numbers that exist."""
    problems = []
    for name, column, end in (
        ("work", table.work, len(Work)),
        ("stage", table.stage, table.stages),
        ("micro-batch", table.micro, table.micro_batches),
        ("stage_rank", table.stage_rank, table.ranks),
        ("stage_part", table.stage_part, table.parts),
        ("stage_before", table.stage_before + 1, table.stages + 1),
        ("stage_after", table.stage_after + 1, table.stages + 1),
    ):
        wrong = np.unique(column[(column < 0) | (column >= end)])
        if len(wrong):
            low = -1 if "before" in name or "after" in name else 0
            problems.append(
                f"{name} {_some_text([str(x + low) for x in wrong])}: it may be {low} to {end - 1 + low}"
            )
    if (np.diff(table.pointer) < 0).any():
        problems.append("pointer falls: it gives where the actions of each rank begin and must rise")
    return problems


def _stages(table: ScheduleTable) -> list[str]:
    """Directions run through every part in order, and back the same way."""
    stages = np.arange(table.stages)
    last = table.stage_after < 0
    first = table.stage_before < 0
    wrong = np.where(last, False, table.stage_before[table.stage_after] != stages)
    wrong |= np.where(first, False, table.stage_after[table.stage_before] != stages)
    problems = []
    if wrong.any():
        problems.append(
            f"stages {_some_text([str(s) for s in stages[wrong]])}: stage_after and stage_before do not agree"
        )
    expected = np.where(first, 0, table.stage_part[table.stage_before] + 1)
    skipped = (table.stage_part != expected) | (last & (table.stage_part != table.parts - 1))
    if skipped.any() and not problems:
        names = _some_text([f"{s} (part {table.stage_part[s]})" for s in stages[skipped]])
        problems.append(f"stages {names}: a direction must run through parts 0 to {table.parts - 1} in order")
    return problems


def _placement(table: ScheduleTable) -> list[str]:
    wrong = table.stage_rank[table.stage] != table.rank
    if not wrong.any():
        return []
    names = [
        f"{action_text(table, a)} on rank {table.rank[a]}, though rank {table.stage_rank[table.stage[a]]} holds stage "
        f"{table.stage[a]}"
        for a in np.flatnonzero(wrong).tolist()
    ]
    return [f"wrong rank: {_some_text(names)}"]


def _counts(table: ScheduleTable) -> list[str]:
    """Every micro-batch runs through one direction: each stage once forward, once backward (whole, or in two pieces)."""
    m = table.micro_batches
    key = (table.work * table.stages + table.stage) * m + table.micro
    count = np.bincount(key, minlength=4 * table.stages * m).reshape(4, table.stages, m)
    direction = table.direction
    heads = np.unique(direction)
    forward = np.stack([(count[Work.FORWARD, direction == head] > 0).sum(axis=0) for head in heads])
    own = direction[:, None] == heads[forward.argmax(axis=0)][None, :]  # [stage, micro]
    problems = []
    stray = (count > 0) & ~own  # [work, stage, micro]
    if stray.any():
        problems.append(f"micro-batches that run through two directions: {_cells(stray)}")
    gradient = count[Work.BACKWARD] + count[Work.INPUT]  # [stage, micro]
    lost = np.zeros_like(stray)  # [work, stage, micro]
    lost[Work.FORWARD] = own & (count[Work.FORWARD] == 0)
    lost[Work.BACKWARD] = own & (gradient == 0)
    lost[Work.WEIGHT] = (count[Work.INPUT] > 0) & (count[Work.WEIGHT] == 0)
    if lost.any():
        problems.append(f"missing: {_cells(lost)}")
    twice = count > 1  # [work, stage, micro]
    twice[Work.INPUT] |= (count[Work.BACKWARD] > 0) & (count[Work.INPUT] > 0)
    twice[Work.WEIGHT] |= (count[Work.BACKWARD] > 0) & (count[Work.WEIGHT] > 0)
    if twice.any():
        problems.append(f"done twice: {_cells(twice)}")
    return problems


def _cells(wrong: Shaped[Bools, "work stage micro"]) -> str:
    return _some_text([f"{s}{LETTERS[w]}{m}" for w, s, m in np.argwhere(wrong)])


def _order(table: ScheduleTable) -> list[str]:
    """On its rank, a micro-batch goes forward, then back, and its weight gradient is last."""
    m = table.micro_batches
    far = len(table) + 1
    kind = np.where(table.work == Work.BACKWARD, Work.INPUT, table.work)
    at = np.full((4, table.stages, m), far)  # [work, stage, micro]
    at[kind, table.stage, table.micro] = np.arange(len(table))
    forward, gradient, weight = (at[w] for w in (Work.FORWARD, Work.INPUT, Work.WEIGHT))
    problems = []
    early = (gradient < forward) & (forward < far)
    if early.any():
        names = [f"{s}F{x}" for s, x in np.argwhere(early)]
        problems.append(f"forward after its own backward: {_some_text(names)}")
    hasty = (weight < gradient) & (gradient < far)
    if hasty.any():
        problems.append(
            f"weight gradient before its input gradient: {_some_text([f'{s}W{x}' for s, x in np.argwhere(hasty)])}"
        )
    beside = np.flatnonzero(table.beside)
    alone = beside[np.isin(beside, table.pointer[:-1])]
    if len(alone):
        names = [action_text(table, action) for action in alone.tolist()]
        problems.append(f"first on its rank, with nothing to run beside: {_some_text(names)}")
    same = table.beside.copy()
    same[1:] &= (table.stage[1:] == table.stage[:-1]) & (table.micro[1:] == table.micro[:-1])
    if same[1:].any():
        problems.append(f"beside what it depends on: {_action_names(table, same)}")
    return problems


def _deadlock(table: ScheduleTable) -> list[str]:
    try:
        simulate_table(table, unit_seconds(table))
    except ScheduleError as error:
        return list(error.problems)
    return []


def _versions(table: ScheduleTable) -> list[str]:
    """Asynchronous: a backward uses the weights of its forward, and no weights that are not made yet."""
    if table.flush or table.version is None:
        wrong = table.flush != (table.version is None)
        return ["an asynchronous table (flush=False) needs `version`, and only that"] if wrong else []
    m = table.micro_batches
    forward: Shaped[Ints, "stage micro"] = np.full((table.stages, m), -1)
    is_forward = table.work == Work.FORWARD
    forward[table.stage[is_forward], table.micro[is_forward]] = table.version[is_forward]
    other = table.version != forward[table.stage, table.micro]
    problems = []
    if other.any():
        problems.append(f"backward with other weights than its forward: {_action_names(table, other)}")
    early = table.version > updates_before(table)
    if early.any():
        problems.append(f"weights that are not made yet: {_action_names(table, early)}")
    return problems
