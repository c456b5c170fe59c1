"""Constants of the collective law inside a node from measured sweeps: nccl-tests tables as CSV.

    fitted = fit_fabrics(rows)
    fabric_texts(fitted)              # one TOML file for each architecture

Constants c, from their starts c0, have the least sum of the soft loss of all rows r and of a pull to the start:

    sum of 2 (sqrt(1 + (x / s)^2) - 1)   over x = r and x = p ln(c / c0),   r = ln(predicted / measured)

with s = 0.1, from which on a row counts linearly, p = 0.05, and ln(c / c0) within 3. The constants of a stage are fitted
together to its collectives, all-reduce first; later stages keep them. fit_nccl.toml has the stages of each architecture,
the start, and the source of what no sweep tells. Values are rounded to four digits.

Columns: role, id, gpu, nodes, gpus, collective, algo, size_bytes, time_us, algbw_GBps, confirmed; launch (single,
process or thread), nccl (the version) and in_switch where they are known. Only rows with role `calibrate`, on one node,
of the GPUs in fit_nccl.toml are used. Source: NVIDIA/nccl-tests, PERFORMANCE.md (sizes and bandwidths). Known error: the
residuals that each file states. Limits: other GPUs of an architecture take its constants.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.errors import TableError
from podsim.fitting import Fit, Parameter, Values, solve
from podsim.network.nccl import COLLECTIVES, candidate_fields, candidate_seconds
from podsim.network.nccl_constants import UNITS, Fabric, Network, load_fabric
from podsim.network.nccl_group import Group, Wires, group_layout, layout_numbers
from podsim.network.nccl_paths import candidates
from podsim.network.nccl_tuner import generation

SMALLEST = 512
"""B. The smallest collective that is fitted."""


class _Plan(NamedTuple):
    """What is fitted of one architecture, or of PCIE."""

    gpu: str
    """A pattern of the names of GPUs whose sweeps serve it."""
    title: str
    wires: Wires
    """The machines that were measured."""
    stages: Mapping[str, Sequence[str]]
    """Stage -> constants that are fitted together."""
    elsewhere: Mapping[str, Sequence[str]]
    """Source -> constants that no sweep gives."""
    start: Mapping[str, float] = {}
    """The constants that start elsewhere than those of the first architecture."""


def _read_plans() -> tuple[dict[str, _Plan], Fabric, dict[str, list[str]]]:
    """(what is fitted by architecture, where the first fit starts, the collectives of each stage), of fit_nccl.toml."""
    plans: dict[str, Any] = tomllib.loads(
        files("podsim.network").joinpath("fit_nccl.toml").read_text("utf-8")
    )
    start, collectives = Fabric(**plans.pop("start")), plans.pop("collectives")
    network: dict[str, Any] = {"fabric": "infiniband", "nics": 8, "network": 25e9, "network_latency": 2.7e-6}
    for name, plan in plans.items():
        plan["wires"] = Wires(**{"architecture": name, **plan["wires"]}, **network)
    return {name: _Plan(**plan) for name, plan in plans.items()}, start, collectives


_PLANS, _START, _COLLECTIVES = _read_plans()
_ALIASES = {"alltoall": "all_to_all", "sendrecv": "send_recv"}
_BLACKWELL_NVLS = 0.74 / 0.85
"""NCCL's efficiency of in-switch reduction on Blackwell over Hopper's."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One measured collective: what was run, and how long it took."""

    sweep: str
    architecture: str
    collective: str
    nodes: int
    gpus: int
    launch: str
    version: str
    in_switch: bool
    """Whether NVLS could be picked: not for whole numbers of one byte, nor where an algorithm was forced."""
    size: float
    """B. The size."""
    seconds: float


class _Call(NamedTuple):
    """A communicator's collective at any size."""

    architecture: str
    collective: str
    nodes: int
    gpus: int
    launch: str
    release: str
    """The generation of NCCL's tuner."""
    in_switch: bool


@dataclass(frozen=True, kw_only=True)
class FittedFabrics:
    """Constants by architecture, the sweeps behind them, and the errors left."""

    fabrics: Mapping[str, Fabric]
    evidence: Mapping[str, Mapping[str, tuple[str, ...]]]
    """The ids of sweeps, by architecture and stage."""
    residuals: Mapping[str, Mapping[str, Mapping[int, float]]]
    """share. The mean absolute relative error, by architecture, collective and decade of size."""


