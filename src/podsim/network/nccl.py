"""Seconds of a collective as NCCL would run it: which algorithm and protocol it picks, and what they cost.

    for NCCL's own choice       podsim.network.nccl_tuner      (its constants, not fitted)
    for what a choice costs     podsim.network.nccl_paths      (the law in a node)
                                podsim.network.nccl_between    (the law between nodes)
    for the measured constants  podsim.network.nccl_constants  (hardware/catalog/fabrics, fitted)

Sizes follow nccl-tests: bytes of the buffer of an all-reduce, broadcast, reduce or send, and of the whole
gathered buffer of an all-gather, reduce-scatter or all-to-all.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from podsim.axes import Shaped
from podsim.errors import ClusterError, PodsimError, check_name, raise_all
from podsim.hardware.cluster import Cluster
from podsim.hardware.fattree import fat_tree
from podsim.hardware.nvlink import ring_shares, slot_link
from podsim.network.bus import bus_factor
from podsim.network.collective_settings import CollectiveSettings
from podsim.network.nccl_constants import STAND_IN, load_network
from podsim.network.nccl_group import Candidate, Group, Wires, distinct_groups, layout_numbers
from podsim.network.nccl_paths import table
from podsim.network.nccl_tuner import counted_socket_rate, generation
from podsim.records import dataclass

Array = NDArray[np.float64]
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv")
LAUNCHES = ("process", "thread", "single")
"""one process for each GPU, one thread for each GPU, one process driving all GPUs of a node"""
_BLOCK = 8192
"""elements costed at once, so that they stay in the processor's cache"""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """NCCL's choice for one call, and its cost."""

    algorithm: str
    """The algorithm: ring, tree, nvls, pairs; none for a single rank."""
    protocol: str
    channels: int
    """The number of channels in use at this size."""
    seconds: float
    bus_bandwidth: float
    """B/s. The bus bandwidth reached at this size, as nccl-tests counts it."""
    ceiling: float
    """B/s. The bus bandwidth that this choice approaches."""
    candidate: Candidate
    """The law's figures of this choice."""

    def over_wires(self, size: float, transfer: float) -> float:
        """s. The law's time where the bytes take `transfer` seconds on the wires, as simulated, in place of its own."""
        option = self.candidate._replace(until=math.inf, since=0.0, per_byte=transfer / size)
        return float(candidate_seconds(candidate_fields((option,)), np.array([size]))[0, 0])


def bus_bandwidth(collective: str, size: ArrayLike, seconds: ArrayLike, ranks: ArrayLike) -> Array:
    """Bus bandwidth, B/s, of a collective of `size` bytes that took `seconds`; shapes broadcast."""
    moved: Array = np.asarray(size, dtype=float) * bus_factor(collective, ranks)
    return np.asarray(moved / np.asarray(seconds, dtype=float))


@dataclass(frozen=True, kw_only=True)
class Members:
    """Which GPUs a group has; all broadcast."""

    ranks: ArrayLike
    """count. The GPUs of the group; one rank takes no time."""
    ranks_per_node: ArrayLike
    """count. The GPUs of the group on one node; it spans ceil(ranks / ranks_per_node) nodes."""
    sharing: ArrayLike | None = None
    """count. The groups of this kind that run at once on a node and share its adapters. By default as many as tile the
    node, gpus_per_node // ranks_per_node, as in a training job."""
    stride: ArrayLike = 1
    """count. The GPUs of a node from one member to the next; those between are of groups of the same kind that run at
    once. It selects the wiring on meshes of NVLinks. On servers without NVLink it gives the distance of members and
    the number of groups between the sockets."""
    extent: ArrayLike | None = None
    """count. The GPUs of a node from the first member to the last, if stride and members do not give it."""


