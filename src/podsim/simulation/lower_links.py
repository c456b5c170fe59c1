"""Which links the ops of a step use: the adapters of the ranks, where a send or an exchange leaves the node.

A rank has its share of its node's adapters. What nothing else uses takes as long as its own law says; what shares an
adapter with another takes longer by the max-min law.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from podsim.simulation.classes import Classes
from podsim.simulation.drafts import Ints
from podsim.simulation.events import NO_TRANSFERS, Transfers
from podsim.simulation.pieces import Piece, Stream
from podsim.training.plan import Grid

if TYPE_CHECKING:
    from podsim.hardware.cluster import Cluster
    from podsim.training.plan import Plan

__all__ = ["Wired", "adapter", "transfers_of"]

Small: TypeAlias = NDArray[np.int32]


class Wired(NamedTuple):
    """Ops on links."""

    kind: Small
    """[N] kind of transfer of each op, -1 for none"""
    transfers: Transfers
    names: tuple[str, ...]
    """of the links"""
    stretch: NDArray[np.float64]
    """[N] (or 1) times as long as each op takes, for an adapter that is slow"""


def transfers_of(
    cluster: Cluster,
    plan: Plan,
    pieces: list[Piece],
    what: Ints,
    classes: Classes,
    base: Ints,
    left: dict[int, float],
) -> Wired:
    """What uses which link; `left`: share of its bandwidth that a rank still has.

    Each class has one link out of its node and one into it. An exchange goes at the pace of its slowest member.
    """
    if not cluster.nics or not cluster.network.bandwidth:
        return Wired(np.empty(0, np.int32), NO_TRANSFERS, (), np.ones(1))
    alone = _beside_links(cluster, pieces, what, classes, base, left)
    none = Wired(np.empty(0, np.int32), NO_TRANSFERS, (), alone)
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
        return none
    whole = adapter(cluster)
    slot = np.full(len(pieces), -1)
    slot[wide] = np.arange(len(wide))
    seconds = np.array([pieces[i].seconds for i in wide])
    bytes_ = np.array([pieces[i].bytes for i in wide])
    share_C = _shares(classes, left)
    worst_C = np.ones(classes.count)
    np.minimum.at(worst_C, classes.groups["dp"], share_C)
    shared = np.array([pieces[i].stream == Stream.DATA for i in wide])
    peak_CW = np.broadcast_to(np.minimum(bytes_ / seconds, whole), (classes.count, len(wide)))
    pace_CW = np.where(
        shared, np.maximum(peak_CW / (whole * worst_C[classes.groups["dp"]][:, None]), 1.0), 1.0
    )
    peak_CW = peak_CW / pace_CW
    capacity = np.repeat(whole * share_C, 2)
    out_CW = np.broadcast_to(2 * np.arange(classes.count)[:, None], peak_CW.shape)
    into_CW = _partners(pieces, wide, classes)
    links = np.stack([out_CW, 2 * into_CW + 1], axis=-1).reshape(-1).astype(np.int64)
    peak = np.maximum(peak_CW, 1.0)
    transfers = Transfers(
        peak=peak.ravel().copy(), latency=np.zeros(peak.size),
        routes=(2 * np.arange(peak.size + 1, dtype=np.int64), links), use=np.ones(2 * peak.size), capacity=capacity,
    )  # fmt: skip
    owner = np.repeat(np.arange(classes.count), np.diff(base))
    kind = slot[what]
    kind = np.where(kind >= 0, owner * len(wide) + kind, -1).astype(np.int32)
    names = tuple(f"{way} of class {c}" for c in range(classes.count) for way in ("out", "in"))
    stretch = np.where(kind >= 0, pace_CW.ravel()[kind], alone) if left else np.ones(1)
    return Wired(kind, transfers, names, stretch)


def adapter(cluster: Cluster) -> float:
    """B/s of a rank's share of its node's adapters."""
    return cluster.network.bandwidth * min(1.0, cluster.nics / cluster.gpus_per_node)


def _shares(classes: Classes, left: dict[int, float]) -> NDArray[np.float64]:
    """Share of its adapter that each class still has."""
    share_C = np.ones(classes.count)
    for rank, share in left.items():
        share_C[classes.label_RXT.ravel()[rank]] = share
    return share_C


def _beside_links(
    cluster: Cluster, pieces: list[Piece], what: Ints, classes: Classes, base: Ints, left: dict[int, float]
) -> NDArray[np.float64]:
    """[N] (or 1) times as long as collectives of tensor, context and expert groups take where a member's adapter is slow.

    They take what their law says whatever else is on the adapters, which it sees as their own.
    """
    sent = [i for i, p in enumerate(pieces) if p.stream == Stream.GROUP and p.bytes > 0.0]
    if not left or not sent:
        return np.ones(1)
    share_C, owner = _shares(classes, left), np.repeat(np.arange(classes.count), np.diff(base))
    pace_CP = np.ones((classes.count, len(pieces)))
    for i in sent:
        number = classes.groups[pieces[i].kind.removesuffix(" beside")]
        worst_G = np.ones(int(number.max()) + 1)
        np.minimum.at(worst_G, number, share_C)
        speed = pieces[i].bytes / pieces[i].seconds
        pace_CP[:, i] = np.maximum(speed / (adapter(cluster) * worst_G[number]), 1.0)
    return np.asarray(pace_CP[owner, what])


def _partners(pieces: list[Piece], wide: list[int], classes: Classes) -> Ints:
    """The class at whose adapter each class's transfers arrive, [classes, kinds]."""
    stage = classes.first[:, 0]
    last = classes.line_CR.shape[1] - 1
    own = np.arange(classes.count)
    ahead = classes.line_CR[own, np.minimum(stage + 1, last)]
    back = classes.line_CR[own, np.maximum(stage - 1, 0)]
    to = {Stream.AHEAD: ahead, Stream.BACK: back, Stream.DATA: own}
    return np.stack([to[pieces[i].stream] for i in wide], axis=1)
