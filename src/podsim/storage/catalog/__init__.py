"""The catalog of storage systems, each figure with its source: storage.toml next to this module.

    storage_names()                            the names of the systems
    load_storage("weka-ra:4")                  (system, clients)
    load_storage("weka-ra:4", {"servers": "4", "client.cores": "2"})
    load_storage("disk.toml")                  a user's file: `inherits`, and the keys of KEYS that differ

Raises CatalogError for an unknown name or key, and StorageError for impossible values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from podsim.errors import CatalogError, PodsimError, StorageError, UnitError, unknown_name
from podsim.hardware.catalog import find, load_ssd, load_system
from podsim.hardware.catalog.schema import parse_catalog
from podsim.hardware.cluster import load_cluster
from podsim.hardware.overrides import Reader, count, quantity, read_count
from podsim.hardware.parts import System
from podsim.hardware.userfile import UserFile, read_user_file
from podsim.storage.catalog.storage_schema import ClientEntry, ServerEntry, StorageEntry
from podsim.storage.storage_parts import Client, Server, Software, StorageSystem, Stripe

__all__ = ["KEYS", "MOST_CLIENTS", "load_storage", "storage_names"]

MOST_CLIENTS = 100_000
_SPEC = re.compile(r"([^:]+?)(?::\s*(.*?))?\s*", re.DOTALL)


KEYS: dict[str, Reader] = {
    "servers": count(1),
    "capacity": quantity("B"),
    "read_latency": quantity("s"),
    "write_latency": quantity("s"),
    "range_requests": quantity("1/s"),
    "server.ssds": count(1),
    "server.ports": count(0),
    "server.port": quantity("B/s"),
    "server.read": quantity("B/s"),
    "server.write": quantity("B/s"),
    "server.iops": quantity("1/s"),
    "client.ports": count(0),
    "client.port": quantity("B/s"),
    "client.cores": count(1, 1024),
    "client.read": quantity("B/s"),
    "client.write": quantity("B/s"),
    "client.iops": quantity("1/s"),
    "stripe.data": count(1, 16),
    "stripe.parity": count(0, 4),
    "stripe.spares": count(0, 1000),
}
"""what may be changed of a system; fewer cores leave each as fast as it was"""


@cache
def _entries() -> dict[str, StorageEntry]:
    file = "storage.toml"
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    return cast("dict[str, StorageEntry]", parse_catalog("storage", text, file, StorageEntry))


def storage_names() -> tuple[str, ...]:
    """Names of the storage systems, in the order of their file."""
    return tuple(_entries())


def load_storage(
    spec: str, overrides: Mapping[str, object] | None = None, *, client: str = ""
) -> tuple[StorageSystem, int]:
    """(system, number of clients) of a text such as weka-ra:4; without a number, those it was measured with, or 1.

    `overrides` changes keys of KEYS; `client` puts another server of the hardware catalog, or that of a cluster's file
    (.toml), in the clients' place, with the same ports and software.
    """
    spec, file = _split_file(spec)
    name, clients = _parse_spec(spec)
    entry, given = _entries()[name], dict(overrides or {})
    if file is not None:
        name, given = file.name, {**file.overrides, **given}
        entry = entry.model_copy(update={"source": (file.source,), "measured_clients": 0, "notes": {}})
    changed, problems = _change_entry(entry, given)
    system = _load_client(client or changed.client.system)
    problems += _problems(changed)
    if problems:
        raise StorageError(f"{name}: " + "; ".join(problems))
    made = _make_system(name, changed, system, entry.client.cores)
    return made, made.measured_clients or 1 if clients is None else clients


def _split_file(spec: str) -> tuple[str, UserFile | None]:
    """(the spec of a catalog's system, what a user's file changes of it)."""
    match = _SPEC.fullmatch(spec.strip())
    if match is None or not match[1].lower().endswith(".toml"):
        return spec, None
    file = read_user_file(match[1])
    return file.inherits + (f":{match[2]}" if match[2] is not None else ""), file


def _load_client(name: str) -> System:
    """A server of the hardware catalog, or that of a cluster's file."""
    return load_cluster(name).system if name.lower().endswith(".toml") else load_system(name)


def _parse_spec(spec: str) -> tuple[str, int | None]:
    match = _SPEC.fullmatch(spec.strip())
    entries = _entries()
    others = {alias: name for name, entry in entries.items() for alias in entry.aliases}
    if match is None:
        raise CatalogError(
            f"cannot read {spec[:80]!r}; expected a storage system and clients, such as weka-ra:4"
        )
    key = match[1].strip().lower()
    key = others.get(key, key)
    if key not in entries:
        part = find(key)
        hint = f"{part[1]} is a {part[0]} of the hardware catalog; " if part else ""
        if part and part[0] == "system":
            hint = f"{part[1]} is a node; name its storage, as weka-ra:4 with --client {part[1]}; "
        raise CatalogError(hint + unknown_name("storage system", match[1].strip(), [*entries, *others]))
    if match[2] is None:
        return key, None
    try:
        return key, read_count(match[2], what=f"{key}: clients", high=MOST_CLIENTS)
    except UnitError as error:
        raise StorageError(str(error)) from None


