"""The error band of a prediction, from the residuals of the most similar measurements.

A measurement resembles a plan if the GPU family, the kind of plan (FSDP, data, tensor or pipeline parallel) and the
width of the operands agree. As far as enough rows remain, four more features agree: the framework, the number of nodes
(one or several), the size of the model, and whether the GPU waits for the host. The band runs from the 10th to the
90th percentile of measured / predicted, so four of five new rows of the same kind fall inside. Rows with role `test`
count alone if there are enough of them. Otherwise rows marked `calibrate` count too, and the basis says so.
scripts/record.py writes the packaged residuals (`residuals.csv`).
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS
from podsim.results.prediction import Band, Prediction
from podsim.training.plan import Plan
from podsim.workload.model import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray


FILE = "residuals.csv"
ENOUGH = 10
"""The least number of rows for percentiles."""
_LOW, _HIGH = 0.1, 0.9
_SIZES = (1.5e9, 12e9, 60e9)
"""The numbers of parameters at the borders of the classes of size."""
_HOST_BOUND = 0.15
"""The share of a step above which a GPU counts as waiting for the host."""
_FAR = 4.0
"""There is no band beyond this multiple of the longest sequence, or of the most GPUs, that were measured."""
_FAMILIES = {"megatron": "megatron", "nemo": "megatron"}
"""First word of the name of software -> the family whose runs resemble one another."""
_ALONE = ("megatron-deepspeed",)
"""Software that shares its first word with others but not their pipeline engine."""


@dataclass(frozen=True, kw_only=True)
class Features:
    """The features in which similar training runs agree."""

    architecture: str
    kind: str
    """The kind: FSDP, pipeline, tensor or data parallel."""
    bits: str
    """The width of the operands: 8, 16 or 32."""
    framework: str
    nodes: str
    """The number of nodes: one or several."""
    size: str
    """The class of the number of parameters."""
    host: str
    """Whether the GPU waits for the host."""


@dataclass(frozen=True, kw_only=True)
class Residual:
    """One measured run and the error of its prediction."""

    id: str
    role: str
    features: Features
    gpus: int
    sequence: int
    log_ratio: float
    """factor. The logarithm of measured / predicted."""
    utilisation: float
    """share. The measured model FLOPs utilisation, with attention."""


_STEPS = (
    ("framework", "nodes", "size", "host"),
    ("nodes", "size", "host"),
    ("framework", "nodes", "host"),
    ("nodes", "host"),
    ("framework", "host"),
    ("host",),
    (),
)
"""The features that must agree besides architecture, kind and bits, from the closest match to the loosest."""
_ALWAYS = ("architecture", "kind", "bits")


def run_features(model: Model, cluster: Cluster, plan: Plan, host_share: float) -> Features:
    """Features of a scalar plan; `host_share` is the share of the step in which the GPU waits for the host."""
    return Features(
        architecture=cluster.gpu.architecture.lower(),
        kind=_kind(plan),
        bits=operand_bits(plan.precision),
        framework=_family(plan.software),
        nodes="one" if int(plan.gpus) <= cluster.gpus_per_node else "several",
        size=_size(model.parameters),
        host="yes" if host_share > _HOST_BOUND else "no",
    )


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


def _size(parameters: float) -> str:
    """Class of size, as "up to 1.5 B" parameters."""
    for limit in _SIZES:
        if parameters <= limit:
            return f"up to {limit / 1e9:g} B"
    return f"over {_SIZES[-1] / 1e9:g} B"


@lru_cache(maxsize=1)
def residuals() -> tuple[Residual, ...]:
    """The packaged residuals."""
    text = files("podsim.accuracy").joinpath(FILE).read_text("utf-8")
    names = [field.name for field in fields(Features)]
    return tuple(
        Residual(
            id=row["id"],
            role=row["role"],
            features=Features(**{name: row[name] for name in names}),
            gpus=int(row["gpus"]),
            sequence=int(row["sequence"]),
            log_ratio=float(row["log_ratio"]),
            utilisation=float(row["utilisation"]),
        )
        for row in csv.DictReader(io.StringIO(text))
    )


def band_of(
    model: Model, cluster: Cluster, plan: Plan, prediction: Prediction, *, known: Sequence[Residual] = ()
) -> tuple[Band | None, str]:
    """(band, "") of the prediction of a scalar plan, or (None, why there is none).

    `known` replaces the packaged residuals.
    """
    rows = tuple(known) or residuals()
    waits = sum(prediction.parts.get(part, 0.0) for part in ("launch", "host")) / prediction.step_time
    wanted = run_features(model, cluster, plan, waits)
    outside = _uncovered_reason(model, cluster, plan, wanted, rows)
    if outside:
        return None, outside
    similar, agreeing = nearest_runs(wanted, rows)
    if not similar:
        return None, (
            f"fewer than {ENOUGH} measured runs are {wanted.kind} on {wanted.architecture} in {wanted.bits} bits"
        )
    low, high = band_limits(similar)
    return Band(low=low, high=high, rows=len(similar), basis=_basis(similar, wanted, agreeing)), ""


def _uncovered_reason(
    model: Model, cluster: Cluster, plan: Plan, wanted: Features, rows: Sequence[Residual]
) -> str:
    """The reason why no measurement covers a plan; "" if some may."""
    name = wanted.architecture
    family = [row for row in rows if row.features.architecture == name]
    if not family:
        return f"no run on a GPU of the family {name} was measured"
    length, longest = plan.length(model), max(row.sequence for row in family)
    gpus, most = int(plan.gpus), max(row.gpus for row in family)
    rules = (
        (any(block.experts for block in model.layers), "no measured run trains a mixture of experts"),
        (int(plan.cp) > 1 or int(plan.ep) > 1, "no run with context or expert parallelism was measured"),
        (bool(cluster.gpu.bridge) or not cluster.gpu.nvlink, "no measured run is on GPUs without NVLink"),
        (
            length > _FAR * longest,
            f"the longest measured sequence on {name} has {longest} tokens, not {length}",
        ),
        (gpus > _FAR * most, f"the largest measured run on {name} has {most} GPUs, not {gpus}"),
    )
    return next((reason for broken, reason in rules if broken), "")


def nearest_runs(wanted: Features, rows: Sequence[Residual]) -> tuple[list[Residual], tuple[str, ...]]:
    """(rows of the closest match with enough rows, features that agree); [] if there is none."""
    return closest_rows(wanted, rows, [_ALWAYS + names for names in _STEPS])


class _Missed(Protocol):
    """A measured run, its features, and the error of its prediction."""

    @property
    def role(self) -> str: ...
    @property
    def features(self) -> object: ...
    @property
    def log_ratio(self) -> float: ...


_Row = TypeVar("_Row", bound=_Missed)


def closest_rows(
    wanted: object, rows: Sequence[_Row], steps: Sequence[tuple[str, ...]]
) -> tuple[list[_Row], tuple[str, ...]]:
    """(rows that agree in the features of the first step with enough rows, these features); [] if there are none.

    Rows marked `test` count alone where there are enough of them.
    """
    for agree in steps:
        key = [getattr(wanted, name) for name in agree]
        alike = [row for row in rows if [getattr(row.features, name) for name in agree] == key]
        tests = [row for row in alike if row.role == "test"]
        for chosen in (tests, alike):
            if len(chosen) >= ENOUGH:
                return chosen, agree
    return [], ()


def band_limits(rows: Sequence[_Row]) -> tuple[float, float]:
    """(low, high) of a band: shares below and above the predicted time."""
    ratios = np.exp([row.log_ratio for row in rows]) - 1.0
    return _quantile(ratios, _LOW), _quantile(ratios, _HIGH)


def _quantile(ratios: NDArray[np.float64], level: float) -> float:
    """The level's quantile of a new row, from n known ones: rank level x (n + 1), within the range seen."""
    count = ratios.size
    rank = (level * (count + 1) - 1) / (count - 1)
    return float(np.quantile(ratios, min(max(rank, 0.0), 1.0)))


def _basis(rows: Sequence[Residual], wanted: Features, agreeing: Sequence[str]) -> str:
    """A text that names the measurements."""
    sources = Counter(row.id.rsplit("-", maxsplit=1)[0] for row in rows)
    counts = ", ".join(f"{count} {name}" for name, count in sources.most_common())
    fitted = sum(row.role == "calibrate" for row in rows)
    words = [f"{wanted.architecture} GPUs", wanted.kind, f"{wanted.bits} bits"]
    words += [_feature_text(name, getattr(wanted, name)) for name in agreeing if name not in _ALWAYS]
    seen = f"; constants were fitted to {fitted} of them" if fitted else "; none was fitted to"
    return f"{len(rows)} measured runs ({counts}): {', '.join(words)}{seen}"


def _feature_text(name: str, value: str) -> str:
    """The text of one feature."""
    if name == "host":
        return "GPU waits for the host" if value == "yes" else "GPU busy"
    return {
        "framework": value,
        "nodes": f"{value} node{'s' * (value != 'one')}",
        "size": f"{value} parameters",
    }[name]
