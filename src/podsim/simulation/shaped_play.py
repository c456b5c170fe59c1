"""Ops played on shaped links, whose token buckets let a burst pass at once after a pause.

Source of the law: tc-htb(8). A link has a bucket, and one for each pair of ranks that it serves; they fill at the rate
of the link, and at an equal share of it. What is in a pair's bucket passes at once, even if the link's is empty: the link
then owes it, and lends nothing until it has gained that: its flows have their equal shares of it alone. Otherwise flows
have the max-min share of their links.
Known error: what a bucket gains while its flow is held back by another link counts from the next transfer on.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from podsim.axes import Floats, Ints
from podsim.errors import SimulationError
from podsim.simulation.ops import Ops, Transfers

_ROUNDING = 1e-12
_DEBT = 1.0
"""B that a link may owe without lending less"""


class Buckets(NamedTuple):
    """The token buckets of links."""

    bursts: Floats
    """B. The bytes that each link passes at once, as a whole and for each pair of ranks, [links]."""
    leaves: Ints
    """The number of pairs that each link has a bucket for; they fill at equal shares of its rate, [links]."""


class Processors(NamedTuple):
    """What a message costs the processors that all ranks share, s of all cores together."""

    message: float = 0.0
    byte: float = 0.0
    """s. The time for each B of a burst, which no link holds back."""


IDLE = Processors()


class _Links:
    """Flows under way, and what is in the buckets; a flow is known by its kind, since kinds run one at a time."""

    def __init__(self, transfers: Transfers, buckets: Buckets) -> None:
        pointer, links = transfers.routes
        self.pointer, self.links, self.capacity = pointer.tolist(), links, transfers.capacity
        self.burst = np.asarray(buckets.bursts, np.float64)
        self.own, self.held = self.burst.copy(), self.burst[links].copy()
        self.full = self.burst[links]
        self.fill = (self.capacity / np.maximum(buckets.leaves, 1))[links]
        self.left: dict[int, float] = {}
        self.passed: dict[int, float] = {}
        """B of the last flow of each kind that passed at once"""
        self.rate: dict[int, float] = {}

    def begin(self, kind: int, size: float) -> None:
        """A flow starts; its burst has passed."""
        row = slice(self.pointer[kind], self.pointer[kind + 1])
        at = self.links[row]
        credit = min(float(np.maximum(self.held[row], self.own[at]).min(initial=np.inf)), size)
        credit = max(credit, 0.0)
        self.held[row] = np.maximum(self.held[row] - credit, 0.0)
        self.own[at] -= credit
        self.left[kind], self.passed[kind] = size - credit, credit

    def share(self) -> None:
        """Give each flow its max-min share of the rates of its links; links in debt hold each flow to its own share."""
        room, in_debt = self.capacity.astype(float).copy(), self.own < -_DEBT
        rows = {kind: slice(self.pointer[kind], self.pointer[kind + 1]) for kind in self.left}
        most = {
            kind: float(np.where(in_debt[self.links[row]], self.fill[row], np.inf).min(initial=np.inf))
            for kind, row in rows.items()
        }
        waiting = {kind: self.links[row] for kind, row in rows.items()}
        self.rate = {}
        while waiting:
            users = np.bincount(np.concatenate(list(waiting.values())), minlength=len(room))
            shares = np.where(users > 0, room / np.maximum(users, 1), np.inf)
            wanted = {
                kind: min(float(shares[route].min(initial=np.inf)), most[kind])
                for kind, route in waiting.items()
            }
            least = min(wanted.values()) * (1 + 1e-9)
            for kind in [kind for kind, rate in wanted.items() if rate <= least]:
                self.rate[kind] = wanted[kind]
                np.subtract.at(room, waiting.pop(kind), wanted[kind])
            room = np.maximum(room, 0.0)

    def advance(self, seconds: float) -> None:
        """Time passes: flows move, buckets fill."""
        self.own += self.capacity * seconds
        self.held += self.fill * seconds
        for kind, rate in self.rate.items():
            row = slice(self.pointer[kind], self.pointer[kind + 1])
            moved = min(rate * seconds, self.left[kind])
            self.left[kind] -= moved
            np.subtract.at(self.own, self.links[row], moved)
            self.held[row] -= moved
        self.own = np.minimum(self.own, self.burst)
        self.held = np.clip(self.held, 0.0, self.full)

    def next_change(self) -> float:
        """Seconds until the first flow ends, or a link has paid its debt."""
        carried = np.zeros(len(self.capacity))
        for kind, rate in self.rate.items():
            np.add.at(carried, self.links[self.pointer[kind] : self.pointer[kind + 1]], rate)
        gain = np.where((self.own < -_DEBT) & (carried > 0.0), self.capacity - carried, 0.0)
        paid = -self.own[gain > 0.0] / gain[gain > 0.0]
        ends = [self.left[kind] / rate for kind, rate in self.rate.items()]
        return min([*ends, *paid.tolist()], default=np.inf)

    def take_ended(self) -> list[int]:
        """The flows that have just ended; they are gone then."""
        done = [
            kind for kind, left in self.left.items() if left <= self.rate.get(kind, 0.0) * _ROUNDING + 1e-6
        ]
        for kind in done:
            del self.left[kind]
        return done


class _Player:
    """What is under way: events ahead, ops that wait, flows on links."""

    def __init__(self, ops: Ops, buckets: Buckets, processors: Processors) -> None:
        n = len(ops.stream)
        self.links, self.processors, self.busy = _Links(ops.transfers, buckets), processors, 0.0
        self.start, self.end = np.full(n, np.nan), np.full(n, np.nan)
        self.stream, self.seconds = ops.stream.tolist(), ops.seconds.tolist()
        self.kind = ops.transfer.tolist() if len(ops.transfer) else [-1] * n
        self.latency = ops.transfers.latency.tolist()
        self.bytes = [
            seconds * float(ops.transfers.peak[kind]) if kind >= 0 else 0.0
            for seconds, kind in zip(self.seconds, self.kind, strict=True)
        ]
        self.after: list[list[int]] = [[] for _ in range(n)]
        for before, later in zip(ops.before.tolist(), ops.after.tolist(), strict=True):
            self.after[before].append(later)
        self.need = np.bincount(ops.after, minlength=n).tolist()
        self.queues: dict[int, list[int]] = {}
        for op in range(n - 1, -1, -1):
            self.queues.setdefault(self.stream[op], []).append(op)
        self.events: list[tuple[float, int, bool]] = []
        """s, op, and whether its bytes are yet to move"""
        self.moving: dict[int, int] = {}

    def try_start(self, op: int, now: float) -> None:
        """Start an op if its stream is free and all it waits for has ended."""
        if self.need[op] or self.queues[self.stream[op]][-1:] != [op] or not np.isnan(self.start[op]):
            return
        self.start[op], kind = now, self.kind[op]
        took = self.seconds[op] if kind < 0 else self.latency[kind]
        heapq.heappush(self.events, (now + took, op, kind >= 0))

    def finish(self, op: int, now: float) -> None:
        """End an op, and start what waited for it."""
        self.end[op] = now
        queue = self.queues[self.stream[op]]
        queue.pop()
        for later in self.after[op]:
            self.need[later] -= 1
        for later in [*self.after[op], *queue[-1:]]:
            self.try_start(later, now)

    def receive(self, op: int, now: float) -> None:
        """The last byte of a message is here; processors pass it on."""
        cost = self.processors.message + self.processors.byte * min(
            self.links.passed[self.kind[op]], self.bytes[op]
        )
        self.busy = max(self.busy, now) + cost
        heapq.heappush(self.events, (self.busy if cost else now, op, False))

    def run(self) -> None:
        """Go on until nothing is under way."""
        now, links = 0.0, self.links
        for queue in list(self.queues.values()):
            self.try_start(queue[-1], now)
        while self.events or links.left:
            links.share()
            upcoming = min(self.events[0][0] if self.events else np.inf, now + links.next_change())
            links.advance(upcoming - now)
            now = upcoming
            for kind in links.take_ended():
                self.receive(self.moving.pop(kind), now)
            while self.events and self.events[0][0] <= now + _ROUNDING:
                _, op, moves = heapq.heappop(self.events)
                if moves:
                    self.moving[self.kind[op]] = op
                    links.begin(self.kind[op], self.bytes[op])
                else:
                    self.finish(op, now)


def simulate_shaped(ops: Ops, buckets: Buckets, processors: Processors = IDLE) -> tuple[Floats, Floats]:
    """(start, end) of each op, s, [ops], played as `podsim.simulation.events.play` does, with full buckets at first.

    Processors pass on one message after the other, when its last byte has come. Raises SimulationError where ops wait for
    each other in a circle.
    """
    player = _Player(ops, buckets, processors)
    player.run()
    if late := int(np.isnan(player.end).sum()):
        raise SimulationError(f"{late} of {len(player.end)} ops never start: they wait for each other")
    return player.start, player.end
