"""What played rounds of data-parallel workers say: how fast, how idle, how stale, how busy the servers were.

What an exchange hides behind compute counts as compute: only what a worker waits for is moving or waiting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from podsim.answers.exchanged import ExchangeRun
from podsim.answers.quantiles import quantile
from podsim.answers.simulated import LinkUse
from podsim.answers.timeline import Counter, Lane, Timeline
from podsim.axes import Floats, Ints, Shaped
from podsim.simulation.events import Played, play
from podsim.simulation.outcome import link_use
from podsim.simulation.workers import Exchange, Rounds, lower_all_reduce, lower_servers

KINDS = ("compute", "push", "wait", "pull", "all-reduce")
COMPUTE, PUSH, WAIT, PULL, REDUCE = range(5)


class Moments(NamedTuple):
    """When what happened in each worker's rounds, s, shape [round, worker] each."""

    begun: Floats
    computed: Floats
    written: Floats
    """s. The time at which its gradients are with the servers (all-reduce: all workers' are added up)."""
    read: Floats
    """s. The time at which it begins to pull the weights."""
    done: Floats
    """s. The time at which it has them."""


@dataclass(frozen=True, kw_only=True)
class RunInputs:
    """The inputs that the result of a run repeats."""

    name: str
    exchange: str
    members: int
    every: int
    samples: float | None
    """count. The samples of a worker's step, over all members."""
    gradients: float
    weights: float
    overlap: float = 0.0
    """share. The share of a step's compute during which its gradients may already leave."""


def simulate_all_reduce(
    compute: Shaped[Floats, "round worker"], seconds: float, settings: RunInputs
) -> ExchangeRun:
    """Rounds that end in an all-reduce of `seconds`."""
    rounds = lower_all_reduce(compute, seconds, _tail_seconds(compute, settings))
    played = play(rounds.ops)
    start, end = rounds.worker_columns(played.start), rounds.worker_columns(played.end)
    begun, computed = start[:, :, 0], end[:, :, 1]
    last = np.broadcast_to(computed.max(axis=1, keepdims=True), computed.shape)
    done = np.broadcast_to(rounds.shared_columns(played.end)[1][:, None], computed.shape)
    spans = [(COMPUTE, begun, computed), (WAIT, computed, last), (REDUCE, last, done)]
    return _run(settings, Moments(begun, computed, done, done, done), spans, compute, None, ())


def simulate_servers(
    compute: Shaped[Floats, "round worker"], exchange: Exchange, settings: RunInputs
) -> ExchangeRun:
    """Rounds over parameter servers."""
    rounds = lower_servers(compute, exchange, _tail_seconds(compute, settings))
    played = play(rounds.ops)
    moments = server_moments(rounds, played)
    spans = [
        (COMPUTE, moments.begun, moments.computed), (PUSH, moments.computed, moments.written),
        (WAIT, moments.written, moments.read), (PULL, moments.read, moments.done),
    ]  # fmt: skip
    links = _links(rounds, played, exchange, float(moments.done[-1].min()))
    return _run(settings, moments, spans, compute, exchange, links)


def _tail_seconds(compute: Shaped[Floats, "round worker"], settings: RunInputs) -> Floats:
    """Seconds of each round in which gradients may already leave: of its last step, since all steps are equal."""
    return compute * (settings.overlap / settings.every)


def server_moments(rounds: Rounds, played: Played) -> Moments:
    """When each worker computed, wrote and read, of played rounds over servers."""
    start, end = rounds.worker_columns(played.start), rounds.worker_columns(played.end)
    written = rounds.parts + 2
    return Moments(
        begun=start[:, :, 0], computed=end[:, :, 1], written=end[:, :, written],
        read=start[:, :, written + 1 :].min(axis=2), done=end[:, :, written + 1 :].max(axis=2),
    )  # fmt: skip


def staleness_of(written: Shaped[Floats, "round worker"], read: Shaped[Floats, "round worker"]) -> Ints:
    """Updates that others apply between a worker's read and its write, of every write, shape [round, worker].

    Servers apply each push when its last byte has come; pushes that end together go by the number of the worker, and a
    worker that pulls at once reads right after its own write. The first round reads what there was at the start.
    """
    rounds, workers = written.shape
    worker = np.broadcast_to(np.arange(workers), written.shape)
    order = np.lexsort((worker.ravel(), written.ravel()))
    position = np.empty(rounds * workers, np.int64)
    position[order] = np.arange(rounds * workers)
    positions = position.reshape(rounds, workers)  # [round, worker]
    seen = np.searchsorted(written.ravel()[order], read.ravel(), side="right").reshape(rounds, workers)
    version = np.where(read <= written, positions + 1, seen)  # [round, worker]
    before = np.concatenate([np.zeros((1, workers), np.int64), version[:-1]])  # [round, worker]
    return np.asarray(positions - before)


