"""A run whose replicas exchanged through a parameter server, or weights after some steps, against its prediction.

A server's exchange is played as `podsim workers` plays it: replicas take the predicted step without its all-reduce, slow
ones longer, over the links of the machine. Compared are the median step of the slowest replica, and the mean staleness
of gradients. Weights that are exchanged after H steps cost an all-reduce in each round; compared is the mean step of a
round, as a median over rounds.
Known error: a server's own work is counted in the replicas' steps, so replicas that meet at it wait longer than that.
"""

from __future__ import annotations

from statistics import fmean, median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.acceptance.shaped_links import emulated_buckets, emulated_fabric
from podsim.answers.prediction import Prediction
from podsim.answers.trained import WARM, MeasuredTraining
from podsim.errors import LabError
from podsim.hardware.cluster import Cluster
from podsim.network.collectives.rings import ring_all_reduce
from podsim.simulation.events import play
from podsim.simulation.rank_ops import RankOps
from podsim.simulation.shaped_play import simulate_shaped
from podsim.simulation.workers import Exchange, lower_servers
from podsim.simulation.workers_outcome import server_moments, staleness_of
from podsim.simulation.workers_times import Pace, step_seconds
from podsim.training.job_inputs import split_overrides
from podsim.workload.catalog import load_specification
from podsim.workload.model import Model
from podsim.workload.specification import resolve
from podsim.workload.transformer import build

_ELEMENT = 4.0
"""B. The size of a number that replicas send: the lab trains in fp32."""


class ExchangeTimes(NamedTuple):
    """A step of a run, measured and predicted, and the staleness of its gradients."""

    measured: float
    predicted: float
    late_measured: float | None
    late_predicted: float | None


class _Way(NamedTuple):
    """How replicas reach each other and their server."""

    compute: float
    """s. The time of a step of a replica by itself."""
    reduce: float
    """s. The time of an all-reduce of all gradients."""
    bandwidth: NDArray[np.float64]
    """B/s. The bandwidth of each replica, in one direction, [replicas]."""
    server_bandwidth: float
    latency: float


def exchange_times(
    run: MeasuredTraining, model: Model, cluster: Cluster, prediction: Prediction
) -> ExchangeTimes:
    """The step and the staleness of a run that is not in step by all-reduces."""
    compute, reduce = prediction.step_time - prediction.parts["dp"], prediction.parts["dp"]
    link = cluster.network if cluster.nodes > 1 else cluster.nvlink
    bandwidth = cluster.node_bandwidth / cluster.gpus_per_node if cluster.nodes > 1 else link.bandwidth
    if run.local_steps == 1 and not bandwidth > 0:
        raise LabError(
            f"{cluster.name} says no bandwidth between its ranks; give one with --set nvlink.bandwidth=10GB/s"
        )
    ends = np.full(int(run.plan["dp"]), bandwidth)
    return _times(run, model.parameters, _Way(compute, reduce, ends, bandwidth, link.latency))


def emulated_exchange(run: MeasuredTraining) -> ExchangeTimes:
    """The same on the links that a run was given; its last rank was the server. Compute is measured."""
    made, replicas = run.emulated, int(run.plan["dp"])
    assert made is not None
    parameters = build(resolve(load_specification(run.model, split_overrides(run.changes)[0]))).parameters
    compute = sum(run.processor.values()) * max(replicas / run.cores, 1.0)
    own = np.arange(replicas) // made.local == replicas // made.local
    links = emulated_fabric(made, run.message)
    inside, between = float(links.capacity[0]), float(links.capacity[-1])
    reduce = 0.0
    if run.local_steps > 1:
        table = ring_all_reduce(replicas)
        entered = RankOps(made.ranks)
        start = {rank: entered.compute(rank, 0.0) for rank in range(replicas)}
        entered.collective(table, parameters * _ELEMENT, range(replicas), start, table.name)
        reduce = float(simulate_shaped(entered.ops(links), emulated_buckets(made))[1].max())
        own = np.ones(replicas, bool)
    server = inside if own.all() else between + inside * bool(own.any())
    return _times(run, parameters, _Way(compute, reduce, np.where(own, inside, between), server, run.message))


def _times(run: MeasuredTraining, parameters: float, way: _Way) -> ExchangeTimes:
    if run.local_steps > 1:
        rows = [row.seconds for row in run.rows]
        slowest = max(run.slow.values(), default=1.0)
        predicted = way.compute * slowest + way.reduce / run.local_steps
        rounds = [
            fmean(rows[first : first + run.local_steps]) for first in range(0, len(rows), run.local_steps)
        ]
        return ExchangeTimes(median(rounds[1:] or rounds), predicted, None, None)
    size, replicas = parameters * _ELEMENT, int(run.plan["dp"])
    bound = {"ps": 0, "ssp": run.staleness, "async": None}[run.exchange]
    played = lower_servers(
        step_seconds(
            Pace(compute=way.compute, slow={int(replica): factor for replica, factor in run.slow.items()}),
            len(run.rows), replicas, np.random.default_rng(0),
        ),
        Exchange(
            gradients=size, weights=size, bandwidth=way.bandwidth, latency=way.latency, servers=1,
            server_bandwidth=way.server_bandwidth, bound=bound,
        ),
        np.zeros((len(run.rows), replicas)),
    )  # fmt: skip
    moments = server_moments(played, play(played.ops))
    slowest_steps = (moments.done - moments.begun).max(axis=1)[WARM:]
    late = 0.0 if bound == 0 else float(staleness_of(moments.written, moments.read).mean())
    count = sum(run.late.values())
    return ExchangeTimes(
        run.step_time, float(np.median(slowest_steps)),
        sum(int(key) * number for key, number in run.late.items()) / count if count else None, late,
    )  # fmt: skip
