"""The error band of a prediction, from what podsim's predictions of measured runs left over.

Every measured run counts, with a weight that falls with each feature in which it differs from the plan: GPU family,
width of the operands, kind of plan, framework, one or several nodes, size of the model, dense or a mixture of experts,
and whether the GPU waits for the host. The runs of one source share one weight, however many they are: what a new
machine leaves over is best seen between sources. The band lies between two weighted quantiles of measured / predicted.
They are set so that four of five test runs of a source that is left out fall inside. scripts/record.py writes the
packaged residuals (`residuals.csv`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from math import exp, expm1
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from podsim.answers.prediction import Band, Prediction
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS
from podsim.packaged import packaged_csv
from podsim.training.plan import Plan
from podsim.workload.model import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray


FILE = "residuals.csv"
ENOUGH = 10
"""The least number of rows for percentiles."""
_TAIL = 0.05
"""share of the weight below a band, and above it: four of five runs of a new source fall inside"""
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
    experts: str
    """The model: dense or experts."""
    gpu: str
    """The name of the GPU's sheet."""
    precision: str


@dataclass(frozen=True, kw_only=True)
class Residual:
    """One measured run and the error of its prediction."""

    id: str
    role: str
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

    @property
    def source(self) -> str:
        """The source of the run, as the letters of its row."""
        return self.id.rsplit("-", maxsplit=1)[0]


_DIFFERENCE = {
    "architecture": 1.5, "bits": 1.1, "kind": 0.75, "framework": 0.75, "nodes": 0.5, "size": 0.4, "host": 0.5,
    "experts": 1.1,
}  # fmt: skip
"""What a difference in a feature takes off the logarithm of a run's weight."""


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
        experts="experts" if model.has_experts else "dense",
        gpu=cluster.gpu.name,
        precision=plan.precision,
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
    names = [field.name for field in fields(Features)]
    return tuple(
        Residual(
            id=row["id"],
            role=row["role"],
            features=Features(**{name: row[name] for name in names}),
            gpus=int(row["gpus"]),
            sequence=int(row["sequence"]),
            parameters=float(row["parameters"]),
            tp=int(row["tp"]),
            pp=int(row["pp"]),
            cp=int(row["cp"]),
            ep=int(row["ep"]),
            global_batch=int(row["global_batch"]),
            micro_batch=int(row["micro_batch"]),
            software=row["software"],
            log_ratio=float(row["log_ratio"]),
            utilisation=float(row["utilisation"]),
        )
        for row in packaged_csv(f"accuracy/{FILE}")
    )


def band_of(model: Model, cluster: Cluster, plan: Plan, prediction: Prediction) -> tuple[Band | None, str]:
    """(band, "") of the prediction of a scalar plan, or (None, why there is none)."""
    waits = sum(prediction.parts.get(part, 0.0) for part in ("launch", "host")) / prediction.step_time
    return band_of_step(model, cluster, plan, waits)


def band_of_step(model: Model, cluster: Cluster, plan: Plan, host_share: float) -> tuple[Band | None, str]:
    """The same of a step in which the GPU waits for the host for `host_share` of the time."""
    wanted = run_features(model, cluster, plan, host_share)
    outside = _uncovered_reason(model, cluster, plan, wanted)
    return (None, outside) if outside else (_packaged_band(wanted), "")


class _Extent(NamedTuple):
    """The largest values of measured runs."""

    sequence: int
    """The tokens of a sequence on a GPU family; 0 if no run on it was measured."""
    gpus: int
    """The number of GPUs of that family."""
    cp: int
    ep: int
    has_experts: bool
    """Whether some run trains a mixture of experts."""


@lru_cache(maxsize=64)
def _extent(architecture: str) -> _Extent:
    """The extent of the packaged runs, of sequences and GPUs on a family."""
    rows = residuals()
    family = [row for row in rows if row.features.architecture == architecture]
    return _Extent(
        sequence=max((row.sequence for row in family), default=0),
        gpus=max((row.gpus for row in family), default=0),
        cp=max(row.cp for row in rows),
        ep=max(row.ep for row in rows),
        has_experts=any(row.features.experts == "experts" for row in rows),
    )


def _uncovered_reason(model: Model, cluster: Cluster, plan: Plan, wanted: Features) -> str:
    """The reason why no measurement covers a plan; "" if some may."""
    name = wanted.architecture
    reach = _extent(name)
    if not reach.sequence:
        return f"no run on a GPU of the family {name} was measured"
    length, longest = plan.length(model), reach.sequence
    gpus, most = int(plan.gpus), reach.gpus
    rules = (
        (
            wanted.experts == "experts" and not reach.has_experts,
            "no measured run trains a mixture of experts",
        ),
        (int(plan.cp) > reach.cp, "no run with so much context parallelism was measured"),
        (int(plan.ep) > reach.ep, "no run with so much expert parallelism was measured"),
        (bool(cluster.gpu.bridge) or not cluster.gpu.nvlink, "no measured run is on GPUs without NVLink"),
        (
            length > _FAR * longest,
            f"the longest measured sequence on {name} has {longest} tokens, not {length}",
        ),
        (gpus > _FAR * most, f"the largest measured run on {name} has {most} GPUs, not {gpus}"),
    )
    return next((reason for broken, reason in rules if broken), "")


@lru_cache(maxsize=256)
def _packaged_band(wanted: Features) -> Band:
    return run_band(wanted, residuals())


def run_band(wanted: Features, rows: Sequence[Residual]) -> Band:
    """The band of a plan with these features, from measured runs."""
    weights = run_weights(wanted, rows)
    low, high = band_limits(rows, weights)
    return Band(low=low, high=high, rows=len(rows), basis=_basis(rows, weights))


def run_weights(wanted: Features, rows: Sequence[Residual]) -> NDArray[np.float64]:
    """The weight of each run for a plan with these features; the runs of a source share one weight."""
    sources = Counter(row.source for row in rows)
    return np.array([
        exp(-sum(cost for name, cost in _DIFFERENCE.items() if getattr(row.features, name) != getattr(wanted, name)))
        / sources[row.source]
        for row in rows
    ])  # fmt: skip


def band_limits(
    rows: Sequence[Residual], weights: NDArray[np.float64], tail: float = _TAIL
) -> tuple[float, float]:
    """(low, high) of a band: shares below and above the predicted time, with `tail` of the weight beyond each."""
    ratios = np.array([row.log_ratio for row in rows])
    order = np.argsort(ratios)
    below = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    low, high = np.interp((tail, 1 - tail), below, ratios[order])
    return expm1(min(low, 0.0)), expm1(max(high, 0.0))


def _basis(rows: Sequence[Residual], weights: NDArray[np.float64]) -> str:
    """A text that names the sources with most of the weight."""
    shares: Counter[str] = Counter()
    for row, weight in zip(rows, (weights / weights.sum()).tolist(), strict=True):
        shares[row.source] += weight
    most = ", ".join(f"{name} {share:.0%}" for name, share in shares.most_common(4))
    return f"{len(rows)} measured runs of {len(shares)} sources, the more alike the more weight: {most}"
