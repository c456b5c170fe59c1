"""A communicator: the links that it uses, how its GPUs lie in their nodes, and what leaves a node.

Wires        the links of a cluster, and what NCCL was told about them
Group        ranks, of them on one node, and how many groups share a node's adapters
node_rate    B/s that a group sends out of a node
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.axes import Floats
from podsim.hardware.parts import TorusLinks
from podsim.network.nccl_constants import PCIE, Fabric
from podsim.records import dataclass

if TYPE_CHECKING:
    from podsim.hardware.measured_host import Exchange

NEAR, SOCKET = 2, 4
"""GPUs that stand side by side, and GPUs of a socket, in servers of cards"""
PCIE_COUNTED = (24 / 31.5, 20 / 31.5, 13.4 / 31.5)
"""of a slot's rate, what NCCL counts on, by Group.apart: 24 of 31.5 GB/s; through root complexes 5/6 of that; and
between sockets what sweeps on 8 L40S tell, whose LL gives way to Simple where 13.2 to 13.6 GB/s are counted on"""
_TOGETHER = np.zeros((), dtype=np.intp)
_FEW = 256
"""elements of which the distinct ones are numbered without sorting"""
LINK_LATENCY = 0.6e-6
"""of NVLink, to which the constants of an architecture belong, s"""
PCIE_LATENCY = 1e-6
"""of PCI Express, to which those of its fabric belong"""
LINE_SHARE = 120 / 128
"""The share of data in LL128's bytes."""
TREE_SHARE = 0.92
"""The share of a ring's bandwidth that NCCL counts for trees."""
WINDOW = {"LL128": 5120.0, "Simple": 32768.0}
"""B. The bytes for each channel that fill it once, by protocol."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wires:
    """The links of a cluster that a collective uses. B/s of one direction, s."""

    architecture: str
    topology: str
    fabric: str
    vendor: str
    gpus: int
    nvlink: float
    nvlink_latency: float
    nics: int
    network: float
    network_latency: float
    rings: tuple[tuple[float, ...], ...] = ()
    """share. The share of `nvlink` that rings over 2, 3, … GPUs of a node reach, by their stride; () if all of it."""
    exchanges: tuple[Exchange, ...] = ()
    """The times of collectives on a measured machine; NCCL's law is then not used."""
    socket: float = math.inf
    """B/s. The bandwidth that NCCL counts on between two sockets, if switches lead from GPU to GPU and a node has two
    sockets; the links themselves are faster."""
    algorithms: tuple[str, ...] = ()
    """The algorithms that NCCL may pick, by the names of collective_settings.ALGORITHMS; () for all."""
    protocols: tuple[str, ...] = ()
    """The protocols that NCCL may pick, in lower case; () for all."""
    sharp: bool = False
    """Whether NCCL may reduce in the switches between nodes."""
    tiers: tuple[int, ...] = ()
    """The most nodes that one level of switches joins, and two; () if one level joins all, or where nothing asks."""
    hop: float = 0.0
    """s. The latency of a switch between nodes, from port to port."""
    torus: TorusLinks | None = None
    """The torus of a node's chips, whose collectives are no NCCL's."""
    slot: float = math.inf
    """B/s. The bandwidth of the PCI Express slot of a GPU, and of an adapter; traffic to another node passes both."""

    def ring_share(self, group: Group) -> float:
        """Share of `nvlink` that rings over a group's GPUs of a node reach."""
        if not self.rings or group.members == 1:
            return 1.0
        shares = self.rings[min(group.stride, len(self.rings)) - 1]
        return shares[min(group.members - 2, len(shares) - 1)]

    @property
    def pcie(self) -> bool:
        """Whether GPUs of a node reach one another over PCI Express."""
        return self.topology in ("pcie", "pcie-root")


