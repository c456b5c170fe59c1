"""The schema of catalog files, and their parser, which reports all problems of a file in one CatalogError.

Keys are the names of the fields of podsim.hardware.parts. Quantities are text with a unit, converted to SI.
Unknown keys, missing keys and wrong values are rejected.

A file has a `sources` table (key to text) and one table per entry. An entry names its sources by key and states
whether its figures are confirmed. It may inherit from another entry of the same file: tables such as `peaks`
merge key by key, and an empty table or text clears the inherited value.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from podsim.errors import CatalogError, UnitError, check_name, unknown_name
from podsim.hardware.overrides import COLLECTIVE_KEYS, read_count, read_quantity, setting
from podsim.hardware.parts import Peak


def _quantity(unit: str) -> Callable[[object], float]:
    return lambda value: read_quantity(value, unit, what="value")


def _count(low: int) -> Callable[[object], int]:
    return lambda value: read_count(value, what="value", low=low)


Bytes = Annotated[float, BeforeValidator(_quantity("B"))]
Rate = Annotated[float, BeforeValidator(_quantity("B/s"))]
Flops = Annotated[float, BeforeValidator(_quantity("FLOP/s"))]
Watts = Annotated[float, BeforeValidator(_quantity("W"))]
Hertz = Annotated[float, BeforeValidator(_quantity("Hz"))]
Seconds = Annotated[float, BeforeValidator(_quantity("s"))]
PerSecond = Annotated[float, BeforeValidator(_quantity("1/s"))]
Count = Annotated[int, BeforeValidator(_count(0))]
Positive = Annotated[int, BeforeValidator(_count(1))]


def _collectives(value: object) -> dict[str, str]:
    """The usual settings of collectives; UnitError with the rule of the first wrong one."""
    if not isinstance(value, dict):
        raise UnitError('expected a table such as { nccl = "2.18", launch = "process" }')
    if unknown := [key for key in value if key not in COLLECTIVE_KEYS]:
        raise UnitError(unknown_name("setting of a collective", str(unknown[0]), COLLECTIVE_KEYS))
    return {key: setting(*COLLECTIVE_KEYS[key])(word, key) for key, word in value.items()}


Collectives = Annotated[dict[str, str], BeforeValidator(_collectives)]


class Table(BaseModel):
    """A table of a catalog file, whose keys are all known."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)


class Entry(Table):
    """The fields of every entry: the sources of its figures, and whether they were read there."""

    source: tuple[str, ...] = Field(min_length=1)
    confirmed: Literal["yes", "partial", "no"]
    aliases: tuple[str, ...] = ()
    notes: dict[str, str] = {}


class GpuEntry(Entry):
    """An accelerator."""

    architecture: Literal[
        "volta", "turing", "ampere", "ada", "hopper", "blackwell", "blackwell-rtx", "cdna3", "cdna4", "tpu",
        "wafer",
    ]  # fmt: skip
    compute_capability: Annotated[float, Field(ge=0, lt=100)] = 0.0
    sms: Positive
    clock: Hertz
    peaks: dict[Peak, Flops] = Field(min_length=1)
    sparse_peaks: dict[Peak, Flops] = {}
    memory: Bytes
    memory_bandwidth: Rate
    l2: Bytes
    power: Watts
    nvlinks: Count
    nvlink_bandwidth: Rate | None = None
    nvlink_latency: Seconds = 0.0
    bridge: bool = False
    pcie_generation: Literal[0, 3, 4, 5] = 0
    pcie_lanes: Count = 0
    mig: bool
    exponentials: Annotated[float, Field(gt=0)] = 16.0
    kernels: str = ""


class NvSwitchEntry(Entry):
    """A crossbar for NVLinks."""

    ports: Positive
    bandwidth: Rate
    sharp: bool


class NicEntry(Entry):
    """A network adapter."""

    ports: Positive
    bandwidth: Rate
    kind: Literal["infiniband", "roce", "efa", "slingshot", "ethernet"]
    latency: Seconds


class SwitchEntry(Entry):
    """A network switch."""

    ports: Positive
    bandwidth: Rate
    latency: Seconds
    kind: Literal["infiniband", "ethernet"]
    sharp: bool


class PcieEntry(Entry):
    """A generation of PCI Express."""

    generation: Positive
    bandwidth: Rate
    copies: Rate
    duplex: Rate
    latency: Seconds


