"""Seconds of a checkpoint: every rank's bytes flow over the links of its server and of the store, shared max-min.

Routes inside a server are those of its fabric: PCI Express slots, switches, processors, drives, adapters. Servers
whose ranks carry equal bytes form a class: one set of links with the capacity of all of them. The store is one link for
all. As flows end, the others speed up. To a neighbour, every server sends its bytes to the next and receives as many.
Adapters are full duplex, so only the sending side counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Shaped
from podsim.errors import ClusterError, PodsimError
from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics import Fabric, Node, node_fabric, node_of
from podsim.hardware.fabrics.builders import copied_capacity
from podsim.network.flow import max_min_rates
from podsim.records import dataclass, field
from podsim.storage.checkpoints_stores import Store

_WORDS = {"gpu": "GPU", "pcie": "PCIe switch", "cpu": "processor", "nic": "adapter", "storage": "storage adapter",
          "drive": "drive", "nvswitch": "NVSwitch"}  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Wires:
    """The links of one server, and the way of each GPU to each place, as links of the server."""

    fabric: Fabric
    capacity: Floats
    """B/s. The capacity of the server's links, and after them of its adapters' wires."""
    names: tuple[str, ...]
    homes: tuple[int, ...]
    """The end of each GPU's processor."""
    wires: Mapping[int, int] = field(default_factory=dict)
    """The link of the wire at an adapter, by its end."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """How long bytes take, and what holds them back."""

    seconds: float
    """s. The time until the last byte has arrived."""
    link: str
    """The fullest link while all flows run."""
    capacity: float
    """B/s. The capacity of one such link."""
    size: float
    """B. The bytes in all."""


@lru_cache(maxsize=32)
def wires_of(cluster: Cluster) -> Wires:
    """The links of a server of the cluster, PCI Express at the bandwidth that copies reach; made once a cluster."""
    node = node_of(cluster)
    fabric = node_fabric(node)
    kinds = {part.name: part.kind for part in node.parts}
    names = [f"{_WORDS[kinds[tail]]} to {_WORDS[kinds[head]]}" for tail, head in _ends(node)]
    wires = {fabric.end("nic", n): len(names) + n for n in range(cluster.nics)}
    return Wires(
        fabric=fabric,
        capacity=np.concatenate([copied_capacity(node, cluster), np.full(cluster.nics, cluster.network.bandwidth)]),
        names=(*names, *["network adapter"] * cluster.nics),
        homes=tuple(
            fabric.end("cpu", int(node.parts[int(number)].numa)) for number in node.places("gpu")
        ),
        wires=wires,
    )  # fmt: skip


def _ends(node: Node) -> list[tuple[str, str]]:
    """Tail and head of each link of a node."""
    return [ends for c in node.cables for ends in ((c.one, c.other), (c.other, c.one))]


def transfer(
    wires: Wires,
    rank_bytes: Shaped[Floats, "rank"],
    *,
    to: str,
    store: Store | None = None,
    back: bool = False,
    staged: bool = False,
) -> Transfer:
    """Seconds until every rank's bytes are at `to`: host, local (drives), neighbour, store; back=True: are read back.

    staged: they start from the server's memory (or end there), not from the GPU. Raises PodsimError for sizes that
    are none, ClusterError where there is no way.
    """
    gpus = len(wires.homes)
    wrong = rank_bytes[~(np.isfinite(rank_bytes) & (rank_bytes >= 0))]
    if wrong.size or rank_bytes.size % gpus or not rank_bytes.size:
        given = f"{wrong[0]:g} B" if wrong.size else f"{rank_bytes.size} ranks"
        raise PodsimError(
            f"{given}: a transfer has 0 B or more for each GPU of whole servers of {gpus}, at least one"
        )
    rows, many = np.unique(rank_bytes.reshape(-1, gpus), axis=0, return_counts=True)
    ends = [_target_ends(wires.fabric, gpu, gpus, wires.homes[gpu], to) for gpu in range(gpus)]
    links: list[NDArray[np.int64]] = []
    sizes, copies, capacities, names, equal = [], [], [], [], []
    local = len(wires.capacity)
    for c, (row, count) in enumerate(zip(rows, many, strict=True)):
        offset = c * (local + 1)
        client = _client(store, back)
        capacities += [*(wires.capacity * count), client * count]
        names += [*wires.names, "one server's share of the store"]
        equal += [float(count)] * (local + 1)
        for gpu in np.flatnonzero(row > 0):
            start = wires.homes[gpu] if staged else wires.fabric.end("gpu", int(gpu))
            for target in ends[gpu]:
                way = _route_links(wires, start, target, back)
                links.append(np.array([*(way + offset), *([offset + local] if store else [])], np.int64))
                sizes.append(row[gpu] / len(ends[gpu]))
                copies.append(float(count))
    if store is not None:
        capacities.append(store.read if back else store.write)
        names.append("the store")
        equal.append(1.0)
        links = [np.append(way, len(capacities) - 1) for way in links]
    seconds, fullest = _run_flows(links, np.array(sizes), np.array(copies), np.array(capacities))
    total = float(np.array(sizes) @ np.array(copies)) if sizes else 0.0
    if fullest < 0:
        return Transfer(seconds=0.0, link="nothing to move", capacity=float("inf"), size=0.0)
    return Transfer(
        seconds=seconds, link=names[fullest], capacity=capacities[fullest] / equal[fullest], size=total
    )


def _client(store: Store | None, back: bool) -> float:
    if store is None:
        return float("inf")
    return store.client_read if back else store.client_write


def _target_ends(fabric: Fabric, gpu: int, gpus: int, home: int, to: str) -> list[int]:
    """Ends inside the server that a GPU's bytes go to, spread evenly."""
    if to == "host":
        return [home]
    if to == "local":
        drives = fabric.count("drive")
        if not drives:
            raise ClusterError(
                f"{fabric.name} has no drives of its own; write to the store or to a neighbour"
            )
        return [fabric.end("drive", drive) for drive in range(drives)]
    kind = "storage" if to == "store" and fabric.count("storage") else "nic"
    count = fabric.count(kind)
    if not count:
        raise ClusterError(
            f"{fabric.name} has no adapter to send a checkpoint over; write it to its drives (local)"
        )
    if gpus <= count:  # every GPU spreads its files over its own adapters
        return [
            fabric.end(kind, adapter) for adapter in range(gpu * count // gpus, (gpu + 1) * count // gpus)
        ]
    return [fabric.end(kind, gpu * count // gpus)]


@lru_cache(maxsize=8192)
def _route_links(wires: Wires, start: int, target: int, back: bool) -> NDArray[np.int64]:
    """Links from a GPU or processor to an end of its server and onto the wire there, or the other way."""
    pair = ([target], [start]) if back else ([start], [target])
    way = wires.fabric.routes(*pair)[1].astype(np.int64)
    return np.append(way, wires.wires[target]) if target in wires.wires else way


def _run_flows(
    links: list[NDArray[np.int64]],
    sizes: Shaped[Floats, "flow"],
    copies: Shaped[Floats, "flow"],
    capacity: Floats,
) -> tuple[float, int]:
    """(s until the flows are through, re-sharing whenever one is, the link that is fullest while all run or -1)."""
    left, seconds, fullest = sizes.copy(), 0.0, -1
    running = np.flatnonzero(left > 0)
    while running.size:
        indptr = np.concatenate([[0], np.cumsum([len(links[f]) for f in running])])
        used = np.concatenate([links[f] for f in running])
        rates = max_min_rates((indptr, used), capacity, copies=copies[running])
        if fullest < 0:
            load = np.bincount(
                used, np.repeat(rates * copies[running], np.diff(indptr)), minlength=len(capacity)
            )
            share = load / capacity
            fullest = int(
                np.flatnonzero(share >= share.max() * (1.0 - 1e-9))[-1]
            )  # the store, if it is full, too
        needs = left[running] / rates
        step = float(needs.min())
        seconds += step
        left[running] -= rates * step
        running = running[needs > step * (1.0 + 1e-9)]
    return seconds, fullest