def _change_entry(entry: StorageEntry, overrides: Mapping[str, object]) -> tuple[StorageEntry, list[str]]:
    """The entry with some keys changed, and what is wrong with the values."""
    if unknown := [key for key in overrides if key not in KEYS]:
        raise CatalogError("; ".join(unknown_name("key of a storage system", key, KEYS) for key in unknown))
    problems: list[str] = []
    tops: dict[str, Any] = {}
    for key, value in overrides.items():
        try:
            read = KEYS[key](value, key)
        except PodsimError as error:
            problems.append(str(error))
            continue
        head, _, rest = key.partition(".")
        if not rest:
            tops[head] = read
        elif (part := tops.get(head, getattr(entry, head))) is None:
            problems.append(f"{key}: its protection is not known, so none of it can be changed")
        else:
            tops[head] = part.model_copy(update={rest: read})
    return entry.model_copy(update=tops), problems


def _problems(entry: StorageEntry) -> list[str]:
    """What no system can be."""
    problems = _stripe_problems(entry)
    if entry.kind == "local" and entry.servers > 1:
        problems.append(f"servers={entry.servers}: local drives are a node's own; servers is 1")
    if entry.server.ssds and not entry.server.ssd and entry.kind != "local":
        problems.append(f"server.ssds={entry.server.ssds}: the drives of its servers are not known")
    for what, part in (("server", entry.server), ("client", entry.client)):
        if part.ports and part.port is None:
            problems.append(f"{what}.ports={part.ports} but no {what}.port: give its speed, such as 200Gb/s")
        if entry.kind != "local" and not part.ports:
            problems.append(f"{what}.ports=0: without ports nothing reaches it; give at least 1")
        if part.read is None:
            idle = [key for key in ("write", "iops", "cores") if getattr(part, key, None)]
            idle = [key for key in idle if (what, key) != ("server", "write")]
            problems += [f"{what}.{key} says nothing without {what}.read: give that, too" for key in idle]
        if part.read is not None and part.iops is not None and part.iops * 4096 > part.read * 1.0001:
            problems.append(
                f"{what}.iops={part.iops:g} of 4 KiB would be {part.iops * 4096 / 1e9:.3g} GB/s, more than"
                f" {what}.read={part.read / 1e9:.3g} GB/s"
            )
    return problems


def _stripe_problems(entry: StorageEntry) -> list[str]:
    """The rules that a stripe over a number of servers breaks; for WekaFS also those of its documentation."""
    stripe = entry.stripe
    if stripe is None:
        return []
    problems, width = [], stripe.data + stripe.parity
    if width > entry.servers:
        problems.append(
            f"stripes of {stripe.data}+{stripe.parity} need {width} servers, one for each block;"
            f" there are {entry.servers}: take fewer data blocks, or more servers"
        )
    if stripe.spares >= entry.servers:
        problems.append(
            f"stripe.spares={stripe.spares}: fewer than the {entry.servers} servers must be spare"
        )
    elif entry.kind == "wekafs" and width <= entry.servers < width + stripe.spares:
        problems.append(
            f"stripes of {stripe.data}+{stripe.parity} with the space of {stripe.spares} server(s) kept free need"
            f" {width + stripe.spares} servers; there are {entry.servers}: take fewer data blocks or stripe.spares, or"
            " more servers"
        )
    if entry.kind == "wekafs" and not (stripe.data >= 3 and stripe.parity in (2, 4)):
        problems.append(
            f"stripes of {stripe.data}+{stripe.parity}: WekaFS makes 3 to 16 data blocks and 2 or 4 of parity"
        )
    return problems


def _software(bandwidth: float | None, operations: float | None) -> Software | None:
    return None if bandwidth is None else Software.through(bandwidth, operations)


def _per_core(software: Software | None, cores: int) -> Software | None:
    if software is None:
        return None
    many = max(cores, 1)
    return Software(per_byte=software.per_byte * many, per_operation=software.per_operation * many)


def _make_system(name: str, entry: StorageEntry, system: System, cores: int) -> StorageSystem:
    server, client = _server(entry, system), _client(entry.client, system, cores)
    raw = server.ssds * server.ssd.capacity * entry.servers if server.ssd else 0.0
    stripe = Stripe(**entry.stripe.model_dump()) if entry.stripe else None
    ssd = server.ssd if entry.kind == "local" else None
    return StorageSystem(
        name=name, kind=entry.kind, servers=entry.servers, server=server, client=client, stripe=stripe,
        read_latency=(ssd and ssd.read_latency) or entry.read_latency,
        write_latency=(ssd and ssd.write_latency) or entry.write_latency, capacity=entry.capacity or raw,
        tier=entry.tier, measured_clients=entry.measured_clients, range_requests=entry.range_requests or 0.0,
        source="; ".join(entry.source), confirmed=entry.confirmed, notes=dict(entry.notes),
    )  # fmt: skip


def _server(entry: StorageEntry, system: System) -> Server:
    given: ServerEntry = entry.server
    ssd, ssds = (load_ssd(given.ssd) if given.ssd else None), given.ssds
    if entry.kind == "local":
        ssd, ssds = system.ssd, given.ssds or system.ssds
        if ssd is None or not ssds:
            raise StorageError(
                f"{system.name} has no data drives; take a node that has, such as dgx-a100-40gb"
            )
    return Server(
        ssd=ssd, ssds=ssds, ports=given.ports, port=given.port or 0.0, read=_software(given.read, given.iops),
        write=_software(given.write, given.iops),
    )  # fmt: skip


def _client(given: ClientEntry, system: System, cores: int) -> Client:
    read = _per_core(_software(given.read, given.iops), cores)
    write = _per_core(_software(given.write or given.read, given.iops), cores)
    return Client(
        system=system, ports=given.ports, port=given.port or 0.0, cores=given.cores, read=read, write=write,
        stream=given.stream or float("inf"),
    )  # fmt: skip
