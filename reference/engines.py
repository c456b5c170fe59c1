"""Constants of inference engines, fitted to published latencies of BERT-Base, and scored on the rest.

Fitted are latencies of BERT-Base, and of the sparse network those of length 384. BERT-Large and the sparse network at
length 128 are only scored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podsim.axes import Floats
from podsim.fitting import Fit, Parameter, Values, solve
from podsim.hardware.catalog import load_gpu
from podsim.serving.engines import FITTED, Engine
from podsim.serving.inference_passes import Pass
from podsim.serving.latencies import REVISIONS, LatencyRows, latency_rows

_SPEED = Parameter(start=1.0, low=0.2, high=1.15)
_KERNEL = Parameter(start=1e-6, low=-4e-6, high=20e-6, scale=1e-6)


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


def _fits(rows: LatencyRows) -> bool:
    """Whether constants are fitted to these rows."""
    return rows.tokens == 384 if rows.sparse else rows.model == "bert-base"


def _logs(engine: Engine, rows: LatencyRows, done: Pass) -> Floats:
    total = sum(done.seconds(engine, rows.precision, rows.sparse).values(), np.zeros_like(rows.seconds))
    return np.asarray(np.log(total / rows.seconds))


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
        "attention_speed": any(done.is_single_block for _, done in kinds),
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
