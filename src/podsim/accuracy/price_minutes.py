"""Rows of MLPerf Training: minutes to the target, and samples to it by batch.

A row of convergence is predicted without itself: by the other batches of its benchmark that are marked calibrate. Rows
of minutes take the samples of the law, or those that the run itself needed ("seconds of own samples").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from podsim.accuracy.benchmark_rates import shared_rates
from podsim.accuracy.measured_runs import NotExpressible, cell_text, read_cluster, read_count
from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Row, Rows
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.learning.benchmarks import (
    Benchmark,
    ConvergenceRow,
    benchmarks,
    convergence_law,
    convergence_rows,
    find_benchmark,
    own_samples,
    plain_round,
    point_unit,
    round_number,
    row_point,
    target_seconds,
)

_BATCH_OF_A_GPU = (0, 5)
_UNKNOWN = Benchmark(
    name="",
    title="unknown",
    target="",
    dataset="",
    sample="samples",
    epoch=1.0,
    rounds=("v0.5", "v6.1"),
    startup=0.0,
)


def price_minutes(rows: Rows) -> Priced:
    """Predicted seconds to the target of rows of the kind "minutes"."""
    predictions, reasons, bands = {}, {}, {}
    for row in rows:
        try:
            seconds = _row_seconds(row, is_own=rows.what == "seconds of own samples")
        except (PodsimError, NotExpressible) as problem:
            reasons[row.id] = str(problem)
            continue
        predictions[row.id] = seconds[0]
        if len(seconds) > 1:
            bands[row.id] = seconds[1], seconds[2]
    return Priced(predictions=predictions, reasons=reasons, bands=bands)


def _row_seconds(row: Row, *, is_own: bool) -> list[float]:
    """s. The time to the target, and the ends of its band where the law says how many samples that takes."""
    fields = row.fields
    if reason := cell_text(fields, "reason"):
        raise NotExpressible(reason)
    batch, round = row.number("global_batch"), row.text("version")
    if round_number(round) == _BATCH_OF_A_GPU:
        raise NotExpressible("logs of v0.5 state the batch of one GPU, or of all, and not which")
    if not batch:
        raise NotExpressible("global_batch is not given")
    benchmark = find_benchmark(row.text("benchmark"), round)
    cluster = _cluster(fields, read_count(fields, "n_accelerators"))
    if is_own:
        stated = own_samples(fields, benchmark)
        if not stated:
            raise NotExpressible("the samples that the run needed are not given")
        counts = [stated]
    else:
        points = convergence_law(benchmark, round)([batch])
        counts = [float(samples[0]) for samples in (points.samples, points.low, points.high)]
    rate = shared_rates().rate(benchmark, round, cluster, batch, fields.get("framework", "")).rate
    return [target_seconds(benchmark, samples, rate).total for samples in counts]


def _cluster(row: Mapping[str, str], gpus: int) -> Cluster:
    """The GPUs of a row: of its cluster, or of servers of the catalog that have such accelerators."""
    if settings := cell_text(row, "cluster"):
        return read_cluster(settings).subset(gpus)
    return load_cluster(f"{gpus}x{row['accelerator']}")


def price_convergence(rows: Rows) -> Priced:
    """Predicted samples (in each row's own unit) to the target, each from the other batches that are marked calibrate.

    A benchmark that podsim does not know is predicted from the other rows of its own table.
    """
    points = {row.id: point for row in rows if (point := _point(row)) is not None}
    own = list(points.values())
    predictions, reasons, bands = {}, {}, {}
    for row in rows:
        if (point := points.get(row.id)) is None:
            reasons[row.id] = row.fields.get("reason") or "its batch, mean or unit is not given"
            continue
        try:
            if point.benchmark in benchmarks():
                known = [other for other in convergence_rows() if other.role == "calibrate"]
                benchmark = find_benchmark(point.benchmark)
            else:
                known = [other for other in own if other.role == "calibrate"] or own
                benchmark = replace(_UNKNOWN, name=point.benchmark)
            case = point.benchmark, point.point.batch
            others = [other for other in known if (other.benchmark, other.point.batch) != case]
            law = convergence_law(benchmark, plain_round(point.point.round), others)
            unit = point_unit(row.fields)
            curve = law([point.point.batch])
            value, low, high = (
                float(samples[0]) / unit.factor + unit.first
                for samples in (curve.samples, curve.low, curve.high)
            )
            predictions[row.id], bands[row.id] = value, (low, high)
        except (PodsimError, NotExpressible) as problem:
            reasons[row.id] = str(problem)
    return Priced(predictions=predictions, reasons=reasons, bands=bands)


def _point(row: Row) -> ConvergenceRow | None:
    """The point of a row, None where a cell of it is blank or wrong; that another row has its id is no matter."""
    if not (row.number("batch") and row.number("mean") and row.text("unit")):
        return None
    return row_point({**row.fields, "id": row.id, "role": row.role})