def collective_seconds(
    collective: str,
    size: ArrayLike,
    cluster: Cluster,
    members: Members,
    *,
    launch: str = "process",
    version: str = "2.18",
    detail: bool = False,
    settings: CollectiveSettings | None = None,
) -> Array:
    """Seconds of one collective, of the broadcast shape of size and of the members' ranks, ranks_per_node and sharing.

    size     B, by nccl-tests' convention (see the top of this file)
    launch   one of LAUNCHES
    version  NCCL's release, "2.4" to "2.30"
    detail   adds a leading axis of three: seconds, seconds with no bytes, and the rest
    settings of the run, in place of launch and version; what they leave open is as the cluster's entry says

    It grows with size, but falls where NCCL gives up LL too late: between nodes and over PCI Express. Known error,
    mean absolute relative, by decade of size: all-reduce within one A100 node at most 7 % from 1 KiB on (9 % for
    sweeps left out of the fit; two sweeps of one machine and release differ by 1 to 9 %, of two machines by 10 to 30
    % at 1 to 8 MiB); other collectives, and Hopper and Blackwell nodes, mostly below 10 %; 2 to 8 L40S over root
    complexes at most 10 % (12 % for sweeps left out). Between nodes: see docs/laws/collectives.md. Not covered:
    congestion, groups that share root complexes.

    Raises PodsimError for arguments that make no group, ClusterError for a group that the cluster cannot
    hold.
    """
    check_name("collective", collective, COLLECTIVES)
    wires, launch, release = _run_of(cluster, settings, launch, version)
    size_, ranks_, members_, sharing_ = _numbers(
        wires, size, members.ranks, members.ranks_per_node, members.sharing
    )
    places = layout_numbers(wires, members_, members.stride, members.extent)
    groups, index = distinct_groups(ranks_, members_, sharing_, places)
    if len(groups) == size_.size == 1 and not detail:
        known = _known_seconds(wires, collective, groups[0], launch, release, size_.item())
        return np.full(np.broadcast_shapes(size_.shape, index.shape), known)
    tables = [_known_fields(wires, collective, group, launch, release) for group in groups]
    shape = np.broadcast_shapes(size_.shape, index.shape)
    seconds = _fastest_seconds(tables, size_, index, shape)
    if not detail:
        return seconds
    floor = _fastest_seconds(tables, np.zeros(()), index, shape)
    return np.stack([seconds, floor, seconds - floor])


def send_seconds(
    size: ArrayLike,
    cluster: Cluster,
    *,
    crosses_node: ArrayLike,
    sharing: ArrayLike = 1,
    stride: ArrayLike = 1,
    extent: ArrayLike | None = None,
    launch: str = "process",
    version: str = "2.18",
) -> Array:
    """Seconds to send `size` bytes from one GPU to another, of the broadcast shape of the arguments.

    Over NVLink, or (where `crosses_node`) over one adapter, which `sharing` senders use at once. Known error:
    fitted on all-to-alls and one sweep of eight A100; nothing between nodes. Raises as collective_seconds
    does.
    """
    crosses = np.asarray(crosses_node, dtype=bool)
    shares = np.asarray(sharing, dtype=float)
    if not np.all(shares > 0):
        raise PodsimError(f"sharing={_worst(shares, shares > 0)} senders on an adapter; it is 1 or more")
    members = Members(
        ranks=2, ranks_per_node=np.where(crosses, 1, min(2, cluster.gpus_per_node)),
        sharing=np.where(crosses, shares * max(1, cluster.nics), 1.0), stride=stride, extent=extent,
    )  # fmt: skip
    return collective_seconds("send_recv", size, cluster, members, launch=launch, version=version)


def choice(
    collective: str,
    size: float,
    cluster: Cluster,
    *,
    ranks: int,
    ranks_per_node: int,
    sharing: float | None = None,
    settings: CollectiveSettings | None = None,
) -> Choice:
    """NCCL's choice for one call and its cost; arguments and errors are those of collective_seconds."""
    check_name("collective", collective, COLLECTIVES)
    wires, launch, release = _run_of(cluster, settings or CollectiveSettings())
    size_, ranks_, members_, sharing_ = _numbers(wires, size, ranks, ranks_per_node, sharing)
    if max(size_.size, ranks_.size, members_.size, sharing_.size) > 1:
        raise PodsimError("choice looks at one call; give single numbers")
    (group,), _ = distinct_groups(ranks_, members_, sharing_, layout_numbers(wires, members_, 1, None))
    options = table(wires, collective, group, launch, release)
    given = float(size_)
    cost = candidate_seconds(candidate_fields(options), np.array([given]))[:, 0]
    best, seconds = options[int(np.argmin(cost))], float(cost.min())
    factor = float(bus_factor(collective, group.ranks))
    return Choice(
        algorithm=best.algorithm,
        protocol=best.protocol,
        channels=int(min(best.channels, max(1, math.ceil(given / best.window)))),
        seconds=seconds,
        bus_bandwidth=given * factor / seconds if seconds else 0.0,
        ceiling=factor / best.per_byte if best.per_byte else math.inf,
        candidate=best,
    )


