"""The values that the sliders of a design multiply, as the overrides of `--set` name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from podsim.hardware.cluster import load_cluster
from podsim.options.question import option, question


@dataclass(frozen=True, kw_only=True)
class LeverOptions:
    """A machine."""

    on: str = option("dgx-h100", "Cluster: dgx-a100-80gb:64, selene.", argument=True)


@question(LeverOptions)
def machine_levers(options: LeverOptions) -> dict[str, Any]:
    """The bandwidths (B/s) and the memory (B) of a machine by the keys that override them."""
    cluster = load_cluster(options.on)
    return {
        "name": cluster.name, "gpus": cluster.gpus,
        "levers": {
            "network.bandwidth": cluster.network.bandwidth, "nvlink.bandwidth": cluster.nvlink.bandwidth,
            "gpu.memory": cluster.gpu.memory, "gpu.memory_bandwidth": cluster.gpu.memory_bandwidth,
        },
    }  # fmt: skip
