"""The schedules there are: what builds each, for which sizes it exists, how it places parts, and where it is from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from podsim.errors import ScheduleError, unknown_name
from podsim.training.schedules import classic
from podsim.training.schedules.table import ScheduleTable

__all__ = ["SCHEDULES", "ScheduleEntry", "SizeRule", "build"]


@dataclass(frozen=True, kw_only=True)
class SizeRule:
    """What a schedule demands of (p, v, m): pipeline ranks, chunks of a rank, micro-batches."""

    needs: str
    """in words: "virtual_stages of 2 or more" """
    broken: Callable[[Any, Any, Any], Any]
    """(p, v, m) -> where the rule is broken; broadcasts"""


@dataclass(frozen=True, kw_only=True)
class ScheduleEntry:
    """One schedule; tests run over all."""

    name: str
    build: Callable[[int, int, int], ScheduleTable]
    """(p, v, m) -> table"""
    rules: tuple[SizeRule, ...]
    placement: str
    """how parts lie: "loop" (part s on rank s mod p), "vee" (down the ranks and up again), "two ways" (each twice)"""
    source: str

    def problems(self, p: int, v: int, m: int) -> list[str]:
        """Every rule that sizes break, worded."""
        wrong = [
            f"{name}={value}"
            for name, value in (("pp", p), ("virtual_stages", v), ("micro_batches", m))
            if value < 1
        ]
        if wrong:
            return [f"{', '.join(wrong)}: sizes of a schedule are whole numbers from 1"]
        return [
            f"schedule={self.name} with pp={p}, virtual_stages={v} and {m} micro-batches; it needs {rule.needs}"
            for rule in self.rules
            if bool(rule.broken(p, v, m))
        ]


_ONE = SizeRule(needs="virtual_stages of 1", broken=lambda p, v, m: np.asarray(v) != 1)
_MANY = SizeRule(needs="virtual_stages of 2 or more", broken=lambda p, v, m: np.asarray(v) < 2)
_PIPE = SizeRule(needs="pp of 2 or more", broken=lambda p, v, m: np.asarray(p) < 2)
_ROUNDS = SizeRule(
    needs="micro-batches in a multiple of pp", broken=lambda p, v, m: np.asarray(m) % np.maximum(p, 1) != 0
)

_ENTRIES = (
    ScheduleEntry(
        name="gpipe", build=classic.gpipe, rules=(_ONE,), placement="loop", source="Huang et al. 2019, arXiv 1811.06965"
    ),
    ScheduleEntry(
        name="1f1b", build=classic.one_f_one_b, rules=(_ONE,), placement="loop",
        source="Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1",
    ),
    ScheduleEntry(
        name="interleaved", build=classic.interleaved, rules=(_MANY, _PIPE, _ROUNDS), placement="loop",
        source="Narayanan et al. 2021, arXiv 2104.04473, section 2.2.2; Megatron-LM's order",
    ),
)  # fmt: skip
SCHEDULES: dict[str, ScheduleEntry] = {entry.name: entry for entry in _ENTRIES}
"""by name"""


def build(name: str, p: int, v: int, m: int) -> ScheduleTable:
    """The table of a schedule for p ranks, v chunks of each and m micro-batches; ScheduleError says what would work."""
    if name not in SCHEDULES:
        raise ScheduleError([unknown_name("schedule", name, SCHEDULES)])
    wrong = SCHEDULES[name].problems(p, v, m)
    if wrong:
        raise ScheduleError(wrong)
    return SCHEDULES[name].build(p, v, m)
