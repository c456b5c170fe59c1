"""The residuals behind the error bands, from the packaged training table: what scripts/record.py writes."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict

from podsim.accuracy import load
from podsim.accuracy.bands import Residual, features_of
from podsim.accuracy.express import Expressed
from podsim.accuracy.price_llm import batches_of, costs_of, express_all
from podsim.accuracy.pricing import training_rows
from podsim.hardware.parts import PRECISIONS
from podsim.training.predict import flops_per_token

_COLUMNS = ("id", "role", "gpus", "sequence")


def measure_residuals() -> tuple[Residual, ...]:
    """Residuals of every row of the training table that measured the seconds of a step and can be expressed as it stands.

    Rows of which podsim chose settings say nothing of a plan that is given in full.
    """
    valid = {row.id for row in load("llm") if row.validates}
    rows = [row for row in training_rows() if row.get("step_time_s") and row["id"] in valid]
    found, _ = express_all(rows)
    whole = [(position, one) for position, one in found if not (one.layer_only or one.chosen)]
    costs = costs_of(batches_of([one for _, one in whole]))
    out = []
    for place, (position, one) in enumerate(whole):
        row = rows[position]
        out.append(
            Residual(
                id=row["id"],
                role=row["role"],
                features=features_of(one.model, one.cluster, one.plan, float(costs.host_R[place])),
                gpus=int(one.plan.gpus),
                sequence=one.plan.length(one.model),
                log_ratio=math.log(float(row["step_time_s"]) / float(costs.seconds_R[place])),
                utilisation=_utilisation(one, float(row["step_time_s"])),
            )
        )
    return tuple(out)


def _utilisation(one: Expressed, seconds: float) -> float:
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
