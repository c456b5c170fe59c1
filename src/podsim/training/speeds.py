"""Clusters of other speeds: what a resource would give, asked of one evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from podsim.hardware.cluster import Cluster
from podsim.memo import hashed_once
from podsim.records import dataclass, fields, replace
from podsim.training.plan_values import Array

T = TypeVar("T", bound=Any)
RESOURCES = ("flops", "memory bandwidth", "nvlink", "network")


@hashed_once
@dataclass(frozen=True, kw_only=True)
class Speeds(Cluster):
    """A cluster that stands for several of other speeds: tables have their plans on each of them in turn."""

    clusters: tuple[Cluster, ...]
    first_alike: tuple[int, ...]
    """The position of the first cluster with the links of each."""


@lru_cache(maxsize=1024)
def faster_clusters(cluster: Cluster, factor: float) -> Speeds:
    """The same cluster with each of RESOURCES so many times as fast, in turn."""
    own = {field.name: getattr(cluster, field.name) for field in fields(Cluster)}
    clusters = tuple(speed_up(cluster, name, factor) for name in RESOURCES)
    links = [(each.nvlink, each.network) for each in clusters]
    return Speeds(**own, clusters=clusters, first_alike=tuple(map(links.index, links)))


def clusters_of(cluster: Cluster) -> tuple[Cluster, ...]:
    """The clusters that one stands for."""
    return cluster.clusters if isinstance(cluster, Speeds) else (cluster,)


def on_each(cluster: Cluster, seconds: Callable[..., Array], *columns: Array | float | None) -> Array:
    """The seconds over links of columns of plans, [... plan], which are the same on each cluster."""
    if not isinstance(cluster, Speeds):
        return seconds(cluster, *columns)
    arrays = [None if column is None else np.atleast_1d(column) for column in columns]
    width = max(1 if array is None else array.shape[-1] for array in arrays) // len(cluster.clusters)
    own = [None if a is None else a if a.shape[-1] == 1 else a[..., :width] for a in arrays]
    known = {first: seconds(cluster.clusters[first], *own) for first in set(cluster.first_alike)}
    return np.concatenate([known[first] for first in cluster.first_alike], axis=-1)


def side_by_side(tables: Sequence[T], plans: int) -> T:
    """Tables of so many plans each, [... plan], of one kind and on one cluster each, as one."""

    def joined(name: str) -> Array:
        columns = [getattr(table, name) for table in tables]
        return np.concatenate([np.broadcast_to(c, (*c.shape[:-1], plans)) for c in columns], axis=-1)

    return replace(tables[0], **{field.name: joined(field.name) for field in fields(tables[0])})


@lru_cache(maxsize=1024)
def speed_up(cluster: Cluster, resource: str, factor: float) -> Cluster:
    """The same cluster with one of RESOURCES scaled."""
    gpu = cluster.gpu
    if resource == "nvlink":
        return replace(cluster, nvlink=replace(cluster.nvlink, bandwidth=cluster.nvlink.bandwidth * factor))
    if resource == "network":
        return replace(
            cluster, network=replace(cluster.network, bandwidth=cluster.network.bandwidth * factor)
        )
    if resource == "flops":
        gpu = replace(gpu, peaks={name: peak * factor for name, peak in gpu.peaks.items()})
    elif resource == "memory bandwidth":
        gpu = replace(gpu, memory_bandwidth=gpu.memory_bandwidth * factor)
    else:
        raise AssertionError(resource)
    return replace(cluster, system=replace(cluster.system, gpu=gpu))
