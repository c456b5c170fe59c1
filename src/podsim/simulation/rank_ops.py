"""What ranks do and send as ops: compute on each rank, messages between two ranks, collectives by their tables.

A message moves when its sender has the data and its receiver waits for it; messages from one rank to another follow
each other in the order in which they were entered. A collective is what the programs of its table do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from podsim.network.collectives.program import BARRIER, RECEIVE, RECEIVED, SEND, Do, Program, programs
from podsim.network.collectives.table import Table
from podsim.network.play_links import Fabric
from podsim.simulation.ops import Ops, Transfers

ELEMENT = 4
"""B of a number that ranks add up"""
_FULL = 1e30
"""B/s of a transfer that only its links hold back"""


class RankOps:
    """Ops of some ranks, entered in the order in which each rank runs them."""

    def __init__(self, ranks: int) -> None:
        """Nothing yet."""
        self.ranks = ranks
        self.stream: list[int] = []
        self.seconds: list[float] = []
        self.kind: list[int] = []
        self.edges: list[tuple[int, int]] = []
        self.label: list[str] = []
        self._kinds: dict[tuple[int, int], int] = {}
        self._lanes: dict[tuple[int, ...], int] = {}

    def compute(
        self, rank: int, seconds: float, after: Sequence[int] = (), label: str = "compute", lane: int = 0
    ) -> int:
        """The number of an op that a rank runs by itself; ops of one lane of a rank run one after the other."""
        return self._add((rank, lane), seconds, -1, after, label)

    def send(
        self, source: int, destination: int, size: float, after: Sequence[int] = (), label: str = "send",
        channel: int = 0,
    ) -> int:  # fmt: skip
        """The number of the transfer of `size` B from one rank to another; those of one channel follow each other."""
        kind = self._kinds.setdefault((source, destination), len(self._kinds))
        return self._add((-1, source, destination, channel), size / _FULL, kind, after, label)

    def collective(
        self,
        table: Table,
        size: float,
        members: Sequence[int],
        after: Mapping[int, int],
        label: str,
        add: float = 0.0, channel: int = 0,
    ) -> dict[int, int]:  # fmt: skip
        """The op at which each member has the result of a collective of `size` B, run as its programs say.

        after: the op of each member that comes before it. add: s of a rank for each B that it adds. Collectives of
        one channel follow each other.
        """
        runs = programs(table, max(round(size / ELEMENT), 1))
        last = {
            run.node: self.compute(
                members[run.node], 0.0, [after[members[run.node]]], label, lane=1 + channel
            )
            for run in runs
        }
        posted, sent = dict[tuple[int, int, int], int](), dict[tuple[int, int, int], int]()
        orders = {run.node: list(reversed(run.order)) for run in runs}
        while any(orders.values()):
            for run in runs:
                self._follow(run, members, orders[run.node], last, posted, sent, (label, add, channel))
        return {members[node]: op for node, op in last.items()}

    def _follow(
        self, run: Program, members: Sequence[int], order: list[Do], last: dict[int, int],
        posted: dict[tuple[int, int, int], int], sent: dict[tuple[int, int, int], int],
        how: tuple[str, float, int],
    ) -> None:  # fmt: skip
        """Enter what a node does until it waits for a message that nobody has sent so far."""
        label, add, channel = how
        while order:
            what, k = order[-1]
            move = run.transfers[k]
            ends = (run.node, move.peer) if move.sends else (move.peer, run.node)
            key = (*ends, move.tag)
            if what == RECEIVE:
                posted[key] = last[run.node]
                if key in sent:
                    self.edges.append((posted[key], sent[key]))
            elif what == SEND:
                part = float(move.last - move.first) * ELEMENT
                before = [last[run.node], *([posted[key]] if key in posted else [])]
                sent[key] = self.send(members[run.node], members[move.peer], part, before, label, channel)
            elif what != BARRIER:
                if key not in sent:
                    return
                adds = (move.last - move.first) * ELEMENT * add if what == RECEIVED and move.reduce else 0.0
                last[run.node] = self.compute(members[run.node], adds, [sent[key]], label, lane=1 + channel)
            order.pop()

    def ops(self, fabric: Fabric, latency: float = 0.0) -> Ops:
        """All ops, with transfers over the links of a fabric; latency: s of a message beyond that of its links."""
        ends = np.array(list(self._kinds), np.int64).reshape(-1, 2)
        pointer, links = fabric.routes(ends[:, 0], ends[:, 1])
        hops = np.repeat(np.arange(len(ends)), np.diff(pointer))
        delay = np.asarray(latency + np.bincount(hops, fabric.latency[links], len(ends)), np.float64)
        edges = np.array(self.edges, np.int32).reshape(-1, 2)
        return Ops(
            stream=np.array(self.stream, np.int32), seconds=np.array(self.seconds), before=edges[:, 0].copy(),
            after=edges[:, 1].copy(), transfer=np.array(self.kind, np.int32),
            transfers=Transfers(
                peak=np.full(len(ends), _FULL),
                latency=delay, routes=(pointer, links),
                use=np.ones(len(links)), capacity=fabric.capacity,
            ),
        )  # fmt: skip

    def _add(self, lane: tuple[int, ...], seconds: float, kind: int, after: Sequence[int], label: str) -> int:
        number = len(self.stream)
        self.stream.append(self._lanes.setdefault(lane, len(self._lanes)))
        self.seconds.append(seconds)
        self.kind.append(kind)
        self.edges += [(op, number) for op in dict.fromkeys(after)]
        self.label.append(label)
        return number