@lru_cache(maxsize=4096)
def _run_of(
    cluster: Cluster, settings: CollectiveSettings | None, launch: str = "", version: str = ""
) -> tuple[Wires, str, str]:
    """(links, launch, generation of NCCL) of a run; `settings` replace launch and version."""
    filled = (settings or CollectiveSettings(launch=launch, release=version)).assumed(cluster)
    return wires_of(cluster, filled), str(filled.launch), generation(str(filled.release))


@lru_cache(maxsize=4096)
def wires_of(cluster: Cluster, settings: CollectiveSettings | None = None) -> Wires:
    """The links of a cluster that a collective uses, under the settings of a run."""
    filled = settings if settings is not None and settings.assumptions else (
        settings or CollectiveSettings()).assumed(cluster)  # fmt: skip
    system, architecture = cluster.system, cluster.gpu.architecture
    cpu, switched = system.cpu, system.topology == "pcie" and system.cpus > 1
    fabric = filled.network or cluster.fabric
    slot = slot_link(system).bandwidth if cluster.nics else math.inf
    return Wires(
        architecture=STAND_IN.get(architecture, architecture), topology=system.topology, fabric=fabric,
        vendor="other" if cpu is None else cpu.vendor, gpus=cluster.gpus_per_node,
        nvlink=cluster.nvlink.bandwidth, nvlink_latency=cluster.nvlink.latency,
        nics=filled.nics or cluster.nics,
        network=filled.adapter_rate(cluster),
        network_latency=_adapter_seconds(cluster, fabric),
        rings=ring_shares(system), exchanges=cluster.host.exchanges if cluster.host is not None else (),
        socket=counted_socket_rate(cpu) if switched else math.inf,
        slot=slot, torus=system.torus, algorithms=_names(filled.algorithm), sharp=bool(filled.sharp),
        protocols=_names(filled.protocol) or filled.open_protocols,
        tiers=_tiers(cluster) if filled.sharp else (), hop=system.switch.latency if system.switch else 0.0,
    )  # fmt: skip


def _names(text: str | None) -> tuple[str, ...]:
    return () if text in (None, "auto") else tuple(str(text).split(","))


