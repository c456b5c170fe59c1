"""Which ports of the fabric the exchanges of a simulated step cross, and what switches leave to them.

Each rank sends to a peer: the next stage, or the next member of its ring on another server (NCCL's rings stay on the rail
of their adapter). Routes give the links between them.

Known error: a ring stands for every algorithm, and all-to-alls go to the next member of the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from podsim.axes import Floats, Ints
from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics import Fabric, fabric_of
from podsim.hardware.fabrics.host_ways import host_way
from podsim.hardware.fabrics.server_routes import assemble
from podsim.hardware.fabrics.wiring import ServerWiring
from podsim.network.bus import bus_factor
from podsim.network.flow import max_min_rates
from podsim.simulation.events import Played
from podsim.simulation.lower import Lowered
from podsim.simulation.lower_links import adapter_rate
from podsim.simulation.pieces import Stream
from podsim.training.layers import tp_bytes, tp_sync_seconds
from podsim.training.plan import Plan

_MICRO_GROUPS = 4
_NAMES = {"send": "pp", "tp beside": "tp"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Exchanges:
    """Exchanges by key: a class, a kind of traffic, a direction and a group of micro-batches."""

    keys: list[tuple[int, str, int, int]]
    key: Ints
    """The key of each op."""
    start: Floats
    end: Floats
    amount: Floats
    """B. The bytes of one rank of the class."""
    micro: Ints


def planned_fabric(cluster: Cluster, swap: Mapping[int, int]) -> Fabric:
    """The fabric of a cluster; `swap`: pairs of adapters (of ranks) whose cables are exchanged."""
    fabric = fabric_of(cluster)
    if not swap or not isinstance(fabric.wiring, ServerWiring) or not fabric.wiring.networks:
        return fabric
    wiring = fabric.wiring
    tree, per = wiring.networks[0].tree, len(wiring.networks[0].ports)
    leaf_of = tree.leaf.copy()
    for pair in swap.items():
        here, there = (port_of(cluster, rank, per) for rank in pair)
        leaf_of[[here, there]] = leaf_of[[there, here]]
    network = replace(wiring.networks[0], tree=replace(tree, leaf=leaf_of))
    others = (network, *wiring.networks[1:])
    made = assemble(fabric.name, wiring.node, wiring.nodes, others, fabric.routing)
    return replace(made, capacity=fabric.capacity)


def port_of(cluster: Cluster, rank: int, per: int) -> int:
    """The number of a rank's adapter among those of all servers, `per` on each."""
    node, local = divmod(rank, cluster.gpus_per_node)
    return node * per + local * per // cluster.gpus_per_node


