"""Constants of a software entry from end-to-end rows with role `calibrate`: `fit_software`.

The loss is soft from 2 % on, which comes near the mean of absolute logarithms. Each constant is pulled to its start
below: being one scale away costs what a row 3 % off costs. The starts do not depend on the catalog's present values,
so a repeated fit gives the same values.

Axis: R rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from podsim.accuracy.measured_runs import TrainingRun
from podsim.accuracy.price_llm import Batch, make_batches, row_seconds, training_runs
from podsim.accuracy.price_networks import NetworkCosts, network_runs
from podsim.errors import TableError, unknown_name
from podsim.fitting import Fit, Parameter, Values, solve
from podsim.hardware.parts import Gpu
from podsim.training.software import load_software, part_of, software_entries

if TYPE_CHECKING:
    from numpy.typing import NDArray


CONSTANTS = {
    "gemm_speed": Parameter(start=0.95, low=0.5, high=1.3, scale=0.08, is_log=True),
    "conv_speed": Parameter(start=1.0, low=0.2, high=2.0, scale=0.2, is_log=True),
    "attention_speed": Parameter(start=1.0, low=0.3, high=2.0, scale=0.2, is_log=True),
    "memory_speed": Parameter(start=1.0, low=0.3, high=2.0, scale=0.2, is_log=True),
    "collective_speed": Parameter(start=1.0, low=0.3, high=1.5, scale=0.15, is_log=True),
    "elementwise_traffic": Parameter(start=1.5, low=1.0, high=6.0, scale=0.3, is_log=True),
    "norm_traffic": Parameter(start=1.5, low=1.0, high=6.0, scale=0.3, is_log=True),
    "optimizer_traffic": Parameter(start=34.0, low=12.0, high=120.0, scale=0.3, is_log=True),
    "host_kernel": Parameter(start=5e-6, low=0.0, high=60e-6, scale=3e-6),
    "host_collective": Parameter(start=15e-6, low=0.0, high=300e-6, scale=10e-6),
    "slow_nodes": Parameter(start=0.001, low=0.0, high=0.05, scale=0.002),
    "host_send": Parameter(start=0.1e-3, low=0.0, high=5e-3, scale=0.2e-3),
    "cast_bytes": Parameter(start=5.0, low=0.1, high=40.0, scale=0.5, is_log=True),
    "expert_cast_bytes": Parameter(start=5.0, low=0.1, high=40.0, scale=0.5, is_log=True),
    "expert_speed": Parameter(start=0.9, low=0.3, high=1.5, scale=0.15, is_log=True),
    "ep_overlap": Parameter(start=0.3, low=0.0, high=1.0, scale=0.3),
    "context_cost": Parameter(start=0.2, low=0.0, high=1.0, scale=0.2),
    "late_gather": Parameter(start=0.3, low=0.0, high=1.0, scale=0.5),
    "host_update": Parameter(start=50e-6, low=0.0, high=1e-3, scale=50e-6),
    "host_step": Parameter(start=20e-3, low=0.0, high=2.0, scale=20e-3),
    "tp_overlap": Parameter(start=0.3, low=0.0, high=0.95, scale=0.3),
    "async_tp": Parameter(start=0.7, low=0.0, high=0.98, scale=0.2),
    "contention": Parameter(start=0.1, low=0.0, high=0.8, scale=0.1),
}
"""Constant of podsim.training.software.Software -> how it is varied: `scale` is how far it may be from its start."""
SYSTEM_CONSTANTS = {
    "network_speed": Parameter(start=0.7, low=0.05, high=1.5, scale=0.4, is_log=True),
    "detour": Parameter(start=0.8, low=0.1, high=1.2, scale=0.3, is_log=True),
}
"""The same for constants of the systems that runs ran on, which are named after them: "dgx-h100.detour"."""

_SPEED = "a kernel reaches at most 1.1 times the speed measured alone"
_CAST = "a cast reads 2 bytes once or twice, and writes 1 byte once or twice"
_HIDDEN = "some communication always stays exposed"
_TRAFFIC = "an op reads and writes its tensors once, to six times unfused"
RANGES: Mapping[str, tuple[float, float, str]] = {
    "gemm_speed": (0.5, 1.1, _SPEED),
    "attention_speed": (0.3, 1.1, _SPEED),
    "memory_speed": (0.3, 1.1, _SPEED),
    "expert_speed": (0.3, 1.1, _SPEED),
    "collective_speed": (0.3, 1.1, _SPEED),
    "elementwise_traffic": (1.0, 6.0, _TRAFFIC),
    "norm_traffic": (1.0, 6.0, _TRAFFIC),
    "cast_bytes": (0.0, 8.0, _CAST),
    "expert_cast_bytes": (0.0, 8.0, _CAST),
    "permute_bytes": (0.0, 25.0, "permutation, sort and their reverse take 25 bytes unfused"),
    "ep_overlap": (0.0, 0.93, _HIDDEN),
    "tp_overlap": (0.0, 0.95, _HIDDEN),
    "async_tp": (0.0, 0.95, _HIDDEN),
    "host_kernel": (0.0, 50e-6, "a launch takes 2 us, from Python to 50 us"),
    "host_collective": (0.0, 100e-6, "ranks of a node start within 100 us"),
    "host_send": (0.0, 1e-3, "a send waits at most 1 ms for the host"),
    "host_step": (0.0, 0.1, "data, logging and checks take at most 0.1 s a step"),
    "network_speed": (0.5, 1.1, "a network reaches half to all of its rate"),
}
"""Constant -> (low, high, why): its physical range, which fits to language models keep to."""

_DIGITS = 4
_OFFSET = 10.0
"""The start's coordinate, so that a relative difference is a share of the scale."""
_NONE = 1e-3
"""Share of its scale below which a constant that may be 0 is 0."""


