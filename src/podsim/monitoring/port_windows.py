"""The times in which traffic of several owners met on a port, from the record of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import numpy as np

from podsim.answers.telemetry import Contention, PortRow, Telemetry
from podsim.axes import Floats
from podsim.errors import PodsimError

_MOST = 3
"""The number of windows that are reported."""
_SHARED = 0.1
"""The share of a window's bytes from which on an owner counts."""
_TRAFFIC = {"dp": "gradients and weights", "pp": "sends", "tp": "tensor-parallel exchanges",
            "cp": "context-parallel exchanges", "ep": "expert exchanges"}  # fmt: skip


def contention_of(run: Telemetry) -> Iterator[Contention]:
    """The ports where traffic of several kinds waited for each other, the longest waits first, one of each kind."""
    owners, seen = _owners(run), set[str]()
    waits = [row for row in run.rows if not row.collective and row.kind != "storage" and row.queued > 0]
    for row in sorted(waits, key=lambda each: -each.queued):
        kinds = {owner.collective for owner in owners.get(row.port, [])}
        if len(kinds) < 2 or row.kind in seen or len(seen) >= _MOST:
            continue
        if window := _window(row, owners[row.port], run, 2):
            seen.add(row.kind)
            yield window


def windows_of(run: Telemetry, pattern: str) -> tuple[Contention, ...]:
    """The fullest time of the ports that a pattern names. Raises PodsimError for a pattern without matches."""
    owners = _owners(run)
    ports = [row for row in run.rows if not row.collective and row.kind != "compute"]
    named = [row for row in ports if is_named(row.port, pattern)]
    if not named:
        known = ", ".join(row.port for row in sorted(ports, key=lambda each: -each.bytes)[:4])
        raise PodsimError(f"--link {pattern[:60]!r}: no port of the record; the busiest are {known}")
    windows = [
        _window(row, owners.get(row.port, []), run, 0)
        for row in sorted(named, key=lambda r: -r.bytes)[:_MOST]
    ]
    return tuple(window for window in windows if window)


def _window(row: PortRow, owners: Sequence[PortRow], run: Telemetry, least: int) -> Contention | None:
    """The fullest time of a port in which `least` kinds of traffic share it."""
    width = run.seconds / max(run.bins, 1)
    total = _binned(row, run.bins)
    by_kind: dict[str, Floats] = {}
    for owner in owners:
        by_kind[owner.collective] = by_kind.get(owner.collective, 0.0) + _binned(owner, run.bins)
    together = sum((each > _SHARED * total).astype(int) for each in by_kind.values()) >= least
    score = np.where(together, total, 0.0)
    if not np.any(score > 0):
        return None
    first = last = int(score.argmax())
    while first > 0 and score[first - 1] > 0.5 * score.max():
        first -= 1
    while last + 1 < run.bins and score[last + 1] > 0.5 * score.max():
        last += 1
    part = slice(first, last + 1)
    amounts = [(float(_binned(owner, run.bins)[part].sum()), owner) for owner in owners]
    texts = [_owner_text(owner) for amount, owner in sorted(amounts, key=lambda each: -each[0]) if amount > 0]
    full = row.capacity * width * (last + 1 - first)
    return Contention(
        port=row.port + (f" (rank {row.owner})" if row.owner else ""), kind=row.kind, start=first * width,
        end=(last + 1) * width, owners=tuple(texts[:4]), utilisation=float(total[part].sum()) / full if full else 0.0,
    )  # fmt: skip


def _owners(run: Telemetry) -> dict[str, list[PortRow]]:
    """The rows of the owners of each port."""
    owners: dict[str, list[PortRow]] = {}
    for row in run.rows:
        if row.collective and row.kind != "compute":
            owners.setdefault(row.port, []).append(row)
    return owners


def _binned(row: PortRow, bins: int) -> Floats:
    """The bytes of a row in all bins."""
    values = np.zeros(bins)
    values[: len(row.values)] = row.values[:bins]
    return values


def _owner_text(row: PortRow) -> str:
    """The owner of a row in words: "gradients and weights of ranks 0-63"."""
    what = _TRAFFIC.get(row.collective, row.collective)
    ranks = f" of rank{'s' * (not row.ranks.isdigit())} {row.ranks}" if row.ranks else ""
    span = "-".join(dict.fromkeys(map(str, row.micro_batches)))
    return f"{what}{ranks}" + (f", micro-batch {span}" if span else "")


def is_named(port: str, pattern: str) -> bool:
    """Whether a port has a name that a pattern names, or a part of it."""
    return pattern in port or fnmatchcase(port, pattern)
