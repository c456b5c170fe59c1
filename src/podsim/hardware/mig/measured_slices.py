"""Published measurements of MIG instances, and the error of the law of slices against them.

Rows: MISO (SoCC 2022; MIT licence), iteration times of 28 training jobs and four erratic ones; MLPerf Inference 0.7 and
1.1, throughput and latency of one smallest instance and of undivided GPUs.  Only the rows of MISO enter a fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from podsim.answers.fields import shown
from podsim.axes import Floats
from podsim.hardware.mig.profiles import find_profile, slicings
from podsim.hardware.mig.scaling import (
    fit_fixed,
    fixed_by_batches,
    fixed_by_probe,
    fixed_by_work,
    relative_speed,
    share_of,
)
from podsim.packaged import packaged_csv

ERRATIC = ("deepspeech2",)
"""The models of MISO with erratic times over batches and slices, which enter no fit and no score."""


@dataclass(frozen=True, kw_only=True)
class MigRow:
    """One published figure."""

    id: str
    """The id, unique in the table."""
    role: str
    """The role: calibrate, or test (never fitted)."""
    source: str
    """The publication."""
    gpu: str
    """The GPU, as published."""
    model: str
    """The network that ran."""
    scenario: str
    """The batch of a training job, or the inference scenario: Offline, Server, SingleStream."""
    slice: str
    """The profile of the instances, or full."""
    instances: int
    """The number of instances that ran together."""
    value: float
    """SI. The published value, in `unit`."""
    unit: str
    """The unit of the value: samples/s, ms p90, s per iteration, …"""
    confirmed: str
    """Whether the value was read in the source."""


@dataclass(frozen=True, kw_only=True)
class SliceCase:
    """One training job, measured on several instances."""

    model: str
    """The network that was trained."""
    batch: int
    """The number of samples of an iteration."""
    seconds: float
    """s. The time of an iteration on the instance that is the whole GPU."""
    slices: tuple[str, ...]
    """The profiles on which it ran."""
    shares: tuple[float, ...]
    """share. The share of the GPU that each slice is."""
    relative: tuple[float, ...]
    """share. The measured speed on each slice, relative to the whole GPU."""
    fixed: float
    """share. The share of the time that does not depend on the slice, fitted to these speeds."""


@dataclass(frozen=True, kw_only=True)
class SliceScore:
    """The errors of the law against measured speeds, for one rule for f."""

    name: str = shown("f known by")
    """The name of the rule for f."""
    how: str
    """The origin of f."""
    cases: int = shown("jobs")
    """The number of training jobs."""
    points: int = shown("speeds")
    """The number of predicted speeds that were compared."""
    mean: float = shown(format=":.1%")
    """share. The mean of the absolute relative errors."""
    median: float = shown(format=":.1%")
    """share. The median of the absolute relative errors."""
    worst: float = shown(format=":.1%")
    """share. The largest absolute relative error."""
    by_model: dict[str, float] = shown(format=":.1%")
    """share. The mean absolute relative error of each model."""


@cache
def mig_rows() -> tuple[MigRow, ...]:
    """The published rows, in the order of their file."""
    return tuple(
        MigRow(
            id=row["id"],
            role=row["role"],
            source=row["source"],
            gpu=row["gpu"],
            model=row["model"],
            scenario=row["scenario"],
            slice=row["slice"],
            instances=int(row["instances"]),
            value=float(row["value"]),
            unit=row["unit"],
            confirmed=row["confirmed"],
        )
        for row in packaged_csv("hardware/mig/measured.csv")
    )


@cache
def cases() -> tuple[SliceCase, ...]:
    """The 28 training jobs without erratic times, each with its fitted f."""
    slicing = slicings()["a100-40gb"]
    times: dict[tuple[str, int], dict[str, float]] = {}
    for row in mig_rows():
        if row.id.startswith("MISO") and row.model not in ERRATIC:
            times.setdefault((row.model, int(row.scenario.split()[1])), {})[row.slice] = row.value
    full_profile = slicing.whole.name
    made = []
    for (model, batch), by_slice in times.items():
        names = tuple(name for name in by_slice if name != full_profile)
        shares = tuple(share_of(slicing, find_profile(slicing, name)) for name in names)
        relative = tuple(by_slice[full_profile] / by_slice[name] for name in names)
        made.append(
            SliceCase(
                model=model, batch=batch, seconds=by_slice[full_profile], slices=names, shares=shares, relative=relative,
                fixed=fit_fixed(shares, relative),
            )
        )  # fmt: skip
    return tuple(made)


def slice_scores() -> tuple[SliceScore, ...]:
    """The errors of the law on the 28 jobs for four rules: f fitted, one probe, batch left out, model left out."""
    every = cases()
    return (
        _score("fitted", "f fitted to the same speeds", [(c, c.fixed, 0) for c in every]),
        _score(
            "one probe",
            "f from the smallest instance that holds the job; the other instances are predicted",
            [(c, fixed_by_probe(c.shares[0], c.relative[0]), 1) for c in every],
        ),
        _score(
            "batch left out",
            "f from instances at the model's other batches: the work that slices slow grows by a line with the batch",
            [(c, _fixed_by_others(c, every), 0) for c in every],
        ),
        _score(
            "model left out",
            "f from times on the whole GPU at several batches, no instance needed; the exponent fitted to other models",
            [(c, f, 0) for c, f in _fixed_by_other_models(every)],
        ),
    )


def _score(name: str, how: str, given: Iterable[tuple[SliceCase, float, int]]) -> SliceScore:
    """The score of cases, each (case, its f, number of first speeds to leave out)."""
    errors: dict[str, list[float]] = {}
    jobs = 0
    for case, fixed, skip in given:
        predicted = relative_speed(fixed, np.array(case.shares[skip:]))
        off = np.abs(predicted / np.array(case.relative[skip:]) - 1)
        errors.setdefault(case.model, []).extend(float(error) for error in off)
        jobs += 1
    flat = np.array([error for some in errors.values() for error in some])
    return SliceScore(
        name=name, how=how, cases=jobs, points=len(flat), mean=float(flat.mean()), median=float(np.median(flat)),
        worst=float(flat.max()), by_model={model: float(np.mean(some)) for model, some in errors.items()},
    )  # fmt: skip


def _fixed_by_others(case: SliceCase, every: tuple[SliceCase, ...]) -> float:
    """The f of a case from its time on the GPU and the model's other batches."""
    others = [other for other in every if other.model == case.model and other.batch != case.batch]
    return fixed_by_work(
        [other.batch for other in others], [other.seconds for other in others], [other.fixed for other in others],
        case.batch, case.seconds,
    )  # fmt: skip


