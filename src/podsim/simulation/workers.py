"""Rounds of data-parallel workers as ops: compute, push, wait, pull; by all-reduce or over parameter servers.

Each worker goes round: compute, push the gradients to the servers, wait for whom it must, pull the weights. What it must
wait for is known beforehand: under a bound of s rounds it goes on after round r when all workers have written round
r - s (Ho et al. 2013), so that s = 0 is a barrier after every round and no bound no wait at all. Nothing is decided
while the ops are played, and the event kernel needs to know nothing of workers.

Pushes and pulls are transfers: over the worker's adapter, and one S-th of their bytes over that of each of S servers.
Equal servers see the same at the same time, so one of them is played for all; servers beside workers share their
adapters, and are played one by one.

The compute of a round is two ops: gradients may leave while the second, the tail, still runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints, Shaped
from podsim.errors import SimulationError
from podsim.simulation.ops import Ops, Transfers

MOST_OPS = 5_000_000
MOST_SHARES = 1_000_000_000
"""transfers, times the workers whose shares each may change: a minute or two"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Exchange:
    """How workers exchange what they learned, over servers."""

    gradients: float
    """B. The gradients that a worker pushes in a round."""
    weights: float
    """B. The weights that it pulls."""
    bandwidth: Floats
    """B/s. The bandwidth of each worker's adapters, in one direction, [worker]."""
    latency: float
    """s. The latency of a push or pull before its first byte."""
    servers: int
    server_bandwidth: float
    """B/s. The bandwidth of one server's adapters, in one direction; unused if they are on the workers' machines."""
    bound: int | None
    """The number of rounds that the fastest worker may be ahead of the slowest; None: any."""
    beside: bool = False
    """Whether server i shares the adapters of worker i."""
    unfold: bool = False
    """Whether each server is played, although all are equal."""

    @property
    def played(self) -> int:
        """Servers that are played."""
        return self.servers if self.beside or self.unfold else 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Rounds:
    """Ops of all rounds, and where to find them."""

    ops: Ops
    rounds: int
    workers: int
    parts: int
    """The number of servers that are played; 0 for an all-reduce."""

    def worker_columns(self, column: Floats) -> Floats:
        """A column of the ops as [round, worker, op], without those that belong to no worker."""
        kinds = 3 + 2 * self.parts if self.parts else 2
        count = self.rounds * self.workers * kinds
        return column[:count].reshape(self.rounds, self.workers, kinds)

    def shared_columns(self, column: Floats) -> Floats:
        """A column of the ops of all workers together, (., R): an all-reduce and the end of its round, or a clock."""
        kinds = 3 + 2 * self.parts if self.parts else 2
        return column[self.rounds * self.workers * kinds :].reshape(-1, self.rounds)


def _check_size(count: int) -> None:
    if count > MOST_OPS:
        raise SimulationError(
            f"{count:,} ops to play, more than {MOST_OPS:,}: fewer steps, workers or servers beside them"
        )


def _as_small(array: Ints) -> NDArray[np.int32]:
    return np.ascontiguousarray(array.ravel(), np.int32)


