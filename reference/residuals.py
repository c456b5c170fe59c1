"""The residuals behind the error bands, from the packaged tables of training; scripts/record.py writes them."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict, fields

from podsim.accuracy.bands import Residual, run_features
from podsim.accuracy.bands_networks import NetworkFeatures, NetworkResidual
from podsim.accuracy.measured_runs import TrainingRun
from podsim.accuracy.price_collectives import CROSS_VALIDATED
from podsim.accuracy.price_llm import make_batches, row_costs, training_runs
from podsim.accuracy.price_networks import NetworkCosts, network_runs
from podsim.accuracy.tables import TABLES, load, measurement, training_rows
from podsim.hardware.parts import PRECISIONS
from podsim.training.predict import flops_per_token
from reference.held_out_fits import fit_held_out_collectives, fit_held_out_kernels

_COLUMNS = (
    "id", "role", "gpus", "sequence", "parameters", "tp", "pp", "cp", "ep", "global_batch", "micro_batch", "software",
)  # fmt: skip


def measure_residuals() -> tuple[Residual, ...]:
    """Residuals of every row of the training table that measured the seconds of a step and can be expressed as it stands.

    Rows for which podsim chose settings are left out: they are no evidence for a plan that is stated in full.
    """
    valid = {row.id for row in load("llm") if row.validates}
    rows = [row for row in training_rows() if row.get("step_time_s") and row["id"] in valid]
    runs, _ = training_runs(rows)
    kept = [(position, run) for position, run in runs if not (run.layer_only or run.chosen)]
    costs = row_costs(make_batches([run for _, run in kept]))
    out = []
    for index, (position, run) in enumerate(kept):
        row = rows[position]
        out.append(
            Residual(
                id=row["id"],
                role=row["role"],
                features=run_features(run.model, run.cluster, run.plan, float(costs.host[index])),
                gpus=int(run.plan.gpus),
                sequence=run.plan.length(run.model),
                parameters=run.model.active_parameters,
                tp=int(run.plan.tp),
                pp=int(run.plan.pp),
                cp=int(run.plan.cp),
                ep=int(run.plan.ep),
                global_batch=int(run.plan.global_batch),
                micro_batch=int(run.plan.micro_batch),
                software=run.plan.software,
                log_ratio=math.log(float(row["step_time_s"]) / float(costs.seconds[index])),
                utilisation=_utilisation(run, float(row["step_time_s"])),
            )
        )
    return tuple(out)


def _utilisation(run: TrainingRun, seconds: float) -> float:
    """Model FLOPs utilisation of a measured step, by 6 x parameters per token."""
    plan, cluster = run.plan, run.cluster
    work = flops_per_token(run.model, plan)["6PD"] * float(plan.global_batch) * plan.length(run.model)
    return work / seconds / (cluster.gpu.peaks[PRECISIONS[plan.precision].matmul] * float(plan.gpus))


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
    names = list(asdict(rows[0].features))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_COLUMNS, *names, "log_ratio", "utilisation"])
    for row in rows:
        start = [row.id, row.role, row.gpus, row.sequence, f"{row.parameters:.6g}"]
        start += [row.tp, row.pp, row.cp, row.ep, row.global_batch, row.micro_batch, row.software]
        writer.writerow(
            [*start, *asdict(row.features).values(), f"{row.log_ratio:.9g}", f"{row.utilisation:.9g}"]
        )
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
