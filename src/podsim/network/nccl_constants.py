"""The measured side of the collective law: what a step, a protocol and a launch cost, by GPU architecture.

One file per architecture in hardware/catalog/fabrics, written by podsim.network.fit_nccl, one (`pcie`) for GPUs that
reach one another over PCI Express, whatever their architecture, and `networks.toml` for what happens between nodes.
Latencies are those of the fabric's own link (0.6 us a step on NVLink, 1 us on PCI Express, as NCCL counts) and scale
with the link's latency; efficiencies are shares of the link's bandwidth, so that both follow a changed link.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from podsim.errors import CatalogError, check_name, unknown_name
from podsim.packaged import packaged_toml
from podsim.records import dataclass, fields

PCIE = "pcie"
"""the fabric of GPUs that reach one another over PCI Express"""
ARCHITECTURES = ("volta", "ampere", "hopper", "blackwell", PCIE)
STAND_IN = {
    "turing": "volta", "ada": "ampere", "pascal": "volta", "blackwell-rtx": "ampere", "cdna3": "hopper",
    "cdna4": "hopper",
}  # fmt: skip
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


_SECONDS = ("step_ll", "step_ll128", "step_simple", "base", "peer", "stream")
_PURE = ("share", "small", "small_group", "channels")
UNITS = {f.name: "1" if "share" in f.name or f.name.endswith(_PURE) else "s" for f in fields(Fabric)}
"""unit of each constant: seconds, or a pure number"""


@dataclass(frozen=True, kw_only=True)
class Between:
    """The cost of collectives between nodes that all networks share: the table `between` of networks.toml."""

    step_ll: float
    """s. The time of one step of a ring to the next node over InfiniBand."""
    step_ll128: float
    step_simple: float
    ring_step: float
    """factor. A ring's step in a node over that of a ring in one node alone."""
    tree_step: float
    """factor. A tree's step in a node over the same."""
    tree_net: float
    """factor. A tree's step between nodes over a ring's."""
    share_ll: float
    """share. The share of an adapter's bandwidth that LL reaches."""
    ring_ramp_ll: float
    """factor. The k of the ramp: k times the root of latency times transfer time is added; likewise those below."""
    ring_ramp_ll128: float
    ring_ramp_simple: float
    tree_ramp_ll: float
    tree_ramp_ll128: float
    tree_ramp_simple: float
    nvls_base: float
    """s. The time of a tree of NVSwitches (NVLSTree) without its steps between nodes."""
    nvls_share: float
    """factor. The bandwidth of a node's NVSwitches in such a tree over that of one node alone."""
    nvls_ramp: float
    pairs_peer: float
    """s. The time of point-to-point kernels for each rank of another node."""
    pairs_ramp: float
    sharp_base: float
    """s. The time of a reduction in the network for short messages."""
    sharp_rate: float
    """B/s. The rate of the same."""
    sharp_stream: float
    """s. The time of a reduction in the network by streams, which long messages use."""
    sharp_share: float
    """share. The share of the adapters' line rate that such streams reach up to NCCL 2.17."""
    sharp_share_late: float
    """share. The same from 2.18 on."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """What collectives reach on a class of networks, with what all classes share."""

    share: float
    """share. The share of the line rate for large messages."""
    latency: float
    """s. The time that a step between nodes takes more than over InfiniBand."""
    adapter: float
    """s. The latency that adapters of this class report to NCCL."""
    ramp: float
    """factor. The ramps over those of InfiniBand."""
    pairs_share: float
    """share. The share of the line rate for point-to-point kernels."""
    between: Between


BETWEEN_UNITS = {
    f.name: "B/s" if f.name.endswith("rate") else "s" if f.name.endswith(_SECONDS) else "1"
    for f in fields(Between)
}
"""unit of each constant between nodes"""
NETWORK_UNITS = {"share": "1", "latency": "s", "adapter": "s", "ramp": "1", "pairs_share": "1"}
"""unit of each constant of a class of networks"""


@lru_cache(maxsize=16)
def load_fabric(architecture: str) -> Fabric:
    """Constants of one architecture, or of PCIE; CatalogError for an unknown one or a file that breaks its schema."""
    name = STAND_IN.get(architecture, architecture)
    if name not in ARCHITECTURES:
        raise CatalogError(unknown_name("architecture", architecture, (*ARCHITECTURES, *STAND_IN)))
    return Fabric(**_values(f"{name}.toml", dict(UNITS)))


@lru_cache(maxsize=16)
def load_network(kind: str) -> Network:
    """Constants of one class of networks; CatalogError for an unknown one or a file that breaks its schema."""
    table = _read("networks.toml")
    known = [name for name in table if name != "between"]
    check_name("network", kind, known, CatalogError)
    between = Between(**_values("networks.toml", BETWEEN_UNITS, "between"))
    return Network(**_values("networks.toml", NETWORK_UNITS, kind), between=between)


def _read(file: str) -> Mapping[str, Any]:
    return packaged_toml(f"hardware/catalog/fabrics/{file}")


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


def _values(file: str, units: Mapping[str, str], part: str = "constants") -> dict[str, float]:
    table = _read(file).get(part, {})
    missing, extra = sorted(set(units) - set(table)), sorted(set(table) - set(units))
    if missing or extra:
        raise CatalogError(
            f"fabrics/{file}: [{part}] missing {', '.join(missing) or '-'}; unknown {', '.join(extra) or '-'}"
        )
    return {name: _value(file, name, table[name], unit) for name, unit in units.items()}
