"""Failure rates of nodes and parts, and the cost of a failure: `reliability.toml`, with a source for each figure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from podsim.errors import CatalogError, raise_all, unknown_name
from podsim.hardware.cluster import Cluster
from podsim.packaged import packaged_toml
from podsim.records import dataclass
from podsim.units import parse_quantity

DAY = 86400.0
PARTS = "parts"
"""The name that selects the rates of parts, summed over the parts of the cluster's nodes."""
_OF = ("gpu", "nic", "cpu", "node")
_RECOVERY = ("start", "hang", "timeout", "drain", "repair", "spares", "slow", "slowdown")
_STUDY = {"title", "source", "rate", "failures", "nodes", "days", "gpu", "default_for", "site", "confirmed"}


@dataclass(frozen=True, kw_only=True)
class Study:
    """The failure rate of a node in a published study."""

    name: str
    title: str
    rate: float
    """1/s. The failure rate of a node of eight GPUs."""
    nodes: float
    """The number of nodes of the study."""
    gpu: str
    """The architecture of the GPUs."""
    default_for: tuple[str, ...]
    """The architectures with this study as default."""
    site: str
    """The study of the same machines that counts as the site; its own name if there is none."""
    source: str
    confirmed: bool


@dataclass(frozen=True, kw_only=True)
class Part:
    """The rate of one cause of failures, per part."""

    name: str
    of: str
    """The kind of part: gpu, nic, cpu, node."""
    rate: float
    """1/s. The failure rate of one part."""
    count: float
    """The number of failures behind the rate."""
    source: str


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One constant of recovery, in SI units."""

    name: str
    value: float
    about: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The entire catalog."""

    studies: Mapping[str, Study]
    parts: tuple[Part, ...]
    recovery: Mapping[str, Constant]


@cache
def _catalog() -> Rates:
    return read_rates(packaged_toml("fleet/reliability.toml"))


def studies() -> Mapping[str, Study]:
    """The studies by name."""
    return _catalog().studies


def parts() -> tuple[Part, ...]:
    """The causes of failures, each with its part."""
    return _catalog().parts


def recovery() -> Mapping[str, Constant]:
    """The constants of failures (start, hang, timeout, drain, repair, spares) and of slow nodes (slow, slowdown)."""
    return _catalog().recovery


def load_study(name: str) -> Study:
    """A study by name. Raises CatalogError for an unknown one."""
    key = name.strip().lower()
    if key not in studies():
        raise CatalogError(unknown_name("study of failures", name, [*studies(), PARTS]))
    return studies()[key]


def has_study(architecture: str) -> bool:
    """Whether failures of machines with such GPUs were published."""
    return any(architecture in study.default_for for study in studies().values())


def default_study(architecture: str) -> Study:
    """The default study of a GPU's architecture."""
    matches = [study for study in studies().values() if architecture in study.default_for]
    if not matches:
        raise CatalogError(
            f"no study of failures is packaged for {architecture} GPUs; choose one of {', '.join(studies())}, or an mtbf"
        ).offer(mtbf="10d")
    return matches[0]


def node_rate(name: str, cluster: Cluster) -> tuple[float, str]:
    """(1/s, origin) of the failure rate of a node; an empty name selects the default study of the architecture.

    The rate of a study is for eight GPUs and scales with the GPUs of a node; "parts" sums over all parts of the node.
    """
    system = cluster.system
    if name.strip().lower() == PARTS:
        many = {"gpu": system.gpus, "nic": cluster.nics, "cpu": system.cpus, "node": 1}
        rate = sum(part.rate * many[part.of] for part in parts())
        counted = f"{system.gpus} GPUs, {cluster.nics} adapters and {system.cpus} processors"
        return rate, f"rates of parts, with {counted} a node; source: {parts()[0].source}"
    study = load_study(name) if name.strip() else default_study(system.gpu.architecture)
    doubt = "" if study.confirmed else ", unconfirmed"
    return study.rate * system.gpus / 8, f"{study.name}: {study.title}; source: {study.source}{doubt}"


def read_rates(raw: Mapping[str, Any]) -> Rates:
    """The catalog from parsed TOML. Raises CatalogError with all problems."""
    sources: Mapping[str, str] = raw.get("sources", {})
    tables = {
        **{f"studies.{name}": entry for name, entry in raw.get("studies", {}).items()},
        "parts": raw.get("parts", {}),
        **{f"recovery.{name}": entry for name, entry in raw.get("recovery", {}).items()},
    }
    problems = [
        f"[{where}] {unknown_name('source', str(entry.get('source')), sources)}"
        for where, entry in tables.items()
        if entry.get("source") not in sources
    ]
    problems += [f"[recovery.{name}] is missing" for name in _RECOVERY if name not in raw.get("recovery", {})]
    for name, entry in raw.get("studies", {}).items():
        problems += [f"[studies.{name}] {problem}" for problem in _study_problems(entry)]
    for name, cause in raw.get("parts", {}).get("causes", {}).items():
        if cause.get("of") not in _OF or not all(_positive(cause.get(key)) for key in ("count", "number")):
            problems.append(
                f"[parts.causes] {name}: needs a count and a number, positive, of {', '.join(_OF)}"
            )
    raise_all(problems, CatalogError)
    span = raw["parts"]["days"] * DAY
    return Rates(
        studies={name: _study(name, entry, sources) for name, entry in raw["studies"].items()},
        parts=tuple(
            Part(name=name, of=cause["of"], rate=cause["count"] / cause["number"] / span, count=cause["count"],
                 source=sources[raw["parts"]["source"]])
            for name, cause in raw["parts"]["causes"].items()
        ),
        recovery={
            name: Constant(name=name, value=parse_quantity(entry["value"], entry["unit"], what=name),
                           about=entry["about"], source=sources[entry["source"]])
            for name, entry in raw["recovery"].items()
        },
    )  # fmt: skip


def _positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def _study_problems(entry: Mapping[str, Any]) -> list[str]:
    """The problems of a study: unknown keys, no rate, or impossible numbers."""
    problems = [unknown_name("key", key, _STUDY) for key in entry if key not in _STUDY]
    problems += [f"{key} is missing" for key in ("title", "nodes", "gpu") if key not in entry]
    if ("rate" in entry) == ("failures" in entry and "days" in entry):
        problems.append("give either rate, per node-day, or failures and days")
    numbers = {key: entry[key] for key in ("rate", "failures", "nodes", "days") if key in entry}
    problems += [
        f"{key}={value!r} must be positive" for key, value in numbers.items() if not _positive(value)
    ]
    return problems


def _study(name: str, entry: Mapping[str, Any], sources: Mapping[str, str]) -> Study:
    daily = entry["rate"] if "rate" in entry else entry["failures"] / entry["nodes"] / entry["days"]
    return Study(
        name=name, title=entry["title"], rate=daily / DAY, nodes=entry["nodes"], gpu=entry["gpu"],
        default_for=tuple(entry.get("default_for", ())), site=entry.get("site", name), source=sources[entry["source"]],
        confirmed=entry.get("confirmed", "yes") == "yes",
    )  # fmt: skip