def samples(rows: Iterable[Mapping[str, str]], *, role: str = "calibrate") -> list[Sample]:
    """Rows of a role as samples; left out: other GPUs, pass thresholds, unknown collectives, rows with a reason."""
    kept = []
    for row in rows:
        architecture = next((name for name, plan in _PLANS.items() if re.match(plan.gpu, row["gpu"])), None)
        collective = _ALIASES.get(row["collective"], row["collective"])
        wanted = row["role"] == role and row.get("confirmed") != "threshold" and not row.get("reason")
        if architecture is None or collective not in COLLECTIVES or not wanted:
            continue
        size = _number(row, "size_bytes")
        time = row["time_us"].strip()
        seconds = _number(row, "time_us") * 1e-6 if time else size / (_number(row, "algbw_GBps") * 1e9)
        kept.append(
            Sample(
                sweep=row["id"],
                architecture=architecture,
                collective=collective,
                nodes=int(row["nodes"]),
                gpus=int(row["gpus"]),
                launch=row.get("launch") or "single",
                version=row.get("nccl") or "2.18",
                size=size,
                seconds=seconds,
                in_switch=row.get("in_switch") != "no" and row.get("algo", "auto") != "ring",
            )
        )
    return kept


def _number(row: Mapping[str, str], column: str) -> float:
    try:
        return float(row[column])
    except ValueError:
        raise TableError(f"row {row['id']}: {column}={row[column][:30]!r} is no number") from None


def fit_fabrics(rows: Iterable[Mapping[str, str]], *, is_own: bool = False) -> FittedFabrics:
    """Constants of every architecture of which there are rows, with evidence and residuals.

    `is_own`: the rows are of a user's machine, and constants start from the packaged ones.
    """
    known = [sample for sample in samples(rows) if sample.nodes == 1 and sample.size >= SMALLEST]
    fabrics: dict[str, Fabric] = {}
    evidence: dict[str, dict[str, tuple[str, ...]]] = {}
    for architecture, plan in _PLANS.items():
        part = [sample for sample in known if sample.architecture == architecture]
        if part:
            start = load_fabric(architecture) if is_own else start_constants(architecture, fabrics)
            fabrics[architecture] = fit_architecture(architecture, part, start)
            stages = ["own"] if is_own else plan.stages
            evidence[architecture] = {
                stage: tuple(
                    sorted({s.sweep for s in part if s.collective in _COLLECTIVES.get(stage, COLLECTIVES)})
                )
                for stage in stages
            }
    return FittedFabrics(
        fabrics=fabrics,
        evidence=evidence,
        residuals={
            architecture: residuals(fabric, [s for s in known if s.architecture == architecture])
            for architecture, fabric in fabrics.items()
        },
    )


def start_constants(architecture: str, fabrics: Mapping[str, Fabric]) -> Fabric:
    """Where the fit of an architecture starts from, others having been fitted."""
    start = fabrics.get("ampere", _START)
    if architecture == "blackwell" and "hopper" in fabrics:
        hopper = fabrics["hopper"]
        share = hopper.nvls_share * _BLACKWELL_NVLS
        return replace(start, nvls_base=hopper.nvls_base, nvls_ramp=hopper.nvls_ramp, nvls_share=share)
    return replace(start, **_PLANS[architecture].start)


def fit_architecture(architecture: str, own: Sequence[Sample], start: Fabric = _START) -> Fabric:
    """Constants of one architecture (or PCIE) from its samples, all-reduce first and then the others."""
    fabric = start
    for stage, names in _PLANS[architecture].stages.items():
        part = [sample for sample in own if sample.collective in _COLLECTIVES[stage]]
        if part:
            fabric = _fit_stage(part, names, fabric)
    return fabric


