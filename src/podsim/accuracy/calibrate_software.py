"""Constants of a framework era from end-to-end rows with role `calibrate`: `fit_software`.

Least squares on log(predicted / measured) with a soft loss of width 2 %, which comes near the mean of absolute
logarithms: a disturbed row counts linearly. Each constant is drawn to its centre (below, or `start`), and being one
width away from it costs what a row 3 % off costs. The centres do not depend on the catalog's present values, so a fit
repeated gives the same values. No randomness. Needs scipy (pip install podsim[calibrate]).

Axes: P constants, R rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from podsim.accuracy.express import Expressed
from podsim.accuracy.price_llm import batches_of, express_all, seconds_of
from podsim.accuracy.price_networks import NetworkCosts, express_networks
from podsim.errors import TableError, unknown_name
from podsim.hardware.parts import Gpu
from podsim.training.software import load_software, part_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Constant:
    """How one constant of an era is varied."""

    centre: float
    """where it is drawn to and starts, unless told otherwise"""
    width: float
    """how far it may be from there at small cost: of its logarithm, or in its own unit"""
    low: float
    high: float
    unit: str
    log: bool = True


CONSTANTS = {
    "gemm_speed": Constant(0.95, 0.08, 0.5, 1.3, "1"),
    "conv_speed": Constant(1.0, 0.2, 0.2, 2.0, "1"),
    "attention_speed": Constant(1.0, 0.2, 0.3, 2.0, "1"),
    "memory_speed": Constant(1.0, 0.2, 0.3, 2.0, "1"),
    "collective_speed": Constant(1.0, 0.15, 0.3, 1.5, "1"),
    "elementwise_traffic": Constant(1.5, 0.3, 1.0, 6.0, "1"),
    "norm_traffic": Constant(1.5, 0.3, 1.0, 6.0, "1"),
    "optimizer_traffic": Constant(34.0, 0.3, 12.0, 120.0, "B"),
    "host_kernel": Constant(5e-6, 3e-6, 0.0, 60e-6, "s", log=False),
    "host_collective": Constant(15e-6, 10e-6, 0.0, 300e-6, "s", log=False),
    "network_speed": Constant(1.0, 0.15, 0.3, 1.5, "1"),
    "detour": Constant(0.8, 0.3, 0.1, 1.2, "1"),
    "host_send": Constant(0.1e-3, 0.2e-3, 0.0, 5e-3, "s", log=False),
    "cast_bytes": Constant(5.0, 0.5, 1.0, 40.0, "B"),
    "context_cost": Constant(0.2, 0.2, 0.0, 1.0, "1", log=False),
    "late_gather": Constant(0.3, 0.5, 0.0, 1.0, "1", log=False),
    "host_step": Constant(20e-3, 20e-3, 0.0, 2.0, "s", log=False),
    "tp_overlap": Constant(0.3, 0.3, 0.0, 0.95, "1", log=False),
    "async_tp": Constant(0.7, 0.2, 0.0, 0.98, "1", log=False),
    "contention": Constant(0.1, 0.1, 0.0, 0.8, "1", log=False),
}
"""constant of podsim.training.software.Software -> how it is varied"""

_LOSS = 0.02
_PULL = 0.03
_DIGITS = 4
_OFFSET = 10.0
"""added to every point, so that a relative difference step is never zero"""


class SoftwareFit(NamedTuple):
    """What a fit gives."""

    values: dict[str, float]
    """constant -> value, four digits"""
    residual: float
    """mean of |log(predicted / measured)| over the rows used, with those values"""
    rows_used: tuple[str, ...]
    """their ids"""


Logs: TypeAlias = "Callable[[Mapping[str, float]], NDArray[np.float64]]"
"""values of constants -> log(predicted / measured) of time, [rows]"""


def fit_software(
    rows: Sequence[Mapping[str, str]],
    software: str,
    names: Sequence[str],
    start: Mapping[str, float] | None = None,
) -> SoftwareFit:
    """Values of the constants `names` of one era from the rows of its framework with role `calibrate`.

    `rows` are those of training tables, as text by column, of language models or of captured networks; rows of other
    roles, of other software, without a measured step or that podsim cannot express are left aside. "NAME.hopper" fits
    the entry's own table for an architecture, a GPU or an architecture-precision, to the rows measured on it; a bare
    name fits the rows that no table of the entry covers. The other constants keep the catalog's values. `start` moves
    the centres. Raises TableError without a row or on an unknown constant, CatalogError on unknown software.
    """
    name, _, part = software.partition(".")
    load_software(name)
    unknown = [name for name in (*names, *(start or {})) if name not in CONSTANTS]
    if unknown or not names:
        raise TableError(unknown_name("constant", unknown[0] if unknown else "", CONSTANTS))
    logs, used = _network_logs(rows, name, part)
    if not used:
        logs, used = _transformer_logs(rows, name, part)
    if not used:
        raise TableError(
            f"no row with role calibrate and a step time was measured with software {software!r}"
        )
    values = _fitted(logs, _Scale(names, start or {}), len(names))
    return SoftwareFit(values, float(np.abs(logs(values)).mean()), used)


def _fitted(logs: Logs, scale: _Scale, constants: int) -> dict[str, float]:
    """Values with the least loss, four digits."""
    from scipy.optimize import least_squares

    def residuals(point_P: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([logs(scale.values(point_P)), _PULL * (point_P - _OFFSET)])

    point_P = np.full(constants, _OFFSET)
    for difference in (0.1, 0.02, 0.005):  # the law has kinks: coarse slopes first
        result: Any = least_squares(
            residuals, point_P, loss="soft_l1", f_scale=_LOSS, bounds=scale.bounds,
            diff_step=np.full(constants, difference / _OFFSET), max_nfev=30,
        )  # fmt: skip
        point_P = result.x
    return {name: float(f"{value:.{_DIGITS}g}") for name, value in scale.values(point_P).items()}


def _transformer_logs(
    rows: Sequence[Mapping[str, str]], name: str, part: str
) -> tuple[Logs, tuple[str, ...]]:
    """The logarithms of rows of language models of an era, and their ids."""
    used = [r for r in rows if r.get("role") == "calibrate" and _time(r)]
    found, _ = express_all(used)
    mine = [(position, one) for position, one in found if _is_of(one, name, part)]
    base = load_software(name, mine[0][1].cluster.gpu) if mine else load_software(name)
    batches = batches_of([one for _, one in mine])
    measured_R = np.array([_time(used[position]) for position, _ in mine])

    def logs(values: Mapping[str, float]) -> NDArray[np.float64]:
        changed: dict[str, Any] = dict(values)
        return np.asarray(np.log(seconds_of(batches, replace(base, **changed)) / measured_R))

    return logs, tuple(used[position]["id"] for position, _ in mine)


def _network_logs(rows: Sequence[Mapping[str, str]], name: str, part: str) -> tuple[Logs, tuple[str, ...]]:
    """The same of rows of captured networks."""
    costs = NetworkCosts()
    mine, measured = [], []
    for kind, column in (("vision", "throughput"), ("mlperf", "throughput_samples_s")):
        used = {r["id"]: r for r in rows if r.get("role") == "calibrate" and r.get(column)}
        found, _ = express_networks(kind, used.items())
        for id, run in found.items():
            if run.software == name and _covered(run.cluster.gpu, run.precision, name, part):
                mine.append((id, run))
                measured.append(float(used[id][column]))
    measured_R = np.array(measured)

    def logs(values: Mapping[str, float]) -> NDArray[np.float64]:
        changed: dict[str, Any] = dict(values)
        rates = [costs.rate(run, replace(costs.era(run), **changed)) for _, run in mine]
        return np.asarray(np.log(measured_R / np.array(rates)))

    return logs, tuple(id for id, _ in mine)


def _is_of(one: Expressed, name: str, part: str) -> bool:
    """Whether a row ran with an entry of the catalog: with its table for a GPU, or with what holds for the others."""
    mine = one.plan.software == name and not one.chosen  # what podsim chose is no evidence
    return mine and _covered(one.cluster.gpu, one.plan.precision, name, part)


def _covered(gpu: Gpu, precision: str, name: str, part: str) -> bool:
    """Whether an entry's table (or, for no part, the entry itself) is what holds on a GPU in a precision."""
    return part_of(name, gpu, precision, also=part) == part


