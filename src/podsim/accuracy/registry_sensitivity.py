"""`podsim validate --sensitivity`: how far 5 % of each constant moves each table.

Tables are thinned to a few dozen rows of each role, evenly; matrix products are predicted by the packaged constants. A
constant that moves nothing has no business in a catalog, unless it serves plans that no table holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.accuracy.measured_runs import NetworkRun
from podsim.accuracy.price_llm import Batch, make_batches, quantity_values, row_costs, training_runs
from podsim.accuracy.price_networks import NetworkCosts, network_runs
from podsim.accuracy.pricing import price
from podsim.accuracy.registry import Constant, kernel_files, registry
from podsim.accuracy.registry_change import (
    Eras,
    changed_fabric,
    changed_kernels,
    changed_software,
    kernel_origin,
)
from podsim.accuracy.tables import TABLES, Row, Rows, load, measurement, named
from podsim.hardware.parts import PRECISIONS, Gpu
from podsim.kernels.constants import gemm_constants, kernel_constants
from podsim.network.nccl import wires_of
from podsim.network.nccl_constants import load_fabric
from podsim.network.nccl_paths import fabric_name
from podsim.results.comparison import ROLES
from podsim.training.software import Software, holds, load_software

STEP = 0.05
_MOST = {"llm": 10, "kernels": 48, "collectives": 72, "vision": 40, "mlperf": 40}
"""rows of a table and role that are looked at; of kernels and collectives at least eight of each class"""
_STILL = 1e-9


@dataclass(frozen=True, kw_only=True)
class Moved:
    """What a constant does to the rows of one role of one table."""

    table: str
    role: str
    prediction: float
    """share. The mean relative change of the predictions at +5 %."""
    up: float
    """share. The change of the mean absolute error at +5 %."""
    down: float
    """share. The change of the mean absolute error at -5 %."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One constant and what it moves, the most first; empty if nothing."""

    constant: Constant
    moved: tuple[Moved, ...]


@dataclass(frozen=True)
class _Part:
    """The rows of one role of one table, and what is predicted of them with nothing changed."""

    table: str
    role: str
    rows: Rows
    measured_R: NDArray[np.float64]
    base_R: NDArray[np.float64]
    batches: tuple[Batch, ...] = ()
    """The batches of a table of language models."""
    runs: tuple[NetworkRun, ...] = ()
    """The runs of a table of captured networks."""
    costs: NetworkCosts | None = None
    """The costs of these runs without a change."""

    def again(
        self,
        touched: Callable[[Batch], bool],
        eras: Eras | None = None,
        on: Callable[[Gpu], bool] | None = None,
    ) -> NDArray[np.float64]:
        """Predictions once more, of the touched batches only, or of the networks that ran on touched GPUs (R,)."""
        if self.costs is not None:
            costs = self.costs if eras is not None else self.costs.again()
            return np.array(
                [
                    base
                    if on is not None and not on(run.cluster.gpu)
                    else costs.rate(
                        run,
                        None if eras is None else _entry(eras, run.software, run.cluster.gpu, run.precision),
                    )
                    for run, base in zip(self.runs, self.base_R, strict=True)
                ]
            )
        if not self.batches:
            return _priced(self.rows)
        out_R = self.base_R.copy()
        for batch in self.batches:
            if touched(batch):
                out_R[batch.index] = _costed(batch, self.rows.what, eras)
        return out_R


def _priced(rows: Rows) -> NDArray[np.float64]:
    found = price(rows, cross_validate=False).predictions
    return np.array([found[row.id] for row in rows])


def _costed(batch: Batch, what: str, eras: Eras | None) -> NDArray[np.float64]:
    era = None if eras is None else _entry(eras, batch.plan.software, batch.cluster.gpu)
    alone = [replace(batch, index=np.arange(batch.index.size))]
    costs = row_costs(alone, era)
    return costs.memory_R if what == "bytes" else quantity_values(what, alone, costs.seconds_R)[0]


def _entry(eras: Eras, software: str, gpu: Gpu, precision: str = "") -> Software:
    """The entry of an era that a run on a GPU took."""
    return eras[software][holds(eras[software], gpu, precision)]


def sensitivity(tables: Sequence[str] = (), *, constants: Sequence[Constant] = ()) -> tuple[Effect, ...]:
    """The effect of each constant (default: all) on each table (default: all); takes some ten minutes."""
    parts = [part for slug in tables or _tables() for part in _parts(slug)]
    return tuple(
        Effect(constant=constant, moved=_moved(constant, parts)) for constant in constants or registry()
    )


def _tables() -> list[str]:
    return [slug for slug in TABLES if not named(slug).overlaps or load(slug).what == "bytes"]


def _parts(slug: str) -> Iterator[_Part]:
    rows = load(slug)
    if rows.kind not in _MOST:
        return
    for role in ROLES:
        mine = rows.where(lambda row: row.validates and measurement(row, rows.what) is not None, role=role)
        found, _ = training_runs([row.fields for row in mine]) if rows.kind == "llm" else ([], {})
        if found:
            kept = [mine.rows[position] for position, _ in found]
        else:
            known = price(mine, cross_validate=False).predictions
            kept = [row for row in mine if row.id in known]
        classes = rows.classes if rows.kind in ("kernels", "collectives") else ()
        thin = _thinned(kept, classes, _MOST[rows.kind])
        if thin:
            yield _part(replace(mine, rows=thin), role)


