"""The stores of checkpoints: read and write bandwidths in total and per node, with named stores and their sources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from podsim.errors import CatalogError, UnitError, raise_all, unknown_name
from podsim.packaged import packaged_toml
from podsim.records import dataclass, replace
from podsim.units import parse_quantity

_BANDWIDTHS = ("read", "write", "client_read", "client_write")
_KEYS = {*_BANDWIDTHS, "title", "source", "nodes"}


@dataclass(frozen=True, kw_only=True)
class Store:
    """A shared file system or object store, as clients see it."""

    name: str
    title: str
    read: float
    """B/s. The read bandwidth of all clients together."""
    write: float
    """B/s. The write bandwidth of all clients together."""
    client_read: float
    """B/s. The read bandwidth of one node; infinite if no limit is known."""
    client_write: float
    """B/s. The write bandwidth of one node; infinite if no limit is known."""
    nodes: int
    """The number of nodes that `read` and `write` are for, with a larger store in proportion; 0: they are of the whole.
    """
    source: str
    notes: tuple[str, ...] = ()

    def sized(self, nodes: int) -> Store:
        """The store for a cluster of a number of nodes: proportional beyond its own number, and linear from one node's
        below it.

        As podsim.storage.sizing reads the same guidance between its columns.
        """
        if not self.nodes:
            return self
        read, write = (
            _interpolate_rate(nodes, self.nodes, single, total)
            for single, total in ((self.client_read, self.read), (self.client_write, self.write))
        )
        return replace(self, read=read, write=write, nodes=nodes)


def _interpolate_rate(nodes: int, known: int, single: float, total: float) -> float:
    """B/s for some nodes, of what one node and `known` nodes have; without a figure for one, in proportion."""
    if nodes >= known or known == 1 or single == float("inf"):
        return total * nodes / known
    return single + (total - single) * (nodes - 1) / (known - 1)


def load_store(name: str) -> Store:
    """A store by its name, or one of a bandwidth such as "273 GB/s" both ways; CatalogError for anything else."""
    key = name.strip().lower()
    if key in _catalog():
        return _catalog()[key]
    if key and (key[0].isdecimal() or key[0] in "+-."):
        try:
            speed = parse_quantity(name, "B/s", what="store")
        except UnitError as error:
            raise CatalogError(f"{error}, or a store: {', '.join(_catalog())}") from None
        if speed <= 0:
            raise CatalogError(
                f"store: {name[:60]!r} is no bandwidth; give a positive one, such as '273 GB/s'"
            )
        unlimited = float("inf")
        return Store(
            name=name.strip(), title="a store as given", read=speed, write=speed, client_read=unlimited,
            client_write=unlimited, nodes=0, source="given",
        )  # fmt: skip
    raise CatalogError(unknown_name("store", name, _catalog()) + "; or a bandwidth, such as '273 GB/s'")


@cache
def _catalog() -> dict[str, Store]:
    return read_stores(packaged_toml("storage/checkpoints.toml"))


def read_stores(raw: Mapping[str, Any]) -> dict[str, Store]:
    """Stores by name from parsed TOML; CatalogError with everything wrong."""
    sources, problems, stores = raw.get("sources", {}), [], {}
    for name, entry in raw.get("stores", {}).items():
        wrong = [unknown_name("key", key, _KEYS) for key in entry if key not in _KEYS]
        wrong += [f"{key} is missing" for key in ("title", "source", "write") if key not in entry]
        if entry.get("source") not in sources:
            wrong.append(unknown_name("source", str(entry.get("source")), sources))
        speeds = {}
        for key in _BANDWIDTHS:
            try:
                speeds[key] = parse_quantity(entry[key], "B/s", what=key) if key in entry else None
            except UnitError as error:
                wrong.append(str(error))
        wrong += [
            f"{key} must be positive" for key, speed in speeds.items() if speed is not None and speed <= 0
        ]
        problems += [f"[stores.{name}] {problem}" for problem in wrong]
        if not wrong:
            stores[name] = _store(name, entry, speeds, sources[entry["source"]])
    raise_all(problems, CatalogError)
    return stores


def _store(name: str, entry: Mapping[str, Any], speeds: Mapping[str, float | None], source: str) -> Store:
    write, read = speeds["write"], speeds["read"]
    assert write is not None
    unknown = read is None
    return Store(
        name=name, title=entry["title"], read=write if read is None else read, write=write,
        client_read=speeds["client_read"] or float("inf"), client_write=speeds["client_write"] or float("inf"),
        nodes=int(entry.get("nodes", 0)), source=source,
        notes=(f"no read bandwidth of {name} is known: taken to be that of writes",) if unknown else (),
    )  # fmt: skip
