"""`podsim validate --sensitivity`: how far 5 % of each constant moves each table.

Tables are thinned to a few dozen rows of each role, evenly; matrix products are predicted by the packaged constants. A
constant that moves nothing has no business in a catalog, unless it serves plans that no table holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from podsim.results import ROLES
from podsim.verbs.registry import Constant, registry
from podsim.verbs.registry_change import (
    Eras,
    changed_fabric,
    changed_kernels,
    changed_software,
    kernel_tables,
)
from podsim.verbs.tables import price
from podsim.verbs.tables_llm import Batch, batches_of, costs_of, express_all
from podsim.verify import Rows, load, measurement, named

__all__ = ["STEP", "Effect", "Moved", "sensitivity"]

STEP = 0.05
_MOST = {"llm": 24, "kernels": 48, "collectives": 72}
"""rows of a table and role that are looked at"""
_STILL = 1e-9


@dataclass(frozen=True, kw_only=True)
class Moved:
    """What a constant does to the rows of one role of one table."""

    table: str
    role: str
    prediction: float
    """mean of |change| of the predictions at + 5 %, relative"""
    up: float
    """change of the mean absolute error at + 5 %"""
    down: float
    """the same at - 5 %"""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One constant and what it moves, the most first; empty if nothing."""

    constant: Constant
    moved: tuple[Moved, ...]


@dataclass(frozen=True)
class _Part:
    """The rows of one role of one table: how they are predicted, and by what."""

    table: str
    role: str
    measured_R: NDArray[np.float64]
    rows: Rows
    batches: tuple[Batch, ...]
    """of a training table; () for others"""

    def predict(self, eras: Eras | None = None) -> NDArray[np.float64]:
        """Predictions (R,)."""
        if not self.batches:
            found = price(self.rows, cross_validate=False).predictions
            return np.array([found[row.id] for row in self.rows])
        out_R = np.empty(self.measured_R.size)
        for batch in self.batches:
            era = None if eras is None else _entry(eras, batch)
            costs = costs_of([replace(batch, index=np.arange(batch.index.size))], era)
            out_R[batch.index] = costs.memory_R if self.rows.what == "bytes" else costs.seconds_R
        return out_R


def _entry(eras: Eras, batch: Batch) -> object:
    found, gpu = eras[batch.plan.software], batch.cluster.gpu
    return found.get(gpu.name) or found.get(gpu.architecture) or found[""]


def sensitivity(
    tables: Sequence[str] = (), *, constants: Sequence[Constant] = ()
) -> tuple[Effect, ...]:
    """The effect of each constant (default: all) on each table (default: all); takes a minute or two."""
    parts = [part for slug in tables or _tables() for part in _parts(slug)]
    base = {(part.table, part.role): part.predict() for part in parts}
    return tuple(
        Effect(constant=constant, moved=_moved(constant, parts, base)) for constant in constants or registry()
    )


def _tables() -> list[str]:
    from podsim.verbs.validate import TABLES

    return [
        slug
        for slug in TABLES
        if not named(slug).parts or load(slug).what == "bytes"
        if load(slug).kind in _MOST
    ]


def _parts(slug: str) -> Iterator[_Part]:
    rows = load(slug)
    for role in ROLES:
        mine = rows.where(lambda row: row.validates and measurement(row, rows.what) is not None, role=role)
        if rows.kind == "llm":
            found, _ = express_all([row.fields for row in mine])
            kept = [mine.rows[position] for position, _ in found]
        else:
            known = price(mine, cross_validate=False).predictions
            kept = [row for row in mine if row.id in known]
        thin = kept[:: max(1, -(-len(kept) // _MOST[rows.kind]))]
        if not thin:
            continue
        chosen = replace(mine, rows=tuple(thin))
        batches: list[Batch] = []
        if rows.kind == "llm" and rows.what in ("seconds per step", "bytes"):
            batches = batches_of([one for _, one in express_all([row.fields for row in thin])[0]])
        measured = [found.value for row in thin if (found := measurement(row, rows.what)) is not None]
        yield _Part(slug, role, np.array(measured), chosen, tuple(batches))


def _moved(
    constant: Constant, parts: Sequence[_Part], base: dict[tuple[str, str], NDArray[np.float64]]
) -> tuple[Moved, ...]:
    up, down = (_changed(constant, parts, 1 + sign * STEP) for sign in (1, -1))
    found = []
    for part in parts:
        key = (part.table, part.role)
        if key not in up:
            continue
        shift = float(np.abs(up[key] / base[key] - 1).mean())
        errors = [float(np.abs(values / part.measured_R - 1).mean()) for values in (base[key], up[key], down[key])]
        if shift > _STILL or abs(errors[2] - errors[0]) > _STILL:
            found.append(
                Moved(
                    table=part.table, role=part.role, prediction=shift,
                    up=errors[1] - errors[0], down=errors[2] - errors[0],
                )
            )  # fmt: skip
    return tuple(sorted(found, key=lambda one: -one.prediction))


def _changed(
    constant: Constant, parts: Sequence[_Part], factor: float
) -> dict[tuple[str, str], NDArray[np.float64]]:
    """Predictions, with the constant times a factor, of the parts that it may touch."""
    group, name, *rest = constant.name.split(".")
    if group == "software":
        eras = changed_software(constant.name, factor)
        return {(p.table, p.role): p.predict(eras) for p in parts if p.batches and _runs(p, name)}
    if group == "kernels":
        touched = [part for part in parts if part.rows.kind != "collectives" and _has(part, name)]
        with changed_kernels(kernel_tables(), name, ".".join(rest[:-1]), rest[-1], factor):
            return {(part.table, part.role): part.predict() for part in touched}
    touched = [part for part in parts if not part.table.startswith(("gemm", "attention", "kernels-rates"))]
    with changed_fabric(group, name, rest[-1], factor):
        return {(part.table, part.role): part.predict() for part in touched if _meets(part, group, name)}
