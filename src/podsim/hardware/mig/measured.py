"""Published measurements of MIG instances, and how far the law of slices is from them.

Rows: MISO (SoCC 2022; MIT licence), iteration times of 28 training jobs and four erratic ones; MLPerf Inference 0.7 and
1.1, throughput and latency of one smallest instance and of whole GPUs.  Only the former are fitted.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from podsim.hardware.mig.profiles import find_profile, slicings
from podsim.hardware.mig.scaling import (
    Floats,
    fit_fixed,
    fixed_by_batches,
    fixed_by_probe,
    fixed_by_work,
    relative_speed,
    share_of,
)

ERRATIC = ("deepspeech2",)
"""models of MISO whose times jump between batches and slices without order; in no fit and in no score"""


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
    """How far the law is from measured speeds, one way to know f."""

    name: str
    """The name of the rule for f."""
    how: str
    """The origin of f."""
    cases: int
    """The number of training jobs."""
    points: int
    """The number of predicted speeds that were compared."""
    mean: float
    """share. The mean of the absolute relative errors."""
    median: float
    """share. The median of the absolute relative errors."""
    worst: float
    """share. The largest absolute relative error."""
    by_model: dict[str, float]
    """share. The mean absolute relative error of each model."""


@cache
def mig_rows() -> tuple[MigRow, ...]:
    """All published rows, in the order of their file."""
    text = files("podsim.hardware.mig").joinpath("measured.csv").read_text("utf-8")
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
        for row in csv.DictReader(io.StringIO(text))
    )


@cache
def cases() -> tuple[SliceCase, ...]:
    """The 28 training jobs that are not erratic, with f fitted to each."""
    slicing = slicings()["a100-40gb"]
    times: dict[tuple[str, int], dict[str, float]] = {}
    for row in mig_rows():
        if row.id.startswith("MISO") and row.model not in ERRATIC:
            times.setdefault((row.model, int(row.scenario.split()[1])), {})[row.slice] = row.value
    whole = slicing.whole.name
    made = []
    for (model, batch), by_slice in times.items():
        names = tuple(name for name in by_slice if name != whole)
        shares = tuple(share_of(slicing, find_profile(slicing, name)) for name in names)
        relative = tuple(by_slice[whole] / by_slice[name] for name in names)
        made.append(
            SliceCase(
                model=model, batch=batch, seconds=by_slice[whole], slices=names, shares=shares, relative=relative,
                fixed=fit_fixed(shares, relative),
            )
        )  # fmt: skip
    return tuple(made)


def slice_scores() -> tuple[SliceScore, ...]:
    """Errors of the law on the 28 jobs: f fitted, from one probe, between batches, and with its model left out."""
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
            [(c, _by_work(c, every), 0) for c in every],
        ),
        _score(
            "model left out",
            "f from times on the whole GPU at several batches, no instance needed; the exponent fitted to other models",
            [(c, f, 0) for c, f in _model_left_out(every)],
        ),
    )


def _score(name: str, how: str, given: Iterable[tuple[SliceCase, float, int]]) -> SliceScore:
    """The score of (case, its f, speeds to leave out at its start)."""
    errors: dict[str, list[float]] = {}
    jobs = 0
    for case, fixed, skip in given:
        predicted = relative_speed(fixed, np.array(case.shares[skip:]))
        off = np.abs(predicted / np.array(case.relative[skip:]) - 1)
        errors.setdefault(case.model, []).extend(float(one) for one in off)
        jobs += 1
    flat = np.array([one for some in errors.values() for one in some])
    return SliceScore(
        name=name, how=how, cases=jobs, points=len(flat), mean=float(flat.mean()), median=float(np.median(flat)),
        worst=float(flat.max()), by_model={model: float(np.mean(some)) for model, some in errors.items()},
    )  # fmt: skip


def _by_work(case: SliceCase, every: tuple[SliceCase, ...]) -> float:
    """f of a case from its time on the whole GPU and the model's other batches."""
    others = [one for one in every if one.model == case.model and one.batch != case.batch]
    return fixed_by_work(
        [one.batch for one in others], [one.seconds for one in others], [one.fixed for one in others],
        case.batch, case.seconds,
    )  # fmt: skip


def _model_left_out(every: tuple[SliceCase, ...]) -> list[tuple[SliceCase, float]]:
    """Each case with f by its times on the whole GPU; the exponent is fitted to the other models' speeds."""
    models = list(dict.fromkeys(one.model for one in every))
    own = {model: [one for one in every if one.model == model] for model in models}
    made = []
    for model in models:
        shape = fit_shape([own[other] for other in models if other != model])
        found = _by_batches(own[model], shape)
        made += list(zip(own[model], (float(one) for one in found), strict=True))
    return made


def _by_batches(same: list[SliceCase], shape: float) -> Floats:
    return fixed_by_batches([one.batch for one in same], [one.seconds for one in same], shape)


def fit_shape(groups: list[list[SliceCase]]) -> float:
    """Exponent of `fixed_by_batches` with the least mean error of logarithms over the jobs of several models."""

    def loss(shape: float) -> float:
        off = [
            np.abs(np.log(relative_speed(fixed, np.array(one.shares)) / np.array(one.relative)))
            for same in groups
            for one, fixed in zip(same, _by_batches(same, shape), strict=True)
        ]
        return float(np.concatenate(off).mean())

    return float(min(np.linspace(0.2, 3.0, 141), key=loss))


def interference() -> dict[str, float]:
    """Share by which each model's throughput falls on one instance while the six others are busy (MLPerf Inference 1.1).

    The stricter variant of 3D-UNet is the same run, and left out.
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