def _peers(plan: Plan, per_node: int, kind: str, way: int) -> Ints:
    """The rank to which each rank sends: the next stage, or the next member of its group, on another server if any."""
    pp, dp, tp = int(plan.pp), int(plan.dp) * int(plan.cp), int(plan.tp)
    ranks = np.arange(pp * dp * tp)
    if kind == "pp":
        ahead = 1 if way == Stream.AHEAD else -1
        return (ranks + ahead * dp * tp) % len(ranks)
    size, stride = {
        "dp": (dp, tp), "tp": (tp, 1), "cp": (int(plan.cp), tp), "ep": (max(int(plan.ep), 1), int(plan.expert_ranks)),
    }.get(kind, (1, 1))  # fmt: skip
    position = ranks // stride % size
    near = max(per_node // stride, 1)  # members of a group on one server
    step = near if size > near else 1
    return ranks + ((position + step) % size - position) * stride


def exchanges_of(lowered: Lowered, played: Played, plan: Plan, cluster: Cluster) -> Exchanges:
    """All exchanges of the step that move bytes between GPUs."""
    pieces, what = lowered.pieces, lowered.what
    wired = lowered.ops.transfer >= 0 if len(lowered.ops.transfer) else np.zeros(len(what), np.bool_)
    near = _inside_bytes(lowered, cluster)
    amount = np.where(wired, np.array([piece.bytes for piece in pieces])[what], near[what])
    ops = np.flatnonzero((amount > 0.0) & (played.end > played.start) & (played.end <= played.seconds))
    owner = np.searchsorted(lowered.base, ops, side="right") - 1
    kinds = [_NAMES.get(piece.kind, piece.kind) for piece in pieces]
    names = sorted(set(kinds))
    kind = np.array([names.index(name) for name in kinds])[what[ops]]
    way = np.array([int(piece.stream) for piece in pieces])[what[ops]]
    way = np.where(way == Stream.BACK, way, int(Stream.AHEAD))
    micro = lowered.micro[ops].astype(np.int64)
    group = np.where(micro < 0, 0, 1 + micro * _MICRO_GROUPS // max(int(micro.max(initial=0)) + 1, 1))
    columns, key = np.unique(np.stack([owner, kind, way, group]), axis=1, return_inverse=True)
    return Exchanges(
        keys=[(c, names[k], w, g) for c, k, w, g in columns.T.tolist()], key=key.ravel(), start=played.start[ops],
        end=played.end[ops], amount=amount[ops], micro=micro,
    )  # fmt: skip


def _inside_bytes(lowered: Lowered, cluster: Cluster) -> Floats:
    """B that a rank sends in each piece whose exchange stays in its server, or whose law sees the adapters as its own."""
    ready, plan = lowered.ready, lowered.ready.plan
    wide, tp = plan.wide(), int(np.asarray(plan.tp).item())
    data = int(np.asarray(plan.dp).item()) * int(np.asarray(plan.cp).item())
    once = float(tp_sync_seconds(ready.model, cluster, wide, ready.software)[0])
    sync = float(bus_factor("all_reduce", tp) * tp_bytes(ready.model, wide)[0]) if tp > 1 else 0.0
    sizes = []
    for piece in lowered.pieces:
        kind = _NAMES.get(piece.kind, piece.kind)
        if kind == "tp" and once > 0.0:
            sizes.append(sync * piece.seconds / once)
        elif kind == "dp" and piece.message:
            sizes.append(piece.message * float(bus_factor("all_reduce", data)) if data > 1 else 0.0)
        else:
            sizes.append(piece.bytes or piece.message)
    return np.array(sizes)


def exchange_bytes(exchanges: Exchanges, edges: Floats) -> Floats:
    """B of each key between edges, shape (keys, edges - 1): each exchange spread evenly over its time."""
    size = len(edges)
    length = np.maximum(exchanges.end - exchanges.start, 1e-12)
    rate = exchanges.amount / length
    ramp = np.zeros((len(exchanges.keys), size))
    for time, sign in ((exchanges.start, 1.0), (exchanges.start + length, -1.0)):
        at = exchanges.key * (size + 1) + np.searchsorted(edges, time, side="left")
        shape = len(exchanges.keys) * (size + 1)
        slope = np.bincount(at, sign * rate, shape).reshape(-1, size + 1)[:, :size].cumsum(axis=1)
        offset = np.bincount(at, sign * rate * time, shape).reshape(-1, size + 1)[:, :size].cumsum(axis=1)
        ramp += slope * edges - offset
    carried: Floats = np.maximum(np.diff(ramp, axis=1), 0.0)
    carried[carried < 1e-9 * max(float(exchanges.amount.max(initial=0.0)), 1.0)] = 0.0
    return carried


@dataclass(frozen=True, kw_only=True, eq=False)
class Flows:
    """Which links each rank's exchange of a kind crosses."""

    source: Ints
    """The sending rank of each flow."""
    key: Ints
    """The key of each flow."""
    indptr: Ints
    links: Ints


def flows_of(exchanges: Exchanges, lowered: Lowered, plan: Plan, cluster: Cluster, fabric: Fabric) -> Flows:
    """The flows of all ranks, routed together by kind as they run together."""
    label = lowered.classes.label.ravel()
    number = np.arange(len(label))
    peers = {
        (kind, way): _peers(plan, cluster.gpus_per_node, kind, way) for _, kind, way, _ in exchanges.keys
    }
    pairs = {group: (number[peer != number], peer[peer != number]) for group, peer in peers.items()}
    routes = {group: fabric.routes(*ends) for group, ends in pairs.items() if len(ends[0])}
    source, key, lengths, links = [], [], [], []
    for position, (c, kind, way, _) in enumerate(exchanges.keys):
        if (kind, way) not in routes:
            continue
        indptr, used = routes[kind, way]
        mine = np.flatnonzero(label[pairs[kind, way][0]] == c)
        source.append(pairs[kind, way][0][mine])
        key.append(np.full(len(mine), position))
        lengths.append(np.diff(indptr)[mine])
        links += [used[indptr[flow] : indptr[flow + 1]] for flow in mine.tolist()]
    empty = [np.empty(0, np.int64)]
    return Flows(
        source=np.concatenate(source or empty), key=np.concatenate(key or empty),
        indptr=np.concatenate([[0], np.cumsum(np.concatenate(lengths or empty))]),
        links=np.concatenate(links or empty),
    )  # fmt: skip


def through_hosts(flows: Flows, cluster: Cluster, fabric: Fabric, hosts: Mapping[int, str]) -> Flows:
    """The flows, with the links that those between servers take inside servers of another way; `hosts`: Trouble.hosts."""
    wiring = fabric.wiring
    if not hosts or not isinstance(wiring, ServerWiring):
        return flows
    size, ends = wiring.node.links, wiring.node.link_ends
    is_nvlink = np.repeat([cable.kind == "nvlink" for cable in wiring.node.cables], 2)
    paths: list[Ints] = []
    for rank, usual in zip(flows.source, np.split(flows.links, flows.indptr[1:-1]), strict=True):
        links, inside = usual, usual < wiring.nodes * size
        server = np.where(inside, links // size, -1)
        for number, name in hosts.items() if not inside.all() else ():
            mine = usual[(server == number) & ~is_nvlink[usual % size]] - number * size
            if not len(mine):
                continue
            way, leaves = host_way(cluster, name), rank // cluster.gpus_per_node == number
            own = (
                way.out[ends[mine[0]][0]] if leaves else way.back[ends[mine[-1]][1]]
            )  # GPUs are the first parts
            links = np.concatenate(
                [links[~np.isin(links, mine + number * size)], np.array(own) + number * size]
            )
        paths.append(links)
    return replace(flows, indptr=np.cumsum([0, *map(len, paths)]), links=np.concatenate(paths))


def path_shares(plan: Plan, cluster: Cluster, swap: Mapping[int, int]) -> dict[int, dict[int, float]]:
    """The share of its adapter that switches leave to each rank whose flows meet others between switches, by Stream.

    Only for a routing that the user asked for: usual predictions assume that switches balance their load.
    """
    if cluster.nodes < 2 or not (cluster.routing or swap):
        return {}
    fabric, rate = planned_fabric(cluster, swap), adapter_rate(cluster)
    shares: dict[int, dict[int, float]] = {}
    for kind, way in (("dp", Stream.DATA), ("pp", Stream.AHEAD), ("pp", Stream.BACK)):
        peer = _peers(plan, cluster.gpus_per_node, kind, way)
        ranks = np.flatnonzero(np.arange(len(peer)) // cluster.gpus_per_node != peer // cluster.gpus_per_node)
        if not len(ranks):
            continue
        routes = fabric.routes(ranks, peer[ranks])
        own = len(fabric.capacity) + np.arange(len(ranks))
        indptr = routes[0] + np.arange(len(ranks) + 1)
        links = np.insert(routes[1], routes[0][1:], own)
        rates = max_min_rates((indptr, links), np.concatenate([fabric.capacity, np.full(len(ranks), rate)]))
        for rank, reached in zip(ranks.tolist(), (rates / rate).tolist(), strict=True):
            if reached < 1.0 - 1e-9:
                shares.setdefault(way, {})[rank] = reached
    return shares
