"""What differs in a layer where passes run simultaneously: exchanges hide no launches of the host."""

from __future__ import annotations

import numpy as np

from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.training.layers import LAUNCH, busy_and_host, launch_seconds, op_times
from podsim.training.layout import PairedLayers
from podsim.training.plan import Plan
from podsim.training.plan_values import Array
from podsim.training.software import Software
from podsim.workload.model import Model


def paired_layers(model: Model, cluster: Cluster, plan: Plan, software: Software) -> PairedLayers:
    """What differs in the layers of plans with simultaneous passes: exchanges hide no launches.

    While one pass exchanges, the host launches the kernels of the other.
    """
    busy, host = busy_and_host(model, cluster, plan, software)
    return PairedLayers(
        launch=launch_seconds(cluster, host, busy[:, :LAUNCH]),
        stretch=_longest_stretch_seconds(model, cluster, plan, software),
    )


def own_layers(
    plan: Plan, layers: Shaped[Array, "pass part block plan"], paired: PairedLayers
) -> Shaped[Array, "pass part block plan"]:
    """The layers of each plan, with the launches of simultaneous passes where it has such."""
    own = layers.copy()
    own[:, LAUNCH] = np.where(plan.paired, paired.launch, own[:, LAUNCH])
    return own


def _longest_stretch_seconds(
    model: Model, cluster: Cluster, plan: Plan, software: Software
) -> Shaped[Array, "block plan"]:
    """Seconds of the longest stretch of compute between two tensor-parallel syncs of a layer's forward pass.

    Embedding and head have that of all layers.
    """
    seconds: dict[tuple[int, int], Array] = {}
    for items, where, times in op_times(model, cluster, plan, software):
        for item, block, row in zip(items, where.tolist(), times.forward, strict=True):
            seconds[block, id(item.op)] = row
    longest = np.zeros((len(model.kinds), plan.size))
    for position, block in enumerate(model.kinds[1:-1], 1):
        stretches = [np.zeros(plan.size)]
        for op in block.ops:
            stretches[-1] = stretches[-1] + seconds[position, id(op)]
            if op.kind == "gemm" and op.split == "row":
                stretches.append(np.zeros(plan.size))
        stretches[0] = stretches[0] + stretches[-1]  # what is behind the last sync goes on in the next layer
        longest[position] = np.maximum.reduce(stretches)
    longest[[0, -1]] = longest.max(axis=0)
    return longest