def _time(row: Mapping[str, str]) -> float:
    """s of a measured step; 0 where the row gives none."""
    try:
        return float(row.get("step_time_s") or 0.0)
    except ValueError:
        return 0.0


class _Scale:
    """Constants as numbers of widths from their centres."""

    def __init__(self, names: Sequence[str], start: Mapping[str, float]) -> None:
        """Read the centres."""
        self._parts = [(name, CONSTANTS[name], start.get(name, CONSTANTS[name].centre)) for name in names]

    def values(self, point_P: NDArray[np.float64]) -> dict[str, float]:
        """Constant -> value at a point."""
        out = {}
        for (name, constant, centre), x in zip(self._parts, point_P - _OFFSET, strict=True):
            moved = centre * np.exp(x * constant.width) if constant.log else centre + x * constant.width
            still = not constant.log and moved < 1e-3 * constant.width
            out[name] = 0.0 if still else float(np.clip(moved, constant.low, constant.high))
        return out

    @property
    def bounds(self) -> tuple[list[float], list[float]]:
        """(least, greatest) numbers of widths; the centre lies strictly between."""
        low: list[float] = []
        high: list[float] = []
        for _, constant, centre in self._parts:
            for edge, out, least in ((constant.low, low, -1e-9), (constant.high, high, 1e-9)):
                x = np.log(max(edge, 1e-30) / centre) if constant.log else edge - centre
                steps = float(x / constant.width)
                out.append(_OFFSET + (min(steps, least) if least < 0 else max(steps, least)))
        return low, high


def toml_entry(software: str, fit: SoftwareFit) -> str:
    """The fitted lines of an entry of software.toml, with their evidence."""
    groups: dict[str, int] = {}
    for row in fit.rows_used:
        group = row.split("-")[0].rstrip("0123456789")
        groups[group] = groups.get(group, 0) + 1
    told = ", ".join(f"{count} {name}" for name, count in groups.items())
    lines = [f"[{software}]", f'evidence = "fitted to {len(fit.rows_used)} rows with role calibrate ({told}); '
             f'mean absolute log error {fit.residual:.3f}"']  # fmt: skip
    return "\n".join(lines + [f"{name} = {value:g}" for name, value in fit.values.items()]) + "\n"