class CpuEntry(Entry):
    """A processor."""

    cores: Positive
    clock: Hertz
    memory_bandwidth: Rate
    pcie_lanes: Positive
    power: Watts
    vendor: Literal["amd", "intel", "nvidia"]
    socket_links: Count = 0
    socket_bandwidth: Rate = 0.0
    socket_name: str = ""


class SsdEntry(Entry):
    """A drive."""

    capacity: Bytes
    read_bandwidth: Rate
    write_bandwidth: Rate
    read_iops: PerSecond | None = None
    write_iops: PerSecond | None = None
    read_latency: Seconds = 0.0
    write_latency: Seconds = 0.0


class Datasheet(Table):
    """The rounded figures of a vendor's data sheet."""

    ai: Flops | None = None
    int8: Flops | None = None
    gpu_memory: Bytes | None = None
    nvlink: Rate | None = None
    nvswitch: Rate | None = None
    network: Rate | None = None
    cache: Bytes | None = None
    power: Watts | None = None


class TorusEntry(Table):
    """The torus of a pod, and its slices."""

    pod: tuple[Positive, ...] = Field(min_length=1, max_length=3)
    cube: Count = 0
    cores: Positive = 1
    slices: tuple[tuple[Positive, ...], ...] = ()


class SystemEntry(Entry):
    """A server, with its parts by name; an empty name means no such part."""

    gpu: str
    gpus: Positive
    trays: Positive = 1
    topology: Literal[
        "nvswitch", "cube-mesh", "nvlink-mesh", "nvlink-pair", "pcie", "pcie-root", "torus", "wafer"
    ]
    nvswitch: str = ""
    nvswitches: Count = 0
    pcie: str = ""
    cpu: str = ""
    cpus: Count = 0
    memory: Bytes
    nic: str = ""
    nics: Count = 0
    storage_nic: str = ""
    storage_nics: Count = 0
    ssd: str = ""
    ssds: Count = 0
    boot_ssd: str = ""
    boot_ssds: Count = 0
    management: Rate = 0.0
    is_storage_on_switches: bool = False
    infrastructure: str = ""
    power: Watts
    switch: str = ""
    unit: Count = 0
    network_speed: float = Field(default=1.0, gt=0.0, le=2.0)
    detour: float = Field(default=1.0, gt=0.0, le=2.0)
    datasheet: Datasheet = Datasheet()
    features: dict[Literal["tpm", "secure_boot", "self_encrypting", "raid"], str] = {}
    collectives: Collectives = {}
    torus: TorusEntry | None = None


class Published(Table):
    """The published figures of a cluster."""

    hpl: Flops | None = None
    rpeak: Flops | None = None
    power: Watts | None = None
    storage: Bytes | None = None
    switches: Positive | None = None


class ClusterEntry(Entry):
    """A cluster: a number of nodes of a system, or scalable units up to a number; `date`: the month it was so."""

    system: str
    nodes: Positive | None = None
    units: Positive | None = None
    date: Annotated[str, Field(pattern=r"^(20\d\d-\d\d)?$")] = ""
    published: Published = Published()
    collectives: Collectives = {}


class ServiceEntry(Table):
    """A network for storage or management: a folded Clos; taper: cables down over cables up of a full leaf."""

    switch: str
    host_ports: Count | Literal["storage"] = 0
    rack_ports: Count = 0
    servers: Count = 0
    server_ports: Count = 0
    server_units: Positive = 1
    is_for_switches: bool = False
    taper: float = Field(default=1.0, ge=1.0, le=100.0)
    others: dict[str, Positive] = {}


class InfrastructureEntry(Entry):
    """What surrounds the nodes of scalable units: networks by name, racks, and the floor; lengths in m."""

    rack_nodes: Positive
    row_racks: Positive
    rack_switches: Positive
    rack_servers: Positive
    rack_width: float = Field(gt=0, le=10)
    row_pitch: float = Field(gt=0, le=20)
    rise: float = Field(ge=0, le=20)
    networks: dict[str, ServiceEntry]


SCHEMAS: dict[str, type[Entry]] = {
    "gpu": GpuEntry,
    "nvswitch": NvSwitchEntry,
    "nic": NicEntry,
    "switch": SwitchEntry,
    "pcie": PcieEntry,
    "cpu": CpuEntry,
    "ssd": SsdEntry,
    "system": SystemEntry,
    "cluster": ClusterEntry,
    "infrastructure": InfrastructureEntry,
}


_OWN = ("aliases", "source", "confirmed", "inherits")
"""The keys that an entry never inherits."""


