"""The settings of a collective: which NCCL runs it, how it was launched, and what joins the nodes.

    read_environment("NCCL_ALGO=RING;NCCL_PROTO=LL128")   podsim.network.settings_text reads them from texts
    CollectiveSettings(release="2.18").assumed(cluster)   every setting has a value; `assumptions` names those not stated
    CollectiveSettings().assumed(cluster).alternatives()  the same run with other values of what was not stated

A setting that nobody stated is None. It is never a silent guess: `assumed` fills it from the cluster's catalog entry and
says so, and `alternatives` gives the values over which a time has its range.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from podsim.answers.answer import call
from podsim.errors import PodsimError, raise_all, unknown_name
from podsim.hardware.cluster import Cluster
from podsim.hardware.overrides import COLLECTIVE_KEYS, setting
from podsim.records import dataclass, fields, replace
from podsim.units import format_quantity

ALGORITHMS = COLLECTIVE_KEYS["algo"]
"""The algorithms that NCCL_ALGO names; collnet is reduction in the switches between nodes (SHARP)."""
PROTOCOLS = COLLECTIVE_KEYS["proto"]
LAUNCHES = COLLECTIVE_KEYS["launch"]
"""A process for each GPU, a thread for each GPU, or one process that drives all GPUs of a node."""
NETWORKS = COLLECTIVE_KEYS["network"]
"""The classes of networks between nodes, by the transport that NCCL uses on them."""
RELEASES = ("2.14", "2.18", "2.27")
"""One release of each generation of NCCL's tuner: up to 2.17, 2.18 and 2.19, from 2.20 on."""
_CLASSES = {"infiniband": "infiniband", "roce": "roce", "slingshot": "slingshot", "ethernet": "sockets"}
"""Fabric of a cluster -> its class, where only one is usual."""
_FABRICS = {
    "infiniband": "infiniband", "roce": "roce", "efa-v1": "efa", "efa-v2": "efa", "slingshot": "slingshot",
    "tcpxo": "ethernet", "tcpx": "ethernet", "sockets": "ethernet",
}  # fmt: skip
"""Class of a network -> the fabric of its cluster."""
_FALLBACK: Mapping[str, object] = {
    "release": "2.18", "algorithm": "auto", "protocol": "auto", "launch": "process", "sharp": False, "tuned": False,
}  # fmt: skip
"""What is assumed where neither the user nor the cluster's catalog entry states a setting: NCCL's own defaults."""