def _run(
    settings: RunInputs, moments: Moments, spans: list[tuple[int, Floats, Floats]],
    compute: Shaped[Floats, "round worker"], exchange: Exchange | None, links: tuple[LinkUse, ...],
) -> ExchangeRun:  # fmt: skip
    rounds, workers = compute.shape
    seconds = float(moments.done[-1].min())
    finished = (moments.done <= seconds).sum(axis=0)
    last = moments.done[np.maximum(finished - 1, 0), np.arange(workers)]
    window = np.where(finished > 0, last, seconds)
    rate = finished / window
    spent = np.stack([_window_seconds(begin, end, window) for _, begin, end in spans]) / window
    share = {kind: spent[position] for position, (kind, _, _) in enumerate(spans)}
    moving = np.sum([share.get(kind, np.zeros(workers)) for kind in (PUSH, PULL, REDUCE)], axis=0)
    idle = 1.0 - share[COMPUTE]
    together = exchange is None or exchange.bound == 0
    stale = staleness_of(moments.written, moments.read)[moments.written <= seconds]
    stale = np.zeros_like(stale) if together else stale
    behind = np.searchsorted(moments.written.max(axis=1), moments.read.ravel(), side="right")
    ahead = np.arange(1, rounds + 1)[:, None] - behind.reshape(rounds, workers)
    steps = settings.every * float(rate.mean())
    return ExchangeRun(
        name=settings.name, exchange=settings.exchange, bound=exchange.bound if exchange else 0, workers=workers,
        members=settings.members, servers=exchange.servers if exchange else 0, beside=bool(exchange and exchange.beside),
        every=settings.every, overlap=settings.overlap, steps=rounds * settings.every,
        gradients=settings.gradients, weights=settings.weights, compute=float(compute.mean()) / settings.every,
        seconds=seconds, steps_per_second=steps, updates_per_second=float(rate.sum()),
        samples_per_second=None if settings.samples is None else steps * workers * settings.samples,
        idle=float(idle.mean()), moving=float(moving.mean()), waiting=float(share[WAIT].mean()),
        idle_each=tuple(idle.tolist()), staleness=float(stale.mean()) if len(stale) else 0.0,
        staleness_p99=quantile(stale, 0.99) if len(stale) else 0.0,
        staleness_most=int(stale.max(initial=0)), histogram=tuple(np.bincount(stale).tolist()),
        ahead=int(ahead[moments.read <= seconds].max(initial=0)), links=links,
        timeline=_timeline(spans, seconds, () if exchange and exchange.beside else links),
    )  # fmt: skip


def _window_seconds(
    begin: Shaped[Floats, "round worker"],
    end: Shaped[Floats, "round worker"],
    window: Shaped[Floats, "worker"],
) -> Floats:
    """Seconds of spans before the end of each worker's window, [worker]."""
    return np.asarray(np.maximum(np.minimum(end, window) - begin, 0.0).sum(axis=0))


def _links(rounds: Rounds, played: Played, exchange: Exchange, seconds: float) -> tuple[LinkUse, ...]:
    """What one server received and sent; of equal servers, each.

    Beside workers, rates are means over each transfer; elsewhere they are what the link carried.
    """
    starts, ends = rounds.worker_columns(played.start), rounds.worker_columns(played.end)
    others = slice(1, None) if exchange.beside else slice(None)
    own_rates = np.broadcast_to(exchange.bandwidth, starts.shape[:2])[:, others].ravel() / exchange.servers
    uses = []
    for name, column, size in (
        ("pushes into a server", 2, exchange.gradients),
        ("pulls out of a server", rounds.parts + 3, exchange.weights),
    ):
        start = starts[:, others, column].ravel() + exchange.latency
        end = ends[:, others, column].ravel()
        inside = np.flatnonzero((start < seconds) & (end > start))
        start, end, own = start[inside], end[inside], own_rates[inside]
        stop = np.minimum(end, seconds)
        if exchange.beside:
            amount = size / exchange.servers * (stop - start) / (end - start)
            kind, capacity = (["dp"], np.zeros(len(inside), np.int64)), float(exchange.bandwidth[0])
            uses.append(link_use(name, exchange.servers, capacity, kind, amount, start, stop))
        else:
            uses.append(_shared_link(name, exchange.servers, exchange.server_bandwidth, own, start, stop))
    return tuple(uses)


def _shared_link(name: str, copies: int, capacity: float, own: Floats, start: Floats, end: Floats) -> LinkUse:
    """A link that each transfer shares with others, and is limited by nothing else but its own speed.

    Max-min shares fill it, or give each transfer its own speed: it carries the smaller of capacity and sum of speeds.
    """
    time = np.unique(np.concatenate([start, end]))
    first, last = np.searchsorted(time, start), np.searchsorted(time, end)

    def load_at(weight: Floats) -> Floats:
        change = np.bincount(first, weight, len(time)) - np.bincount(last, weight, len(time))
        return np.asarray(np.cumsum(change))

    users = np.rint(load_at(np.ones(len(start))))
    rate = np.where(users > 0, np.minimum(load_at(own), capacity), 0.0)
    wide = np.diff(time)
    carried = float((rate[:-1] * wide).sum())
    return LinkUse(
        name=name, copies=copies, capacity=capacity, bytes=carried, busy=float(wide[users[:-1] > 0].sum()),
        carried={"dp": carried}, time=time, rate=rate, rates={"dp": rate},
    )  # fmt: skip


def _timeline(
    spans: list[tuple[int, Floats, Floats]], seconds: float, links: tuple[LinkUse, ...]
) -> Timeline:
    """Each worker's rounds on its own lane, and the load of a server as counters."""
    rounds, workers = spans[0][1].shape
    begin = np.stack([begin for _, begin, _ in spans])
    end = np.minimum(np.stack([end for _, _, end in spans]), seconds)
    long = end > begin
    kind = np.broadcast_to(np.array([kind for kind, _, _ in spans])[:, None, None], begin.shape)[long]
    number = np.broadcast_to(np.arange(rounds)[:, None], begin.shape)[long]
    lane = np.broadcast_to(np.arange(workers), begin.shape)[long]
    return Timeline(
        lanes=tuple(Lane(process="workers", name=f"worker {w}") for w in range(workers)), names=KINDS, kinds=KINDS,
        lane=lane, name=kind, kind=kind, start=begin[long], end=end[long], arguments={"round": number},
        counters=tuple(
            Counter(name=use.name, process="servers", unit="B/s", time=use.time, value=use.rate) for use in links
        ),
    )  # fmt: skip
