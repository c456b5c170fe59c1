"""How far 5 % of each constant moves each table.

Each table is thinned evenly to a few dozen rows of each role. The packaged constants predict matrix products. A constant
that moves nothing does not belong in a catalog, unless it serves plans that no table holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podsim.accuracy.price_llm import Batch, make_batches, quantity_values, row_costs, training_runs
from podsim.accuracy.price_networks import NetworkCosts, NetworkRun, network_runs
from podsim.accuracy.pricing import price
from podsim.accuracy.tables import TABLES, Row, Rows, load, measurement, named_table
from podsim.answers.comparison import ROLES
from podsim.axes import Floats
from podsim.hardware.parts import Gpu
from podsim.kernels.constants import gemm_constants, kernel_constants
from podsim.network.nccl import wires_of
from podsim.network.nccl_constants import load_fabric
from podsim.network.nccl_group import fabric_name
from podsim.training.software import Software, holds, load_software
from reference.registry import Constant, kernel_files, registry
from reference.registry_change import (
    SoftwareCatalog,
    changed_engines,
    changed_fabric,
    changed_inference,
    changed_kernels,
    changed_software,
    kernel_origin,
)

STEP = 0.05
_MOST = {"llm": 10, "kernels": 48, "engines": 48, "collectives": 72, "vision": 40, "mlperf": 40}
"""Kind of table -> the most rows of a table and role; of kernels and collectives at least eight of each class."""
_ENGINE_CLASSES = (
    "device",
    "op_name",
    "kernel_source",
    "gemm_dtype",
    "attn_dtype",
    "kv_cache_dtype",
    "moe_dtype",
)
"""The columns that tell kernels of engines apart; of each, eight rows stay."""
_STILL = 1e-9
"""The relative change up to which a prediction counts as unmoved."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """The effect of a constant on the rows of one role of one table."""

    table: str
    role: str
    prediction: float
    """share. The mean of the predictions' relative change, without its sign, at + 5 %."""
    up: float
    """share. The change of the mean absolute error at + 5 %."""
    down: float
    """share. The change of the mean absolute error at - 5 %."""


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One constant and what it moves, the largest effect first; empty if it moves nothing."""

    constant: Constant
    moved: tuple[Moved, ...]


@dataclass(frozen=True)
class _Part:
    """The rows of one role of one table, and their predictions with nothing changed."""

    table: str
    role: str
    rows: Rows
    measured: Floats
    predicted: Floats
    batches: tuple[Batch, ...] = ()
    """The batches of a table of language models."""
    runs: tuple[NetworkRun, ...] = ()
    """The runs of a table of captured networks."""
    costs: NetworkCosts | None = None
    """The costs of these runs with nothing changed."""

    def predict_again(
        self,
        is_touched: Callable[[Batch], bool],
        catalog: SoftwareCatalog | None = None,
        is_on: Callable[[Gpu], bool] | None = None,
    ) -> Floats:
        """Predictions with a constant changed. Batches, and networks on GPUs, that it does not touch stay as they are."""
        if self.costs is not None:
            return self._network_rates(self.costs, catalog, is_on)
        if not self.batches:
            return _predictions(self.rows)
        values = self.predicted.copy()
        for batch in self.batches:
            if is_touched(batch):
                values[batch.index] = _batch_values(batch, self.rows.what, catalog)
        return values

    def _network_rates(
        self, costs: NetworkCosts, catalog: SoftwareCatalog | None, is_on: Callable[[Gpu], bool] | None
    ) -> Floats:
        """Rates of the networks with a constant changed."""
        costs = costs if catalog is not None else costs.without_costs()
        rates = self.predicted.copy()
        for position, run in enumerate(self.runs):
            if is_on is None or is_on(run.cluster.gpu):
                gpu = run.cluster.gpu
                software = catalog and _entry(catalog, run.software, gpu, run.precision)
                rates[position] = costs.rate(run, software or None)
        return rates


def _predictions(rows: Rows) -> Floats:
    predictions = price(rows, cross_validate=False).predictions
    return np.array([predictions[row.id] for row in rows])


def _batch_values(batch: Batch, what: str, catalog: SoftwareCatalog | None) -> Floats:
    software = None if catalog is None else _entry(catalog, batch.plan.software, batch.cluster.gpu)
    alone = [replace(batch, index=np.arange(batch.index.size))]
    costs = row_costs(alone, software)
    return costs.memory if what == "bytes" else quantity_values(what, alone, costs.seconds)[0]


def _entry(catalog: SoftwareCatalog, software: str, gpu: Gpu, precision: str = "") -> Software:
    """The entry of a software catalog that a run on a GPU takes."""
    return catalog[software][holds(catalog[software], gpu, precision)]


def sensitivity(tables: Sequence[str] = (), *, constants: Sequence[Constant] = ()) -> tuple[Effect, ...]:
    """The effect of each constant (default: all) on each table (default: all); takes about ten minutes."""
    parts = [part for slug in tables or _tables() for part in _parts(slug)]
    return tuple(
        Effect(constant=constant, moved=_effects(constant, parts)) for constant in constants or registry()
    )


def _tables() -> list[str]:
    return [slug for slug in TABLES if not named_table(slug).overlaps or load(slug).what == "bytes"]


def _parts(slug: str) -> Iterator[_Part]:
    rows = load(slug)
    if rows.kind not in _MOST:
        return
    for role in ROLES:
        mine = rows.where(lambda row: row.validates and measurement(row, rows.what) is not None, role=role)
        runs, _ = training_runs([row.fields for row in mine]) if rows.kind == "llm" else ([], {})
        if runs:
            kept = [mine.rows[position] for position, _ in runs]
        else:
            predictions = price(mine, cross_validate=False).predictions
            kept = [row for row in mine if row.id in predictions]
        classes: tuple[str, ...] = _ENGINE_CLASSES if rows.kind == "engines" else ()
        classes = rows.classes if rows.kind in ("kernels", "collectives") else classes
        thin = _thin_rows(kept, classes, _MOST[rows.kind])
        if thin:
            yield _part(replace(mine, rows=thin), role)


def _thin_rows(rows: Sequence[Row], classes: Sequence[str], most: int) -> tuple[Row, ...]:
    """Some rows of each class, evenly."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.label(classes), []).append(row)
    each = max(8, most // max(len(groups), 1))
    return tuple(row for group in groups.values() for row in group[:: max(1, -(-len(group) // each))])


def _part(rows: Rows, role: str) -> _Part:
    batches: tuple[Batch, ...] = ()
    if rows.kind in ("vision", "mlperf") and rows.name != _INFERENCE:
        return _network_part(rows, role)
    if rows.kind == "llm":
        batches = tuple(make_batches([run for _, run in training_runs([row.fields for row in rows])[0]]))
    measured = _measured_values(rows)
    predicted = np.empty(measured.size) if batches else _predictions(rows)
    for batch in batches:
        predicted[batch.index] = _batch_values(batch, rows.what, None)
    return _Part(rows.name, role, rows, measured, predicted, batches)


def _network_part(rows: Rows, role: str) -> _Part:
    by_id, _ = network_runs([(row.id, row.fields) for row in rows])
    costs, runs = NetworkCosts(), tuple(by_id[row.id] for row in rows)
    predicted = np.array([costs.rate(run) for run in runs])
    return _Part(rows.name, role, rows, _measured_values(rows), predicted, runs=runs, costs=costs)


def _measured_values(rows: Rows) -> Floats:
    measured = (measurement(row, rows.what) for row in rows)
    return np.array([value.value for value in measured if value is not None])


def _effects(constant: Constant, parts: Sequence[_Part]) -> tuple[Moved, ...]:
    above, below = (_changed_predictions(constant, parts, 1 + sign * STEP) for sign in (1, -1))
    effects = []
    for part, higher, lower in zip(parts, above, below, strict=True):
        if higher is None or lower is None:
            continue
        shift = float(np.abs(higher / part.predicted - 1).mean())
        errors = [
            float(np.abs(values / part.measured - 1).mean()) for values in (part.predicted, higher, lower)
        ]
        if shift > _STILL or abs(errors[2] - errors[0]) > _STILL:
            effects.append(
                Moved(
                    table=part.table, role=part.role, prediction=shift,
                    up=errors[1] - errors[0], down=errors[2] - errors[0],
                )
            )  # fmt: skip
    return tuple(sorted(effects, key=lambda effect: -effect.prediction))


def _changed_predictions(constant: Constant, parts: Sequence[_Part], factor: float) -> list[Floats | None]:
    """Predictions of each part with the constant times a factor; None where the constant plays no role."""
    group, name, *rest = constant.name.split(".")
    if group == "software":
        catalog = changed_software(constant.name, factor)
        is_changed = _is_software_changed(catalog)
        return [
            part.predict_again(is_changed, catalog) if part.batches or part.runs else None for part in parts
        ]
    if group == "engines":
        architecture, kernel, key = rest[0], ".".join(rest[1:-1]), rest[-1]
        with changed_engines(name, architecture, kernel, key, factor):
            return [_predictions(part.rows) if _is_law_of(name, part) else None for part in parts]
    if group == "kernels":
        raw, table = kernel_files(), ".".join(rest[:-1])
        is_touched = _is_computed_with(raw, name, table)
        with changed_kernels(raw, name, table, rest[-1], factor):
            return [
                part.predict_again(is_touched, is_on=_is_gpu_with(raw, name, table))
                if part.batches or part.runs or part.table in _NO_COLLECTIVE
                else None
                for part in parts
            ]
    if group == "inference":
        with changed_inference(name, ".".join(rest), factor):
            return [_predictions(part.rows) if part.table == _INFERENCE else None for part in parts]
    with changed_fabric(group, name, rest[-1], factor):
        return [
            None if part.table in _NO_COLLECTIVE else part.predict_again(_is_sent_over(group, name))
            for part in parts
        ]


def _is_law_of(law: str, part: _Part) -> bool:
    """Whether a table holds rows of a law of engines' kernels."""
    return part.table == f"kernels-{law.split('-', maxsplit=1)[0]}"


_INFERENCE = "vision-infer"
_NO_COLLECTIVE = (_INFERENCE, "gemm-a100", "gemm-hopper", "kernels-rates", "kernels-long", "attention-figures",
                  "attention-serving",
                  "kernels-gemm", "kernels-prefill", "kernels-decode", "kernels-mla", "kernels-moe")  # fmt: skip


def _is_software_changed(catalog: SoftwareCatalog) -> Callable[[Batch], bool]:
    """Whether the software of a batch differs from the packaged entry."""
    return lambda batch: (
        _entry(catalog, batch.plan.software, batch.cluster.gpu)
        != load_software(batch.plan.software, batch.cluster.gpu)
    )


def _is_gpu_with(raw: Mapping[str, Mapping[str, Any]], file: str, table: str) -> Callable[[Gpu], bool]:
    """Whether a GPU takes a table of constants from a file."""

    def is_gpu_with(gpu: Gpu) -> bool:
        constants = kernel_constants(gpu)
        return kernel_origin(raw, constants.base if constants.extrapolated else constants.name, table) == file

    return is_gpu_with


def _is_computed_with(raw: Mapping[str, Mapping[str, Any]], file: str, table: str) -> Callable[[Batch], bool]:
    """Whether a batch ran on a GPU that takes a table of constants from a file, with kernels of that table."""
    kind, _, key = table.partition(".")
    is_gpu_with = _is_gpu_with(raw, file, table)

    def is_touched(batch: Batch) -> bool:
        constants = kernel_constants(batch.cluster.gpu)
        if not is_gpu_with(batch.cluster.gpu):
            return False
        if kind == "flash":
            return load_software(batch.plan.software, batch.cluster.gpu).flash == key
        used = {batch.plan.precision, "bf16"}
        return kind == "memory" or any(gemm_constants(constants, p)[0] is constants.gemm[key] for p in used)

    return is_touched


def _is_sent_over(group: str, name: str) -> Callable[[Batch], bool]:
    """Whether a batch used a fabric inside its nodes, or a network between them."""
    if group == "networks":
        return lambda batch: batch.cluster.nodes > 1 and name in ("between", wires_of(batch.cluster).fabric)
    return lambda batch: load_fabric(fabric_name(wires_of(batch.cluster))) == load_fabric(name)