@dataclass(frozen=True, kw_only=True)
class CollectiveSettings:
    """What decides a collective's time apart from its size and ranks; None where nobody stated it."""

    release: str | None = None
    """The release of NCCL, as 2.18 or 2.18.5."""
    algorithm: str | None = None
    """The algorithms that NCCL may pick, joined by commas; auto for all."""
    protocol: str | None = None
    """The protocols that NCCL may pick, joined by commas; auto for all."""
    launch: str | None = None
    """The way in which ranks were launched: process, thread or single."""
    nics: int | None = None
    """count. The adapters of a node that NCCL uses."""
    nic_bandwidth: float | None = None
    """B/s. The rate of one adapter, in one direction."""
    network: str | None = None
    """The class of the network between nodes, one of NETWORKS; efa where the version is unknown."""
    gpudirect: bool | None = None
    """Whether adapters read and write the memory of GPUs."""
    sharp: bool | None = None
    """Whether NCCL may reduce in the switches between nodes (CollNet over SHARP)."""
    tuned: bool | None = None
    """Whether NCCL was tuned for the machine: a tuner or topology file, channels, queue pairs."""
    assumptions: tuple[str, ...] = ()
    """The names of the settings that nobody stated and `assumed` filled."""

    def __post_init__(self) -> None:
        """Raise PodsimError with every value that no setting has."""
        problems = [
            unknown_name(name, value, known)
            for name, known in (("algorithm", ALGORITHMS), ("protocol", PROTOCOLS))
            for value in (getattr(self, name) or "").split(",")
            if value and value not in known
        ]
        if self.launch is not None and self.launch not in LAUNCHES:
            problems.append(unknown_name("launch", self.launch, LAUNCHES))
        if self.network is not None and self.network not in (*NETWORKS, "efa"):
            problems.append(unknown_name("network", self.network, NETWORKS))
        if self.nics is not None and self.nics < 1:
            problems.append(f"nics={self.nics}: adapters of a node, 1 or more")
        if self.nic_bandwidth is not None and not self.nic_bandwidth > 0:
            problems.append(f"nic_bandwidth={self.nic_bandwidth:g}: a rate above 0, such as 200 Gb/s")
        raise_all(problems)

    @property
    def stated(self) -> dict[str, object]:
        """The settings with a value that is not an assumption, by name."""
        return {
            name: value
            for name in NAMES
            if (value := getattr(self, name)) is not None and name not in self.assumptions
        }

    @property
    def passes_host(self) -> bool:
        """Whether adapters that could read the memory of GPUs go through the host's memory."""
        return self.gpudirect is False and self.network != "sockets"

    @property
    def open_protocols(self) -> tuple[str, ...]:
        """The protocols that NCCL has at all, () for all: no LL128 before 2.5, nor without GPUDirect."""
        is_old = re.fullmatch(r"v?2\.4(?:\.\w+)*", self.release or "")
        return ("ll", "simple") if is_old or self.passes_host else ()

    def adapter_rate(self, cluster: Cluster) -> float:
        """B/s of an adapter; without GPUDirect, of its way through the host's memory at most."""
        rate, nics = self.nic_bandwidth or cluster.network.bandwidth, self.nics or cluster.nics
        if not (self.passes_host and nics):
            return rate
        way = call("hardware.fabrics.host_ways:host_way", replace(cluster, nics=nics), "no-gpudirect")
        return min(rate, float(way.rate))

    def over(self, other: CollectiveSettings) -> CollectiveSettings:
        """These settings, with those of `other` where these state nothing."""
        blank = {name: getattr(other, name) for name in NAMES if getattr(self, name) is None}
        assumptions = (*self.assumptions, *(name for name in other.assumptions if name in blank))
        return replace(self, **blank, assumptions=assumptions)

    @lru_cache(maxsize=4096)  # noqa: B019  (settings are few, small values)
    def assumed(self, cluster: Cluster) -> CollectiveSettings:
        """All settings: what these do not state from the cluster's catalog entry, then NCCL's own defaults.

        What the cluster itself is (adapters, their rate, the class of its network, GPUDirect) is no assumption, nor is
        what a user's file or key sets. `assumptions` names the rest.
        """
        blank = CollectiveSettings()
        usual = read_table(dict(cluster.collectives)) if cluster.collectives else blank
        network = _network_class(self.network or usual.network or "", cluster)
        machine = CollectiveSettings(
            nics=cluster.nics or None, nic_bandwidth=cluster.network.bandwidth or None, network=network,
            gpudirect=network != "sockets",
        )  # fmt: skip
        known = replace(self, network=network) if self.network == "efa" else self
        recent = cluster.gpu.architecture in ("hopper", "blackwell")
        filled = known.over(usual).over(machine).over(CollectiveSettings(release="2.27" if recent else None))
        rest = {name: value for name, value in _FALLBACK.items() if getattr(filled, name) is None}
        named = {name for key, name in TABLE_KEYS.items() if f"collectives.{key}" in cluster.notes}
        unstated = [name for name in _FALLBACK if getattr(known, name) is None and name not in named]
        return replace(filled, **rest, assumptions=tuple(unstated))  # type: ignore[arg-type]

    def on(self, cluster: Cluster) -> Cluster:
        """The cluster with the adapters and the network of these settings, and these as its usual ones."""
        words = {
            key: _word(name, value)
            for key, name in TABLE_KEYS.items()
            if (value := getattr(self, name)) is not None
        }
        link = replace(cluster.network, bandwidth=self.nic_bandwidth or cluster.network.bandwidth)
        changed = replace(
            cluster, collectives=tuple(words.items()), network=link, nics=self.nics or cluster.nics
        )
        return (
            replace(changed, fabric=_FABRICS.get(self.network or "", cluster.fabric))
            if cluster.nics
            else cluster
        )

    def alternatives(self) -> tuple[CollectiveSettings, ...]:
        """These settings, and those with every other combination of values of what was assumed.

        Algorithm, protocol, SHARP and tuning are left as they are: a run that forces them says so.
        """
        options: dict[str, tuple[Any, ...]] = {
            name: _others(name, str(getattr(self, name)))
            for name in ("release", "launch")
            if name in self.assumptions
        }
        return tuple(
            replace(self, **dict(zip(options, values, strict=True)))
            for values in itertools.product(*options.values())
        )


NAMES = tuple(field.name for field in fields(CollectiveSettings) if field.name != "assumptions")
"""The names of the settings."""
TABLE_KEYS = {
    "nccl": "release", "algo": "algorithm", "proto": "protocol", "launch": "launch", "network": "network",
    "gdr": "gpudirect", "sharp": "sharp", "tuned": "tuned",
}  # fmt: skip
"""Key in a `[collectives]` table of a cluster's file -> its setting; adapters are keys of the cluster itself."""


def read_table(table: Mapping[str, object]) -> CollectiveSettings:
    """The settings of a `[collectives]` table; PodsimError for unknown keys and values that no setting has."""
    if unknown := [key for key in table if key not in TABLE_KEYS]:
        raise PodsimError(unknown_name("setting of a collective", unknown[0], TABLE_KEYS))
    values: dict[str, object] = {}
    for key, value in table.items():
        word = setting(*COLLECTIVE_KEYS[key])(value, key)
        values[TABLE_KEYS[key]] = word == "yes" if COLLECTIVE_KEYS[key] == ("yes", "no") else word
    return CollectiveSettings(**values)  # type: ignore[arg-type]


def setting_words(settings: CollectiveSettings) -> dict[str, str]:
    """Name -> value in words, of the settings that have a value."""
    return {name: _word(name, value) for name in NAMES if (value := getattr(settings, name)) is not None}


def _word(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        format_quantity(value * 8, "b/s")
        if name == "nic_bandwidth" and isinstance(value, float)
        else str(value)
    )


def _network_class(name: str, cluster: Cluster) -> str | None:
    """The class of a network; EFA's version follows the generation of the GPUs' servers."""
    if name and name != "efa":
        return name
    if not cluster.nics:
        return None
    if name == "efa" or cluster.fabric == "efa":
        return "efa-v1" if cluster.gpu.compute_capability < 9 else "efa-v2"
    return _CLASSES.get(cluster.fabric)


def _others(name: str, value: str) -> tuple[str, ...]:
    """All plausible values of a setting, the given one first."""
    known = LAUNCHES if name == "launch" else RELEASES
    return (value, *(other for other in known if other != value))
