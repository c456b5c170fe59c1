"""Rows of a collectives table predicted as NCCL would run them on the machine that the row describes.

How the processes were launched and which NCCL ran is read off a row's notes, as the fit of the constants does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from podsim.accuracy.express_machine import cluster_settings, network_of, node_of, read_cluster
from podsim.accuracy.measured_tables import Rows
from podsim.accuracy.pricing import Priced
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.network.fit_nccl import WIRES, fit_architecture, samples
from podsim.network.nccl import collective_seconds
from podsim.network.nccl_fit_model import predicted

# system and GPU as tables write them -> why no system of the catalog is it
_UNTOLD = (
    (r"H100-PCIe", "the source does not say how many of three NVLink bridges join the two cards"),
    (r"MI\d00", "RCCL picks and runs collectives by its own tables, of which podsim has none"),
)
CROSS_VALIDATED = "all-reduce-a100"
"""the table whose rows the packaged constants were fitted to, and that a bar is on"""
_FOLDS = 5
_FITTED_FROM = 512.0
"""B from which on a row counts in a fit"""
_NAMES = {"alltoall": "all_to_all", "sendrecv": "send_recv"}


@dataclass(frozen=True, kw_only=True)
class Call:
    """One collective on one machine."""

    cluster: Cluster
    collective: str
    nodes: int
    gpus: int
    launch: str
    version: str
    size: float
    """B, as nccl-tests counts"""


def price_collectives(rows: Rows, *, cross_validate: bool = True) -> Priced:
    """Predictions of seconds for the rows of a collectives table.

    `cross_validate` predicts the all-reduces in a node of A100, which the packaged constants were fitted to, by fits to
    the sweeps of other folds.
    """
    found: dict[str, Call] = {}
    reasons: dict[str, str] = {}
    for row in rows:
        call = call_of(row.fields)
        if isinstance(call, str):
            reasons[row.id] = call
        else:
            found[row.id] = call
    seconds, failed = call_seconds(found)
    notes: dict[str, str] = {}
    if cross_validate and rows.name == CROSS_VALIDATED:
        try:
            held = _held_out(rows)
        except PodsimError as problem:
            return Priced(predictions={}, reasons=dict.fromkeys([row.id for row in rows], str(problem)))
        seconds |= held
        notes = dict.fromkeys(held, f"{_FOLDS}-fold cross-validation over sweeps")
    decades = not any(column in rows.classes for column in ("gpu", "system"))
    sizes = {row.id: row.number("size_bytes") or 1.0 for row in rows} if decades else {}
    return Priced(
        predictions=seconds,
        reasons=reasons | failed,
        notes=notes,
        groups={id: decade(size) for id, size in sizes.items()},
    )


def _held_out(rows: Rows) -> dict[str, float]:
    """id -> s, each sweep predicted by a fit to the sweeps of other folds; runs of one machine stay together."""
    found: dict[str, float] = {}
    known = samples([row.fields for row in rows])
    machines = sorted({_machine_of(one.sweep) for one in known})
    require_scipy()
    for fold in range(_FOLDS):
        left_out = set(machines[fold::_FOLDS])
        part = [one for one in known if _machine_of(one.sweep) in left_out]
        others = [one for one in known if _machine_of(one.sweep) not in left_out and one.size >= _FITTED_FROM]
        fabric = fit_architecture("ampere", others)
        values = predicted(fabric, part, WIRES).tolist()
        found |= {f"{one.sweep}/{one.size:.0f}": value for one, value in zip(part, values, strict=True)}
    return {row.id: found[row.id] for row in rows if row.id in found}


def require_scipy() -> None:
    """PodsimError where there is no scipy, which fits to folds need."""
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        raise PodsimError("cross-validation needs scipy: pip install 'podsim[calibrate]'") from None


def _machine_of(sweep: str) -> str:
    """A sweep's id without its type of elements: both types were run one after the other."""
    return sweep.removesuffix("_half").removesuffix("_int8")


def decade(size: float) -> str:
    """The decade of a size in bytes, as "1e3 to 1e4 B"."""
    power = math.floor(math.log10(max(size, 1.0)))
    return f"1e{power} to 1e{power + 1} B"


def call_of(row: Mapping[str, str]) -> Call | str:
    """The row as a call, or the reason why it is none."""
    nodes, gpus = int(float(row["nodes"])), int(float(row["gpus"]))
    text = f"{row.get('system', '')} {row['gpu']}"
    if "problem case" in row["notes"] or "much slower" in row["notes"]:
        return "the source reports a machine that did not work as it should"
    system = node_of(row["gpu"], row.get("system", ""))
    if system is None:
        untold = next((why for pattern, why in _UNTOLD if re.search(pattern, text)), None)
        return untold or f"no system of the catalog has GPUs like {row['gpu']}"
    told = samples([{**row, "gpu": "A100-SXM4", "role": "calibrate", "confirmed": "yes"}])
    if not told:
        return f"collective {row['collective']!r} is not modelled"
    nics = row.get("nics", "") if nodes > 1 else ""
    try:
        each = read_cluster(f"{system}:1").gpus_per_node
        network = network_of(nics, each)
        if nodes > 1 and "network.bandwidth" not in network:
            return f"the adapters of a node are not stated ({nics or 'blank'})"
        cluster = _machine(cluster_settings(system, nodes * each, network), told[0].in_switch)
    except PodsimError as problem:
        return str(problem)
    return Call(
        cluster=cluster,
        collective=_NAMES.get(row["collective"], row["collective"]),
        nodes=nodes,
        gpus=gpus,
        launch=told[0].launch,
        version=told[0].version,
        size=told[0].size,
    )


@lru_cache(maxsize=256)
def _machine(settings: str, in_switch: bool) -> Cluster:
    cluster = read_cluster(settings)
    if in_switch or cluster.system.topology != "nvswitch":
        return cluster
    return replace(cluster, system=replace(cluster.system, topology="nvlink"))


def call_seconds(calls: Mapping[str, Call]) -> tuple[dict[str, float], dict[str, str]]:
    """(id -> seconds, id -> why there are none): calls of one communicator are priced together."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for id, call in calls.items():
        key = (id_of(call.cluster), call.collective, call.nodes, call.gpus, call.launch, call.version)
        groups.setdefault(key, []).append(id)
    seconds: dict[str, float] = {}
    failed: dict[str, str] = {}
    for ids in groups.values():
        one = calls[ids[0]]
        try:
            values = collective_seconds(
                one.collective, np.array([calls[id].size for id in ids]), one.cluster, ranks=one.gpus,
                ranks_per_node=-(-one.gpus // one.nodes), sharing=1, launch=one.launch, version=one.version,
            )  # fmt: skip
        except PodsimError as problem:
            failed |= dict.fromkeys(ids, str(problem))
            continue
        seconds |= dict(zip(ids, values.tolist(), strict=True))
    return seconds, failed


def id_of(cluster: Cluster) -> int:
    """A key for a cluster: `_machine` gives the same object for the same machine."""
    return id(cluster)
