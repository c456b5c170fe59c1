"""How far 5 % of each constant moves each packaged table: python -m reference.sensitivity_report [TABLE ...]."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from podsim.report.columns import Column, Table
from podsim.report.screen import Block, Rows, bold, raw, report_text
from reference.sensitivity import sensitivity

_WIDTH = 140
"""The columns that the table needs."""
_SHOWN = 2
"""The number of tables that are named for each constant."""
_EFFECTS = Table(
    Column("constant", "constant.name"),
    Column("value", "constant.value", ":.4g"),
    Column("unit", "constant.unit"),
    Column("rows", "constant.rows", lambda count: str(count or "-")),
    Column("residual", "constant.residual", ":.1%", missing="-"),
    Column("+5 % moves (mean error: +5 %, -5 %)", lambda effect: _moves_text(effect.moved), wrap=True),
)


def sensitivity_report(effects: Sequence[Any]) -> Iterator[Block]:
    """The constants by their effect on a prediction, then those without effect."""
    moving = sorted((e for e in effects if e.moved), key=lambda effect: -effect.moved[0].prediction)
    yield Rows(_EFFECTS, moving)
    count = len(effects) - len(moving)
    yield from ("", bold(f"{count} of {len(effects)} constants move no table:"))
    yield from (raw(line, indent="  ") for line in _idle_constants(effects))


def _moves_text(moves: Sequence[Any]) -> str:
    """The tables that a constant moves most."""
    words = [
        f"{move.table} {move.role} by {move.prediction:.2%} ({move.up:+.2%}, {move.down:+.2%})"
        for move in moves[:_SHOWN]
    ]
    rest = len(moves) - _SHOWN
    return "; ".join(words) + (f"; {rest} more" if rest > 0 else "")


def _idle_constants(effects: Sequence[Any]) -> Iterator[str]:
    """The constants without effect, one line per group."""
    groups: dict[str, list[tuple[str, bool]]] = {}
    for effect in effects:
        group, _, key = effect.constant.name.rpartition(".")
        groups.setdefault(group, []).append((key, bool(effect.moved)))
    for group, members in groups.items():
        idle = [key for key, does_move in members if not does_move]
        if idle:
            yield f"{group}: {'all' if len(idle) == len(members) else ', '.join(idle)}"


def main() -> int:
    """Print the effect of every constant on the tables that are named, or on all."""
    sys.stdout.write(report_text(sensitivity_report(sensitivity(sys.argv[1:])), _WIDTH))
    return 0


if __name__ == "__main__":
    sys.exit(main())
