"""Options about machines and networks as they are described: sheets, fabrics, collectives, MIG, inference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from podsim.options.question import option, overrides_option


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """Anything in the catalogs."""

    name: str | Path = option(
        MISSING, "A name of any catalog, `software`, a config.json, or a cluster's TOML file.", argument=True
    )
    fabric: bool = option(
        False, "Draw servers and switches instead; NAME may be a topology XML, too.", flag="--fabric"
    )
    overrides: Mapping[str, str] | None = overrides_option(
        "gpu.memory=64GB, network.bandwidth=100Gb/s, model.layers=12"
    )


@dataclass(frozen=True, kw_only=True)
class CollectiveOptions:
    """A collective on a network, and how it is timed."""

    collective: str = option(
        "",
        "all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all, send-recv, gather, scatter.",
        argument=True,
    )
    on: Any = option("", "Cluster: dgx-a100:4, selene, or a TOML file.")
    sizes: Any = option("", "FIRST:LAST:FACTOR (or +STEP), as nccl-tests counts; default to 16G, doubling.")
    algo: Any = option(
        "nccl",
        "nccl, an algorithm (ring, tree, in-network, …), FILE.py:FUNCTION. With --proto, --nccl or "
        "another of NCCL's settings: NCCL held to it.",
    )
    proto: str = option("", "Hold NCCL to ll, ll128 or simple; default its choice.")
    ranks: int | None = option(None, "GPUs that take part; default all.")
    launch: str = option(
        "", "process (default) or thread for each GPU, or single process; with --against as in the log."
    )
    nccl: str = option("", "Release of NCCL, 2.4 to 2.30; default 2.18, with --against that of the log.")
    network: str = option(
        "", "infiniband, roce, efa-v1, efa-v2, tcpxo, tcpx, slingshot, sockets; default the cluster's."
    )
    nics: str = option("", "Adapters of a node that NCCL uses, e.g. 4 or 4x100Gb/s; default the cluster's.")
    gdr: bool | None = option(
        None, "GPUDirect: adapters reach the GPUs' memory; default where the network has it."
    )
    sharp: bool | None = option(None, "NCCL may reduce in the switches between nodes (SHARP, CollNet).")
    tuned: bool | None = option(None, "NCCL has a tuner, topology file or channels for this machine.")
    simulate: bool = option(
        False, "Simulate every transfer on the links, with contention.", flag="--simulate"
    )
    compare: bool = option(False, "All algorithms side by side.", flag="--compare")
    topology: Path | None = option(
        None, "Instead of --on: a server's NCCL topology XML, or nvidia-smi topo -m."
    )
    against: Path | None = option(None, "What nccl-tests printed, or its JSON: predicted against measured.")
    overrides: Mapping[str, str] | None = overrides_option("network.bandwidth=100Gb/s")


@dataclass(frozen=True, kw_only=True)
class SlicedGpu:
    """A GPU that can be divided."""

    gpu: str = option(MISSING, "A GPU with MIG: a100-40gb, a100-80gb, a30, h100, h200.", argument=True)
