"""Execution traces played on a fabric: what each rank computed takes as long as it did, what it sent goes over the links.

The k-th collective of a group is one on all its ranks, and starts when the last of them has come to it. A send and the
receive with its tag are one message. A rank without a trace comes when the others of its group do, and sends when its
receiver waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from podsim.answers.timeline import Lane, Timeline
from podsim.errors import TraceError
from podsim.graphs.trace_graph import COLLECTIVES, KINDS, TraceGraph
from podsim.network.collectives import Table
from podsim.network.play_links import Fabric
from podsim.simulation.events import play
from podsim.simulation.rank_ops import RankOps

MOST_TRANSFERS = 300_000
_LANES = 1 << 20
"""lanes of a trace's streams, after those of collectives"""


class Collective(NamedTuple):
    """How a collective is run: the transfers of a table, or s that a law gives."""

    table: Table | None
    size: float
    """B. The size, as nccl-tests counts it."""
    seconds: float = 0.0


How = Callable[[str, float, tuple[int, ...]], Collective]
"""(the name of a collective, B of its input, its ranks) to how it is run"""


class SimulatedTrace(NamedTuple):
    """A rank's trace as it was played."""

    seconds: float
    """s. The end of its last op."""
    exposed: float
    """s. The time in which it communicates and computes nothing."""


class _Entry:
    """The ops of all traces."""

    def __init__(self, graphs: Sequence[TraceGraph], ranks: int, how: How) -> None:
        self.graphs, self.how, self.ops = {graph.rank: graph for graph in graphs}, how, RankOps(ranks)
        self.transfers = 0
        self.waiting: dict[tuple[object, ...], dict[int, tuple[int, int]]] = defaultdict(dict)
        self.sends: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        self.posts: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
        self.of: dict[int, list[int]] = {}
        """the op that stands for each op of a rank's trace"""
        for graph in graphs:
            self._trace(graph)
        for key, members in list(self.waiting.items()):
            self._collective(key, members)

    def _trace(self, graph: TraceGraph) -> None:
        made: list[int] = []
        calls: dict[tuple[int, ...], int] = defaultdict(int)
        for op in range(len(graph)):
            after = [made[before] for before in graph.before[graph.first[op] : graph.first[op + 1]].tolist()]
            kind, lane = KINDS[graph.kind[op]], _LANES + int(graph.stream[op])
            lane = lane if graph.stream[op] >= 0 else 2 * _LANES + op
            label, size = graph.names[graph.name[op]], float(graph.bytes[op])
            peer, key = int(graph.peer[op]), (graph.rank, int(graph.peer[op]), int(graph.tag[op]))
            if kind == "collective":
                group = graph.groups[graph.group[op]].ranks if graph.group[op] >= 0 else ()
                members = tuple(sorted(group or range(self.ops.ranks)))
                calls[members] += 1
                begun = self.ops.compute(graph.rank, 0.0, after, label, lane=lane)
                ended = self.ops.compute(graph.rank, 0.0, [begun], label, lane=lane)
                name = COLLECTIVES[graph.collective[op]] if graph.collective[op] >= 0 else "all_reduce"
                self.waiting[members, calls[members], name, size][graph.rank] = (begun, ended)
                made.append(ended)
            elif kind == "send" and 0 <= peer < self.ops.ranks and peer != graph.rank:
                self.sends[key].append(self._send(graph.rank, peer, size, after, label))
                made.append(self.sends[key][-1])
            elif kind == "recv" and 0 <= peer < self.ops.ranks and peer != graph.rank:
                begun = self.ops.compute(graph.rank, 0.0, after, label, lane=lane)
                ended = self.ops.compute(graph.rank, 0.0, [begun], label, lane=lane)
                if peer in self.graphs:
                    self.posts[peer, graph.rank, key[2]].append((begun, ended))
                else:
                    self.ops.edges.append((self._send(peer, graph.rank, size, [begun], label), ended))
                made.append(ended)
            else:
                made.append(self.ops.compute(graph.rank, float(graph.seconds[op]), after, label, lane=lane))
        self.of[graph.rank] = made

    def _send(self, source: int, destination: int, size: float, after: list[int], label: str) -> int:
        self.transfers += 1
        return self.ops.send(source, destination, size, after, label)

    def meet(self) -> None:
        """Each receive waits for its send, and the send for the receive. Raises TraceError where one is missing."""
        for key, posts in self.posts.items():
            sends = self.sends.get(key, [])
            if len(sends) < len(posts):
                source, destination, tag = key
                raise TraceError(
                    f"rank {destination} receives {len(posts)} messages with tag {tag} from rank {source}, which sends "
                    f"{len(sends)}: give the traces of one run"
                )
            for send, (begun, ended) in zip(sends, posts, strict=False):
                self.ops.edges += [(begun, send), (send, ended)]

    def _collective(self, key: tuple[object, ...], ends: dict[int, tuple[int, int]]) -> None:
        members, _, name, size = key
        assert isinstance(members, tuple)
        missing = [rank for rank in members if rank in self.graphs and rank not in ends]
        if missing:
            raise TraceError(
                f"rank {missing[0]} has no {name} of {size:,.0f} B where rank {min(ends)} of its group has: give the "
                "traces of one run"
            )
        last = self.ops.compute(min(ends), 0.0, [begun for begun, _ in ends.values()], lane=3 * _LANES)
        way = self.how(str(name), float(str(size)), members)
        if way.table is None or len(members) < 2:
            done = dict.fromkeys(
                members, self.ops.compute(min(ends), way.seconds, [last], lane=self._own_lane())
            )
        else:
            self.transfers += way.table.transfers
            if self.transfers > MOST_TRANSFERS:
                raise TraceError(
                    f"more than {MOST_TRANSFERS:,} messages; --algo nccl takes collectives as its law says"
                )
            after = {rank: ends[rank][0] if rank in ends else last for rank in members}
            done = self.ops.collective(
                way.table, way.size, members, after, str(name), channel=self._own_lane()
            )
        self.ops.edges += [(done[rank], ended) for rank, (_, ended) in ends.items()]

    def _own_lane(self) -> int:
        """A lane of its own: collectives wait for ranks and links, and not for one another."""
        return 4 * _LANES + len(self.ops.stream)


