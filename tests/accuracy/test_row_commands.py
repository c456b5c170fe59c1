"""`validate` scores what the commands print: a row's figure is that of the command that asks for it."""

from __future__ import annotations

import os
import random
from collections import defaultdict

import pytest
from row_commands import KINDS, answer_of, answered, row_command

from podsim.accuracy.measured_runs import NotExpressible
from podsim.accuracy.pricing import price
from podsim.accuracy.tables import TABLES, Row, load
from podsim.errors import PodsimError

COUNT = 200 if os.environ.get("PODSIM_LONG") else 12
"""rows of a kind that are asked for"""
SLOW = {"engines": 4, "kernels": 4}
"""kinds whose command also ranks the nearest measured kernels -> rows that are asked for in every run"""
LEFT_OUT = ("seconds of own samples", "bytes")
"""quantities that a command states beside other things: samples of a run, memory without the runtime's"""
TOLERANCE = 1e-3


def _drawn(kind: str) -> dict[str, dict[str, str]]:
    """Table -> id -> command of some rows of a kind, always the same ones."""
    draws = random.Random(34)
    pool: list[tuple[str, Row]] = [
        (name, row) for name, rows in ((name, load(name)) for name in TABLES)
        if rows.kind == kind and rows.what not in LEFT_OUT for row in rows
    ]  # fmt: skip
    wanted = COUNT if os.environ.get("PODSIM_LONG") else SLOW.get(kind, COUNT)
    drawn: dict[str, dict[str, str]] = defaultdict(dict)
    for name, row in draws.sample(pool, len(pool)):
        if sum(map(len, drawn.values())) == wanted:
            break
        try:
            drawn[name][row.id] = row_command(kind, row.fields)
        except (NotExpressible, PodsimError):
            continue
    return drawn


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_scored_with_what_its_command_prints(kind: str) -> None:
    compared, wrong = 0, []
    for name, commands in _drawn(kind).items():
        rows = load(name)
        chosen = rows.where(lambda row, ids=frozenset(commands): row.id in ids)
        predictions = price(chosen, cross_validate=False).predictions
        for row in chosen:
            if row.id not in predictions:
                continue
            value = answered(kind, rows.what, row.fields, answer_of(commands[row.id]))
            compared += 1
            if value != pytest.approx(predictions[row.id], rel=TOLERANCE):
                wrong.append((row.id, predictions[row.id], value, commands[row.id]))
    assert not wrong
    assert compared > COUNT / 5
