"""Predictions for rows of a collectives table: what NCCL would take on the machine that the row describes.

A row states its machine in the column `cluster`, or in `gpu` where one node ran it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, TypeVar

import numpy as np

from podsim.accuracy.held_out import held_out_seconds
from podsim.accuracy.measured_runs import NotExpressible, cell_text, read_cluster, read_count
from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Rows, measurement
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.hardware.cluster_names import catalog_name, server_of
from podsim.hardware.overrides import change_system
from podsim.network.collective_settings import CollectiveSettings
from podsim.network.fit_networks import Sweep
from podsim.network.nccl import COLLECTIVES, Members, collective_seconds, wires_of
from podsim.network.nccl_group import Group
from podsim.network.nccl_tuner import EARLY, generation
from podsim.network.settings_text import read_launch, read_release
from podsim.packaged import packaged_toml
from podsim.units import format_quantity

Key = TypeVar("Key", bound=Hashable)
CROSS_VALIDATED = "all-reduce-a100"
"""The table with a bar whose rows the packaged constants were fitted to."""
_FOLDS = 5
_NAMES = {"alltoall": "all_to_all", "sendrecv": "send_recv"}
"""Name of a collective in nccl-tests -> its name in podsim."""

SETTINGS = ("launch", "nccl", "sharp", "algo", "proto", "gdr")
"""The columns of what a row states of NCCL."""
PERMITTED = "permitted"
"""The cell `sharp` of a run that may use SHARP, and does not say whether it did."""
SPREAD_BOUNDS = (32768.0, 1048576.0, 67108864.0)
"""B. The sizes that part the spreads of spreads.toml."""
_RACKS, _FEW = 2, 2
"""The most racks, and clusters of a class, of which so few were measured that a range is always said."""
_UNSTATED_MINOR = "2.2x"
"""The release of logs that say no more of it than their year, 2024."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One collective on one machine."""

    cluster: Cluster
    collective: str
    nodes: int
    gpus: int
    settings: CollectiveSettings
    """The settings that the row states; in one node also the usual launch."""
    size: float
    """B. The size, as nccl-tests counts it."""
    unstated: tuple[str, ...] = ()
    """The settings that are assumed and move the time: launch, release, and sharp where it is permitted."""

    trays: Cluster | None = None
    """The machine with each tray of a rack as a node, where the row does not say that one NVLink domain spans them."""

    def variants(self) -> dict[str, tuple[Call, ...]]:
        """Each assumed setting, with its value -> the call with each of its values, all others as assumed."""
        filled = self.settings.assumed(self.cluster)
        values: dict[str, tuple[Call, ...]] = {}
        for name in self.unstated:
            if name == "sharp":
                others: tuple[CollectiveSettings, ...] = (filled, replace(filled, sharp=True))
            else:
                others = replace(filled, assumptions=(name,)).alternatives()
            said = "no SHARP" if name == "sharp" else f"{name} {getattr(filled, name)}"
            values[said] = tuple(replace(self, settings=settings) for settings in others)
        if self.trays is not None:
            apart = replace(self, cluster=self.trays, nodes=self.trays.nodes)
            values["one NVLink domain a rack"] = (self, apart)
        return values


