"""Constants of collectives between nodes from measured sweeps: hardware/catalog/fabrics/networks.toml.

    fitted = fit_networks(sweeps)
    network_text(fitted, sweeps)

A sweep is one communicator at several sizes. Clusters count alike, however many rows each has. Residuals are
log(predicted / measured); those over `SOFT` count linearly, so that a log's outliers do not lead. fit_networks.toml says
where each constant starts, and which ones no sweep gives.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.fitting import Fit, Parameter, Values, solve
from podsim.network.nccl import candidate_fields, candidate_seconds
from podsim.network.nccl_constants import BETWEEN_UNITS, NETWORK_UNITS, Between, Network, load_fabric
from podsim.network.nccl_group import Group, Wires, fabric_name
from podsim.network.nccl_paths import candidates
from podsim.packaged import packaged_toml

SOFT = 0.08
STAGES = (("infiniband", "roce", "efa-v1", "efa-v2", "tcpxo", "tcpx"), ("slingshot",), ("sockets",))
"""Classes that are fitted together. Of the last two, one cluster has nine tenths of the rows, which differ tenfold with
libfabric's settings: they must not move what the others share."""
LINE = 0.98
"""The most of a line rate: verbs reach 0.957 on HDR 200 (superbenchmark) and 0.98 on 400 Gb/s (nccl issue 2409)."""
UNFITTED = "send_recv"
"""The collective that is not fitted: one cluster measured it, with half of its adapters' rate on a single pair."""
_PULL = 0.08
_PLAN: dict[str, Any] = packaged_toml("network/fit_networks.toml")
_HELD: dict[str, str] = {name: source for source, names in _PLAN["held"].items() for name in names}
"""Constant that no sweep gives -> whence it is."""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Measured collectives of one communicator."""

    cluster: str
    """The cluster that was measured; clusters weigh alike."""
    wires: Wires
    collective: str
    group: Group
    launch: str
    release: str
    """The generation of NCCL's tuner."""
    sizes: tuple[float, ...]
    """B. The sizes."""
    seconds: tuple[float, ...]
    """s. The measured times."""


@dataclass(frozen=True, kw_only=True)
class FittedNetworks:
    """Constants by class of network."""

    networks: Mapping[str, Network]


def start_networks() -> FittedNetworks:
    """Where the fit starts from."""
    between = Between(**_PLAN["between"])
    return FittedNetworks(
        networks={name: Network(**values, between=between) for name, values in _PLAN["classes"].items()}
    )


def fit_networks(sweeps: Sequence[Sweep]) -> FittedNetworks:
    """Constants of every class; what the sweeps do not tell stays where it starts.

    First come what all classes share and the classes of STAGES[0], together; then the others, one by one.
    """
    fitted = start_networks()
    fitting = [fitted_part for sweep in sweeps if (fitted_part := _fitted_part(sweep))]
    for classes in STAGES:
        part = [sweep for sweep in fitting if sweep.wires.fabric in classes]
        if part:
            free = (*classes, *(("between",) if classes is STAGES[0] else ()))
            fitted = _fit_stage(part, fitted, free)
    networks = dict(fitted.networks)
    for name, near in _PLAN["alike"].items():
        networks[name] = replace(networks[near], adapter=networks[name].adapter)
    return FittedNetworks(networks=networks)


def _fitted_part(sweep: Sweep) -> Sweep | None:
    """The messages of a sweep that its class is fitted to, or None if there are none."""
    least = _PLAN["smallest"].get(sweep.wires.fabric, 0)
    points = [(size, time) for size, time in zip(sweep.sizes, sweep.seconds, strict=True) if size >= least]
    if not points or sweep.collective == UNFITTED:
        return None
    sizes, seconds = zip(*points, strict=True)
    return replace(sweep, sizes=sizes, seconds=seconds)


