"""What an expert would ask of fitted constants: are they physical, and do they hold on rows that the fit has not seen?

Axis: G groups of rows that are left out in turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podsim.accuracy.calibrate_software import constants_error, fit_software

_SPEED = "a kernel reaches at most 1.1 times the speed measured alone"
_HIDDEN = "some communication always stays exposed"
_TRAFFIC = "an op reads and writes its tensors once, to six times unfused"
RANGES: Mapping[str, tuple[float, float, str]] = {
    "gemm_speed": (0.5, 1.1, _SPEED),
    "attention_speed": (0.3, 1.1, _SPEED),
    "memory_speed": (0.3, 1.1, _SPEED),
    "expert_speed": (0.3, 1.1, _SPEED),
    "collective_speed": (0.3, 1.1, _SPEED),
    "elementwise_traffic": (1.0, 6.0, _TRAFFIC),
    "norm_traffic": (1.0, 6.0, _TRAFFIC),
    "cast_bytes": (0.0, 8.0, "a cast reads 2 bytes once or twice, and writes 1 byte once or twice"),
    "expert_cast_bytes": (0.0, 25.0, "permutation, sort and their reverse take 25 bytes unfused"),
    "ep_overlap": (0.0, 0.93, _HIDDEN),
    "tp_overlap": (0.0, 0.95, _HIDDEN),
    "async_tp": (0.0, 0.95, _HIDDEN),
    "host_kernel": (0.0, 50e-6, "a launch takes 2 us, from Python to 50 us"),
    "host_collective": (0.0, 100e-6, "ranks of a node start within 100 us"),
    "host_send": (0.0, 1e-3, "a send waits at most 1 ms for the host"),
    "host_broadcast": (0.0, 2e-3, "a broadcast takes at most 2 ms a rank"),
    "host_step": (0.0, 0.1, "data, logging and checks take at most 0.1 s a step"),
    "network_speed": (0.5, 1.1, "a network reaches half to all of its rate"),
}
"""Constant -> (low, high, why): its physical range."""
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
    """The number of its rows."""
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