class Group(NamedTuple):
    """A communicator: ranks, of them on one node, and how many of its kind share a node's adapters."""

    ranks: int
    members: int
    sharing: float
    apart: int = 0
    """The distance of its GPUs in a node: 0 neighbours, or joined by switches in a socket; 1 in one socket, 2 in two.
    """
    stride: int = 1
    """The GPUs from one member to the next, where that matters: as many groups pass a point at once."""

    @property
    def nodes(self) -> int:
        """Nodes that the group spans."""
        return -(-self.ranks // self.members)


def layout_numbers(
    wires: Wires, members: ArrayLike, stride: ArrayLike, extent: ArrayLike | None
) -> NDArray[np.intp]:
    """Where groups lie in their nodes, as numbers for `group_layout`, 0 where that does not matter.

    `extent` is how many GPUs there are from the first member to the last (default: as members and stride say).
    """
    if wires.torus is not None:
        return np.asarray(4 * (np.maximum(np.asarray(stride, dtype=np.intp), 1) - 1))
    if wires.socket == math.inf and wires.topology != "pcie-root" and not wires.rings:
        return _TOGETHER
    steps = np.maximum(np.asarray(stride, dtype=np.intp), 1)
    if wires.rings:
        return np.asarray(4 * (np.minimum(steps, len(wires.rings)) - 1))
    gpus = np.maximum(
        np.asarray(members), (np.asarray(members) - 1) * steps + 1 if extent is None else extent
    )
    far = (gpus > SOCKET).astype(np.intp)
    if wires.topology == "pcie-root":
        return np.asarray((gpus > NEAR) + far)
    return np.asarray(far * (2 + 4 * (np.minimum(steps, SOCKET) - 1)))


def group_layout(layout: int) -> tuple[int, int]:
    """(Group.apart, Group.stride) of a number of `layout_numbers`."""
    return layout % 4, layout // 4 + 1


def socket_share(wires: Wires, group: Group, *, at_once: bool) -> float:
    """Bandwidth that NCCL counts on between two sockets over that of two GPUs behind switches, at most 1.

    `at_once`: the groups that lie between each other's members share what is between the sockets; NCCL sees one alone.
    """
    if not group.apart:
        return 1.0
    crossing = group.stride if at_once else 1
    return min(1.0, wires.socket / crossing / (PCIE_COUNTED[0] * wires.nvlink))


def adapters(wires: Wires, group: Group) -> float:
    """Adapters of a node that carry what a group sends: its share of all, and no more than stand next to its GPUs.

    Two GPUs of a DGX H100 use two adapters, even alone: NCCL gets to an adapter by the PCI Express of a GPU of the group,
    which one adapter fills.
    """
    return min(wires.nics / group.sharing, max(1.0, wires.nics * group.members / wires.gpus))


def node_rate(wires: Wires, group: Group, adapter: float, slot: float) -> float:
    """B/s that a group sends out of a node: its adapters at most, and the slots of adapters and of its GPUs."""
    return min(min(adapter, slot) * adapters(wires, group), slot * group.members)


class Candidate(NamedTuple):
    """One algorithm and protocol; each field a number. Seconds, bytes, seconds per byte."""

    algorithm: str
    protocol: str
    until: float
    """B. The largest size at which NCCL still picks it."""
    latency: float
    line: float
    window: float
    """B. The bytes for each channel."""
    per_byte: float
    ramp: float
    channels: float
    start: float
    """s. The host time whatever the size."""
    channel: float
    """s. The host time of each channel in use."""
    hidden: float = 0.0
    """s. The time that overlaps with the transfer; the fourth powers of both are added."""
    since: float = 0.0
    """B. The smallest size at which NCCL picks it."""
    fill: float = 0.0
    """1/s. One over the transfer that fills the pipeline: the ramp of a longer one grows no more."""


def fabric_name(wires: Wires) -> str:
    """The fabric whose constants hold inside a node: the GPUs' architecture, or PCI Express."""
    return PCIE if wires.pcie else wires.architecture


def hop_ratio(wires: Wires) -> float:
    """The latency of the link between GPUs, relative to that of the fabric."""
    return wires.nvlink_latency / (PCIE_LATENCY if wires.pcie else LINK_LATENCY)


def link_rate(wires: Wires, group: Group, fabric: Fabric) -> float:
    """B/s of the link between GPUs, limited by the switches and sockets between them."""
    if wires.topology == "pcie-root":
        return wires.nvlink * (1.0, fabric.near_share, fabric.far_share)[group.apart]
    return wires.nvlink * socket_share(wires, group, at_once=True)


def ring_rate(wires: Wires, collective: str, group: Group, p: int, fabric: Fabric) -> float:
    """B/s of a ring inside a node."""
    share = (fabric.share_ll, LINE_SHARE * fabric.share_simple, fabric.share_simple)[p]
    extra = {
        "all_gather": (fabric.gather_share, fabric.gather_small),
        "reduce_scatter": (fabric.scatter_share, fabric.gather_small),
        "broadcast": (fabric.chain_share, fabric.small_group),
        "reduce": (fabric.chain_share, fabric.small_group),
    }.get(collective, (1.0, fabric.small_group))
    if wires.rings:  # what a small group loses there is links
        return wires.nvlink * wires.ring_share(group) * share * extra[0]
    return link_rate(wires, group, fabric) * share * extra[0] / (1 + extra[1] / group.members**2)


def pairs_rate(wires: Wires, group: Group, fabric: Fabric) -> float:
    """B/s of point-to-point kernels inside a node."""
    crossing = fabric.pairs_cross_share if wires.topology == "pcie-root" and group.apart else 1.0
    share = crossing * fabric.pairs_share / (1 + fabric.pairs_small / group.members**2)
    return link_rate(wires, group, fabric) * share


def distinct_groups(
    ranks: Floats, members: Floats, sharing: Floats, layout: NDArray[np.intp]
) -> tuple[tuple[Group, ...], NDArray[np.intp]]:
    """The distinct communicators, and the index of each argument's element among them."""
    shape = np.broadcast_shapes(ranks.shape, members.shape, sharing.shape, layout.shape)
    if ranks.size == members.size == sharing.size == layout.size == 1:
        members_at = group_layout(int(layout.item()))
        group = Group(int(ranks.item()), int(members.item()), float(sharing.item()), *members_at)
        return (group,), np.zeros(shape, dtype=np.intp)
    if math.prod(shape) < _FEW:
        flat = [np.broadcast_to(own, shape).ravel().tolist() for own in (ranks, members, sharing, layout)]
        keys = list(zip(*flat, strict=True))
        known = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        few = tuple(Group(int(n), int(g), s, *group_layout(p)) for n, g, s, p in known)
        return few, np.reshape([known[key] for key in keys], shape)
    shares, share_index = np.unique(sharing, return_inverse=True)
    key = (ranks * 2.0**14 + members) * shares.size + share_index.reshape(sharing.shape)
    if layout.any():
        layouts, layout_index = np.unique(
            layout, return_inverse=True
        )  # on a torus they are too large for a key
        key = key * layouts.size + layout_index.reshape(layout.shape)
    _, first, index = np.unique(key, return_index=True, return_inverse=True)
    full = [
        np.broadcast_to(values, key.shape).reshape(-1)[first] for values in (ranks, members, sharing, layout)
    ]
    assert key.max() < 2.0**53
    groups = tuple(
        Group(int(n), int(g), float(s), *group_layout(int(p))) for n, g, s, p in zip(*full, strict=True)
    )
    return groups, index.reshape(key.shape)
