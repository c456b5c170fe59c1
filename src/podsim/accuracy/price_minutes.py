"""Rows of MLPerf Training: minutes to the target, and samples to it by batch.

A row of convergence is predicted without itself: by the other batches of its benchmark that are marked calibrate. Rows
of minutes take the samples of the law, or those that the run itself needed ("seconds of own samples").
"""

from __future__ import annotations

from collections.abc import Mapping

from podsim.accuracy.benchmark_rates import BenchmarkRates
from podsim.accuracy.measured_runs import NotExpressible, cell_text, read_cluster, read_count
from podsim.accuracy.own_words import cluster_settings, find_node
from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Row, Rows
from podsim.errors import PodsimError
from podsim.learning.benchmarks import (
    ConvergenceRow,
    convergence_law,
    convergence_rows,
    find_benchmark,
    row_point,
    target_seconds,
)


def minutes_cells(row: Mapping[str, str]) -> dict[str, str]:
    """The columns cluster and reason of a row of minutes in its source's words."""
    try:
        gpus = read_count(row, "n_accelerators")
        node = find_node(cell_text(row, "accelerator"), row.get("system", ""))
        if node is None:
            raise NotExpressible(f"no node of the catalog has GPUs like {row['accelerator'][:60]!r}")
        cluster = cluster_settings(node, gpus, {})
        read_cluster(cluster).subset(gpus)
        find_benchmark(row["benchmark"], row["version"])
    except (PodsimError, NotExpressible) as problem:
        return {"cluster": "", "reason": str(problem)}
    return {"cluster": cluster, "reason": ""}


def price_minutes(rows: Rows) -> Priced:
    """Predicted seconds to the target of rows of the kind "minutes"."""
    rates, predictions, reasons = BenchmarkRates(), {}, {}
    for row in rows:
        try:
            predictions[row.id] = _row_seconds(row, rates, is_own=rows.what == "seconds of own samples")
        except (PodsimError, NotExpressible) as problem:
            reasons[row.id] = str(problem)
    return Priced(predictions=predictions, reasons=reasons)


def _row_seconds(row: Row, rates: BenchmarkRates, *, is_own: bool) -> float:
    fields = row.fields
    cells = fields if fields.get("cluster") else {**fields, **minutes_cells(fields)}
    if cells.get("reason"):
        raise NotExpressible(cells["reason"])
    batch, round = row.number("global_batch"), row.text("version")
    if not batch:
        raise NotExpressible("global_batch is not given")
    benchmark = find_benchmark(row.text("benchmark"), round)
    cluster = read_cluster(cells["cluster"]).subset(read_count(fields, "n_accelerators"))
    if is_own:
        own = row.number("samples")
        if not own:
            raise NotExpressible("the samples that the run needed are not given")
        samples = own
    else:
        samples = float(convergence_law(benchmark, round)([batch]).samples[0])
    rate = rates.rate(benchmark, round, cluster, batch, fields.get("framework", "")).rate
    return target_seconds(benchmark, samples, rate).total


def price_convergence(rows: Rows) -> Priced:
    """Predicted samples (in each row's own unit) to the target, each from the other batches that are marked calibrate."""
    known, predictions, reasons = convergence_rows(), {}, {}
    for row in rows:
        try:
            point = row_point(row.fields)
            others = [other for other in known if other.role == "calibrate" and not _is_same(other, point)]
            benchmark = find_benchmark(point.benchmark)
            law = convergence_law(benchmark, point.point.round.removeprefix("hpc_"), others)
            predicted = float(law([point.point.batch]).samples[0])
            predictions[row.id] = predicted * (row.number("mean") or 0.0) / point.point.samples
        except (PodsimError, NotExpressible) as problem:
            reasons[row.id] = str(problem)
    return Priced(predictions=predictions, reasons=reasons)


def _is_same(one: ConvergenceRow, other: ConvergenceRow) -> bool:
    """Whether two rows are of one benchmark and batch."""
    return one.benchmark == other.benchmark and one.point.batch == other.point.batch
