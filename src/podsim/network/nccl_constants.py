"""The measured side of the collective law: what a step, a protocol and a launch cost, by GPU architecture.

One file per architecture in hardware/catalog/fabrics, written by podsim.network.fit_nccl, one (`pcie`) for GPUs that
reach one another over PCI Express, whatever their architecture, and `networks.toml` for what happens between nodes.
Latencies are those of the fabric's own link (0.6 us a step on NVLink, 1 us on PCI Express, as NCCL counts) and scale
with the link's latency; efficiencies are shares of the link's bandwidth, so that both follow a changed link.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.resources import files
from typing import Any

from podsim.errors import CatalogError, unknown_name

PCIE = "pcie"
"""the fabric of GPUs that reach one another over PCI Express"""
ARCHITECTURES = ("volta", "ampere", "hopper", "blackwell", PCIE)
STAND_IN = {"turing": "volta", "ada": "ampere", "pascal": "volta"}
"""architectures without measurements of their own, and whose constants serve them"""


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """The cost of collectives inside a node: the numbers of a catalog file; UNITS gives their units."""

    base: float
    """s. The time from kernel start to end, without data."""
    base_simple: float
    """s. The same for Simple, whose first chunk must fill."""
    step_ll: float
    """s. The time of one hop of a ring."""
    step_ll128: float
    step_simple: float
    line_base: float
    """s. The further time of LL once a channel's buffer is a full line of 4 KiB per rank."""
    line_ll: float
    """s. The further time of LL for each hop."""
    share_ll: float
    """share. The share of NVLink's bandwidth."""
    share_simple: float
    small_group: float
    """factor. The k in 1 + k / ranks^2, by which a small group moves its bytes slower."""
    ramp_ll128: float
    """s. The tau of the ramp: a pipeline of chunks adds sqrt(tau * sqrt(steps) * transfer time)."""
    ramp_simple: float
    gather_share: float
    """factor. The bandwidth of all-gather over that of all-reduce; likewise for the others below."""
    gather_small: float
    """factor. The k of all-gather and reduce-scatter."""
    scatter_share: float
    chain_share: float
    """factor. The bandwidth of broadcast and reduce over that of all-reduce."""
    near_share: float
    """share. The share of the bandwidth of two neighbouring GPUs if data pass the root complexes of one socket."""
    far_share: float
    """share. The same share for two sockets."""
    pairs_base: float
    """s. The time of point-to-point kernels."""
    pairs_step: float
    """s. The further time of point-to-point kernels for each doubling of the ranks."""
    pairs_line: float
    """s. The time of LL for 16 KiB to one peer."""
    pairs_simple: float
    """s. The time of Simple, whose buffers are set up first."""
    pairs_hidden: float
    """s. The part of pairs_simple that overlaps with the transfer: the longer counts."""
    pairs_ll_share: float
    """factor. The bandwidth of LL over that of Simple, where the link is the limit."""
    pairs_share: float
    pairs_cross_share: float
    """share. The part of that which is left where data pass root complexes, apart from near_share or far_share."""
    pairs_small: float
    pairs_ramp: float
    nvls_base: float
    nvls_share: float
    nvls_ramp: float
    process_wait: float
    """s. The time that one process per GPU adds to threads of one process."""
    host: float
    """s. The host time per GPU of one process that drives several."""
    host_channel: float
    """s. The host time per GPU and channel, releases from 2.20."""
    host_channel_old: float
    """s. The host time per GPU and channel in older releases."""
    host_pair: float
    """s. The host time per GPU and peer, for point-to-point kernels."""
    single_ramp: float
    """s. The time that one process with several GPUs adds to ramp_simple, releases from 2.18."""
    channels: float
    """count. The channels of a ring inside a node, by NCCL's search."""


_PURE = ("share", "small", "small_group", "channels")
UNITS = {f.name: "1" if "share" in f.name or f.name.endswith(_PURE) else "s" for f in fields(Fabric)}
"""unit of each constant: seconds, or a pure number"""


@dataclass(frozen=True, kw_only=True)
class Network:
    """What collectives reach of the adapters' line rate."""

    share: float
    """share. The share of the line rate for large messages."""


@lru_cache(maxsize=16)
def load_fabric(architecture: str) -> Fabric:
    """Constants of one architecture, or of PCIE; CatalogError for an unknown one or a file that breaks its schema."""
    name = STAND_IN.get(architecture, architecture)
    if name not in ARCHITECTURES:
        raise CatalogError(unknown_name("architecture", architecture, (*ARCHITECTURES, *STAND_IN)))
    return Fabric(**_values(f"{name}.toml", dict(UNITS)))


@lru_cache(maxsize=16)
def load_network(fabric: str) -> Network:
    """Constants of one kind of network; CatalogError for an unknown one."""
    table = _read("networks.toml")
    known = [key for key, entry in table.items() if isinstance(entry, dict) and "share" in entry]
    if fabric not in known:
        raise CatalogError(unknown_name("network", fabric, known))
    return Network(share=_value("networks.toml", f"{fabric}.share", table[fabric]["share"], "1"))


def _read(file: str) -> Mapping[str, Any]:
    return tomllib.loads(
        (files("podsim.hardware") / "catalog" / "fabrics" / file).read_text(encoding="utf-8")
    )


def _value(file: str, name: str, entry: Any, unit: str) -> float:
    if (
        not isinstance(entry, dict)
        or not isinstance(entry.get("value"), int | float)
        or not entry.get("source")
    ):
        raise CatalogError(f"fabrics/{file}: {name} needs a value and a source")
    if entry.get("unit") != unit:
        raise CatalogError(f"fabrics/{file}: {name} is in {entry.get('unit')!r}; expected {unit!r}")
    return float(entry["value"])


def _values(file: str, units: Mapping[str, str]) -> dict[str, float]:
    table = _read(file).get("constants", {})
    missing, extra = sorted(set(units) - set(table)), sorted(set(table) - set(units))
    if missing or extra:
        raise CatalogError(
            f"fabrics/{file}: missing {', '.join(missing) or '-'}; unknown {', '.join(extra) or '-'}"
        )
    return {name: _value(file, name, table[name], unit) for name, unit in units.items()}
