"""Published rates of storage systems, for comparison with predictions: catalog/published.toml."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from podsim.answers.storage import FioRow, PublishedPoint
from podsim.packaged import packaged_toml
from podsim.units import parse_quantity


@cache
def _points() -> dict[tuple[str, str], tuple[PublishedPoint, ...]]:
    tables = packaged_toml("storage/catalog/published.toml")
    points: dict[tuple[str, str], tuple[PublishedPoint, ...]] = {}
    for row in tables["rate"]:
        point = PublishedPoint(
            clients=row["clients"],
            bandwidth=parse_quantity(row.get("bandwidth", 0.0), "B/s"),
            iops=parse_quantity(row.get("iops", 0.0), "1/s"),
            what=row["what"],
            source=tables["sources"][row["source"]],
        )
        key = (row["system"], row["rw"])
        points[key] = (*points.get(key, ()), point)
    return points


def published_points(system: str, rw: str, block: float) -> tuple[PublishedPoint, ...]:
    """Points of a system by name for a pattern of fio: bandwidths for accesses near 1 MiB, operations for 4 KiB."""
    rows = _points().get((system, rw), ())
    return tuple(row for row in rows if (1 << 18 <= block <= 1 << 22 if row.bandwidth else block == 4096))


def published_systems() -> tuple[tuple[str, str, tuple[PublishedPoint, ...]], ...]:
    """(system, pattern of fio, points) of everything published."""
    return tuple((system, rw, points) for (system, rw), points in _points().items())


def with_published(rows: tuple[FioRow, ...], points: tuple[PublishedPoint, ...]) -> tuple[FioRow, ...]:
    """Rows of fio with what was published for their clients, and the error of the prediction."""
    known = {point.clients: point for point in points}
    compared = []
    for row in rows:
        point = known.get(row.clients)
        if point is None:
            compared.append(row)
            continue
        value, ours = (point.bandwidth, row.bandwidth) if point.bandwidth else (point.iops, row.iops)
        compared.append(replace(row, published=value, error=round(ours / value - 1.0, 9) + 0.0))
    return tuple(compared)
