"""Seconds that the processor of a node takes to prepare the images of a step, by loader.

    seconds = GPUs of a node x batch x core seconds of an image / cores of a node

Prefetching overlaps loading with training, so a step takes the longer of the two. Networks whose first input is no
image have no such law here. Source: counting, with constants from loaders.toml; podsim.storage.input_pipeline has the
same law with storage and caches. Known error: a lower bound, since workers that hold a lock or share a socket are slower.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from podsim.errors import PlanError, unknown_name
from podsim.graphs.graph_step import ReplicasStep
from podsim.graphs.networks import networks
from podsim.hardware.cluster import Cluster
from podsim.units import parse_quantity

SYNTHETIC = "synthetic"
"""The loader of data that are in memory already: no work."""
_IMAGE = re.compile(r"Bx3x(\d{1,15})x(\d{1,15})$")
_PIXELS = 224.0 * 224.0
"""count. The pixels of the image that loaders.toml counts."""


@dataclass(frozen=True, kw_only=True)
class Loader:
    """What reads, decodes and augments images."""

    name: str
    title: str
    image: float
    """s. The time of one core for an image of 224 x 224 pixels."""
    software: tuple[str, ...]
    """The software entries whose published runs use it."""
    source: str


@cache
def loaders() -> Mapping[str, Loader]:
    """The packaged loaders by name."""
    tables = tomllib.loads(files("podsim.graphs").joinpath("loaders.toml").read_text("utf-8"))
    made = {
        name: Loader(
            name=name, title=part["title"], image=parse_quantity(part["image"], "s"),
            software=tuple(part["software"]), source=part["source"],
        )
        for name, part in tables.items()
    }  # fmt: skip
    return {
        **made,
        SYNTHETIC: Loader(name=SYNTHETIC, title="data in memory", image=0.0, software=(), source=""),
    }


def loader_of_software(software: str) -> str:
    """The loader of the published runs of a software entry; synthetic for one without."""
    return next((name for name, loader in loaders().items() if software in loader.software), SYNTHETIC)


def loading_seconds(network: str, batch: int, cluster: Cluster | None, gpus: int, loader: str) -> float:
    """Seconds in which a node prepares the images of a step of `batch` on each GPU; 0 if nothing is known to limit it.

    Raises PlanError for an unknown loader.
    """
    if loader not in loaders():
        raise PlanError([unknown_name("loader", loader, loaders())])
    entry = networks().get(network)
    image = _IMAGE.match(entry.inputs[0]) if entry else None
    cores = cluster.system.cpu.cores * cluster.system.cpus if cluster and cluster.system.cpu else 0
    if image is None or cluster is None or not cores:
        return 0.0
    each = loaders()[loader].image * max(1.0, int(image[1]) * int(image[2]) / _PIXELS)
    return min(gpus, cluster.gpus_per_node) * batch * each / cores


def fed_step(step: ReplicasStep, loading: float) -> ReplicasStep:
    """The step on all GPUs, no shorter than the loading of its images."""
    return replace(step, seconds=max(step.seconds, loading))
