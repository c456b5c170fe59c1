"""What is not as it should be in a step, and the ranks that it sets apart.

Which links the ops of a step use: the adapters of the ranks, where a send or an exchange leaves the node.

A rank has its share of its node's adapters. What nothing else uses takes as long as its own law says; what shares an
adapter with another takes longer by the max-min law.

Which ranks are alike: the coarsest division of all ranks that no group can tell apart.

Two ranks are of one class if they are as fast, and their groups (tensor, context, expert, data, pipeline) are made of
the same classes: then they do the same at the same time, and one of them is played for all. A slow GPU sets apart its
own rank, then whoever shares a group with it, and so on (an equitable partition, found by refinement: D. Corneil,
C. Gotlieb, An efficient algorithm for graph isomorphism, 1970).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Ints, NarrowInts, Shaped, SmallInts
from podsim.errors import SimulationError
from podsim.hardware.cluster import Cluster
from podsim.hardware.fabrics.host_ways import host_way
from podsim.simulation.ops import NO_TRANSFERS, Transfers
from podsim.simulation.pieces import Piece, Stream
from podsim.training.plan import Plan
from podsim.training.plan_values import Grid

Kind = tuple[str, int]
"""a type of rank: (its GPU, "" for the cluster's own; micro-batches of its replica, 0 for the plan's own)"""


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What is not as it should be: ranks whose GPU is slow, or whose adapter is; noise."""

    slow: dict[int, float] = field(default_factory=dict)
    """The slowdown of each slow rank's kernels."""
    throttle: dict[int, tuple[float, float]] = field(default_factory=dict)
    """The final slowdown of each hot rank's kernels, and the s of computing until 63 % of it."""
    link: dict[int, float] = field(default_factory=dict)
    """The share of network bandwidth that each rank has left."""
    fail: tuple[int, ...] = ()
    """The ranks that will fail, or lose their adapter; they are separated from others, not played."""
    nodes: dict[int, str] = field(default_factory=dict)
    """The type of GPU of each server that differs."""
    shares: tuple[int, ...] = ()
    """The number of micro-batches of each data-parallel replica; empty: all have as many."""
    flap: dict[int, float] = field(default_factory=dict)
    """share. The share of time in which each rank's flapping adapter is down."""
    swap: dict[int, int] = field(default_factory=dict)
    """The pairs of ranks whose adapters have each other's cable."""
    disk: dict[int, float] = field(default_factory=dict)
    """factor. The slowdown of the storage of each server."""
    hosts: dict[int, str] = field(default_factory=dict)
    """The way of each server's traffic that is not the usual one: one of host_ways.WAYS."""
    paths: dict[int, dict[int, float]] = field(default_factory=dict)
    """share. The share of its adapter that switches leave to each rank, by the Stream of the traffic."""
    alone: bool = False
    """Whether every transfer has its adapters to itself: what sharing costs."""
    jitter: float = 0.0
    """factor. The standard deviation of the logarithm of each pass's duration, drawn for each rank and op."""
    seed: int = 0

    @property
    def left(self) -> dict[int, float]:
        """The share of its adapter's bandwidth that each rank has left."""
        up = {rank: 1.0 - share for rank, share in self.flap.items()}
        return {rank: self.link.get(rank, 1.0) * up.get(rank, 1.0) for rank in {**self.link, **up}}


def with_slow_hosts(trouble: Trouble, cluster: Cluster, ranks: int) -> Trouble:
    """The trouble with the share that adapters of servers with another way have left; SimulationError for no server."""
    per, links = cluster.gpus_per_node, dict(trouble.link)
    for server, way in trouble.hosts.items():
        own = range(server * per, min((server + 1) * per, ranks))
        if server < 0 or not own:
            raise SimulationError(f"server {server} does not exist; the job has 0 to {(ranks - 1) // per}")
        left = min(host_way(cluster, way).rate / cluster.network.bandwidth, 1.0)
        links |= {rank: min(links.get(rank, 1.0), left) for rank in own}
    return replace(trouble, link=links)


