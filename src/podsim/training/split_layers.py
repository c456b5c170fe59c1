"""What differs in a layer whose weight gradients are a pass of their own, and where passes run simultaneously."""

from __future__ import annotations

import numpy as np

from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.training.layers import (
    LAUNCH,
    TP,
    Pass,
    busy_and_host,
    launch_seconds,
    sync_counts,
    tp_sync_seconds,
)
from podsim.training.layout import SplitLayers
from podsim.training.plan import Plan
from podsim.training.plan_values import Array
from podsim.training.software import Software
from podsim.workload.model import Model


def split_layers(model: Model, cluster: Cluster, plan: Plan, software: Software) -> SplitLayers:
    """What differs in the layers of plans that compute weight gradients apart.

    Each half of a backward pass lasts as long as the longer of GPU and host. Exchanges hide no launches of simultaneous
    passes: while one of them exchanges, the host launches the kernels of the other.
    """
    busy, host = busy_and_host(model, cluster, plan, software)

    def launches(busy: Shaped[Array, "pass part block plan"]) -> Shaped[Array, "pass block plan"]:
        seconds, backward = launch_seconds(cluster, host, busy), slice(Pass.BACKWARD, Pass.WEIGHT)
        inputs = host[backward] - host[Pass.WEIGHT], busy[backward] - busy[Pass.WEIGHT]
        seconds[backward] = launch_seconds(cluster, *inputs) + seconds[Pass.WEIGHT]
        return seconds

    once = tp_sync_seconds(model, cluster, plan, software)
    all_syncs = np.zeros_like(busy[: Pass.BACKWARD + 1, TP])
    for position, block in enumerate(model.kinds):
        for direction, syncs in zip(all_syncs, sync_counts(model, block, plan), strict=True):
            direction[position] = syncs * once
    return SplitLayers(
        launch=launches(busy),
        paired_launch=launches(busy[:, :LAUNCH]),
        hidden=all_syncs - busy[: Pass.BACKWARD + 1, TP],
    )


def own_layers(
    plan: Plan, layers: Shaped[Array, "pass part block plan"], split: SplitLayers
) -> Shaped[Array, "pass part block plan"]:
    """The layers of each plan, with the launches of its own schedule."""
    own = layers.copy()
    launch = np.where(plan.paired, split.paired_launch, split.launch)
    own[:, LAUNCH] = np.where(plan.loose_end, launch, own[:, LAUNCH])
    return own