def _tiers(cluster: Cluster) -> tuple[int, ...]:
    """The nodes below a leaf, and below a group of spines, as far as switches stand above them."""
    switch, unit = cluster.system.switch, cluster.system.unit
    if switch is None or not unit:
        return ()
    tree = fat_tree(
        nodes=cluster.nodes, rails=cluster.rails, unit=min(unit, switch.ports // 2), ports=switch.ports
    )
    return tree.tiers


def _adapter_seconds(cluster: Cluster, fabric: str) -> float:
    """Latency of an adapter, s: the cluster's own, and no less than its class's."""
    return max(cluster.network.latency, load_network(fabric).adapter) if cluster.nics else 0.0


def candidate_seconds(
    fields: Shaped[Array, "field candidate element"], size: Shaped[Array, "element"]
) -> Shaped[Array, "candidate element"]:
    """Seconds of each candidate at each size; infinite where NCCL has given it up."""
    until, latency, line, window, per_byte, ramp, channels, start, channel, *more = fields
    filled = size / window
    transfer = size * per_byte
    rising = transfer / (1.0 + transfer * more[2]) if more else transfer
    moved = np.hypot(line * np.expm1(-np.square(filled)), transfer) + np.sqrt(ramp * rising)
    if more:
        moved = np.sqrt(np.hypot(np.square(more[0]), np.square(moved)))
    gpu = latency + moved
    host = start + channel * np.minimum(np.maximum(filled, 1.0), channels)
    picked = (size <= until) & (size >= more[1]) if more else size <= until
    return np.where(picked, np.sqrt(gpu * gpu + host * host), np.inf)


@lru_cache(maxsize=65536)
def candidate_fields(options: tuple[Candidate, ...]) -> Array:
    """Numbers of the candidates of one communicator, F x C x 1 element; kept, so read-only.

    Without the last three fields where they are zero, as inside a node but for point-to-point kernels and PCI Express.
    """
    last = None if any(option.hidden or option.since or option.fill for option in options) else -3
    fields = np.array([option[2:last] for option in options]).T[:, :, np.newaxis].copy()
    fields.flags.writeable = False
    return fields


@lru_cache(maxsize=65536)
def _known_fields(wires: Wires, collective: str, group: Group, launch: str, release: str) -> Array:
    return candidate_fields(table(wires, collective, group, launch, release))


@lru_cache(maxsize=65536)
def _known_seconds(
    wires: Wires, collective: str, group: Group, launch: str, release: str, size: float
) -> float:
    """Seconds of one call, which plans and clusters of one network have in common."""
    fields = _known_fields(wires, collective, group, launch, release)
    return float(candidate_seconds(fields, np.array([size])).min())


def _fastest_seconds(
    fields: list[Array], size: Array, index: NDArray[np.intp], shape: tuple[int, ...]
) -> Array:
    """Least seconds over the candidates of each element's communicator; of the given shape."""
    if len(fields) == 1:
        flat = size.reshape(-1)
        if flat.size <= _BLOCK:
            seconds = candidate_seconds(fields[0], flat).min(axis=0).reshape(size.shape)
        else:
            blocks = range(0, flat.size, _BLOCK)
            parts = [candidate_seconds(fields[0], flat[at : at + _BLOCK]).min(axis=0) for at in blocks]
            seconds = np.concatenate(parts).reshape(size.shape)
        return seconds if seconds.shape == shape else np.broadcast_to(seconds, shape).copy()
    rows, most = (max(field.shape[axis] for field in fields) for axis in (0, 1))
    padded = np.zeros((rows, most, len(fields)))  # [field, candidate, communicator]
    for column, field in enumerate(fields):
        padded[: field.shape[0], :, column] = field[:, np.arange(most) % field.shape[1], 0]
    sizes = np.broadcast_to(size, shape).reshape(-1)
    indices = np.broadcast_to(index, shape).reshape(-1)
    out = np.empty(sizes.size)
    for at in range(0, sizes.size, _BLOCK):
        part = slice(at, at + _BLOCK)
        out[part] = candidate_seconds(np.take(padded, indices[part], axis=2), sizes[part]).min(axis=0)
    return out.reshape(shape)


def _numbers(
    wires: Wires, size: ArrayLike, ranks: ArrayLike, ranks_per_node: ArrayLike, sharing: ArrayLike | None
) -> tuple[Array, Array, Array, Array]:
    """The arguments as arrays, members at most the ranks; all that is wrong with them at once."""
    size_, ranks_ = np.asarray(size, dtype=float), np.asarray(ranks, dtype=float)
    given = np.asarray(ranks_per_node, dtype=float)
    plain = size_.size == ranks_.size == given.size == 1 and _is_valid_call(
        wires, size_.item(), ranks_.item(), given.item()
    )
    if not plain:
        _check_values(wires, size_, ranks_, given)
    members = np.minimum(given, ranks_)
    if sharing is None:
        return size_, ranks_, members, np.where(members < ranks_, np.floor(wires.gpus / members), 1.0)
    share = np.asarray(sharing, dtype=float)
    if not ((share > 0) & (share < np.inf)).all():
        raise PodsimError(f"sharing={_worst(share, share > 0)}: groups on a node, above 0")
    return size_, ranks_, members, share


def _is_valid_call(wires: Wires, size: float, ranks: float, given: float) -> bool:
    """Whether one call passes `_check_values`, without the cost of arrays."""
    members = min(given, ranks)
    return (
        0.0 <= size < math.inf
        and 1.0 <= ranks <= 2**21
        and ranks % 1.0 == given % 1.0 == 0.0
        and 1.0 <= members <= wires.gpus
        and (wires.nics > 0 or members == ranks)
    )


def _check_values(wires: Wires, size: Array, ranks: Array, given: Array) -> None:
    """All that is wrong with the arguments at once, as an error."""
    problems = [
        f"{name}={_worst(values, good)}: {rule}"
        for name, values, good, rule in (
            ("size", size, (size >= 0) & (size < np.inf), "bytes, 0 or more"),
            (
                "ranks",
                ranks,
                (ranks >= 1) & (ranks <= 2**21) & (ranks == np.floor(ranks)),
                "a whole number from 1",
            ),
            ("ranks_per_node", given, (given >= 1) & (given == np.floor(given)), "a whole number from 1"),
        )
        if not good.all()
    ]
    raise_all(problems)
    members = np.minimum(given, ranks)
    if (members > wires.gpus).any():
        raise ClusterError(f"ranks_per_node={int(members.max())}: a node has {wires.gpus} GPUs")
    if not wires.nics and (members < ranks).any():
        raise ClusterError(
            f"ranks={int(ranks.max())} over several nodes: this cluster has no network (nics=0)"
        )


def _worst(values: Array, good: NDArray[np.bool_]) -> str:
    bad = values[~good] if values.ndim else values
    return f"{bad.reshape(-1)[0]:g}"
