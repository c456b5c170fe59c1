"""High-Performance Linpack and its efficiency, from the parts of a cluster.

    seconds = 2 N^3 / (3 P Q multiply) + 8 N^2 (3 P + Q) / (2 P Q bandwidth)

on the most square grid of P x Q GPUs, with N that fills the memory. Source: netlib.org/benchmark/hpl, scalability.
Power: GPUs draw their limit while they multiply. Known error: docs/power.md. Limits: nothing overlaps here, as it does
in part in good implementations; latency and the panel factorisation are left out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import isqrt

from podsim.answers.expense import Benchmark
from podsim.fleet.power import capped_speed, cluster_power
from podsim.fleet.power_catalog import figures
from podsim.hardware.catalog import names
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.sheet_rows import Section, Sheet, derived_row


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
    published = cluster.published.get("hpl")
    return Benchmark(
        rate=rate, size=size, busy=busy, power=power, efficiency=rate / power,
        published_rate=published, published_power=cluster.published.get("power"),
        remarks=(
            *(cluster.notes[key] for key in ("published.hpl", "published.power") if key in cluster.notes),
            *([f"published: {cluster.source}"] if published else []),
        ),
    )  # fmt: skip


@cache
def law_words() -> str:
    """What the predicted figures rest on, and the errors of the rate against the lists of the catalog's clusters."""
    listed = [load_cluster(name) for name in names("cluster")]
    runs = [(hpl(cluster), cluster.published["hpl"]) for cluster in listed if "hpl" in cluster.published]
    errors = [run.rate / published - 1 for run, published in runs if run is not None]
    return f"predicted by a law; its rates are {min(errors):+.0%} to {max(errors):+.0%} off {len(errors)} published ones"


def with_prediction(page: Sheet, cluster: Cluster) -> Sheet:
    """The sheet of a cluster with the predicted benchmark behind the published one, if there is one."""
    run = hpl(cluster) if "hpl" in cluster.published else None
    if run is None:
        return page
    rows = (
        derived_row("HPL, predicted", run.rate, "FLOP/s", law_words()),
        derived_row("power in HPL, predicted", run.power, "W", "as `podsim power` says"),
    )
    position = [section.title for section in page.sections].index("Published") + 1
    own = Section(title="High-Performance Linpack, predicted", rows=rows)
    return replace(page, sections=(*page.sections[:position], own, *page.sections[position:]))