def _fixed_by_other_models(every: tuple[SliceCase, ...]) -> list[tuple[SliceCase, float]]:
    """Each case with f from its model's times on the GPU, with the exponent fitted to the other models' speeds."""
    models = list(dict.fromkeys(case.model for case in every))
    own = {model: [case for case in every if case.model == model] for model in models}
    made = []
    for model in models:
        shape = fit_shape([own[other] for other in models if other != model])
        shares = _fixed_of_batches(own[model], shape)
        made += list(zip(own[model], (float(share) for share in shares), strict=True))
    return made


def _fixed_of_batches(same: list[SliceCase], shape: float) -> Floats:
    return fixed_by_batches([case.batch for case in same], [case.seconds for case in same], shape)


def fit_shape(groups: list[list[SliceCase]]) -> float:
    """The exponent of `fixed_by_batches` with the smallest mean error of logarithms over the jobs of several models."""

    def loss(shape: float) -> float:
        off = [
            np.abs(np.log(relative_speed(fixed, np.array(case.shares)) / np.array(case.relative)))
            for same in groups
            for case, fixed in zip(same, _fixed_of_batches(same, shape), strict=True)
        ]
        return float(np.concatenate(off).mean())

    return float(min(np.linspace(0.2, 3.0, 141), key=loss))


def interference() -> dict[str, float]:
    """The share of throughput that each model loses on one instance if the six others are busy (MLPerf Inference 1.1).

    The stricter variant of 3D-UNet is the same run and is left out.
    """
    busy = " (other six instances busy)"
    rows = {
        (r.gpu, r.model, r.slice): r.value for r in mig_rows() if r.scenario == "Offline" and r.instances == 1
    }
    return {
        model: 1 - value / rows[gpu, model, name.removesuffix(busy)]
        for (gpu, model, name), value in rows.items()
        if name.endswith(busy) and not model.endswith(".9") and (gpu, model, name.removesuffix(busy)) in rows
    }


def neighbour_share(gpu: str, instances: int) -> float:
    """share. The speed that busy neighbours cost an instance of a GPU: the mean measured with six, in proportion."""
    if "/" not in gpu or instances == 1:
        return 0.0
    measured = interference()
    return sum(measured.values()) / len(measured) * min((instances - 1) / 6, 1.0)
