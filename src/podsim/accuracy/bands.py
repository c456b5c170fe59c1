"""The error band of a prediction, from runs that were predicted by constants fitted without them.

Constants were fitted again with a group of rows left out: the runs of one model, or all runs of one source. What such a
row leaves over is what a plan leaves over that was never measured. Its logarithm is divided by a scale that grows with
the distance to the nearest run that was still fitted. A plan takes two quantiles of these, times the scale of its own
distance. Where its software was fitted on its GPU family, they are of rows whose software still was, without them; else
of all rows whose source was left out. Sources share one weight. Only rows marked `calibrate` count: rows marked `test`
shape no band. scripts/record.py writes the packaged residuals (`residuals.csv`).
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import expm1, log2
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from podsim.answers.prediction import Band
from podsim.axes import Floats, Shaped
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS, Gpu
from podsim.packaged import once_read
from podsim.training.plan import Plan
from podsim.workload.model import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray


FILE = "residuals.csv"
ENOUGH = 10
"""The least number of rows for percentiles."""
_BEYOND = 0.1
"""share of the weight below a band, and above it: four of five runs of new sources fall inside"""
_DOUBLE = 8.0
"""doublings of distance after which a band is twice as wide as beside a fitted run"""
_UNMEASURED = 0.4
"""share. The least end of a band, to either side, where neither the kind of model nor the GPU family was measured."""
_MANY = 32
"""experts of a layer from which routing and grouped products are of another kind"""
_FAMILIES = {"megatron": "megatron", "nemo": "megatron"}
"""First word of the name of software -> the family whose runs resemble one another."""
_ALONE = ("megatron-deepspeed",)
"""Software that shares its first word with others but not their pipeline engine."""


class Features(NamedTuple):
    """The features in which similar training runs agree."""

    architecture: str
    """The GPU family."""
    kind: str
    """The kind: FSDP, pipeline, tensor or data parallel."""
    bits: str
    """The width of the operands: 8, 16 or 32."""
    framework: str
    experts: str
    """The feed-forward layers: dense, few experts or many."""
    attention: str
    """The kind of layer that mixes tokens: full, latent or sparse attention, or state spaces."""
    links: str
    """Whether NVLinks, or the like, join the GPUs of a node: yes or no."""
    gpu: str
    """The name of the GPU's sheet."""
    precision: str


_DIFFERENCE = {
    "architecture": 3.0, "experts": 3.0, "attention": 3.0, "bits": 2.0, "links": 2.0, "kind": 1.0, "framework": 1.0,
    "gpu": 1.0, "precision": 0.5,
}  # fmt: skip
"""doublings that a difference in a feature counts for"""
_DOUBLING = np.array([1.0, 0.5, 0.5, 0.5, 0.5])
"""what a doubling of parameters, GPUs, sequence, tensor and pipeline parallelism counts for"""


class LeftOut(NamedTuple):
    """What a row leaves over by constants fitted without some rows, itself among them."""

    log_ratio: float
    """factor. The logarithm of measured / predicted."""
    distance: float
    """count. The doublings between the row and the nearest run that was still fitted."""
    is_known: bool
    """Whether its software was still fitted to other runs on its GPU family."""


class Residual(NamedTuple):
    """One measured run and the error of its prediction."""

    id: str
    role: str
    source: str
    """The source of the run, in letters."""
    features: Features
    gpus: int
    sequence: int
    parameters: float
    """count. The number of parameters that a token passes through."""
    tp: int
    pp: int
    cp: int
    ep: int
    global_batch: int
    micro_batch: int
    software: str
    """The catalog's software that stands for the run's."""
    log_ratio: float
    """factor. The logarithm of measured / predicted."""
    utilisation: float
    """share. The measured model FLOPs utilisation by 6 x parameters per token, without attention."""
    without_model: LeftOut
    """The same where the runs of its model were left out."""
    without_source: LeftOut
    """The same where the runs of its source were left out."""

    @property
    def sizes(self) -> tuple[float, ...]:
        """Parameters, GPUs, sequence, tensor and pipeline parallelism."""
        return (self.parameters, self.gpus, self.sequence, self.tp, self.pp)


def run_features(model: Model, cluster: Cluster, plan: Plan) -> Features:
    """Features of a scalar plan."""
    return _features(model, cluster.gpu, plan.precision, plan.software, _kind(plan))