def _thinned(rows: Sequence[Row], classes: Sequence[str], most: int) -> tuple[Row, ...]:
    """Some rows of each class, evenly."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.label(classes), []).append(row)
    each = max(8, most // max(len(groups), 1))
    return tuple(row for group in groups.values() for row in group[:: max(1, -(-len(group) // each))])


def _part(rows: Rows, role: str) -> _Part:
    batches: tuple[Batch, ...] = ()
    if rows.kind in ("vision", "mlperf"):
        return _network_part(rows, role)
    if rows.kind == "llm":
        batches = tuple(make_batches([one for _, one in training_runs([row.fields for row in rows])[0]]))
    measured = [found.value for row in rows if (found := measurement(row, rows.what)) is not None]
    base_R = np.empty(len(measured)) if batches else _priced(rows)
    for batch in batches:
        base_R[batch.index] = _costed(batch, rows.what, None)
    return _Part(rows.name, role, rows, np.array(measured), base_R, batches)


def _network_part(rows: Rows, role: str) -> _Part:
    found, _ = network_runs(rows.kind, [(row.id, row.fields) for row in rows])
    costs, runs = NetworkCosts(), tuple(found[row.id] for row in rows)
    measured = [one.value for row in rows if (one := measurement(row, rows.what)) is not None]
    base_R = np.array([costs.rate(run) for run in runs])
    return _Part(rows.name, role, rows, np.array(measured), base_R, runs=runs, costs=costs)


def _moved(constant: Constant, parts: Sequence[_Part]) -> tuple[Moved, ...]:
    up, down = (_changed(constant, parts, 1 + sign * STEP) for sign in (1, -1))
    found = []
    for part, up_R, down_R in zip(parts, up, down, strict=True):
        if up_R is None or down_R is None:
            continue
        shift = float(np.abs(up_R / part.base_R - 1).mean())
        errors = [
            float(np.abs(values / part.measured_R - 1).mean()) for values in (part.base_R, up_R, down_R)
        ]
        if shift > _STILL or abs(errors[2] - errors[0]) > _STILL:
            found.append(
                Moved(
                    table=part.table, role=part.role, prediction=shift,
                    up=errors[1] - errors[0], down=errors[2] - errors[0],
                )
            )  # fmt: skip
    return tuple(sorted(found, key=lambda one: -one.prediction))


def _changed(constant: Constant, parts: Sequence[_Part], factor: float) -> list[NDArray[np.float64] | None]:
    """Predictions of each part with the constant times a factor; None where it has no say."""
    group, name, *rest = constant.name.split(".")
    if group == "software":
        eras = changed_software(constant.name, factor)
        return [part.again(_ran_with(eras), eras) if part.batches or part.runs else None for part in parts]
    if group == "kernels":
        raw, table = kernel_files(), ".".join(rest[:-1])
        touched = _computed_with(raw, name, table)
        with changed_kernels(raw, name, table, rest[-1], factor):
            return [
                part.again(touched, on=_takes(raw, name, table))
                if part.batches or part.runs or part.table in _NO_COLLECTIVE
                else None
                for part in parts
            ]
    with changed_fabric(group, name, rest[-1], factor):
        return [
            None if part.table in _NO_COLLECTIVE else part.again(_sent_over(group, name)) for part in parts
        ]


_NO_COLLECTIVE = ("gemm-a100", "gemm-hopper", "kernels-rates", "attention-figures", "attention-serving")


def _ran_with(eras: Eras) -> Callable[[Batch], bool]:
    """Whether a batch ran with an entry that differs from the packaged one."""
    return lambda batch: (
        _entry(eras, batch.plan.software, batch.cluster.gpu)
        != load_software(batch.plan.software, batch.cluster.gpu)
    )


def _takes(raw: Mapping[str, Mapping[str, Any]], file: str, table: str) -> Callable[[Gpu], bool]:
    """Whether a GPU takes a table of constants from a file."""

    def takes(gpu: Gpu) -> bool:
        found = kernel_constants(gpu)
        return kernel_origin(raw, found.base if found.extrapolated else found.name, table) == file

    return takes


def _computed_with(raw: Mapping[str, Mapping[str, Any]], file: str, table: str) -> Callable[[Batch], bool]:
    """Whether a batch ran on a GPU that takes a table of constants from a file, with kernels that it is of."""
    kind, _, key = table.partition(".")
    takes = _takes(raw, file, table)

    def touched(batch: Batch) -> bool:
        found = kernel_constants(batch.cluster.gpu)
        if not takes(batch.cluster.gpu):
            return False
        if kind == "flash":
            return load_software(batch.plan.software, batch.cluster.gpu).flash == key
        used = {PRECISIONS[batch.plan.precision].matmul, "bf16"}
        return kind == "memory" or any(gemm_constants(found, p)[0] is found.gemm[key] for p in used)

    return touched


def _sent_over(group: str, name: str) -> Callable[[Batch], bool]:
    """Whether a batch used a fabric inside nodes, or a network between them."""
    if group == "networks":
        return lambda batch: batch.cluster.fabric == name and batch.cluster.nodes > 1
    return lambda batch: load_fabric(fabric_name(wires_of(batch.cluster))) == load_fabric(name)
