"""What 5 % of each constant moves, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from podsim.report.table import Table

_SHOWN = 2
"""tables named for each constant"""


class _Constant(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> float: ...
    @property
    def unit(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def residual(self) -> float | None: ...


class _Moved(Protocol):
    @property
    def table(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def prediction(self) -> float: ...
    @property
    def up(self) -> float: ...
    @property
    def down(self) -> float: ...


class _Effect(Protocol):
    @property
    def constant(self) -> _Constant: ...
    @property
    def moved(self) -> Sequence[_Moved]: ...


def render_sensitivity(effects: Sequence[_Effect], *, width: int = 140) -> str:
    """Plain text: the constants by how far they move a prediction, then those that move nothing."""
    moving = sorted((e for e in effects if e.moved), key=lambda e: -e.moved[0].prediction)
    table = Table(
        "lrlrrw",
        header=("constant", "value", "unit", "rows", "residual", "+5 % moves (mean error: +5 %, -5 %)"),
    )
    for effect in moving:
        c = effect.constant
        told = "; ".join(
            f"{m.table} {m.role} by {m.prediction:.2%} ({m.up:+.2%}, {m.down:+.2%})"
            for m in effect.moved[:_SHOWN]
        )
        more = f"; {len(effect.moved) - _SHOWN} more" if len(effect.moved) > _SHOWN else ""
        left = "-" if c.residual is None else f"{c.residual:.1%}"
        table.add(c.name, f"{c.value:.4g}", c.unit, str(c.rows or "-"), left, told + more)
    lines = [(columns + text).rstrip() for columns, text in table.lines(width)]
    still = _still(effects)
    count = sum(not effect.moved for effect in effects)
    lines += ["", f"{count} of {len(effects)} constants move no table:", *(f"  {line}" for line in still)]
    return "\n".join(lines) + "\n"


def _still(effects: Sequence[_Effect]) -> list[str]:
    """The constants that move nothing, those of one table on a line."""
    groups: dict[str, list[tuple[str, bool]]] = {}
    for effect in effects:
        group, _, key = effect.constant.name.rpartition(".")
        groups.setdefault(group, []).append((key, bool(effect.moved)))
    lines = []
    for group, members in groups.items():
        still = [key for key, moves in members if not moves]
        if still:
            lines.append(f"{group}: {'all' if len(still) == len(members) else ', '.join(still)}")
    return lines
