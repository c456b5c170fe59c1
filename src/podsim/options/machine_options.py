"""Options about machines and networks as they are described: sheets, fabrics, collectives, MIG, inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from podsim.options.question import like, option, overrides_option


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
class FlowsOptions:
    """Flows that cross a fabric at once, and how their routes are chosen."""

    on: Any = option(
        MISSING,
        "Cluster: superpod-a100:2su, selene, or a TOML file.",
        complete="clusters",
        example="superpod-a100:2su",
    )
    ranks: int | None = like(CollectiveOptions, "ranks", "GPUs that send; default all.")
    shift: int | None = option(
        None, "Rank i sends to rank i + SHIFT, around the end; default half of the ranks."
    )
    random: int | None = option(
        None, "Instead, every rank sends to a rank drawn by this seed, and receives once."
    )
    seeds: int = option(100, "Hashes that are tried where routes are hashed.")
    overrides: Mapping[str, str] | None = overrides_option("fabric.routing=ecmp, network.bandwidth=100Gb/s")


@dataclass(frozen=True, kw_only=True)
class MigLayoutsOptions:
    """Which layouts of a GPU are listed."""

    gpu: str = option(MISSING, "A GPU with MIG: a100-40gb, a100-80gb, a30, h100, h200.", argument=True)
    every: bool = option(False, "All profiles, 1g with more memory and +me, too.", flag="--every")
    partial: bool = option(False, "Layouts to which something can be added, too.", flag="--partial")


@dataclass(frozen=True, kw_only=True)
class MigShowOptions:
    """One layout of a GPU."""

    gpu: str = like(MigLayoutsOptions, "gpu")
    layout: str = option(
        MISSING, "Instances: 4g,2g,1g or 7x1g.5gb, with places 3g.20gb@4,1g.5gb@0.", argument=True
    )


@dataclass(frozen=True, kw_only=True)
class MigPlanOptions:
    """Jobs, and the GPUs that are divided for them."""

    on: str = option(
        MISSING, "Node, cluster or GPU: dgx-a100-40gb, dgx-a100-40gb:4, a100-40gb.", argument=True
    )
    jobs: Sequence[str] = option(
        (),
        "NAME:4xgpu, NAME:14x1g.5gb, NAME:5x8GB, NAME:5x8GB@0.4 (share no slice shrinks). Repeatable.",
        flag="--job",
    )
    objective: str = option(
        "throughput", "What to maximise: throughput, or slowest (the speed of the slowest job)."
    )


@dataclass(frozen=True, kw_only=True)
class MigStateOptions:
    """The output of nvidia-smi, and the requested change."""

    file: Path | str = option(
        MISSING, "Output of nvidia-smi -L, mig -lgi, mig -lgipp, or several in one.", argument=True
    )
    gpu: str = option("", "The GPU, where the text does not name it.")
    want: str = option("", "The layout that each GPU should have, e.g. 3g,2g,2g.")
    add: str = option("", "Instances to create in addition to those that are there.")
    busy: Sequence[str] = option((), "Instance that may not be destroyed (its number), or all. Repeatable.")


@dataclass(frozen=True, kw_only=True)
class MigCheckOptions:
    """A mig-parted file."""

    file: Path | str = option(MISSING, "A mig-parted file.", argument=True)
    gpu: str = option(MISSING, "The GPU it is for: a100-40gb, a100-80gb, a30, h100, h200.")
