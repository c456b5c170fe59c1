"""High-Performance Linpack and its efficiency, from the parts of a cluster.

    seconds = 2 N^3 / (3 P Q multiply) + 8 N^2 (3 P + Q) / (2 P Q bandwidth)

on the most square grid of P x Q GPUs, with N that fills the memory. Source: netlib.org/benchmark/hpl, scalability.
Power: GPUs draw their limit while they multiply. Known error: docs/power.md. Limits: nothing overlaps here, as it does
in part in good implementations; latency and the panel factorisation are left out.
"""

from __future__ import annotations

from math import isqrt

from podsim.answers.expense import Benchmark
from podsim.fleet.power import capped_speed, cluster_power
from podsim.fleet.power_catalog import figures
from podsim.hardware.cluster import Cluster


def grid(gpus: int) -> tuple[int, int]:
    """(P, Q): the most square grid of these GPUs, P <= Q."""
    rows = next(p for p in range(isqrt(gpus), 0, -1) if gpus % p == 0)
    return rows, gpus // rows


def hpl(cluster: Cluster, *, cap: float | None = None) -> Benchmark | None:
    """The rate and power of the benchmark on all GPUs; None for GPUs without a double-precision peak."""
    gpu = cluster.gpu
    peak = gpu.peaks.get("fp64_tensor") or gpu.peaks.get("fp64")
    if not peak:
        return None
    shares = figures().hpl
    p, q = grid(cluster.gpus)
    size = int((shares.memory * cluster.gpus * gpu.memory / 8) ** 0.5)
    bandwidth = (
        cluster.node_bandwidth / cluster.gpus_per_node if cluster.nodes > 1 else cluster.nvlink.bandwidth
    )
    multiply = 2 * size**3 / (3 * p * q * peak * shares.multiply * capped_speed(cluster, cap))
    sends = 8 * size**2 * (3 * p + q) / (2 * p * q * bandwidth) if cluster.gpus > 1 and bandwidth else 0.0
    rate = 2 * size**3 / 3 / (multiply + sends)
    busy = multiply / (multiply + sends)
    power = cluster_power(cluster, busy, cap=cap)
    return Benchmark(
        rate=rate, size=size, busy=busy, power=power, efficiency=rate / power,
        published_rate=cluster.published.get("hpl"), published_power=cluster.published.get("power"),
        remarks=tuple(cluster.notes[key] for key in ("published.hpl", "published.power") if key in cluster.notes),
    )  # fmt: skip