def simulate_traces(
    graphs: Sequence[TraceGraph], fabric: Fabric, ranks: int, how: How
) -> tuple[dict[int, SimulatedTrace], Timeline]:
    """What each rank took, by rank, and when its ops ran, on a fabric of `ranks` GPUs.

    Raises TraceError for traces of more ranks, of two with one number, or that do not fit each other.
    """
    numbers = [graph.rank for graph in graphs]
    named = {rank for graph in graphs for group in graph.groups for rank in group.ranks}
    if len(set(numbers)) < len(numbers):
        raise TraceError("two traces of one rank: give each rank's once, named PREFIX.RANK.et")
    if wrong := sorted(rank for rank in {*numbers, *named} if not 0 <= rank < ranks):
        raise TraceError(f"rank {wrong[-1]} of the traces: the fabric has GPUs for ranks 0 to {ranks - 1}")
    entry = _Entry(graphs, ranks, how)
    entry.meet()
    played = play(entry.ops.ops(fabric))
    spans = {rank: (played.start[ops], played.end[ops]) for rank, ops in entry.of.items() if len(ops)}
    out = {}
    for graph in graphs:
        start, end = (spans[graph.rank][k] for k in (0, 1)) if len(graph) else (np.zeros(1), np.zeros(1))
        moves = np.isin(graph.kind, [KINDS.index(kind) for kind in ("collective", "send", "recv")])
        out[graph.rank] = SimulatedTrace(
            float(end.max()), float(end.max()) - _covered_seconds(start[~moves], end[~moves])
        )
    return out, _timeline(graphs, entry, played.start, played.end)


def _covered_seconds(start: np.ndarray, end: np.ndarray) -> float:
    """Seconds in which at least one span runs."""
    covered, last = 0.0, 0.0
    for first, until in sorted(zip(start.tolist(), end.tolist(), strict=True)):
        covered += max(until - max(first, last), 0.0)
        last = max(last, until)
    return covered


def _timeline(graphs: Sequence[TraceGraph], entry: _Entry, start: np.ndarray, end: np.ndarray) -> Timeline:
    """Spans of ops that take time, a lane for each stream of each rank; a collective begins where its rank has come."""
    rows = []
    for graph in graphs:
        for op, made in enumerate(entry.of[graph.rank]):
            kind = KINDS[graph.kind[op]]
            begun = start[made - 1] if kind in ("collective", "recv") else start[made]
            if end[made] > begun:
                stream = graph.streams[graph.stream[op]] if graph.stream[op] >= 0 else kind
                rows.append(
                    (graph.rank, stream, graph.names[graph.name[op]], kind, float(begun), float(end[made]))
                )
    lanes = sorted({row[:2] for row in rows})
    names, kinds = sorted({row[2] for row in rows}), sorted({row[3] for row in rows})
    at = [{value: number for number, value in enumerate(values)} for values in (lanes, names, kinds)]
    return Timeline(
        lanes=tuple(Lane(process=f"rank {rank}", name=stream) for rank, stream in lanes), names=tuple(names),
        kinds=tuple(kinds), lane=np.array([at[0][row[:2]] for row in rows], np.int64),
        name=np.array([at[1][row[2]] for row in rows], np.int64),
        kind=np.array([at[2][row[3]] for row in rows], np.int64),
        start=np.array([row[4] for row in rows]), end=np.array([row[5] for row in rows]),
    )  # fmt: skip
