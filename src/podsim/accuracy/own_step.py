"""What one measured step of the user's own run says of a prediction, and of every other plan of the same job.

The measurement fixes what podsim does not know of the machine: the predictions of the job are scaled by measured over
predicted. Of the software that was calibrated on the GPU family, the one that needs the least scaling explains the run
best; a ranking is made with its constants. What is left is the scatter of runs of one source around their own mean.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from math import expm1, log
from statistics import median
from typing import Any

import numpy as np

from podsim.accuracy.bands import ENOUGH, residuals, weighted_limits
from podsim.answers.prediction import Band, Correction, Prediction
from podsim.errors import PlanError
from podsim.hardware.cluster import Cluster
from podsim.training.batch import step_cost
from podsim.training.plan import Plan
from podsim.training.software import load_software, usable_bytes
from podsim.units import format_quantity, parse_quantity
from podsim.workload.model import Model

_LEAST_ROWS = 3
"""runs of one source that show its scatter"""


def read_measured(text: str) -> tuple[float, dict[str, str]]:
    """(seconds, fields of the measured plan) of "12.3s" or "12.3s@tp=8,pp=2"; PlanError for anything else."""
    time, _, fields = text.partition("@")
    words = [word.partition("=") for word in fields.split(",") if word]
    try:
        seconds = parse_quantity(time.strip(), "s")
    except ValueError:
        seconds = 0.0
    if not seconds > 0 or not all(name and value for name, _, value in words):
        raise PlanError([
            f"measured={text!r}: the seconds of a step, as 12.3s; for a plan other than the first with its fields, "
            "as 12.3s@tp=8,pp=2"
        ])  # fmt: skip
    return seconds, {name.strip(): value.strip() for name, _, value in words}


def own_correction(
    model: Model, cluster: Cluster, plan: Plan, seconds: float, software: Collection[str]
) -> Correction:
    """The correction by a measured step of a scalar plan, with whichever of the software explains it best."""

    costs = {name: step_cost(model, cluster, plan.having({"software": name})) for name in software}
    laws = {name: float(cost.seconds[0]) for name, cost in costs.items()}
    best, asked = min(laws, key=lambda name: abs(log(seconds / laws[name]))), plan.software
    changes = ""
    if best != asked:
        rooms = {name: usable_bytes(cluster.gpu, load_software(name, cluster.gpu)) for name in (best, asked)}
        need, before = (f"{costs[name].memory[0] / 1e9:.1f} of {rooms[name] / 1e9:.1f} GB" for name in rooms)
        changes = (
            f"{best} is assumed in place of {asked}: its times explain your step best; the measured plan then needs "
            f"{need} a GPU, not {before}; --software keeps one"
        )
    return Correction(
        measured=seconds,
        law_time=laws[best],
        factor=seconds / laws[best],
        software=best,
        plan=" ".join(f"{name}={plan.describe()[name]}" for name in ("tp", "pp", "dp", "micro_batch")),
        changes=changes,
    )


def slowed(prediction: Prediction, factor: float) -> Prediction:
    """The prediction with a step that takes `factor` times as long; its parts are as they were."""
    rates = ("tokens_per_second", "samples_per_second", "mfu_6pd", "mfu", "hfu")
    changed: dict[str, Any] = {name: getattr(prediction, name) / factor for name in rates}
    return replace(prediction, step_time=prediction.step_time * factor, **changed)


def corrected(prediction: Prediction, correction: Correction, architecture: str) -> Prediction:
    """The prediction scaled as the measured step says, with the scatter that is left as its band.

    PlanError if the GPUs' peak makes such a step impossible.
    """
    factor = correction.factor
    mfu, step = prediction.mfu_6pd / factor, prediction.step_time * factor
    if mfu > 1:
        raise PlanError([
            f"measured={correction.measured:g} s: no step is that fast; "
            f"{prediction.parameter_flops:.3g} x parameters x tokens take at least "
            f"{format_quantity(correction.measured * mfu, 's')} at the GPUs' peak"
        ])  # fmt: skip
    return replace(
        slowed(prediction, factor),
        parts={**prediction.parts, "correction": step - prediction.step_time},
        correction=replace(correction, law_time=prediction.step_time),
        band=scatter_band(architecture.lower()),
    )


@lru_cache(maxsize=8)
def scatter_band(architecture: str) -> Band:
    """The band of runs of one source around their own median, on a GPU family or, with too few runs, on all."""
    family = [row for row in residuals() if row.features.architecture == architecture]
    rows = family if len(family) >= ENOUGH else residuals()
    by_source: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        by_source[row.source, row.software].append(index)
    centred: list[float] = []
    for members in by_source.values():
        if len(members) >= _LEAST_ROWS:
            middle = median(rows[i].log_ratio for i in members)
            centred += [rows[i].log_ratio - middle for i in members]
    low, high = weighted_limits(np.array(centred), np.ones(len(centred)), tail=0.1)
    basis = (
        f"scatter of {len(centred)} measured runs around the median of their source, after one measured step"
    )
    return Band(low=expm1(low), high=expm1(high), rows=len(centred), basis=basis)