def _fit_stage(sweeps: Sequence[Sweep], start: FittedNetworks, free: tuple[str, ...]) -> FittedNetworks:
    """The constants of the parts `free`, fitted to sweeps."""
    origin = network_values(start)
    names = [
        name for name in _timed_constants(sweeps) if name not in _HELD and name.partition(".")[0] in free
    ]
    fit = Fit(
        parameters={
            name: Parameter(
                start=origin[name], low=origin[name] * math.exp(-3), high=_highest(name, origin[name]), is_log=True
            )
            for name in names
        },
        softness=SOFT, pull=_PULL, differences=(1e-3,), evaluations=150,
    )  # fmt: skip
    weight = np.concatenate([np.full(len(s.sizes), w) for s, w in zip(sweeps, _weights(sweeps), strict=True)])
    measured = np.concatenate([s.seconds for s in sweeps])

    def errors(values: Values) -> NDArray[np.float64]:
        fitted = _with_values(start, values)
        return np.asarray(
            weight * np.log(np.concatenate([swept_seconds(fitted, s) for s in sweeps]) / measured)
        )

    values = solve(fit, errors).values
    return _with_values(start, {name: float(f"{value:.4g}") for name, value in values.items()})


def swept_seconds(fitted: FittedNetworks, sweep: Sweep) -> NDArray[np.float64]:
    """Predicted seconds of a sweep, at each of its sizes."""
    options = candidates(
        sweep.wires, sweep.collective, sweep.group, sweep.launch, sweep.release,
        load_fabric(fabric_name(sweep.wires)), fitted.networks[sweep.wires.fabric],
    )  # fmt: skip
    return np.asarray(candidate_seconds(candidate_fields(options), np.array(sweep.sizes)).min(axis=0))


def network_text(fitted: FittedNetworks, sweeps: Sequence[Sweep]) -> str:
    """The catalog's file."""
    evident, values = set(_timed_constants(sweeps)), network_values(fitted)
    lines = [
        "# Collectives between nodes, by podsim.network.fit_networks from nccl-tests sweeps",
        "# (podsim calibrate collectives).",
        "# [between] is what all classes of networks share. Clusters:",
        *(f"#   {name}" for name in sorted({sweep.cluster for sweep in sweeps})),
    ]
    for part, units in (("between", BETWEEN_UNITS), *((name, NETWORK_UNITS) for name in fitted.networks)):
        lines += ["", f"[{part}]"]
        for key, unit in units.items():
            name = f"{part}.{key}"
            usual = "fit to nccl-tests sweeps" if name in evident else "unconfirmed: no sweep"
            lines.append(
                f'{key} = {{ value = {values[name]:.4g}, unit = "{unit}", source = "{_HELD.get(name, usual)}" }}'
            )
    return "\n".join(lines) + "\n"


def _highest(name: str, start: float) -> float:
    """The upper bound of a constant: shares of a line rate end at LINE."""
    return LINE if name.endswith("share") else start * math.exp(3)


def _weights(sweeps: Sequence[Sweep]) -> list[float]:
    """The weight of each row of a sweep: clusters count alike, each as 30 rows."""
    rows = Counter[str]()
    for sweep in sweeps:
        rows[sweep.cluster] += len(sweep.sizes)
    return [math.sqrt(30.0 / rows[sweep.cluster]) for sweep in sweeps]


def network_values(fitted: FittedNetworks) -> dict[str, float]:
    """ "class.constant" -> value, of all constants."""
    between = next(iter(fitted.networks.values())).between
    out = {f"between.{key}": getattr(between, key) for key in BETWEEN_UNITS}
    for name, network in fitted.networks.items():
        out |= {f"{name}.{key}": getattr(network, key) for key in NETWORK_UNITS}
    return out


def _with_values(fitted: FittedNetworks, values: Values) -> FittedNetworks:
    """The constants with some of them replaced."""
    parts: dict[str, dict[str, float]] = {}
    for name, value in values.items():
        part, _, key = name.partition(".")
        parts.setdefault(part, {})[key] = value
    between = replace(next(iter(fitted.networks.values())).between, **parts.get("between", {}))
    networks = {
        name: replace(network, **parts.get(name, {}), between=between)
        for name, network in fitted.networks.items()
    }
    return FittedNetworks(networks=networks)


def _timed_constants(sweeps: Sequence[Sweep]) -> list[str]:
    """Constants that change the time of some sweep."""
    start = start_networks()
    plain = [swept_seconds(start, sweep) for sweep in sweeps]
    evident = []
    for name, value in network_values(start).items():
        other = _with_values(start, {name: value * 1.05})
        if any(not np.array_equal(swept_seconds(other, s), p) for s, p in zip(sweeps, plain, strict=True)):
            evident.append(name)
    return evident
