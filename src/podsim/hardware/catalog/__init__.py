"""The catalog of parts on the market, with a source for each figure: one TOML file per kind in this folder.

    names("gpu")                the names of a kind
    load_gpu("a100-sxm4-80gb")  a part, under its name or an alias, in any case

Files are read once, on first use. Every function raises CatalogError for an unknown name (with
the closest ones) and for a file that breaks its schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from podsim.answers.answer import call
from podsim.errors import CatalogError, check_name, unknown_name
from podsim.hardware.overrides import override_gpu
from podsim.hardware.parts import Cpu, Gpu, Nic, NvSwitch, Pcie, Ssd, Switch, System, TorusLinks
from podsim.packaged import once_read

if TYPE_CHECKING:
    from podsim.hardware.catalog.schema import ClusterEntry, Entry, InfrastructureEntry, SystemEntry

__all__ = [
    "KINDS",
    "aliases",
    "cluster_entry",
    "find",
    "load_cpu",
    "load_gpu",
    "load_infrastructure",
    "load_nic",
    "load_nvswitch",
    "load_pcie",
    "load_ssd",
    "load_switch",
    "load_system",
    "names",
]

KINDS: dict[str, str] = {
    "gpu": "gpus.toml",
    "nvswitch": "nvswitches.toml",
    "nic": "nics.toml",
    "switch": "switches.toml",
    "pcie": "pcie.toml",
    "cpu": "cpus.toml",
    "ssd": "ssds.toml",
    "system": "systems.toml",
    "cluster": "clusters.toml",
}
"""The file of each kind of entry."""

Part = TypeVar("Part", Cpu, Gpu, Nic, NvSwitch, Pcie, Ssd, Switch)


def names(kind: str) -> tuple[str, ...]:
    """The names of the entries of a kind, in the order of their file, without aliases."""
    return tuple(_entries(kind))


@cache
def aliases(kind: str) -> dict[str, str]:
    """The aliases of the entries of a kind, each with the name of its entry."""
    return {alias: name for name, entry in _entries(kind).items() for alias in entry.aliases}


def short_name(kind: str, name: str) -> str:
    """The first alias of an entry, as h100; its name where it has none."""
    return next((alias for alias, entry in aliases(kind).items() if entry == name), name)


def find(name: str) -> tuple[str, str] | None:
    """(kind, name) of the entry with a name or alias, of any kind; None if there is none."""
    key = name.strip().lower()
    for kind in KINDS:
        entry = key if key in _entries(kind) else aliases(kind).get(key)
        if entry:
            return kind, entry
    return None


def named_rows(rows: list[dict[str, object]], text: str) -> list[dict[str, object]]:
    """The rows of which a name, family or GPU holds a text. Raises CatalogError where none does."""
    wanted = text.lower()
    kept = [row for row in rows if any(wanted in str(row.get(key)) for key in ("name", "family", "gpu"))]
    if not kept:
        begins = (wanted[:end] for end in range(len(wanted) - 1, 2, -1))
        part = next((each for each in begins if any(each in str(row["name"]) for row in rows)), "")
        error = CatalogError(unknown_name("name", text, (str(row["name"]) for row in rows)))
        raise error.offer(text=part) if part else error
    return kept


def load_gpu(name: str, overrides: Mapping[str, object] | None = None) -> Gpu:
    """The accelerator of that name, with overrides such as {"peaks.bf16": "400 TFLOP/s"}.

    "a100-sxm4-40gb/3g.20gb" is a MIG instance of an accelerator.
    """
    gpu_name, slash, profile = name.partition("/")
    gpu = _load_part("gpu", Gpu, gpu_name)
    if slash:
        from podsim.hardware.mig.split import slice_of

        gpu = slice_of(gpu, profile)
    return override_gpu(gpu, overrides) if overrides else gpu


def load_infrastructure(name: str) -> InfrastructureEntry:
    """The networks, racks and floor of that name."""
    file = "infrastructure.toml"
    entries = _parse_file("infrastructure", file)
    check_name("infrastructure", name, entries, CatalogError)
    return cast("InfrastructureEntry", entries[name])


def load_system(name: str) -> System:
    """The server of that name, with all its parts."""
    return _make_system(_resolve("system", name))


def cluster_entry(name: str) -> tuple[str, ClusterEntry]:
    """(name, entry) of a cluster of the catalog."""
    key = _resolve("cluster", name)
    return key, cast("ClusterEntry", _entries("cluster")[key])


@cache
def _entries(kind: str) -> dict[str, Entry]:
    check_name("kind of part", kind, KINDS, CatalogError)

    return _parse_file(kind, KINDS[kind])


@cache
def _parse_file(kind: str, file: str) -> dict[str, Entry]:
    readers = ("hardware/catalog/schema.py", "hardware/overrides.py", "hardware/parts.py", "units.py")
    entries: dict[str, Entry] = once_read(
        (f"hardware/catalog/{file}", *readers),
        lambda text: call("hardware.catalog.schema:parse_catalog", kind, text, file),
    )
    return entries


def _resolve(kind: str, name: str) -> str:
    entries, others = _entries(kind), aliases(kind)
    key = name.strip().lower()
    key = others.get(key, key)
    if key not in entries:
        raise CatalogError(unknown_name(kind, name, [*entries, *others]))
    return key


def _fields(name: str, entry: Entry) -> dict[str, Any]:
    """The fields of an entry, as the arguments of its dataclass."""
    values = {field: value for field, value in vars(entry).items() if field != "aliases"}
    return {**values, "name": name, "source": "; ".join(entry.source)}


def _load_part(kind: str, part: type[Part], name: str) -> Part:
    """The part of a kind with that name."""
    make: Callable[..., object] = part
    return cast("Part", _make_part(kind, make, _resolve(kind, name)))


@cache
def _make_part(kind: str, make: Callable[..., object], name: str) -> object:
    values = _fields(name, _entries(kind)[name])
    if kind == "gpu":
        values["nvlink_bandwidth"] = values["nvlink_bandwidth"] or 0.0
    return make(**values)


load_nvswitch: Callable[[str], NvSwitch] = partial(_load_part, "nvswitch", NvSwitch)
load_nic: Callable[[str], Nic] = partial(_load_part, "nic", Nic)
load_switch: Callable[[str], Switch] = partial(_load_part, "switch", Switch)
load_pcie: Callable[[str], Pcie] = partial(_load_part, "pcie", Pcie)
load_cpu: Callable[[str], Cpu] = partial(_load_part, "cpu", Cpu)
load_ssd: Callable[[str], Ssd] = partial(_load_part, "ssd", Ssd)
"""The part of that name; CatalogError if there is none."""


@cache
def _make_system(name: str) -> System:
    entry = cast("SystemEntry", _entries("system")[name])
    values = _fields(name, entry)
    printed = {key: value for key, value in vars(entry.datasheet).items() if value is not None}
    values |= {
        "gpu": load_gpu(entry.gpu),
        "pcie": load_pcie(entry.pcie) if entry.pcie else None,
        "nvswitch": load_nvswitch(entry.nvswitch) if entry.nvswitch else None,
        "cpu": load_cpu(entry.cpu) if entry.cpu else None,
        "nic": load_nic(entry.nic) if entry.nic else None,
        "storage_nic": load_nic(entry.storage_nic) if entry.storage_nic else None,
        "ssd": load_ssd(entry.ssd) if entry.ssd else None,
        "boot_ssd": load_ssd(entry.boot_ssd) if entry.boot_ssd else None,
        "switch": load_switch(entry.switch) if entry.switch else None,
        "datasheet": printed,
        "torus": TorusLinks(shape=entry.torus.pod, **vars(entry.torus)) if entry.torus else None,
    }
    return System(**values)
