"""The constants of an inference engine, fitted to published latencies of BERT-Base, and scored on the rest.

Rows: latencies of TensorRT's BERT demonstration by batch (1 to 128), length (128, 384) and precision, at four dates.
Fitted are those of BERT-Base, and of the sparse network those of length 384; BERT-Large and the sparse network at
length 128 are only scored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podsim.accuracy.tables import load
from podsim.errors import TableError
from podsim.fitting import Fit, Parameter, Values, solve
from podsim.hardware.catalog import load_gpu
from podsim.serving.engine import FITTED, Engine
from podsim.serving.kernels import Floats
from podsim.serving.passes import Pass, prompt_pass
from podsim.workload.catalog import load_model

REVISIONS = {"tensorrt-2021": "ab20a8ac26", "tensorrt-2026": "9973b2f4ab"}
"""revision of TensorRT's demo/BERT/README.md that each engine is fitted to"""
_GPUS = {"A100-40GB": "a100-sxm4-40gb", "V100-16GB": "v100-sxm2-16gb"}
_SPEED = Parameter(start=1.0, low=0.2, high=1.15)
_KERNEL = Parameter(start=1e-6, low=-4e-6, high=20e-6, scale=1e-6)
_SPARSE = "Megatron Large with Sparsity"
"""BERT-Large in size, pruned 2:4 and quantised"""


@dataclass(frozen=True, kw_only=True)
class LatencyRows:
    """Latencies of one network, GPU, precision and length, at rising batches."""

    model: str
    gpu: str
    precision: str
    sparse: bool
    tokens: int
    """The number of tokens of a sequence."""
    batch_B: Floats
    seconds_B: Floats
    """s. The measured times."""

    def run(self) -> Pass:
        """The same pass by the kernel laws."""
        return prompt_pass(
            load_model(self.model), load_gpu(self.gpu), self.batch_B, self.tokens, precision=self.precision,
            sparse=self.sparse,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class EngineScore:
    """How far an engine is from measured latencies of one kind."""

    name: str
    rows: int
    mean: float
    """share. The mean of |predicted / measured - 1|."""
    bias: float
    """share. The mean of predicted / measured - 1."""
    worst: float
    """share. The largest |predicted / measured - 1|."""
    fitted: bool
    """Whether constants were fitted to these rows."""


def latency_rows(revision: str) -> tuple[LatencyRows, ...]:
    """The latencies of one revision. Raises TableError for a revision that the tables do not hold."""
    found: dict[tuple[str, str, str, bool, int], list[tuple[float, float]]] = {}
    for row in load("vision"):
        if row.text("framework") != "TensorRT" or f"@{revision}" not in row.text("path"):
            continue
        sparse, named = row.text("model") == _SPARSE, row.text("model").lower()
        key = (
            "bert-base" if "base" in named else "bert-large", _GPUS[row.text("gpu")],
            row.text("precision").split()[0].lower(), sparse, row.integer("seq_len") or 0,
        )  # fmt: skip
        found.setdefault(key, []).append(
            (row.number("batch_per_gpu") or 0.0, (row.number("latency_ms") or 0.0) * 1e-3)
        )
    if not found:
        raise TableError(
            f"no latencies of revision {revision[:40]!r}; known are {', '.join(REVISIONS.values())}"
        )
    return tuple(
        LatencyRows(
            model=model, gpu=gpu, precision=precision, sparse=sparse, tokens=tokens,
            batch_B=np.array([b for b, _ in sorted(pairs)]), seconds_B=np.array([s for _, s in sorted(pairs)]),
        )
        for (model, gpu, precision, sparse, tokens), pairs in found.items()
        if "int8" not in precision or "int8" in load_gpu(gpu).peaks
    )  # fmt: skip


def _fits(rows: LatencyRows) -> bool:
    """Whether constants are fitted to these rows."""
    return rows.tokens == 384 if rows.sparse else rows.model == "bert-base"


def _logs(engine: Engine, rows: LatencyRows, done: Pass) -> Floats:
    total = sum(done.seconds(engine, rows.precision, rows.sparse).values(), np.zeros_like(rows.seconds_B))
    return np.asarray(np.log(total / rows.seconds_B))


def fit_engine(engine: Engine, architecture: str = "ampere") -> Engine:
    """The engine with constants fitted to the latencies of its revision.

    Each architecture is fitted alone; a constant of which it has no rows stays.
    """
    kinds = [
        (rows, rows.run())
        for rows in latency_rows(REVISIONS[engine.name])
        if _fits(rows) and load_gpu(rows.gpu).architecture == architecture
    ]
    there = {
        "sparse_speed": any(rows.sparse for rows, _ in kinds),
        "int8_speed": any(rows.precision == "int8" for rows, _ in kinds),
        "attention_speed": any(done.whole for _, done in kinds),
    }
    names = [name for name in FITTED if there.get(name, True)]

    fit = Fit(parameters={name: _KERNEL if name == "kernel" else _SPEED for name in names}, softness=0.1)

    def residuals(values: Values) -> Floats:
        changed: dict[str, Any] = dict(values)
        return np.concatenate([_logs(replace(engine, **changed), rows, done) for rows, done in kinds])

    constants: dict[str, Any] = solve(fit, residuals).values
    return replace(engine, **constants)


def score_engine(engine: Engine, architecture: str = "ampere") -> tuple[EngineScore, ...]:
    """Errors of an engine on the rows of its revision, by network, GPU and precision."""
    groups: dict[tuple[str, bool], list[Floats]] = {}
    for rows in latency_rows(REVISIONS[engine.name]):
        if load_gpu(rows.gpu).architecture != architecture:
            continue
        kind = f"{rows.model}{' 2:4 sparse' if rows.sparse else ''} {rows.precision}, {rows.gpu}"
        kind += f", {rows.tokens} tokens" if rows.sparse else ""
        groups.setdefault((kind, _fits(rows)), []).append(np.exp(_logs(engine, rows, rows.run())) - 1)
    made = []
    for (name, fitted), some in groups.items():
        off = np.concatenate(some)
        made.append(
            EngineScore(
                name=name, rows=len(off), mean=float(np.abs(off).mean()), bias=float(off.mean()),
                worst=float(np.abs(off).max()), fitted=fitted,
            )
        )  # fmt: skip
    return tuple(made)