@lru_cache(maxsize=1024)
def _features(model: Model, gpu: Gpu, precision: str, software: str, kind: str) -> Features:
    experts = max((block.experts for block in model.layers), default=0)
    return Features(
        architecture=gpu.architecture.lower(),
        kind=kind,
        bits=operand_bits(precision),
        framework=_family(software),
        experts="many experts" if experts >= _MANY else "few experts" if experts else "dense",
        attention=_attention(model),
        links="no" if gpu.bridge or not gpu.nvlink else "yes",
        gpu=gpu.name,
        precision=precision,
    )


def run_sizes(model: Model, plan: Plan) -> tuple[float, ...]:
    """The `sizes` of a scalar plan, as those of a residual."""
    return (model.active_parameters, int(plan.gpus), plan.length(model), int(plan.tp), int(plan.pp))


def _attention(model: Model) -> str:
    """The kind of attention, by its ops."""
    names = {op.name for block in model.layers for op in block.ops}
    if any(name.startswith("state.") for name in names):
        return "state spaces"
    if "index.scores" in names:
        return "sparse"
    return "latent" if "attention.kv_down" in names else "full"


def _family(software: str) -> str:
    """The family of software: its framework without the year."""
    if software in _ALONE:
        return software
    return _FAMILIES.get(software.split("-", maxsplit=1)[0], software.rsplit("-20", maxsplit=1)[0])


def _kind(plan: Plan) -> str:
    if int(plan.zero) == 3:
        return "FSDP and tensor parallel" if int(plan.tp) * int(plan.pp) > 1 else "FSDP"
    if int(plan.pp) > 1:
        return "pipeline parallel"
    return "tensor parallel" if int(plan.tp) > 1 else "data parallel"


def operand_bits(precision: str) -> str:
    """Bits of an operand in a precision, as text: 8, 16 or 32."""
    return "8" if PRECISIONS[precision].is_cast else "16" if precision in ("bf16", "fp16") else "32"


@lru_cache(maxsize=1)
def residuals() -> tuple[Residual, ...]:
    """The packaged residuals."""
    rows: list[Any] = once_read((f"accuracy/{FILE}", "accuracy/bands.py"), _read_rows)
    nested = {"features": Features, "without_model": LeftOut, "without_source": LeftOut}
    return tuple(Residual(**row | {name: kind(*row[name]) for name, kind in nested.items()}) for row in rows)


def _read_rows(text: str) -> list[dict[str, Any]]:
    """The values of each row of the file, those of named tuples as plain ones."""
    counts = ("gpus", "sequence", "tp", "pp", "cp", "ep", "global_batch", "micro_batch")
    floats = ("parameters", "log_ratio", "utilisation")
    kinds: dict[str, type] = dict.fromkeys(counts, int) | dict.fromkeys(floats, float)
    return [
        {name: kinds.get(name, str)(row[name]) for name in Residual._fields if name in row}
        | {"features": [row[name] for name in Features._fields]}
        | {f"without_{group}": _read_left_out(row, group) for group in ("model", "source")}
        for row in csv.DictReader(text.splitlines())
    ]


def _read_left_out(row: Mapping[str, str], group: str) -> tuple[float, float, bool]:
    log_ratio, distance, is_known = (row[f"{group}_{name}"] for name in LeftOut._fields)
    return float(log_ratio), float(distance), is_known == "1"


class RunColumns(NamedTuple):
    """Runs, as columns."""

    sizes: Shaped[NDArray[np.float64], "run size"]
    """doublings. The logarithms of their sizes."""
    differences: dict[str, dict[str, Floats]]
    """doublings. What each feature adds to the distance of a run that has a value of it, by that value."""


def run_columns(rows: Sequence[Residual]) -> RunColumns:
    """The columns of runs."""
    columns = {name: np.array([getattr(row.features, name) for row in rows]) for name in _DIFFERENCE}
    differences = {
        name: {value: _DIFFERENCE[name] * (column != value) for value in set(column.tolist())}
        for name, column in columns.items()
    }
    return RunColumns(np.log2(np.array([row.sizes for row in rows], dtype=float)), differences)


def run_distances(features: Features, sizes: Sequence[float], runs: RunColumns) -> Floats:
    """Doublings between a run and others: of parameters, and half of those of GPUs, sequence, tensor and pipeline
    parallelism. Each feature that differs adds its own (GPU family, kind of model, width of operands and others).
    """
    distances = np.abs(runs.sizes - np.log2(np.array(sizes, dtype=float))) @ _DOUBLING
    for name, weight in _DIFFERENCE.items():
        distances += runs.differences[name].get(getattr(features, name), weight)
    return np.asarray(distances)


