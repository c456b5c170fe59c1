"""What an expert would ask of fitted constants: are they physical, and do they hold on rows that the fit has not seen?

Axis: G groups of rows that are left out in turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podsim.accuracy.calibrate_software import RANGES, constants_error, fit_software

GROUPS: Mapping[str, tuple[str, str]] = {
    "source": ("source", "source"), "model": ("model", "network"), "gpu": ("gpu", "cluster"),
}  # fmt: skip
"""What can be left out -> the columns that name it in the packaged tables, and in a user's file."""


@dataclass(frozen=True, kw_only=True)
class LeftOutGroup:
    """A fit without one group of rows, and its error on them."""

    group: str
    """The source, model or GPU."""
    rows: int
    seen: float
    """share. The mean absolute log error on them of the fit to all rows."""
    unseen: float | None
    """share. The same of the fit without them; None if no row is left to fit."""
    values: Mapping[str, float]
    """The constants without the group."""


def beyond_range(values: Mapping[str, float]) -> dict[str, str]:
    """Constants outside their physical range -> the range and its reason. "SYSTEM.NAME" is a constant of a system."""
    wrong = {}
    for name, value in values.items():
        low, high, why = RANGES.get(name.rpartition(".")[2], (value, value, ""))
        if not low <= value <= high:
            wrong[name] = f"{value:g} is outside {low:g} to {high:g}: {why}"
    return wrong


def leave_out(
    rows: Sequence[Mapping[str, str]], software: str, names: Sequence[str], left: str
) -> tuple[LeftOutGroup, ...]:
    """[G] The entry fitted again without the rows of each source, model or GPU (`left`), and its error on them."""
    every = fit_software(rows, software, names)
    used, groups = set(every.rows_used), defaultdict(list)
    for row in rows:
        if row["id"] in used:
            groups[next((row[column] for column in GROUPS[left] if row.get(column)), "")].append(row)
    out = []
    for group, members in groups.items():
        ids = {row["id"] for row in members}
        rest = [row for row in rows if row["id"] in used - ids]
        values = fit_software(rest, software, names).values if rest else {}
        out.append(
            LeftOutGroup(
                group=group, rows=len(members), values=values,
                seen=constants_error(members, software, every.values),
                unseen=constants_error(members, software, values) if rest else None,
            )
        )  # fmt: skip
    return tuple(out)
