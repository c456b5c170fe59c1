"""Predictions for rows of a collectives table: what NCCL would take on the machine that the row describes.

The packaged rows state their machine in the column `cluster`. The machine of a user's row follows from its GPU, system
and adapters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from podsim.accuracy.measured_runs import NotExpressible, cell_text, read_cluster, read_count
from podsim.accuracy.own_words import cluster_settings, find_node, read_adapters
from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Rows
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.network.fit_nccl import fit_architecture, predicted_seconds, samples
from podsim.network.nccl import COLLECTIVES, Members, collective_seconds

CROSS_VALIDATED = "all-reduce-a100"
"""The table with a bar whose rows the packaged constants were fitted to."""
_FOLDS = 5
_FITTED_FROM = 512.0
"""B. The least size of a row in a fit."""
_NAMES = {"alltoall": "all_to_all", "sendrecv": "send_recv"}
"""Name of a collective in nccl-tests -> its name in podsim."""


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
    """B. The size, as nccl-tests counts it."""


def price_collectives(rows: Rows, *, cross_validate: bool = True) -> Priced:
    """Predictions of seconds for the rows of a collectives table.

    The packaged constants were fitted to the all-reduces in a node of A100; `cross_validate` predicts these rows by fits
    to the sweeps of other folds.
    """
    calls: dict[str, Call] = {}
    reasons: dict[str, str] = {}
    for row in rows:
        call = read_call(row.fields)
        if isinstance(call, str):
            reasons[row.id] = call
        else:
            calls[row.id] = call
    seconds, failed = call_seconds(calls)
    notes: dict[str, str] = {}
    if cross_validate and rows.name == CROSS_VALIDATED:
        try:
            held = _cross_validated_seconds(rows)
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


def _cross_validated_seconds(rows: Rows) -> dict[str, float]:
    """Id -> seconds, each sweep predicted by a fit to the sweeps of other folds; runs of a machine share a fold."""
    held: dict[str, float] = {}
    known = samples([row.fields for row in rows])
    machines = sorted({_machine_name(sample.sweep) for sample in known})
    require_scipy()
    for fold in range(_FOLDS):
        left_out = set(machines[fold::_FOLDS])
        part = [sample for sample in known if _machine_name(sample.sweep) in left_out]
        others = [
            sample
            for sample in known
            if _machine_name(sample.sweep) not in left_out and sample.size >= _FITTED_FROM
        ]
        fabric = fit_architecture("ampere", others)
        values = predicted_seconds(fabric, part).tolist()
        held |= {
            f"{sample.sweep}/{sample.size:.0f}": value for sample, value in zip(part, values, strict=True)
        }
    return {row.id: held[row.id] for row in rows if row.id in held}


def require_scipy() -> None:
    """Raise PodsimError without scipy, which cross-validation needs."""
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        raise PodsimError("cross-validation needs scipy: pip install 'podsim[calibrate]'") from None


def _machine_name(sweep: str) -> str:
    """A sweep's id without its element type; a machine ran both types in turn."""
    return sweep.removesuffix("_half").removesuffix("_int8")


def decade(size: float) -> str:
    """The decade of a size in bytes, as "1e3 to 1e4 B"."""
    power = math.floor(math.log10(max(size, 1.0)))
    return f"1e{power} to 1e{power + 1} B"


def read_call(row: Mapping[str, str]) -> Call | str:
    """The call that a row describes, or the reason why there is none."""
    if cell_text(row, "reason"):
        return row["reason"]
    try:
        settings = cell_text(row, "cluster") or _own_cluster_settings(row)
        return make_call(_machine(settings, cell_text(row, "in_switch") != "no"), row)
    except (PodsimError, NotExpressible) as problem:
        return str(problem)


def _own_cluster_settings(row: Mapping[str, str]) -> str:
    """The settings of the cluster that a user's row describes by its GPU, system and adapters."""
    nodes = read_count(row, "nodes")
    system = find_node(row["gpu"], row.get("system", ""))
    if system is None:
        raise NotExpressible(f"no system of the catalog has GPUs like {row['gpu']}")
    nics = row.get("nics", "") if nodes > 1 else ""
    each = read_cluster(f"{system}:1").gpus_per_node
    network = read_adapters(nics, each)
    if nodes > 1 and "network.bandwidth" not in network:
        raise NotExpressible(f"the adapters of a node are not stated ({nics or 'blank'})")
    return cluster_settings(system, nodes * each, network)


def make_call(cluster: Cluster, row: Mapping[str, str]) -> Call:
    """The collective of a row as a call on a cluster; NotExpressible if there is no law for it."""
    collective = _NAMES.get(row["collective"], row["collective"])
    if collective not in COLLECTIVES:
        raise NotExpressible(f"collective {row['collective']!r} is not modelled")
    return Call(
        cluster=cluster,
        collective=collective,
        nodes=read_count(row, "nodes"),
        gpus=read_count(row, "gpus"),
        launch=cell_text(row, "launch") or "single",
        version=cell_text(row, "nccl") or "2.18",
        size=float(row["size_bytes"]),
    )


@lru_cache(maxsize=256)
def _machine(settings: str, in_switch: bool) -> Cluster:
    cluster = read_cluster(settings)
    if in_switch or cluster.system.topology != "nvswitch":
        return cluster
    return replace(cluster, system=replace(cluster.system, topology="nvlink"))


def call_seconds(calls: Mapping[str, Call]) -> tuple[dict[str, float], dict[str, str]]:
    """(id -> seconds, id -> reason for none); calls of one communicator are priced together."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for id, call in calls.items():
        key = (id_of(call.cluster), call.collective, call.nodes, call.gpus, call.launch, call.version)
        groups.setdefault(key, []).append(id)
    seconds: dict[str, float] = {}
    failed: dict[str, str] = {}
    for ids in groups.values():
        first = calls[ids[0]]
        try:
            members = Members(ranks=first.gpus, ranks_per_node=-(-first.gpus // first.nodes), sharing=1)
            values = collective_seconds(
                first.collective, np.array([calls[id].size for id in ids]), first.cluster, members, launch=first.launch,
                version=first.version,
            )  # fmt: skip
        except PodsimError as problem:
            failed |= dict.fromkeys(ids, str(problem))
            continue
        seconds |= dict(zip(ids, values.tolist(), strict=True))
    return seconds, failed


def id_of(cluster: Cluster) -> int:
    """A key for a cluster: `_machine` gives the same object for the same machine."""
    return id(cluster)
