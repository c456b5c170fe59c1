"""The residuals behind the error bands, from the packaged tables of training: what scripts/record.py writes."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict, fields

from podsim.accuracy.bands import Residual, run_features
from podsim.accuracy.bands_networks import NetworkFeatures, NetworkResidual, features_of_graph
from podsim.accuracy.measured_runs import TrainingRun
from podsim.accuracy.price_llm import make_batches, row_costs, training_runs
from podsim.accuracy.price_networks import NetworkCosts, network_runs
from podsim.accuracy.tables import load, measurement, training_rows
from podsim.graphs.graph_cost import scaled_costs
from podsim.hardware.parts import PRECISIONS
from podsim.training.predict import flops_per_token

_COLUMNS = ("id", "role", "gpus", "sequence")


def measure_residuals() -> tuple[Residual, ...]:
    """Residuals of every row of the training table that measured the seconds of a step and can be expressed as it stands.

    Rows of which podsim chose settings say nothing of a plan that is given in full.
    """
    valid = {row.id for row in load("llm") if row.validates}
    rows = [row for row in training_rows() if row.get("step_time_s") and row["id"] in valid]
    found, _ = training_runs(rows)
    whole = [(position, one) for position, one in found if not (one.layer_only or one.chosen)]
    costs = row_costs(make_batches([one for _, one in whole]))
    out = []
    for place, (position, one) in enumerate(whole):
        row = rows[position]
        out.append(
            Residual(
                id=row["id"],
                role=row["role"],
                features=run_features(one.model, one.cluster, one.plan, float(costs.host[place])),
                gpus=int(one.plan.gpus),
                sequence=one.plan.length(one.model),
                log_ratio=math.log(float(row["step_time_s"]) / float(costs.seconds[place])),
                utilisation=_utilisation(one, float(row["step_time_s"])),
            )
        )
    return tuple(out)


def _utilisation(one: TrainingRun, seconds: float) -> float:
    """Model FLOPs utilisation of a measured step."""
    plan, cluster = one.plan, one.cluster
    work = flops_per_token(one.model, plan)["model"] * float(plan.global_batch) * plan.length(one.model)
    return work / seconds / (cluster.gpu.peaks[PRECISIONS[plan.precision].matmul] * float(plan.gpus))


def residuals_text(rows: tuple[Residual, ...]) -> str:
    """The residuals as CSV."""
    out = io.StringIO()
    names = list(asdict(rows[0].features))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_COLUMNS, *names, "log_ratio", "utilisation"])
    for row in rows:
        start = [getattr(row, name) for name in _COLUMNS]
        writer.writerow(
            [*start, *asdict(row.features).values(), f"{row.log_ratio:.9g}", f"{row.utilisation:.9g}"]
        )
    return out.getvalue()


def measure_network_residuals() -> tuple[NetworkResidual, ...]:
    """Residuals of every row of the packaged tables that measured a rate and can be expressed."""
    costs, out = NetworkCosts(), []
    for kind in ("vision", "mlperf"):
        rows = {row.id: row for row in load(kind) if row.validates}
        told = {id: one.value for id, row in rows.items() if (one := measurement(row, "samples/s"))}
        found, _ = network_runs(kind, [(id, rows[id].fields) for id in told])
        for id, run in found.items():
            era, graph, gpu = costs.era(run), costs.graph(run), run.cluster.gpu
            features = features_of_graph(
                graph, scaled_costs(graph, costs.plain(run, era.flash), era), architecture=gpu.architecture,
                precision=run.precision, network=run.network, software=era.name, gpus=run.gpus,
                node=run.cluster.gpus_per_node,
            )  # fmt: skip
            missed = math.log(costs.rate(run) / told[id])
            out.append(NetworkResidual(id=id, role=rows[id].role, features=features, log_ratio=missed))
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
