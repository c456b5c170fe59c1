"""Constants of the collective law from measured sweeps: nccl-tests tables as CSV.

    fitted = fit_fabrics(rows)
    fabric_texts(fitted)              # one TOML file for each architecture

Columns: role, id, gpu, nodes, gpus, collective, algo, size_bytes, time_us, algbw_GBps, confirmed; launch (single,
process or thread), nccl (the version) and in_switch where they are known. Only rows with role `calibrate`, on one node,
of the GPUs of GPUS are used. Least squares on the logarithm of the time, with a soft loss (one sweep in a hundred has
disturbed rows) and a weak pull to the starting point.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from podsim.errors import TableError
from podsim.fitting import Fit, Parameter, Values, solve
from podsim.network.nccl import COLLECTIVES, candidate_fields, cost_CE
from podsim.network.nccl_constants import PCIE, UNITS, Fabric, Network, load_fabric
from podsim.network.nccl_paths import candidates
from podsim.network.nccl_tuner import Group, Wires, generation, placed, placed_at

SMALLEST = 512
"""B. The smallest collective that is fitted."""
GPUS = {
    "ampere": r"A100-SXM", "hopper": r"H[12]00-SXM", "blackwell": r"B200", "volta": r"V100-SXM",
    PCIE: r"L40S",
}  # fmt: skip
"""GPUs whose sweeps serve an architecture or PCI Express; in this order, each starting from ampere's constants"""
_NVLINK = {"ampere": 300e9, "hopper": 450e9, "blackwell": 900e9, "volta": 150e9}
WIRES = {
    name: Wires(
        architecture=name, topology="nvswitch", fabric="infiniband",
        vendor="amd" if name == "ampere" else "intel",
        gpus=16, nvlink=rate, nvlink_latency=0.6e-6, nics=8, network=25e9, network_latency=2.7e-6,
    )
    for name, rate in _NVLINK.items()
}  # fmt: skip
WIRES[PCIE] = replace(
    WIRES["ampere"], topology="pcie-root", vendor="intel", gpus=8, nvlink=31.5e9, nvlink_latency=1e-6
)
_ALIASES = {"alltoall": "all_to_all", "sendrecv": "send_recv"}
_REDUCE = (
    "base", "base_simple", "step_ll", "step_ll128", "step_simple", "line_base", "line_ll",
    "share_ll", "share_simple", "small_group", "ramp_ll128", "ramp_simple",
)  # fmt: skip
_HOST = ("process_wait", "host", "host_channel", "host_channel_old", "single_ramp")
_GATHER = ("gather_share", "gather_small", "scatter_share", "chain_share")
_PAIRS = (
    "pairs_base", "pairs_step", "pairs_line", "pairs_simple", "pairs_hidden", "pairs_share", "pairs_small", "pairs_ramp",
)  # fmt: skip
_SPANS = ("near_share", "far_share")
_NO_PCIE = ("small_group", "gather_small", "pairs_small", "step_ll128", "ramp_ll128")
"""what PCI Express has not: groups slowed by their number of links, and LL128"""
_NVLS = ("nvls_base", "nvls_share", "nvls_ramp")
_STAGES: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "ampere": (("reduce", _REDUCE + _HOST), ("gather", _GATHER), ("pairs", (*_PAIRS, "host_pair"))),
    "hopper": (("reduce", _REDUCE + _NVLS), ("gather", _GATHER[:3]), ("pairs", _PAIRS)),
    "blackwell": (("reduce", _REDUCE), ("gather", _GATHER[:3]), ("pairs", _PAIRS)),
    "volta": (("reduce", (*_REDUCE, "host", "host_channel_old")), ("gather", (_GATHER[0], _GATHER[3]))),
    PCIE: (
        ("ring", (*(name for name in _REDUCE if name not in _NO_PCIE), *_SPANS, _GATHER[0], _GATHER[2])),
        (
            "pairs",
            (*(name for name in _PAIRS if name not in _NO_PCIE), "pairs_ll_share", "pairs_cross_share"),
        ),
    ),
}
_OF_STAGE = {
    "reduce": ("all_reduce",),
    "ring": ("all_reduce", "all_gather", "reduce_scatter"),
    "gather": ("all_gather", "reduce_scatter", "broadcast", "reduce"),
    "pairs": ("all_to_all", "send_recv"),
}
_START = Fabric(
    base=8e-6, base_simple=25e-6, step_ll=0.95e-6, step_ll128=2e-6, step_simple=3.5e-6, line_base=2e-6,
    line_ll=0.3e-6, share_ll=0.29, share_simple=0.8, small_group=0.65, ramp_ll128=3e-6, ramp_simple=5e-6,
    gather_share=0.95, gather_small=1.5, scatter_share=0.97, chain_share=0.98, near_share=1.0, far_share=1.0,
    pairs_base=10e-6, pairs_step=1e-6, pairs_line=2.5e-6, pairs_simple=12e-6, pairs_hidden=6e-6,
    pairs_ll_share=0.5, pairs_share=0.88, pairs_cross_share=1.0, pairs_small=1.0, pairs_ramp=10e-6,
    nvls_base=25e-6, nvls_share=0.6, nvls_ramp=10e-6, process_wait=3e-6, host=3.6e-6, host_channel=0.08e-6,
    host_channel_old=0.2e-6, host_pair=0.9e-6, single_ramp=5e-6, channels=24.0,
)  # fmt: skip
_START_PCIE = {
    "step_ll": 1.1e-6, "step_simple": 5e-6, "share_ll": 0.32, "share_simple": 0.64, "gather_share": 0.9,
    "near_share": 0.27, "far_share": 0.065, "pairs_share": 0.7, "pairs_cross_share": 0.8,
    "channels": 2.0, **dict.fromkeys(_NO_PCIE, 0.0),
}  # fmt: skip
"""where PCI Express starts from"""
_NODES = {PCIE: "GPUs joined by PCI Express only"}
_BLACKWELL_NVLS = 0.74 / 0.85
"""NCCL's efficiency of in-switch reduction on Blackwell over Hopper's"""


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
    found = []
    for row in rows:
        architecture = next((a for a, gpu in GPUS.items() if re.match(gpu, row["gpu"])), None)
        collective = _ALIASES.get(row["collective"], row["collective"])
        wanted = row["role"] == role and row.get("confirmed") != "threshold" and not row.get("reason")
        if architecture is None or collective not in COLLECTIVES or not wanted:
            continue
        size = _number(row, "size_bytes")
        time = row["time_us"].strip()
        seconds = _number(row, "time_us") * 1e-6 if time else size / (_number(row, "algbw_GBps") * 1e9)
        found.append(
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
    return found


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
    for architecture in GPUS:
        part = [sample for sample in known if sample.architecture == architecture]
        if part:
            start = load_fabric(architecture) if is_own else start_of(architecture, fabrics)
            fabrics[architecture] = fit_architecture(architecture, part, start)
            stages = {"own": COLLECTIVES} if is_own else {s: _OF_STAGE[s] for s, _ in _STAGES[architecture]}
            evidence[architecture] = {
                stage: tuple(sorted({sample.sweep for sample in part if sample.collective in collectives}))
                for stage, collectives in stages.items()
            }
    return FittedFabrics(
        fabrics=fabrics,
        evidence=evidence,
        residuals={
            architecture: residuals(fabric, [s for s in known if s.architecture == architecture])
            for architecture, fabric in fabrics.items()
        },
    )


def start_of(architecture: str, fabrics: Mapping[str, Fabric]) -> Fabric:
    """Where the fit of an architecture starts from, others having been fitted."""
    start = fabrics.get("ampere", _START)
    if architecture == PCIE:
        return replace(start, **_START_PCIE)
    if architecture == "blackwell" and "hopper" in fabrics:
        hopper = fabrics["hopper"]
        share = hopper.nvls_share * _BLACKWELL_NVLS
        return replace(start, nvls_base=hopper.nvls_base, nvls_ramp=hopper.nvls_ramp, nvls_share=share)
    return start


def fit_architecture(architecture: str, own: Sequence[Sample], start: Fabric = _START) -> Fabric:
    """Constants of one architecture (or PCIE) from its samples, all-reduce first and the others upon it."""
    found = start
    for stage, names in _STAGES[architecture]:
        part = [s for s in own if s.collective in _OF_STAGE[stage]]
        if part:
            found = _fit_stage(part, names, found)
    return found


def _fit_stage(part: Sequence[Sample], names: tuple[str, ...], start: Fabric) -> Fabric:
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
    together: dict[tuple[str, str, int, int, str, str, bool], list[int]] = {}
    for at, s in enumerate(part):
        key = (s.architecture, s.collective, s.nodes, s.gpus, s.launch, generation(s.version), s.in_switch)
        together.setdefault(key, []).append(at)
    out = np.empty(len(part))
    for (architecture, collective, nodes, gpus, launch, release, in_switch), where in together.items():
        ends = WIRES[architecture]
        if not in_switch and ends.topology == "nvswitch":
            ends = replace(ends, topology="nvlink")
        group = Group(gpus, gpus // nodes, 1.0, *placed_at(int(placed(ends, gpus // nodes, 1, None))))
        options = candidates(ends, collective, group, launch, release, fabric, network)
        sizes_E = np.array([part[at].size for at in where])
        out[where] = cost_CE(candidate_fields(options), sizes_E).min(axis=0)
    return out


def residuals(fabric: Fabric, part: Sequence[Sample]) -> dict[str, dict[int, float]]:
    """Mean absolute relative error by collective and decade of size (9: from 1 GB)."""
    error = np.abs(predicted_seconds(fabric, part) / np.array([s.seconds for s in part]) - 1)
    cells: dict[str, dict[int, list[float]]] = {}
    for sample, one in zip(part, error, strict=True):
        decade = math.floor(math.log10(sample.size))
        cells.setdefault(sample.collective, {}).setdefault(decade, []).append(float(one))
    return {
        name: {decade: float(np.mean(of[decade])) for decade in sorted(of)}
        for name, of in sorted(cells.items())
    }


def fabric_texts(fitted: FittedFabrics) -> dict[str, str]:
    """Name of a catalog file -> its text, a file for each architecture."""
    return {f"{architecture}.toml": _toml(fitted, architecture) for architecture in fitted.fabrics}


def _toml(fitted: FittedFabrics, architecture: str) -> str:
    stages = dict(_STAGES[architecture])
    of = {name: stage for stage, names in stages.items() for name in names}
    lines = [
        f"# Collectives inside a node of {_NODES.get(architecture, architecture + ' GPUs')}, by"
        " podsim.network.fit_nccl from nccl-tests",
        "# sweeps. `evidence` names the list below that a constant was fitted to; `none`: from elsewhere.",
        "",
        f'architecture = "{architecture}"',
        "",
        "[constants]",
    ]
    for field in fields(Fabric):
        stage = of.get(field.name)
        value = getattr(fitted.fabrics[architecture], field.name)
        source = "fit to nccl-tests sweeps" if stage else _elsewhere(architecture, field.name)
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


def _elsewhere(architecture: str, name: str) -> str:
    """Where a constant that is not fitted comes from."""
    pcie = architecture == PCIE
    told = {
        "channels": "unconfirmed: one ring, doubled, as NCCL finds over PCI Express"
        if pcie
        else "NCCL's search on DGX A100: 6 rings, doubled twice",
        "pairs_ll_share": "half of LL's bytes are data",
        **dict.fromkeys((*_SPANS, "pairs_cross_share"), "unused: NVLink does not pass root complexes"),
        **(dict.fromkeys(_NO_PCIE, "unused: over PCI Express") if pcie else {}),
    }
    if name.startswith("nvls") and architecture == "blackwell":
        return (
            "Hopper's, the share times NCCL's 0.74 over 0.85 (tuning.cc): no sweep with in-switch reduction"
        )
    if name.startswith("nvls") and architecture in ("ampere", "volta", PCIE):
        return "unused: its switches reduce nothing"
    return told.get(name, "Ampere's: no sweep tells")