def price_collectives(rows: Rows, *, cross_validate: bool = True) -> Priced:
    """Predictions of seconds for the rows of a collectives table.

    The packaged constants were fitted to the all-reduces in a node of A100; `cross_validate` predicts these rows by fits
    to the sweeps of other folds.
    """
    calls, reasons = read_calls({row.id: row.fields for row in rows})
    seconds, failed = call_seconds(calls)
    notes, bands = assumed_ranges({id: call for id, call in calls.items() if id in seconds})
    for id in seconds:
        call = calls[id]
        if call.nodes == 1 and "launch" in call.unstated and id in bands:
            seconds[id] = math.sqrt(math.prod(bands[id]))
        if name := _spread_name(call):
            least, most = _spread(name, call.size)
            low, high = bands.get(id, (seconds[id], seconds[id]))
            bands[id] = least * low, most * high
            if (name != "node" and _spreads()[name]["clusters"] <= _FEW) or name == "single":
                said = f"few clusters: measured {least:.2g} to {most:.2g} of the prediction where none of them was seen"
                notes[id] = "; ".join(filter(None, (notes.get(id, ""), said)))
    if cross_validate and rows.name == CROSS_VALIDATED:
        known = held_out_seconds()
        held = {row.id: known[row.id] for row in rows if row.id in known}
        seconds |= held
        notes |= dict.fromkeys(held, f"{_FOLDS}-fold cross-validation over sweeps")
        bands = {id: band for id, band in bands.items() if id not in held}
    decades = not any(column in rows.classes for column in ("gpu", "system"))
    sizes = {row.id: row.number("size_bytes") or 1.0 for row in rows} if decades else {}
    return Priced(
        predictions=seconds,
        reasons=reasons | failed,
        notes=notes,
        groups={id: decade(size) for id, size in sizes.items()},
        weights=_cluster_weights(rows, seconds),
        bands=bands,
    )


def _spread_name(call: Call) -> str:
    """The entry of spreads.toml that holds for a call, "" where enough clusters were measured and nothing is assumed.

    One node has the spread of its law where its launch is not stated. One cluster of V100 servers was measured, and none
    of more than two racks or of EFA with a plugin of NCCL's releases before 2.18.
    """
    if call.nodes == 1:
        return "node" if "launch" in call.unstated else ""
    kind, system = call.settings.assumed(call.cluster).network or "", call.cluster.system
    is_rare = system.gpu.architecture == "volta" or (system.trays > 1 and call.nodes > _RACKS)
    is_rare = is_rare or (kind == "efa-v1" and generation(call.settings.release or "2.18") in EARLY)
    if is_rare or kind in _spreads()["single"]["classes"]:
        return "single"
    known = _spreads().get(kind)
    return kind if known and (call.unstated or known["clusters"] <= _FEW) else ""


@cache
def _spreads() -> Mapping[str, Any]:
    return packaged_toml("accuracy/spreads.toml")


def _spread(name: str, size: float) -> tuple[float, float]:
    """The least and the most of measured over predicted time."""
    entry, number = _spreads()[name], bisect_right(SPREAD_BOUNDS, size)
    return entry["least"][number], entry["most"][number]


def _cluster_weights(rows: Rows, priced: Collection[str]) -> dict[str, float]:
    """Id -> weight: every cluster of a role counts alike, however many rows it has; rows between nodes only."""
    clusters = {
        row.id: (row.role, cell_text(row.fields, "cluster_id") or row.text("id"))
        for row in rows
        if row.id in priced and row.validates and row.text("nodes") != "1"
    }
    counts, roles = Counter(clusters.values()), Counter(role for role, _ in clusters.values())
    alike = Counter(role for role, _ in counts)
    return {id: roles[key[0]] / alike[key[0]] / counts[key] for id, key in clusters.items()}


def decade(size: float) -> str:
    """The decade of a size in bytes, as "1e3 to 1e4 B"."""
    power = math.floor(math.log10(max(size, 1.0)))
    return f"1e{power} to 1e{power + 1} B"


def read_calls(rows: Mapping[str, Mapping[str, str]]) -> tuple[dict[str, Call], dict[str, str]]:
    """(id -> call, id -> reason for none) of canonical rows."""
    read = {id: read_call(row) for id, row in rows.items()}
    calls = {id: call for id, call in read.items() if isinstance(call, Call)}
    return calls, {id: reason for id, reason in read.items() if isinstance(reason, str)}


def read_call(row: Mapping[str, str]) -> Call | str:
    """The call that a canonical row describes, or the reason why there is none."""
    if reason := cell_text(row, "reason"):
        return reason
    try:
        cluster = cell_text(row, "cluster") or _usual_cluster(row)
        return make_call(_machine(cluster, cell_text(row, "in_switch") != "no"), row)
    except (PodsimError, NotExpressible) as problem:
        return str(problem)