def _edges(pairs: list[tuple[Ints, Ints]]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Edges of all pairs of arrays, each broadcast against the other."""
    wide = [np.broadcast_arrays(before, after) for before, after in pairs]
    return (
        np.concatenate([_as_small(before) for before, _ in wide]),
        np.concatenate([_as_small(after) for _, after in wide]),
    )


def lower_all_reduce(
    compute: Shaped[Floats, "round worker"],
    seconds: float,
    tail: Shaped[Floats, "round worker"] | None = None,
) -> Rounds:
    """Rounds in which all workers add up their gradients in `seconds`, when the last of them has come to its tail.

    `tail` is the part of each compute that the exchange runs beside; default none. A round ends when the exchange and
    all tails have, as the last gradients are those of the slowest worker.
    """
    rounds, workers = compute.shape
    _check_size(rounds * (2 * workers + 2))
    op = np.arange(rounds * workers * 2).reshape(rounds, workers, 2)  # [round, worker, op]
    reduce = op.size + np.arange(rounds)[:, None]
    end = reduce + rounds
    before, after = _edges(
        [
            (op[:, :, 0], reduce),
            (op[:, :, 1], end),
            (reduce, end),
            (end[:-1], op[1:, :, 0]),
        ]
    )
    stream = np.broadcast_to(np.arange(workers)[:, None], op.shape)  # [round, worker, op]
    ops = Ops(
        stream=_as_small(np.concatenate([stream.ravel(), np.repeat([workers, workers + 1], rounds)])),
        seconds=np.concatenate([_halves_seconds(compute, tail).ravel(), np.repeat([seconds, 0.0], rounds)]),
        before=before, after=after,
    )  # fmt: skip
    return Rounds(ops=ops, rounds=rounds, workers=workers, parts=0)


def _halves_seconds(
    compute: Shaped[Floats, "round worker"], tail: Shaped[Floats, "round worker"] | None
) -> Floats:
    """Seconds of head and tail of each compute, shape [round, worker, 2]."""
    tail = np.zeros_like(compute) if tail is None else tail
    return np.stack([compute - tail, tail], axis=2)


def lower_servers(
    compute: Shaped[Floats, "round worker"],
    exchange: Exchange,
    tails: Shaped[Floats, "round worker"] | None = None,
) -> Rounds:
    """Rounds in which workers push to servers and pull from them, within the exchange's bound.

    `tails` is the part of each compute that a push may run beside; default none.
    """
    rounds, workers = compute.shape
    parts = exchange.played
    kinds = 3 + 2 * parts
    _check_size(rounds * (workers * kinds + 1))
    if 2 * rounds * workers * parts * workers > MOST_SHARES:
        raise SimulationError(
            f"{2 * rounds * workers * parts:,} transfers of {workers:,} workers that share links: too many to play; fewer"
            " steps, workers or servers beside them"
        )
    op = np.arange(rounds * workers * kinds).reshape(rounds, workers, kinds)  # [round, worker, op]
    clock = op.size + np.arange(rounds)[:, None]
    head, tail, push, pull = (op[:, :, cut] for cut in _cuts(parts))
    written = op[:, :, parts + 2 : parts + 3]
    pairs = [
        (head, push), (push, written), (tail, written), (written, pull), (pull[:-1], head[1:]),
        (written[:, :, 0], clock),
    ]  # fmt: skip
    if exchange.bound is not None and exchange.bound < rounds:
        behind = rounds - exchange.bound
        pairs.append((clock[:behind, :, None], pull[exchange.bound :]))
    before, after = _edges(pairs)
    lane = np.concatenate([[parts, parts], np.arange(parts), [0], np.arange(parts)])
    stream = np.broadcast_to(np.arange(workers)[:, None] * (parts + 1) + lane, op.shape)
    work, kind = _moves(exchange, workers)
    seconds = np.broadcast_to(work, op.shape).copy()  # [round, worker, op]
    seconds[:, :, :2] = _halves_seconds(compute, tails)
    transfer_kinds = np.broadcast_to(kind, op.shape)  # [round, worker, op]
    ops = Ops(
        stream=_as_small(np.concatenate([stream.ravel(), np.full(rounds, workers * (parts + 1))])),
        seconds=np.concatenate([seconds.ravel(), np.zeros(rounds)]), before=before, after=after,
        transfer=_as_small(np.concatenate([transfer_kinds.ravel(), np.full(rounds, -1)])),
        transfers=_transfers(exchange, workers),
    )  # fmt: skip
    return Rounds(ops=ops, rounds=rounds, workers=workers, parts=parts)


def _cuts(parts: int) -> tuple[slice, slice, slice, slice]:
    """Places of head, tail, pushes and pulls in a worker's round."""
    return slice(0, 1), slice(1, 2), slice(2, parts + 2), slice(parts + 3, None)


def _moves(exchange: Exchange, workers: int) -> tuple[Floats, Ints]:
    """(seconds at full speed of each op of a worker's round, its kind of transfer), shape [worker, op].

    What a worker has to say to the server beside it takes no time.
    """
    parts = exchange.played
    number = np.arange(workers * parts).reshape(workers, parts)  # [worker, server]
    here = (np.arange(workers)[:, None] == np.arange(parts)) & exchange.beside  # [worker, server]
    none, compute = np.full((workers, 1), -1), np.full((workers, 2), -1)
    push = np.where(here, -1, number)  # [worker, server]
    pull = np.where(here, -1, number + workers * parts)  # [worker, server]
    kind = np.concatenate([compute, push, none, pull], axis=1)  # [worker, op]
    share = np.where(here, 0.0, 1.0 / parts) / exchange.bandwidth[:, None]  # [worker, server]
    zero = np.zeros((workers, 1))
    pushed, pulled = exchange.gradients * share, exchange.weights * share
    work = np.concatenate([zero, zero, pushed, zero, pulled], axis=1)  # [worker, op]
    return work, kind


def _transfers(exchange: Exchange, workers: int) -> Transfers:
    """Every push, then every pull: [worker, server] of each. Links: workers out, workers in, servers in, servers out."""
    parts = exchange.played
    worker, part = np.arange(workers)[:, None], np.arange(parts)
    into, out = (
        (workers + part, part) if exchange.beside else (2 * workers + part, 2 * workers + parts + part)
    )
    push = np.stack(np.broadcast_arrays(worker, into), axis=-1)
    pull = np.stack(np.broadcast_arrays(workers + worker, out), axis=-1)
    links = np.concatenate([push.reshape(-1, 2), pull.reshape(-1, 2)])
    own = np.concatenate([exchange.bandwidth, exchange.bandwidth])
    servers = np.full(0 if exchange.beside else 2 * parts, exchange.server_bandwidth)
    return Transfers(
        peak=np.tile(np.repeat(exchange.bandwidth, parts), 2),
        latency=np.full(len(links), exchange.latency),
        routes=(np.arange(0, links.size + 1, 2), np.ascontiguousarray(links.ravel(), np.int64)),
        use=np.tile([1.0, parts / exchange.servers], len(links)),
        capacity=np.concatenate([own, servers]),
    )  # fmt: skip