def _fit_stage(part: Sequence[Sample], names: Sequence[str], start: Fabric) -> Fabric:
    origin = {name: getattr(start, name) for name in names}
    fit = Fit(
        parameters={
            name: Parameter(start=value, low=value * math.exp(-3), high=value * math.exp(3), is_log=True)
            for name, value in origin.items()
        },
        softness=0.1, pull=0.05, differences=(1e-4,), evaluations=60,
    )  # fmt: skip
    seconds = np.array([sample.seconds for sample in part])

    def errors(values: Values) -> NDArray[np.float64]:
        return np.asarray(np.log(predicted_seconds(replace(start, **values), part) / seconds))

    values = solve(fit, errors).values
    return replace(start, **{name: float(f"{value:.4g}") for name, value in values.items()})


def predicted_seconds(
    fabric: Fabric, part: Sequence[Sample], network: Network | None = None
) -> NDArray[np.float64]:
    """Seconds of each sample by these constants; samples of one communicator are costed together."""
    positions: dict[_Call, list[int]] = {}
    for position, s in enumerate(part):
        release = generation(s.version)
        call = _Call(s.architecture, s.collective, s.nodes, s.gpus, s.launch, release, s.in_switch)
        positions.setdefault(call, []).append(position)
    seconds = np.empty(len(part))
    for call, where in positions.items():
        wires, local = _PLANS[call.architecture].wires, call.gpus // call.nodes
        if not call.in_switch and wires.topology == "nvswitch":
            wires = replace(wires, topology="nvlink")
        group = Group(call.gpus, local, 1.0, *group_layout(int(layout_numbers(wires, local, 1, None))))
        options = candidates(wires, call.collective, group, call.launch, call.release, fabric, network)
        sizes = np.array([part[position].size for position in where])
        seconds[where] = candidate_seconds(candidate_fields(options), sizes).min(axis=0)
    return seconds


def residuals(fabric: Fabric, part: Sequence[Sample]) -> dict[str, dict[int, float]]:
    """Mean absolute relative error by collective and decade of size (9: from 1 GB)."""
    error = np.abs(predicted_seconds(fabric, part) / np.array([s.seconds for s in part]) - 1)
    cells: dict[str, dict[int, list[float]]] = {}
    for sample, share in zip(part, error.tolist(), strict=True):
        decade = math.floor(math.log10(sample.size))
        cells.setdefault(sample.collective, {}).setdefault(decade, []).append(share)
    return {
        name: {decade: float(np.mean(of[decade])) for decade in sorted(of)}
        for name, of in sorted(cells.items())
    }


def fabric_texts(fitted: FittedFabrics) -> dict[str, str]:
    """Name of a catalog file -> its text, a file for each architecture."""
    return {f"{architecture}.toml": _toml(fitted, architecture) for architecture in fitted.fabrics}


def _toml(fitted: FittedFabrics, architecture: str) -> str:
    plan = _PLANS[architecture]
    stage_of = {name: stage for stage, names in plan.stages.items() for name in names}
    elsewhere = {name: source for source, names in plan.elsewhere.items() for name in names}
    lines = [
        f"# Collectives inside a node of {plan.title}, by podsim.network.fit_nccl from nccl-tests",
        "# sweeps. `evidence` names the list below that a constant was fitted to; `none`: from elsewhere.",
        "",
        f'architecture = "{architecture}"',
        "",
        "[constants]",
    ]
    for field in fields(Fabric):
        stage = stage_of.get(field.name)
        value = getattr(fitted.fabrics[architecture], field.name)
        source = (
            "fit to nccl-tests sweeps" if stage else elsewhere.get(field.name, "Ampere's: no sweep tells")
        )
        lines.append(
            f'{field.name} = {{ value = {value:.4g}, unit = "{UNITS[field.name]}", source = "{source}",'
            f' evidence = "{stage or "none"}" }}'
        )
    for stage, sweeps in fitted.evidence[architecture].items():
        lines += ["", f"[evidence.{stage}]", "sweeps = [", *(f'    "{s}",' for s in sweeps), "]"]
    lines += ["", "# Mean absolute relative error left, by power of ten of the size in bytes.", "[residuals]"]
    for name, cells in fitted.residuals[architecture].items():
        lines.append(f"{name} = {{ " + ", ".join(f"1e{d} = {e:.3f}" for d, e in cells.items()) + " }")
    return "\n".join(lines) + "\n"