def parse_catalog(kind: str, text: str, file: str, schema: type[Entry] | None = None) -> dict[str, Entry]:
    """The entries of a catalog file by name, with the text of their sources.

    `schema` overrides that of the kind. Raises CatalogError with the file, entry, key and rule of every problem.
    """
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise CatalogError(f"{file} is not TOML: {error}") from None
    shape = schema or SCHEMAS[kind]
    sources = tables.pop("sources", {})
    problems = list(_table_problems(tables, sources))
    entries: dict[str, Entry] = {}
    for name in () if problems else tables:
        try:
            raw = _merge_parent(name, tables, ())
            entries[name] = shape.model_validate(raw)
            problems += [f"[{name}] {problem}" for problem in _entry_problems(entries[name], sources)]
        except ValidationError as error:
            problems += [f"[{name}] {problem}" for problem in _validation_problems(error, shape)]
        except CatalogError as error:
            problems.append(f"[{name}] {error}")
    problems += _alias_problems(entries)
    if problems:
        raise CatalogError(f"{file}: " + "; ".join(problems))
    return {name: _resolve_sources(entry, sources) for name, entry in entries.items()}


def _table_problems(tables: Mapping[str, object], sources: object) -> Iterator[str]:
    if not isinstance(sources, dict) or not all(isinstance(text, str) and text for text in sources.values()):
        yield "sources must be a table of key to text"
    for name, table in tables.items():
        if not isinstance(table, dict):
            yield f"{name} is outside any entry; expected tables such as [{name}]"
        elif name != name.lower() or ":" in name:
            yield f"[{name}] must be named in lower case, without a colon"


def _merge_parent(name: str, tables: Mapping[str, dict[str, Any]], path: tuple[str, ...]) -> dict[str, Any]:
    own = dict(tables[name])
    parent = own.pop("inherits", None)
    if parent is None:
        return own
    if parent in (*path, name):
        raise CatalogError(f"inherits from itself: {' from '.join((*path, name, parent))}")
    check_name("entry to inherit from", str(parent), tables, CatalogError)
    base = _merge_parent(parent, tables, (*path, name))
    merged = {key: value for key, value in base.items() if key not in _OWN}
    if isinstance(merged.get("notes"), dict):
        merged["notes"] = {field: text for field, text in merged["notes"].items() if not _has_own(own, field)}
    for key, value in own.items():
        before = merged.get(key)
        merged[key] = {**before, **value} if value and isinstance(value, dict) and before else value
    return merged


def _has_own(own: Mapping[str, Any], field: str) -> bool:
    """Whether an entry itself sets a field such as peaks.fp64, so that the parent's note no longer applies."""
    head, _, rest = field.partition(".")
    return head in own and (not rest or not isinstance(own[head], dict) or rest in own[head])


def _entry_problems(entry: Entry, sources: Mapping[str, str]) -> Iterator[str]:
    fields = type(entry).model_fields
    for key in entry.source:
        if key not in sources:
            yield unknown_name("source", key, sources)
    for field in entry.notes:
        if field.partition(".")[0] not in fields:
            yield f"notes: {unknown_name('key', field, fields)}"
    doubts = [text for text in entry.notes.values() if text.startswith("unconfirmed")]
    if entry.confirmed == "partial" and not doubts:
        yield 'confirmed = "partial" needs a note on each field that is unconfirmed'
    if entry.confirmed == "yes" and doubts:
        yield 'confirmed = "yes" contradicts notes that begin with unconfirmed'


def _alias_problems(entries: Mapping[str, Entry]) -> Iterator[str]:
    taken = dict.fromkeys(entries, "is an entry")
    for name, entry in entries.items():
        for alias in entry.aliases:
            if alias in taken:
                yield f"[{name}] alias {alias!r} {taken[alias]}"
            taken[alias] = f"belongs to {name}"


def _validation_problems(error: ValidationError, schema: type[BaseModel]) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        where = ".".join(str(step) for step in problem["loc"])
        if problem["type"] == "extra_forbidden":
            yield unknown_name("key", where, schema.model_fields)
        elif problem["type"] == "missing":
            yield f"key {where!r} is missing"
        else:
            given = str(problem["input"])[:60]
            yield f"{where}: {problem['msg'].removeprefix('Value error, ')} (given: {given!r})"


def _resolve_sources(entry: Entry, sources: Mapping[str, str]) -> Entry:
    return entry.model_copy(update={"source": tuple(sources[key] for key in entry.source)})
