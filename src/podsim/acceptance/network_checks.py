"""All-reduce over sizes, as nccl-tests measures it, against the network's law for the expected machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from podsim.acceptance.thresholds import Figure, check, threshold_of, unmeasured
from podsim.answers.acceptance import Check, Curve
from podsim.answers.lab import MeasuredCollective, MeasuredCollectives
from podsim.answers.saved_run import read_run, run_of
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.lab.collective_job import collective_job
from podsim.lab.measured_collectives import task_of
from podsim.lab.ranks import run_here
from podsim.network.bus import bus_factor
from podsim.network.nccl import Members, bus_bandwidth, collective_seconds
from podsim.options.measure_options import MeasureCollectiveOptions

JUDGED = 16 << 20
"""B from which on a message is judged"""


def all_reduce(ranks: int, sizes: str, limit: float) -> MeasuredCollectives:
    """The library's own all-reduce on ranks of this machine."""
    options = MeasureCollectiveOptions(
        collective="all-reduce", ranks=ranks, algo="library", sizes=sizes, iters=10, limit=limit, in_place=False,
        timeout=120.0,
    )  # fmt: skip
    run: MeasuredCollectives = run_of(run_here(task_of(collective_job(options, None))))
    return run


def _limit(cluster: Cluster, ranks: int) -> float:
    """B/s of bus bandwidth that links allow: a GPU's own, and each node must pass on its share of a ring."""
    nodes = -(-ranks // cluster.gpus_per_node)
    if nodes == 1:
        return cluster.nvlink.bandwidth
    outside = cluster.node_bandwidth * float(
        bus_factor("all_reduce", ranks) / bus_factor("all_reduce", nodes)
    )
    return min(cluster.nvlink.bandwidth, outside)


def read_network(path: Path) -> MeasuredCollectives:
    """A run that `podsim measure collective --save` kept; PodsimError for one that is no all-reduce of the library."""
    run = read_run(path)
    wanted = "expected the library's all-reduce: podsim measure collective --algo library --save FILE"
    if not isinstance(run, MeasuredCollectives):
        raise PodsimError(f"{path.name}: a run of another kind; {wanted}")
    if run.collective != "all-reduce" or not any(row.algorithm == "library" for row in run.rows):
        algorithms = ", ".join(sorted({row.algorithm for row in run.rows}))
        raise PodsimError(f"{path.name}: {run.collective} by {algorithms}; {wanted}")
    return run


def _wrong(row: MeasuredCollective) -> int:
    return row.wrong + (row.in_place_wrong or 0)


def _unjudged(largest: float, how: str) -> Check:
    """In place of the checks of a run whose messages are all too small."""
    figure = Figure(group="network", name=f"all-reduce from {JUDGED >> 20} MiB on", unit="B/s", how=how)
    return unmeasured(
        figure,
        f"the largest message measured has {largest / 2**20:g} MiB; smaller ones than {JUDGED >> 20} MiB are drawn, not "
        "judged: --sizes 256K:64M:4",
    )


def network_checks(run: MeasuredCollectives, cluster: Cluster, *, same: bool) -> tuple[list[Check], Curve]:
    """A check for each size that is judged, or came out wrong, and the curve over all sizes."""
    rows = [row for row in run.rows if row.algorithm == "library"]
    sizes = np.array([row.size for row in rows])
    expected: Sequence[float | None] = [None] * len(rows)
    basis = f"{cluster.name} has {cluster.gpus} GPUs, fewer than the {run.ranks} ranks"
    if run.ranks <= cluster.gpus:
        members = Members(ranks=run.ranks, ranks_per_node=min(run.ranks, cluster.gpus_per_node))
        seconds = collective_seconds("all_reduce", sizes, cluster, members)
        expected = bus_bandwidth("all_reduce", sizes, seconds, run.ranks).tolist()
        basis = f"podsim collective all-reduce --on {cluster.name} --ranks {run.ranks}"
    limit = _limit(cluster, run.ranks) if run.ranks <= cluster.gpus else None
    how = f"{run.backend}, {run.ranks} ranks on {run.device}, {run.cores} cores"
    checks = [
        check(
            Figure(
                group="network", name=f"all-reduce of {row.size / 2**20:g} MiB", unit="B/s", basis=basis, how=how
            ),
            threshold_of("collective", same=same), measured=row.bus_bandwidth, expected=target,
            limit=None if same else limit,
            wrong=_wrong(row) > 0, why=f"{_wrong(row):,} elements came out wrong" if _wrong(row) else "",
        )
        for row, target in zip(rows, expected, strict=True)
        if row.size >= JUDGED or _wrong(row)
    ]  # fmt: skip
    if max(sizes) < JUDGED:
        checks.append(_unjudged(max(sizes), how))
    curve = Curve(
        name=f"all-reduce, bus bandwidth, {run.ranks} ranks", over="size", over_unit="B", unit="B/s",
        measured=tuple((row.size, row.bus_bandwidth) for row in rows),
        expected=tuple((row.size, target) for row, target in zip(rows, expected, strict=True) if target is not None),
    )  # fmt: skip
    return checks, curve