class SoftwareFit(NamedTuple):
    """What a fit gives."""

    values: dict[str, float]
    """The value of each constant, with four digits."""
    residual: float
    """share. The mean of |log(predicted / measured)| over the rows used, with those values."""
    rows_used: tuple[str, ...]
    """The ids of the rows."""


Logs: TypeAlias = "Callable[[Mapping[str, float]], NDArray[np.float64]]"
"""values of constants -> log(predicted / measured) of time, [rows]"""


def fit_software(
    rows: Sequence[Mapping[str, str]],
    software: str,
    names: Sequence[str],
) -> SoftwareFit:
    """Values of the constants `names` of one software entry from its rows with role `calibrate`.

    `rows` are those of training tables, as text by column, of language models or of captured networks; rows of other
    roles, of other software, without a measured step or that podsim cannot express are left aside. "NAME.hopper" fits
    the entry's own table for an architecture, a GPU or an architecture-precision, to the rows measured on it; a bare
    name fits the rows that no table of the entry covers. The other constants keep the catalog's values.
    Raises TableError without a row or on an unknown constant, CatalogError on unknown software.
    """
    load_software(software.partition(".")[0])
    known = {**CONSTANTS, **SYSTEM_CONSTANTS}
    unknown = [name for name in names if name.rpartition(".")[2] not in known]
    if unknown or not names:
        raise TableError(unknown_name("constant", unknown[0] if unknown else "", known))
    logs, used, ranges = _logs(rows, software)
    values = _fitted(logs, names, ranges)
    return SoftwareFit(values, float(np.abs(logs(values)).mean()), used)


def constants_error(rows: Sequence[Mapping[str, str]], software: str, values: Mapping[str, float]) -> float:
    """share. The mean of |log(predicted / measured)| of an entry's calibrate rows with other values of constants."""
    return float(np.abs(_logs(rows, software)[0](values)).mean())


def _logs(
    rows: Sequence[Mapping[str, str]], software: str
) -> tuple[Logs, tuple[str, ...], Mapping[str, tuple[float, float, str]]]:
    """The logarithms of the rows of an entry, their ids, and the ranges of its constants; TableError without any."""
    name, _, part = software.partition(".")
    logs, used = _network_logs(rows, name, part)
    ranges = {} if used else RANGES
    if not used:
        logs, used = _transformer_logs(rows, name, part)
    if not used:
        raise TableError(
            f"no row with role calibrate and a step time was measured with software {software!r}"
        )
    return logs, used, ranges


def _fitted(
    logs: Logs, names: Sequence[str], ranges: Mapping[str, tuple[float, float, str]]
) -> dict[str, float]:
    """Values with the least loss, four digits."""
    parameters = {name: _with_offset(_within(_parameter(name), ranges, name)) for name in names}
    fit = Fit(
        parameters=parameters, softness=0.02, pull=0.03,
        differences=tuple(difference / _OFFSET for difference in (0.1, 0.02, 0.005)), evaluations=30,
    )  # fmt: skip
    values = solve(fit, lambda values: logs(_settled(values))).values
    return {name: float(f"{value:.{_DIGITS}g}") for name, value in _settled(values).items()}


def _parameter(name: str) -> Parameter:
    """How a constant of a software entry, or of a system, is varied."""
    _, is_of_system, own = name.rpartition(".")
    return SYSTEM_CONSTANTS[own] if is_of_system else CONSTANTS[own]


def _within(constant: Parameter, ranges: Mapping[str, tuple[float, float, str]], name: str) -> Parameter:
    """A constant that does not leave its range."""
    low, high, _ = ranges.get(name.rpartition(".")[2], (constant.low, constant.high, ""))
    return replace(constant, low=max(constant.low, low), high=min(constant.high, high))


