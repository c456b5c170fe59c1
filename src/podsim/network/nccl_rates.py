"""Candidates of a communicator, and the rates that protocols reach on the links inside a node."""

from __future__ import annotations

from typing import NamedTuple

from podsim.network.nccl_constants import PCIE, Fabric
from podsim.network.nccl_group import Group, Wires, socket_share

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
        return wires.nvlink * wires.ringed(group) * share * extra[0]
    return link_rate(wires, group, fabric) * share * extra[0] / (1 + extra[1] / group.members**2)


def pairs_rate(wires: Wires, group: Group, fabric: Fabric) -> float:
    """B/s of point-to-point kernels inside a node."""
    crossing = fabric.pairs_cross_share if wires.topology == "pcie-root" and group.apart else 1.0
    share = crossing * fabric.pairs_share / (1 + fabric.pairs_small / group.members**2)
    return link_rate(wires, group, fabric) * share
