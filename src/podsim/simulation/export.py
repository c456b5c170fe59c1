"""A lowered step as execution traces, one for each rank (or class of equal ranks): for Chakra, and so for ASTRA-sim."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Ints
from podsim.graphs.trace_graph import COLLECTIVES, KINDS, CommGroup, TraceGraph
from podsim.hardware.cluster import Cluster
from podsim.simulation.events import Played
from podsim.simulation.lower import Lowered
from podsim.simulation.lower_links import rank_number
from podsim.simulation.pieces import Piece, Stream
from podsim.simulation.tiling import STREAMS, group_of
from podsim.training.expert_exchange import ep_bytes
from podsim.training.layers import cp_bytes, tp_bytes
from podsim.training.plan import Plan

_STREAMS = tuple(stream.name.lower() for stream in Stream)
_OF_NAME = {
    "gradients": "reduce_scatter", "layer gradients": "reduce_scatter", "gradients reduced": "reduce_scatter",
    "weights": "all_gather", "layer weights": "all_gather", "embedding gradients": "all_reduce",
}  # fmt: skip
_OF_KIND = {"tp": "all_reduce", "tp beside": "all_reduce", "cp": "all_gather", "ep": "all_to_all"}


MOST = 1 << 31
"""tags stay below it"""


class _Fact(NamedTuple):
    """What a trace says of a piece."""

    kind: str
    collective: str = ""
    bytes: float = 0.0
    group: str = ""


class _Sends(NamedTuple):
    """Messages between classes: op that sends, op that waits for it, and their classes."""

    op: Ints
    waiter: Ints
    source: Ints
    target: Ints


def trace_graphs(lowered: Lowered, played: Played, plan: Plan, cluster: Cluster) -> list[TraceGraph]:
    """One trace for each class of ranks, under the number of its first rank, in the order of classes.

    Every send has a receive on the other side, with one tag. Sequence parallelism's all-gather and reduce-scatter
    stand as the all-reduce that they add up to. Durations and starts are those of the play.
    """
    first = lowered.classes.first
    ranks = rank_number(plan, first[:, 0], first[:, 1], first[:, 2])
    before, after = lowered.ops.before.astype(np.int64), lowered.ops.after.astype(np.int64)
    owner = np.searchsorted(lowered.base, np.stack([before, after]), side="right") - 1
    apart = owner[0] != owner[1]
    sends = _Sends(before[apart], after[apart], owner[0][apart], owner[1][apart])
    inside = before[~apart], after[~apart]
    facts = [_facts(lowered, plan, cluster, piece) for piece in lowered.pieces]
    return [
        _trace(lowered, played, plan, c, ranks, sends, inside, facts) for c in range(lowered.classes.count)
    ]


def _trace(
    lowered: Lowered,
    played: Played,
    plan: Plan,
    c: int,
    ranks: Ints,
    sends: _Sends,
    inside: tuple[Ints, Ints],
    facts: list[_Fact],
) -> TraceGraph:
    low, high = int(lowered.base[c]), int(lowered.base[c + 1])
    what, n = lowered.what[low:high], high - low
    received = np.flatnonzero(sends.target == c)
    mine = (inside[0] >= low) & (inside[0] < high)
    stream = (lowered.ops.stream[low:high] % STREAMS).astype(np.int64)
    chain = _stream_order(stream)
    edges = np.concatenate([
        np.stack([inside[0][mine] - low, inside[1][mine] - low]), chain,
        np.stack([n + np.arange(len(received)), sends.waiter[received] - low]),
    ], axis=1)  # fmt: skip
    edges = edges[:, np.lexsort((edges[0], edges[1]))]
    peer, tag = np.full(n, -1), np.zeros(n, np.int64)
    sent = np.flatnonzero(sends.source == c)
    peer[sends.op[sent] - low], tag[sends.op[sent] - low] = (
        ranks[sends.target[sent]],
        sends.op[sent] % MOST,
    )
    names = (*(piece.name for piece in lowered.pieces), "receive")
    groups = _groups(plan, lowered, c)
    group_names = [group.name for group in groups]
    more, total = len(received), n + len(received)

    def column(values: NDArray[Any], rest: Any) -> Any:
        return np.concatenate([values, np.broadcast_to(rest, more)])

    kind = np.array([KINDS.index(fact.kind) for fact in facts])
    size = np.array([fact.bytes for fact in facts])
    collective = np.array([COLLECTIVES.index(fact.collective) if fact.collective else -1 for fact in facts])
    group = np.array([group_names.index(fact.group) if fact.group in group_names else -1 for fact in facts])
    came = sends.op[received]
    return TraceGraph(
        rank=int(ranks[c]), names=names, streams=(*_STREAMS, "receive"), groups=groups,
        name=column(what, len(names) - 1), kind=column(kind[what], KINDS.index("recv")),
        stream=column(stream, len(_STREAMS)), seconds=column(played.end[low:high] - played.start[low:high], 0.0),
        start=column(played.start[low:high], played.end[came]), flops=np.zeros(total),
        bytes=column(size[what], size[lowered.what[came]]), collective=column(collective[what], -1),
        group=column(group[what], -1), peer=column(peer, ranks[sends.source[received]]), tag=column(tag, came % MOST),
        first=np.searchsorted(edges[1], np.arange(total + 1)).astype(np.int64), before=edges[0],
    )  # fmt: skip


def _stream_order(stream: Ints) -> Ints:
    """Edges from each op to the next one of its stream, [2, edges]."""
    order = np.argsort(stream, kind="stable")
    same = stream[order][1:] == stream[order][:-1]
    return np.stack([order[:-1][same], order[1:][same]])


def _facts(lowered: Lowered, plan: Plan, cluster: Cluster, piece: Piece) -> _Fact:
    model, wide, software = lowered.ready.model, lowered.ready.plan.wide(), lowered.ready.software
    if piece.kind == "send":
        return _Fact("send", bytes=piece.message)
    if piece.name == "gradient norm":
        return _Fact("collective", "barrier", 0.0, "all")
    if piece.stream not in (Stream.GROUP, Stream.DATA):
        return _Fact("compute")
    if piece.kind == "dp":
        collective = (
            "all_reduce" if "gradients" in piece.name and not int(plan.zero) else _OF_NAME[piece.name]
        )
        return _Fact("collective", collective, piece.message, group_of(piece) or "dp")
    if piece.kind == "cp":
        size = max(float(cp_bytes(model, block, wide)[0]) for block in model.layers)
    elif piece.kind == "ep":
        size = max(float(ep_bytes(model, block, cluster, wide, software)[0]) for block in model.layers)
    else:
        size = float(tp_bytes(model, wide)[0])
    return _Fact("collective", _OF_KIND[piece.kind], size, group_of(piece))


def _groups(plan: Plan, lowered: Lowered, c: int) -> tuple[CommGroup, ...]:
    """The groups of a class's first rank, as ranks of the job."""
    pipeline, data, tensor = lowered.classes.first[c].tolist()
    every, cp, ep = int(plan.dp) * int(plan.cp), int(plan.cp), max(int(plan.ep), 1)
    tp, stride = int(plan.tp), int(plan.expert_ranks)
    rank = data * tp + tensor
    first = rank // (ep * stride) * (ep * stride) + rank % stride
    places = {
        "tp": [(pipeline, data, t) for t in range(tp)],
        "cp": [(pipeline, data // cp * cp + x, tensor) for x in range(cp)],
        "ep": [(pipeline, *divmod(first + x * stride, tp)) for x in range(ep)],
        "dp": [(pipeline, x, tensor) for x in range(every)],
        "ends": [(0, data, tensor), (int(plan.pp) - 1, data, tensor)],
    }
    members = {
        name: tuple(int(rank_number(plan, *coordinates)) for coordinates in ones)
        for name, ones in places.items()
    }
    members["all"] = tuple(range(int(plan.gpus)))
    return tuple(CommGroup(name=name, ranks=ranks) for name, ranks in members.items() if len(set(ranks)) > 1)