class FittedRuns:
    """Runs that constants were fitted to, and the limits of what they left over where they were left out."""

    def __init__(self, rows: Sequence[Residual]) -> None:
        """Of the rows marked `calibrate`."""
        self.rows = [row for row in rows if row.role == "calibrate"]
        self.columns = run_columns(self.rows)
        self.software = {(row.software, row.features.architecture) for row in self.rows}
        without_source = [(row.source, row.without_source) for row in self.rows]
        without_model = [(row.source, row.without_model) for row in self.rows]
        self.known_limits = scaled_limits(
            [pair for pair in without_model + without_source if pair[1].is_known]
        )
        self.new_limits = scaled_limits(without_source)

    def missing(self, features: Features) -> list[str]:
        """The features that no run has."""
        return [name for name in _DIFFERENCE if getattr(features, name) not in self.columns.differences[name]]


@lru_cache(maxsize=1)
def fitted_runs() -> FittedRuns:
    """The packaged runs that constants were fitted to."""
    return FittedRuns(residuals())


def band_of(model: Model, cluster: Cluster, plan: Plan, *, beyond: float = 1.0) -> Band:
    """The band of the prediction of a scalar plan, whose utilisation is `beyond` times that of the best like it."""
    return _band(run_features(model, cluster, plan), run_sizes(model, plan), plan.software, beyond)


@lru_cache(maxsize=4096)
def _band(features: Features, sizes: tuple[float, ...], software: str, beyond: float) -> Band:
    fitted = fitted_runs()
    nearest = float(run_distances(features, sizes, fitted.columns).min())
    return left_out_band(features, software, nearest + _DOUBLE * log2(max(beyond, 1.0)), fitted)


def left_out_band(features: Features, software: str, distance: float, fitted: FittedRuns) -> Band:
    """The band of a plan, `distance` doublings from the nearest of the fitted runs."""
    is_known = (software, features.architecture) in fitted.software
    scale, missing = distance_scale(distance), fitted.missing(features)
    low, high = (expm1(limit * scale) for limit in (fitted.known_limits if is_known else fitted.new_limits))
    basis = f"{len(fitted.rows)} runs, each predicted by constants fitted without its source"
    basis += " or model" if is_known else f", as none is of {software} on {features.architecture}"
    basis += f"; {scale:.1f} times as wide as beside a fitted run, for {distance:.1f} doublings between"
    if missing:
        basis += f"; no fitted run has {', '.join(f'{name} {getattr(features, name)!r}' for name in missing)}"
    band = Band(low=low, high=high, rows=len(fitted.rows), basis=basis)
    is_unknown = "architecture" in missing and bool({"experts", "attention"} & set(missing))
    return unmeasured_band(band) if is_unknown else band


def unmeasured_band(band: Band) -> Band:
    """The band at its least width where neither the kind of model nor the GPU family was measured."""
    low, high = min(band.low, -_UNMEASURED), max(band.high, _UNMEASURED)
    basis = f"{band.basis}; at least {_UNMEASURED:.0%} to either side, as nothing like it was measured"
    return Band(low=low, high=high, rows=0, basis=basis)


def distance_scale(distance: float) -> float:
    """factor. The width of a band at some doublings from the nearest fitted run, over that beside it."""
    return 1.0 + distance / _DOUBLE


def scaled_limits(left_out: Sequence[tuple[str, LeftOut]]) -> tuple[float, float]:
    """(low, high) of log(measured / predicted) over the scale of the distance, for (source, what a row leaves over)."""
    count = Counter(source for source, _ in left_out)
    scaled = np.array([row.log_ratio / distance_scale(row.distance) for _, row in left_out])
    return weighted_limits(scaled, np.array([1.0 / count[source] for source, _ in left_out]), _BEYOND)


def weighted_limits(values: Floats, weights: Floats, tail: float) -> tuple[float, float]:
    """(low, high) of values with `tail` of the weight beyond each; low is at most 0, high at least 0."""
    order = np.argsort(values)
    below = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    low, high = np.interp((tail, 1 - tail), below, values[order])
    return min(float(low), 0.0), max(float(high), 0.0)