def marks_of(plan: Plan, trouble: Trouble, cluster: Cluster) -> tuple[Ints, Ints, list[Kind]]:
    """(a number for what makes each rank special, its type as a position, both [rank, data, tensor]; the types)."""
    shape = (int(plan.pp), int(plan.dp) * int(plan.cp), int(plan.tp))
    ranks, per = int(np.prod(shape)), cluster.gpus_per_node
    absent = sorted(n for n in trouble.nodes if not 0 <= n * per < ranks)
    if absent:
        last = (ranks - 1) // per
        raise SimulationError(f"server {', '.join(map(str, absent))} does not exist; the job has 0 to {last}")
    left = trouble.left
    paths = trouble.paths.values()
    special = {
        *trouble.slow,
        *trouble.throttle,
        *left,
        *trouble.fail,
        *(rank for path in paths for rank in path),
    }
    wrong = sorted(r for r in special if not 0 <= r < ranks)
    if wrong:
        raise SimulationError(
            f"rank {', '.join(map(str, wrong))} does not exist; this job has ranks 0 to {ranks - 1}"
        )
    gpu = [trouble.nodes.get(rank // per, "") for rank in range(ranks)] if trouble.nodes else [""] * ranks
    share = np.broadcast_to(_micro_batches_of_ranks(plan, trouble)[None, :, None], shape).ravel().tolist()
    marks = list(zip(gpu, share, strict=True))
    kinds: list[Kind] = sorted(dict.fromkeys(marks), key=lambda mark: mark != ("", 0))
    numbers = {mark: number for number, mark in enumerate(kinds)}
    kind = np.array([numbers[mark] for mark in marks], np.int64)
    flat = np.zeros(ranks, np.int64)
    known: dict[object, int] = {}
    for r in sorted({*special, *np.flatnonzero(kind).tolist()}):
        failed = trouble.fail.index(r) + 1 if r in trouble.fail else 0
        hot = trouble.throttle.get(r)
        network = (left.get(r, 1.0), *(path.get(r, 1.0) for path in paths))
        mark = (trouble.slow.get(r, 1.0), hot, network, failed, int(kind[r]))
        flat[r] = known.setdefault(mark, len(known) + 1)
    return flat.reshape(shape), kind.reshape(shape), kinds


def throttled_seconds(seconds: NDArray[np.float64], factor: float, tau: float) -> NDArray[np.float64]:
    """Seconds of consecutive kernels on a GPU that grows hot, which take `seconds` on a cool one.

    After b seconds of computing they take 1 + (factor - 1) (1 - exp(-b / tau)) times as long: work w is done after
    b = tau ln((factor - 1 + exp(factor w / tau)) / factor). Waiting does not cool it.
    """
    work = np.concatenate([[0.0], np.cumsum(seconds)])
    grown = factor * work / tau
    late = grown - np.log(factor) + np.log1p((factor - 1) * np.exp(-grown))
    early = np.log1p(np.expm1(np.minimum(grown, 1.0)) / factor)  # without rounding where it has hardly begun
    return np.asarray(np.diff(tau * np.where(grown < 1, early, late)))


def _micro_batches_of_ranks(plan: Plan, trouble: Trouble) -> Ints:
    """Micro-batches of the replica that each data and context rank is of; 0: as many as the plan says."""
    if not trouble.shares or set(trouble.shares) == {int(plan.micro_batches)}:
        return np.zeros(int(plan.dp) * int(plan.cp), np.int64)
    if len(trouble.shares) != int(plan.dp) or min(trouble.shares) < 1:
        raise SimulationError(
            f"shares of {', '.join(map(str, trouble.shares))} micro-batches for dp={int(plan.dp)} replicas; each has one "
            "share, of 1 or more"
        )
    if int(plan.zero) > 1 or int(plan.ep) > 1:
        raise SimulationError(
            f"uneven shares with zero={int(plan.zero)}, ep={int(plan.ep)}: replicas meet in every micro-batch, so each "
            "must have as many; zero may be 0, 1, and ep 1"
        )
    return np.repeat(np.array(trouble.shares, np.int64), int(plan.cp))


class Wired(NamedTuple):
    """Ops on links."""

    kind: SmallInts
    """The kind of transfer of each piece, among those of a class; -1 for none, [piece]."""
    kinds: int
    """The number of kinds of transfer of each class."""
    transfers: Transfers
    names: tuple[str, ...]
    """The names of the links."""
    stretch: NDArray[np.float64]
    """factor. The slowdown of each op by a slow adapter, [op] or 1."""


def transfers_of(
    cluster: Cluster,
    plan: Plan,
    pieces: list[Piece],
    what: Callable[[], NarrowInts],
    classes: Classes,
    base: Ints,
    trouble: Trouble,
) -> Wired:
    """What uses which link; `what`: the piece of each op, which only slow adapters need.

    Each class has one link out of its node and one into it. An exchange goes at the pace of its slowest member.
    """
    left, paths = trouble.left, trouble.paths
    slot = np.full(len(pieces), -1, np.int32)
    none = Wired(slot, 0, NO_TRANSFERS, (), np.ones(1))
    if not cluster.nics or not cluster.network.bandwidth:
        return none
    alone = _collective_slowdowns(cluster, pieces, what, classes, base, left)
    grid = Grid(gpus_per_node=cluster.gpus_per_node, plan=plan)
    crosses = dict.fromkeys((Stream.AHEAD, Stream.BACK), bool(grid.pipeline_crosses))
    ranks = int(plan.dp) * int(plan.cp)
    crosses[Stream.DATA] = ranks > int(grid.data(ranks))
    wide = [
        i
        for i, p in enumerate(pieces)
        if crosses.get(p.stream) and p.seconds > 0.0 and p.bytes > 0.0 and p.name != "gradient norm"
    ]
    if not wide:
        return none._replace(stretch=alone)
    line_rate = adapter_rate(cluster)
    slot[wide] = np.arange(len(wide))
    seconds = np.array([pieces[i].seconds for i in wide])
    bytes_ = np.array([pieces[i].bytes for i in wide])
    share = _shares(classes, left)
    worst = np.ones(classes.count)
    data = np.minimum(share, _shares(classes, paths.get(Stream.DATA, {})))
    np.minimum.at(worst, classes.groups["dp"], data)
    sent = np.stack([_shares(classes, paths.get(pieces[i].stream, {})) for i in wide], axis=1)
    shared = np.array([pieces[i].stream == Stream.DATA for i in wide])
    peaks = np.broadcast_to(np.minimum(bytes_ / seconds, line_rate), (classes.count, len(wide)))
    reached = np.where(shared, worst[classes.groups["dp"]][:, None], sent)  # [class, piece]
    pace = np.maximum(peaks / (line_rate * reached), 1.0)  # [class, piece]
    peaks = peaks / pace
    out = np.broadcast_to(2 * np.arange(classes.count)[:, None], peaks.shape)  # [class, piece]
    into = _partners(pieces, wide, classes)  # [class, piece]
    links = np.stack([out, 2 * into + 1], axis=-1).reshape(-1).astype(np.int64)
    peak = np.maximum(peaks, 1.0)
    names = tuple(f"{way} of class {c}" for c in range(classes.count) for way in ("out", "in"))
    stretch = np.ones(1)
    if left or paths:
        owner, kind = np.repeat(np.arange(classes.count), np.diff(base)), slot[what()]
        stretch = np.where(kind >= 0, pace[owner, kind], alone)
    capacity = np.full(2 * classes.count, 1e18) if trouble.alone else np.repeat(line_rate * share, 2)
    transfers = Transfers(
        peak=peak.ravel().copy(), latency=np.zeros(peak.size),
        routes=(2 * np.arange(peak.size + 1, dtype=np.int64), links), use=np.ones(2 * peak.size), capacity=capacity,
    )  # fmt: skip
    return Wired(slot, len(wide), transfers, names, stretch)


def adapter_rate(cluster: Cluster) -> float:
    """B/s of a rank's share of its node's adapters."""
    return cluster.network.bandwidth * min(1.0, cluster.nics / cluster.gpus_per_node)


def _shares(classes: Classes, left: dict[int, float]) -> NDArray[np.float64]:
    """Share of its adapter that each class still has."""
    shares = np.ones(classes.count)
    for rank, share in left.items():
        shares[classes.label.ravel()[rank]] = share
    return shares


def _collective_slowdowns(
    cluster: Cluster,
    pieces: list[Piece],
    what: Callable[[], NarrowInts],
    classes: Classes,
    base: Ints,
    left: dict[int, float],
) -> NDArray[np.float64]:
    """[N] (or 1) times as long as collectives of tensor, context and expert groups take where a member's adapter is slow.

    They take what their law says whatever else is on the adapters, which it sees as their own.
    """
    sent = [i for i, p in enumerate(pieces) if p.stream == Stream.GROUP and p.bytes > 0.0]
    if not left or not sent:
        return np.ones(1)
    share, owner = _shares(classes, left), np.repeat(np.arange(classes.count), np.diff(base))
    pace = np.ones((classes.count, len(pieces)))  # [class, piece]
    for i in sent:
        number = classes.groups[pieces[i].kind.removesuffix(" beside")]
        worst = np.ones(int(number.max()) + 1)
        np.minimum.at(worst, number, share)
        speed = pieces[i].bytes / pieces[i].seconds
        pace[:, i] = np.maximum(speed / (adapter_rate(cluster) * worst[number]), 1.0)
    return np.asarray(pace[owner, what()])


def _partners(pieces: list[Piece], wide: list[int], classes: Classes) -> Ints:
    """The class at whose adapter each class's transfers arrive, [classes, kinds]."""
    stage = classes.first[:, 0]
    last = classes.line.shape[1] - 1
    own = np.arange(classes.count)
    ahead = classes.line[own, np.minimum(stage + 1, last)]
    back = classes.line[own, np.maximum(stage - 1, 0)]
    to = {Stream.AHEAD: ahead, Stream.BACK: back, Stream.DATA: own}
    return np.stack([to[pieces[i].stream] for i in wide], axis=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Classes:
    """Ranks by class, and the classes of each class's groups."""

    label: Shaped[Ints, "rank data tensor"]
    """The class of each rank."""
    copies: Ints
    """The number of ranks of each class, [class]."""
    first: Ints
    """The first rank of each class: pipeline, data and context, tensor position, [class, 3]."""
    line: Shaped[Ints, "class rank"]
    """The class of its counterpart on each pipeline rank."""
    groups: dict[str, Ints]
    """The number of the group of each class, [class], by "tp", "cp", "ep", "dp", "all", "ends"; classes with one number
    meet in it."""

    @property
    def count(self) -> int:
        """Classes."""
        return len(self.copies)


def rank_number(plan: Plan, pipeline: Any, data: Any, tensor: Any) -> Any:
    """Rank in the job: tensor parallelism innermost, pipeline outermost."""
    return (pipeline * int(plan.dp) * int(plan.cp) + data) * int(plan.tp) + tensor


def _axes(plan: Plan, label: Shaped[Ints, "rank data tensor"]) -> dict[str, Ints]:
    """Classes of the members of each rank's groups, along the last axis: broadcast over the grid."""
    r, x, t = label.shape
    cp, ep = int(plan.cp), max(int(plan.ep), 1)

    def within(size: int, stride: int) -> Ints:
        """Groups of `size` ranks of a stage, `stride` apart, for each rank."""
        groups = x * t // (size * stride)
        parts = label.reshape(r, groups, size, stride).swapaxes(2, 3)
        wide = np.broadcast_to(parts[:, :, None], (r, groups, size, stride, size))
        return np.asarray(wide.reshape(r, x, t, size))

    tensor = np.broadcast_to(label[:, :, None, :], (r, x, t, t))
    data = np.broadcast_to(label.transpose(0, 2, 1)[:, None], (r, x, t, x))
    line = np.broadcast_to(label.transpose(1, 2, 0)[None], (r, x, t, r))
    return {
        "tp": tensor,
        "cp": within(cp, t),
        "ep": within(ep, int(plan.expert_ranks)),
        "dp": data,
        "line": line,
    }


def _signature(members: Ints, ordered: bool, n: int) -> Ints:
    """A number for each rank that is equal where the members of its group are: their classes, counted."""
    rng = np.random.default_rng(len(members) + members.shape[-1])
    weight = rng.integers(1, 2**62, (members.shape[-1] if ordered else 1, n))
    position = np.arange(members.shape[-1]) if ordered else np.zeros(members.shape[-1], np.int64)
    with np.errstate(over="ignore"):
        return np.asarray(weight[position, members].sum(axis=-1))


def _refine(plan: Plan, label: Shaped[Ints, "rank data tensor"]) -> Ints:
    """Classes refined by the classes of their groups."""
    n = int(label.max()) + 1
    keys = [label]
    for name, members in _axes(plan, label).items():
        if members.shape[-1] > 1:
            keys.append(_signature(members, name == "line", n))
    return _number_columns(np.stack([key.ravel() for key in keys]), label.shape)


def _number_columns(rows: Ints, shape: tuple[int, ...]) -> Ints:
    """Equal columns as one number, counted in the order in which they come."""
    _, first, inverse = np.unique(rows, axis=1, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[inverse.ravel()].reshape(shape))


def divide(plan: Plan, mark: Shaped[NDArray[Any], "rank data tensor"], *, unfold: bool = False) -> Classes:
    """Classes of all ranks; `mark` holds a number for what makes a rank special (0: nothing).

    With `unfold` every rank is a class of its own.
    """
    shape = mark.shape
    if unfold:
        label = np.arange(mark.size).reshape(shape)
    else:
        stage = np.broadcast_to(np.arange(shape[0])[:, None, None], shape)
        label = _number_columns(np.stack([stage.ravel(), mark.ravel()]), shape)
        while True:
            finer = _refine(plan, label) if np.any(mark) else label
            if finer.max() == label.max():
                break
            label = finer
    count = int(label.max()) + 1
    _, first = np.unique(label, return_index=True)
    coordinates = np.stack(np.unravel_index(first, shape), axis=1)
    return Classes(
        label=label, copies=np.bincount(label.ravel(), minlength=count), first=coordinates,
        line=label[:, coordinates[:, 1], coordinates[:, 2]].T, groups=_groups(plan, label, coordinates),
    )  # fmt: skip


def _groups(plan: Plan, label: Shaped[Ints, "rank data tensor"], coordinates: Ints) -> dict[str, Ints]:
    """Number of the group that each class is in: groups made of the same classes are one."""
    where = tuple(coordinates.T)
    out = {}
    for name, members in _axes(plan, label).items():
        if name != "line":
            out[name] = np.unique(members[where].min(axis=-1), return_inverse=True)[1]
    out["all"] = np.zeros(len(coordinates), np.int64)
    ends = label[0, coordinates[:, 1], coordinates[:, 2]]
    out["ends"] = np.unique(ends, return_inverse=True)[1]
    return out
