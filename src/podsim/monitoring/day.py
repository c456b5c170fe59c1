"""A simulated day of a machine: which GPU runs which job when, how fast, and what is broken.

    Forecast   what a job of some size is predicted to do to its GPUs
    Day        segments of time of each GPU, on which nothing changes

Law: a job runs at the speed of its slowest rank. A rank slows down with its clock (the share of its arithmetic), with
its host, and with its port where traffic outlasts the backward pass, two thirds of the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from podsim.answers.prediction import Prediction
from podsim.answers.queued import QueueRun
from podsim.answers.timeline import Timeline
from podsim.axes import Floats, Ints
from podsim.fleet.operations import Span
from podsim.fleet.power import busy_share
from podsim.hardware.cluster import Cluster
from podsim.monitoring.day_faults import WORDS, Fault, Stay, fault_kinds
from podsim.network.bus import bus_factor

FACTORS = ("clock", "host", "work", "width", "link", "disk")
"""The effects of faults that are factors; the others are sums."""
_LASTING = ("xid", "remap_failure", "remap_pending")
"""The effects that stay after their fault."""


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a job of some size is predicted to do."""

    step: float
    """s. The time of a step."""
    mfu: float
    """share. The model FLOPs utilisation."""
    tensor: float
    """share. The share of the tensor cores' cycles in use."""
    busy: float
    """share. The share of the step in which the SMs compute."""
    engine: float
    """share. The share of the step in which kernels run, those of communication too."""
    dram: float
    """share. The share of the step in memory-bound kernels."""
    memory: float
    """B. The memory of a GPU in use."""
    gradients: float
    """B. The gradients of a GPU, which each step reduces."""

    @classmethod
    def of(cls, prediction: Prediction) -> Forecast:
        """The forecast of a predicted plan."""
        parts, step = prediction.parts, prediction.law_time
        return cls(
            step=prediction.step_time, mfu=prediction.mfu, tensor=prediction.hfu, busy=busy_share(parts),
            engine=1 - (parts["host"] + parts["launch"]) / step, dram=(parts["memory"] + parts["optimizer"]) / step,
            memory=prediction.memory, gradients=prediction.memory_kinds.get("gradients", 0.0),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Run(Stay):
    """A stay of a job on GPUs, and what it should do there."""

    job: str
    forecast: Forecast


@dataclass(frozen=True, kw_only=True, eq=False)
class Segments:
    """Times of GPUs in which nothing changes, in order of GPU and start; the first of a GPU starts with the day."""

    gpu: Ints
    """The GPU of each segment; the other fields have the same shape."""
    start: Floats
    end: Floats
    run: Ints
    """The position in the day's runs; -1 for an idle GPU."""
    speed: Floats
    """factor. The speed of the job, relative to its forecast."""
    effects: Mapping[str, Floats]
    """The effects of faults, by name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Day:
    """A machine for some time."""

    cluster: Cluster
    length: float
    """s. The duration of the day."""
    runs: tuple[Run, ...]
    faults: tuple[Fault, ...]
    segments: Segments
    drains: tuple[Span, ...] = ()
    """The nodes that the queue drains, in its time."""
    maintenance: tuple[Span, ...] = ()
    """The nodes in maintenance, in the queue's time."""
    queue: QueueRun
    offset: float
    """s. The start of the day, since that of the queue."""
    pace: float
    """factor. The simulated seconds for a second of the exporter's clock."""
    begin: float
    """s. The time since 1970 at which the day begins."""
    seed: int


def placed_runs(
    timeline: Timeline, cluster: Cluster, forecasts: Mapping[int, Forecast], start: float, length: float,
    away: Sequence[Span] = (),
) -> tuple[Run, ...]:  # fmt: skip
    """The runs of a queue's timeline in a window, each on its first node or on others that are free.

    The timeline gives the first node of a run only; a job of several nodes gets the emptiest ones after it. No run
    begins on nodes that are `away`.
    """
    size, job = timeline.arguments["gpus"], timeline.arguments["job"]
    inside = np.flatnonzero((timeline.end > start) & (timeline.start < start + length))
    name = [lane.name.rpartition(" ")[2] for lane in timeline.lanes]
    free = np.ones((cluster.nodes, cluster.gpus_per_node), np.bool_)
    runs: list[Run] = []
    live: list[tuple[float, Ints]] = []
    for span in inside[np.argsort(timeline.start[inside], kind="stable")].tolist():
        begin, end = float(timeline.start[span]), float(timeline.end[span])
        for _, gone in (each for each in live if each[0] <= begin):
            free.reshape(-1)[gone] = True
        live = [each for each in live if each[0] > begin]
        first = name[int(timeline.lane[span])]
        shut = [span.mask(cluster.nodes) for span in away if span.start <= begin < span.end]
        count = int(np.ceil(float(size[span])))
        gpus = _take(free, shut, count, int(first) if first.isdigit() else 0)
        live.append((end, gpus))
        if len(gpus) and end > begin:
            runs.append(
                Run(
                    job=str(int(job[span])), start=max(begin - start, 0.0), end=min(end - start, length), gpus=gpus,
                    forecast=forecasts[count], nodes=len(np.unique(gpus // cluster.gpus_per_node)),
                )
            )  # fmt: skip
    return tuple(runs)


def _take(free: NDArray[np.bool_], shut: Sequence[NDArray[np.bool_]], count: int, first: int) -> Ints:
    """The numbers of GPUs that are taken: of the first node, else of the fullest with room, else of the emptiest."""
    every, (nodes, per) = free, free.shape
    free = free & ~np.logical_or.reduce([np.zeros(nodes, np.bool_), *shut])[:, None]
    room, order = free.sum(axis=1), np.roll(np.arange(nodes), -first)
    fitting = order[room[order] >= count]
    if room[first] >= count:
        order = np.array([first])
    elif len(fitting):
        order = fitting[[room[fitting].argmin()]]
    else:
        order = order[np.argsort(-room[order], kind="stable")]
    gpus = np.sort((order[:, None] * per + np.arange(per))[free[order]][:count])
    every.reshape(-1)[gpus] = False
    return gpus


def make_segments(runs: Sequence[Run], faults: Sequence[Fault], cluster: Cluster, length: float) -> Segments:
    """The times of each GPU, cut where its job changes and where faults of a rank of the job begin and end."""
    touched: dict[int, set[float]] = {}
    for fault in faults:
        for gpu in fault.gpus(cluster).tolist():
            touched.setdefault(gpu, set()).update((fault.start, fault.end))
    pieces: list[tuple[Ints, float, float, int]] = []
    for number, run in enumerate(runs):
        cuts = {cut for gpu in run.gpus.tolist() for cut in touched.get(gpu, ()) if run.start < cut < run.end}
        pieces += [(run.gpus, a, b, number) for a, b in pairwise(sorted({run.start, run.end, *cuts}))]
    rows = [
        np.stack(np.broadcast_arrays(gpus.astype(np.float64), begin, end, number))
        for gpus, begin, end, number in pieces
    ]
    busy = np.concatenate(rows, axis=1) if rows else np.zeros((4, 0))
    busy = busy[:, np.lexsort((busy[1], busy[0]))]
    columns = np.concatenate([busy, _gaps(busy, touched, cluster.gpus, length)], axis=1)
    columns = columns[:, np.lexsort((columns[1], columns[0]))]
    gpus, numbers = columns[0].astype(np.int64), columns[3].astype(np.int64)
    effects = _effects(gpus, columns[1], columns[2], faults, cluster)
    return Segments(
        gpu=gpus, start=columns[1], end=columns[2], run=numbers, effects=effects,
        speed=_speeds(columns[1], numbers, effects, runs, cluster),
    )  # fmt: skip


def _gaps(busy: Floats, touched: Mapping[int, set[float]], gpus: int, length: float) -> Floats:
    """The idle segments of each GPU, cut at its faults."""
    rows: list[tuple[float, float, float, float]] = []
    first = np.searchsorted(busy[0], np.arange(gpus + 1))
    for gpu in range(gpus):
        starts, ends = busy[1:3, first[gpu] : first[gpu + 1]].tolist()
        for a, b in zip([0.0, *ends], [*starts, length], strict=True):
            if b > a:
                cuts = (cut for cut in touched.get(gpu, ()) if a < cut < b)
                rows += [(gpu, begin, stop, -1) for begin, stop in pairwise(sorted({a, b, *cuts}))]
    return np.array(rows).reshape(-1, 4).T


def _effects(
    gpu: Ints, start: Floats, end: Floats, faults: Sequence[Fault], cluster: Cluster
) -> dict[str, Floats]:
    """The effects of the faults on each segment."""
    kinds = fault_kinds()
    names = {name for kind in kinds.values() for name in kind if name not in WORDS}
    effects = {name: np.full(len(gpu), 1.0 if name in FACTORS else 0.0) for name in sorted(names)}
    middle = (start + end) / 2
    for fault in faults:
        mine = np.isin(gpu, fault.gpus(cluster)) & (middle > fault.start)
        for name, value in kinds[fault.kind].items():
            if name in WORDS:
                continue
            hit = mine if name in _LASTING else mine & (middle < fault.end)
            if name in FACTORS:
                effects[name][hit] *= value
            elif name in (*_LASTING, "temperature"):
                effects[name][hit] = np.maximum(effects[name][hit], value)
            else:
                effects[name][hit] += value
    return effects


def _speeds(
    start: Floats, number: Ints, effects: Mapping[str, Floats], runs: Sequence[Run], cluster: Cluster
) -> Floats:
    """The speed of the job of each segment: that of its slowest rank; 1 for idle GPUs."""
    speed, works = np.ones(len(start)), number >= 0
    if not works.any():
        return speed
    adapters = max(cluster.nics * cluster.network.bandwidth, 1e-300)
    share = np.array([run.forecast.busy for run in runs])[number[works]]
    exchange = np.array([node_bytes(run) / adapters / run.forecast.step for run in runs])[number[works]]
    clock, host, link, work = (effects[name][works] for name in ("clock", "host", "link", "work"))
    own = host / (share / clock + 1 - share)
    own = np.minimum(own, 1 / np.maximum(1 - 2 / 3 * share + exchange / link, 1.0))
    own = np.where(work > 0, own, 1.0)  # a rank without work delays nobody
    group = np.unique(np.stack([number[works], start[works]]), axis=1, return_inverse=True)[1].reshape(-1)
    slowest = np.ones(group.max() + 1)
    np.minimum.at(slowest, group, own)
    speed[works] = slowest[group]
    return speed


def node_bytes(run: Run) -> float:
    """B. The bytes that a node of the job sends to others in a step: gradients reduced in its node, then in a ring."""
    return float(bus_factor("all_reduce", run.nodes)) * run.forecast.gradients if run.nodes > 1 else 0.0