def _with_offset(constant: Parameter) -> Parameter:
    centre = math.log(constant.start) if constant.is_log else constant.start
    return replace(constant, zero=centre - _OFFSET * constant.scale)


def _settled(values: Values) -> Values:
    """The values, with 0 for a constant that is next to nothing."""
    return {
        name: 0.0 if not _parameter(name).is_log and value < _NONE * _parameter(name).scale else value
        for name, value in values.items()
    }


def _transformer_logs(
    rows: Sequence[Mapping[str, str]], name: str, part: str
) -> tuple[Logs, tuple[str, ...]]:
    """The logarithms of the language-model rows of a software entry, and their ids."""
    used = [r for r in rows if r.get("role") == "calibrate" and _time(r)]
    runs, _ = training_runs(used)
    mine = [(position, run) for position, run in runs if _is_of(run, name, part)]
    first = mine[0][1] if mine else None
    base = load_software(name, first.cluster.gpu, first.plan.precision) if first else load_software(name)
    batches = make_batches([run for _, run in mine])
    measured = np.array([_time(used[position]) for position, _ in mine])

    def logs(values: Mapping[str, float]) -> NDArray[np.float64]:
        own: dict[str, Any] = {name: value for name, value in values.items() if "." not in name}
        return np.asarray(np.log(row_seconds(on_systems(batches, values), replace(base, **own)) / measured))

    return logs, tuple(used[position]["id"] for position, _ in mine)


def on_systems(batches: Sequence[Batch], values: Mapping[str, float]) -> list[Batch]:
    """The batches with the constants of their systems, of all that `values` has as "SYSTEM.NAME"."""
    changed = []
    for batch in batches:
        system = batch.cluster.system
        own: dict[str, Any] = {
            name.removeprefix(f"{system.name}."): value
            for name, value in values.items()
            if name.startswith(f"{system.name}.")
        }
        cluster = replace(batch.cluster, system=replace(system, **own)) if own else batch.cluster
        changed.append(replace(batch, cluster=cluster))
    return changed


def _network_logs(rows: Sequence[Mapping[str, str]], name: str, part: str) -> tuple[Logs, tuple[str, ...]]:
    """The same of rows of captured networks; tables of recommenders of other entries are left to their own law."""
    costs, names = NetworkCosts(), (name, *software_entries()[name].get("fitted_with", ()))
    mine, measured = [], []
    for column in ("throughput", "throughput_samples_s"):
        used = {r["id"]: r for r in rows if r.get("role") == "calibrate" and r.get(column)}
        runs, _ = network_runs(used.items())
        for id, run in runs.items():
            if run.software in names and _covered(run.cluster.gpu, run.precision, name, part):
                mine.append((id, run))
                measured.append(float(used[id][column]))
    measured_rates = np.array(measured)

    def logs(values: Mapping[str, float]) -> NDArray[np.float64]:
        changed: dict[str, Any] = dict(values)
        rates = [
            costs.rate(run, replace(costs.software(run), **changed), places_tables=run.software == name)
            for _, run in mine
        ]
        return np.asarray(np.log(measured_rates / np.array(rates)))

    return logs, tuple(id for id, _ in mine)


def _is_of(run: TrainingRun, name: str, part: str) -> bool:
    """Whether a row ran with an entry of the catalog: with its table for a GPU, or with what holds for the others."""
    mine = run.plan.software == name and not run.chosen  # what podsim chose is no evidence
    return mine and _covered(run.cluster.gpu, run.plan.precision, name, part)


def _covered(gpu: Gpu, precision: str, name: str, part: str) -> bool:
    """Whether an entry's table (or, for no part, the entry itself) is what holds on a GPU in a precision."""
    return part_of(name, gpu, precision, also=part) == part


def _time(row: Mapping[str, str]) -> float:
    """s of a measured step; 0 where the row gives none."""
    try:
        return float(row.get("step_time_s") or 0.0)
    except ValueError:
        return 0.0


def toml_entry(software: str, fit: SoftwareFit) -> str:
    """The fitted lines of an entry of software.toml, with their evidence."""
    groups: dict[str, int] = {}
    for row in fit.rows_used:
        group = row.split("-")[0].rstrip("0123456789")
        groups[group] = groups.get(group, 0) + 1
    counts = ", ".join(f"{count} {name}" for name, count in groups.items())
    lines = [f"[{software}]", f'evidence = "fitted to {len(fit.rows_used)} rows with role calibrate ({counts}); '
             f'mean absolute log error {fit.residual:.3f}"']  # fmt: skip
    own = [f"{name} = {value:g}" for name, value in fit.values.items() if "." not in name]
    lines += own
    for name, value in fit.values.items():
        system, _, constant = name.rpartition(".")
        lines += [f"# systems.toml, [{system}]: {constant} = {value:g}"] if system else []
    return "\n".join(lines) + "\n"
