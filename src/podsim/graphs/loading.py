"""Seconds that the processor of a node takes to prepare the images of a step.

    seconds = GPUs of a node x batch x core seconds of an image / cores of a node

Prefetching overlaps loading with training, so a step takes the longer of the two. Networks whose first input is no image
have no such law here. Core seconds are those of podsim.workload.image_loaders, which has their source and known error;
podsim.storage.input_pipeline adds storage and caches.
"""

from __future__ import annotations

import re
from dataclasses import replace

from podsim.graphs.graph_step import ReplicasStep
from podsim.graphs.networks import networks
from podsim.hardware.cluster import Cluster
from podsim.workload.image_loaders import load_image_loader

_IMAGE = re.compile(r"Bx3x(\d{1,15})x(\d{1,15})$")


def loading_seconds(network: str, batch: int, cluster: Cluster | None, gpus: int, loader: str) -> float:
    """Seconds in which a node prepares the images of a step of `batch` on each GPU; 0 if nothing is known to limit it.

    Raises PlanError for an unknown loader.
    """
    made, entry = load_image_loader(loader), networks().get(network)
    image = _IMAGE.match(entry.inputs[0]) if entry else None
    if image is None or cluster is None or not cluster.system.cores:
        return 0.0
    each = made.core_seconds(int(image[1]) * int(image[2]))
    return min(gpus, cluster.gpus_per_node) * batch * each / cluster.system.cores


def fed_step(step: ReplicasStep, loading: float) -> ReplicasStep:
    """The step on all GPUs, no shorter than the loading of its images."""
    return replace(step, seconds=max(step.seconds, loading))
