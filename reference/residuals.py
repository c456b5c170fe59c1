"""The residuals behind the error bands, from the packaged tables of training; scripts/record.py writes them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import fields

from podsim.accuracy.bands import Features, LeftOut, Residual, run_features
from podsim.accuracy.bands_networks import NetworkFeatures, NetworkResidual
from podsim.accuracy.measured_reach import step_utilisation
from podsim.accuracy.measured_runs import TrainingRun
from podsim.accuracy.price_collectives import CROSS_VALIDATED
from podsim.accuracy.price_llm import make_batches, row_costs, training_runs
from podsim.accuracy.price_networks import NetworkCosts, network_runs
from podsim.accuracy.tables import TABLES, load, measurement, training_rows
from reference.held_out_fits import fit_held_out_collectives, fit_held_out_kernels
from reference.left_out_fits import measure_left_out

_COUNTS = ("gpus", "sequence", "tp", "pp", "cp", "ep", "global_batch", "micro_batch")
_SOURCES = {
    "VTM": "VT", "VTS": "VT", "SC21F": "SC21", "SC21T2": "SC21", "MXV4": "MX", "MXV5E": "MX", "MXV5P": "MX", "TRC": "MX",
}  # fmt: skip
"""Letters of rows -> the source that they share with others."""
_LAW = LeftOut(0.0, 0.0, False)
"""what stands where nothing was left out yet"""


def measure_residuals(*, left_out: bool = True) -> tuple[Residual, ...]:
    """Residuals of every row of the training tables with measured seconds of a step that can be expressed as it stands.

    Rows for which podsim chose settings are left out: they are no evidence for a plan that is stated in full. Constants
    are fitted again without them only if `left_out`, which takes minutes.
    """
    valid = {row.id for name in ("llm", "tpu") for row in load(name) if row.validates}
    rows = [row for row in training_rows() if row.get("step_time_s") and row["id"] in valid]
    runs = [(rows[at], run) for at, run in training_runs(rows)[0] if not (run.layer_only or run.chosen)]
    seconds = row_costs(make_batches([run for _, run in runs])).seconds.tolist()
    out = [_residual(row, run, step) for (row, run), step in zip(runs, seconds, strict=True)]
    return measure_left_out(rows, runs, out) if left_out else tuple(out)


def _residual(row: Mapping[str, str], run: TrainingRun, seconds: float) -> Residual:
    """The residual of a row that the law predicts to take some seconds."""
    plan, measured = run.plan, float(row["step_time_s"])
    letters = row["id"].rsplit("-", maxsplit=1)[0]
    return Residual(
        id=row["id"],
        role=row["role"],
        source=_SOURCES.get(letters, letters),
        features=run_features(run.model, run.cluster, plan),
        sequence=plan.length(run.model),
        parameters=run.model.active_parameters,
        software=plan.software,
        log_ratio=math.log(measured / seconds),
        utilisation=step_utilisation(run.model, run.cluster, plan, measured),
        without_model=_LAW,
        without_source=_LAW,
        **{name: int(getattr(plan, name)) for name in _COUNTS if name != "sequence"},
    )


def measure_held_out() -> dict[str, float]:
    """s. The time of every cross-validated row by the fit that left its fold out, by id."""
    seconds = fit_held_out_collectives(load(CROSS_VALIDATED))
    for rows in map(load, TABLES):
        if rows.kind == "kernels":
            seconds |= fit_held_out_kernels(rows)
    return seconds


def residuals_text(rows: tuple[Residual, ...]) -> str:
    """The residuals as CSV."""
    out = io.StringIO()
    names = list(Features._fields)
    writer = csv.writer(out, lineterminator="\n")
    left_out = [f"{group}_{field}" for group in ("model", "source") for field in LeftOut._fields]
    head = ("id", "role", "source", "software", "parameters", *_COUNTS, *names)
    writer.writerow([*head, "log_ratio", "utilisation", *left_out])
    for row in rows:
        counts = [getattr(row, name) for name in _COUNTS]
        figures = [f"{value:.9g}" for value in (row.log_ratio, row.utilisation)]
        figures += [f"{float(value):.4g}" for value in (*row.without_model, *row.without_source)]
        start = [row.id, row.role, row.source, row.software, f"{row.parameters:.6g}", *counts]
        writer.writerow([*start, *row.features, *figures])
    return out.getvalue()


def measure_network_residuals() -> tuple[NetworkResidual, ...]:
    """Residuals of every row of the packaged tables that measured a rate and can be expressed."""
    costs, out = NetworkCosts(), []
    for kind in ("vision", "mlperf"):
        rows = {row.id: row for row in load(kind) if row.validates}
        measured = {id: value.value for id, row in rows.items() if (value := measurement(row, "samples/s"))}
        runs, _ = network_runs([(id, rows[id].fields) for id in measured])
        for id, run in runs.items():
            log_ratio = math.log(costs.rate(run) / measured[id])
            out.append(
                NetworkResidual(id=id, role=rows[id].role, features=costs.features(run), log_ratio=log_ratio)
            )
    return tuple(out)


def network_residuals_text(rows: tuple[NetworkResidual, ...]) -> str:
    """The residuals as CSV."""
    out = io.StringIO()
    names = [field.name for field in fields(NetworkFeatures)]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "role", *names, "log_ratio"])
    for row in rows:
        writer.writerow(
            [row.id, row.role, *(getattr(row.features, name) for name in names), f"{row.log_ratio:.9g}"]
        )
    return out.getvalue()