def _usual_cluster(row: Mapping[str, str]) -> str:
    """The catalog's server of a row's GPUs, which says enough of one node; NotExpressible otherwise."""
    gpu = cell_text(row, "gpu")
    server = server_of(catalog_name(gpu)) if gpu else ""
    if not server:
        raise NotExpressible(f"no system of the catalog has GPUs like {gpu or 'those of a blank cell'}")
    if read_count(row, "nodes") > 1:
        raise NotExpressible(
            f"the adapters of a node are not stated: name the cluster, such as {server}:2 network.nics=8"
        )
    return f"{server}:1"


def make_call(cluster: Cluster, row: Mapping[str, str]) -> Call:
    """The collective of a row as a call on a cluster; NotExpressible if there is no law for it."""
    collective = _NAMES.get(row["collective"], row["collective"])
    if collective not in COLLECTIVES:
        raise NotExpressible(f"collective {row['collective']!r} is not modelled")
    nodes, gpus, trays = read_count(row, "nodes"), read_count(row, "gpus"), None
    tray = cluster.gpus_per_node // cluster.system.trays
    is_host = nodes == 1 and (cluster.system.trays == 1 or gpus <= tray)
    if nodes > 1 and gpus <= nodes * tray < nodes * cluster.gpus_per_node:
        trays = None if cell_text(row, "domain") else _with_trays_as_nodes(cluster, nodes)
        nodes = -(-nodes // cluster.system.trays)
    settings = _stated_settings(*(cell_text(row, column) for column in SETTINGS))
    filled = settings.assumed(cluster)
    unstated: list[str] = [name for name in ("launch", "release") if name in filled.assumptions]
    if cluster.gpu.architecture == "blackwell":  # where no release before 2.20 runs
        unstated = [name for name in unstated if name != "release"]
    if "launch" in unstated and (
        is_host or tray < cluster.gpus_per_node
    ):  # a process cannot span the hosts of a rack
        settings = replace(settings, launch="single" if is_host else "process")
        unstated = unstated if is_host else unstated[1:]
    if cell_text(row, "sharp") == PERMITTED and filled.network == "infiniband" and nodes > 1:
        unstated.append("sharp")
    return Call(
        cluster=cluster, collective=collective, nodes=nodes, gpus=gpus, settings=settings, size=_size(row),
        unstated=tuple(unstated), trays=trays,
    )  # fmt: skip


@lru_cache(maxsize=256)
def _with_trays_as_nodes(cluster: Cluster, nodes: int) -> Cluster:
    """The cluster with each tray of its racks as a node."""
    trays = cluster.system.trays
    system = change_system(cluster.system, cluster.gpu, {"gpus_per_node": cluster.gpus_per_node // trays})
    return replace(cluster, system=system, nodes=nodes, nics=max(1, cluster.nics // trays))


def _size(row: Mapping[str, str]) -> float:
    cell = cell_text(row, "size_bytes")
    try:
        return float(cell)
    except ValueError:
        raise NotExpressible(f"size_bytes={cell[:40]!r} is not a number") from None


@lru_cache(maxsize=4096)  # the rows of a sweep share these cells
def _stated_settings(
    launch: str, nccl: str, sharp: str, algo: str, proto: str, gdr: str
) -> CollectiveSettings:
    """The settings that the cells of the columns SETTINGS state."""
    return CollectiveSettings(
        launch=read_launch(launch),
        release=nccl if nccl == _UNSTATED_MINOR else read_release(nccl),
        sharp={"yes": True, "no": False}.get(sharp),
        algorithm=algo if algo not in ("", "auto") else None,
        protocol=proto if proto not in ("", "auto") else None,
        gpudirect={"yes": True, "no": False}.get(gdr),
    )


@lru_cache(maxsize=256)
def _machine(settings: str, in_switch: bool) -> Cluster:
    cluster = read_cluster(settings)
    if in_switch or cluster.system.topology != "nvswitch":
        return cluster
    return replace(cluster, system=replace(cluster.system, topology="nvlink"))


def call_seconds(calls: Mapping[Key, Call]) -> tuple[dict[Key, float], dict[Key, str]]:
    """(id -> seconds, id -> reason for none); calls of one communicator are priced together."""
    groups: dict[tuple[object, ...], list[Key]] = {}
    for id, call in calls.items():
        key = (id_of(call.cluster), call.collective, call.nodes, call.gpus, call.settings)
        groups.setdefault(key, []).append(id)
    seconds: dict[Key, float] = {}
    failed: dict[Key, str] = {}
    for ids in groups.values():
        first = calls[ids[0]]
        try:
            members = Members(ranks=first.gpus, ranks_per_node=-(-first.gpus // first.nodes), sharing=1)
            values = collective_seconds(
                first.collective, np.array([calls[id].size for id in ids]), first.cluster, members,
                settings=first.settings,
            )  # fmt: skip
        except PodsimError as problem:
            failed |= dict.fromkeys(ids, str(problem))
            continue
        seconds |= dict(zip(ids, values.tolist(), strict=True))
    return seconds, failed


def assumed_ranges(calls: Mapping[str, Call]) -> tuple[dict[str, str], dict[str, tuple[float, float]]]:
    """(a sentence, s from the least to the longest) of calls with assumed settings, by id.

    The sentence names each with the range of its time over the values of this one, and the middle of all values.
    """
    tried = {
        (id, name, number): other
        for id, call in calls.items()
        for name, values in call.variants().items()
        for number, other in enumerate(values)
    }
    seconds, _ = call_seconds(tried)
    ranges: dict[str, dict[str, list[float]]] = {}
    for (id, name, _), value in seconds.items():
        ranges.setdefault(id, {}).setdefault(name, []).append(value)
    notes, bands = {}, {}
    for id, named in ranges.items():
        values = [value for some in named.values() for value in some]
        bands[id] = min(values), max(values)
        said = ", ".join(f"{name} ({_span(some)})" for name, some in named.items())
        notes[id] = f"assumed: {said}; middle {format_quantity(math.sqrt(math.prod(bands[id])), 's')}"
    return notes, bands


def _span(values: list[float]) -> str:
    if max(values) < 1.001 * min(values):
        return "no difference"
    return f"{format_quantity(min(values), 's')} to {format_quantity(max(values), 's')}"


def id_of(cluster: Cluster) -> int:
    """A key for a cluster: `_machine` gives the same object for the same machine."""
    return id(cluster)


def network_sweeps(rows: Rows) -> list[Sweep]:
    """Rows that calibrate between nodes as sweeps for a fit; rows that have a reason against them are left out."""
    groups: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for row in rows:
        if row.role != "calibrate" or row.text("nodes") == "1" or not row.validates:
            continue
        call, measured = read_call(row.fields), measurement(row, "seconds")
        if isinstance(call, str) or measured is None:
            continue
        filled = call.settings.assumed(call.cluster)
        each = -(-call.gpus // call.nodes)
        key = (
            cell_text(row.fields, "cluster_id") or row.text("id"), wires_of(call.cluster, filled), call.collective,
            Group(call.gpus, each, 1.0), filled.launch, generation(str(filled.release)),
        )  # fmt: skip
        groups.setdefault(key, []).append((call.size, measured.value))
    return [_sweep(key, sorted(points)) for key, points in groups.items()]


def _sweep(key: tuple[Any, ...], points: list[tuple[float, float]]) -> Sweep:
    cluster, wires, collective, group, launch, release = key
    sizes, seconds = zip(*points, strict=True)
    return Sweep(
        cluster=cluster, wires=wires, collective=collective, group=group, launch=launch, release=release,
        sizes=sizes, seconds=seconds,
    )  # fmt: skip
