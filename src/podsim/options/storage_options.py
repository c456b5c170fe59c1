"""Options about storage systems and the input pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass

from podsim.options.question import like, option, overrides_option


@dataclass(frozen=True, kw_only=True)
class StorageShowOptions:
    """A storage system, or all of them."""

    name: str = option("", "A storage system; none lists all.", argument=True)
    overrides: Mapping[str, str] | None = overrides_option("server.read=10GB/s, servers=4, client.cores=2")
    client: str = option("", "Another server as client, e.g. dgx-h100; same ports and software.")


@dataclass(frozen=True, kw_only=True)
class MountedOptions:
    """A storage system with its clients."""

    on: str = option(
        MISSING, "Storage system and clients: weka-ra:4, local-nvme:2.", flag="--on", argument=True
    )
    overrides: Mapping[str, str] | None = like(StorageShowOptions, "overrides")
    client: str = like(StorageShowOptions, "client")


@dataclass(frozen=True, kw_only=True)
class StorageInputOptions(MountedOptions):
    """A workload that reads samples."""

    workload: str = option(
        MISSING, "resnet50, mlperf-unet3d, mlperf-resnet50, mlperf-cosmoflow, video-1080p.", argument=True
    )
    on: str = like(MountedOptions, "on", argument=False)
    batch: int | None = option(None, "Samples of one accelerator's step.")
    accelerator: str = option("", "Emulated accelerator: a100 or h100.")
    accelerators: int | None = option(None, "Accelerators of a node; default its GPUs.")
    era: str = option("", "Round of the software, e.g. mlperf-v1.1.")
    cache: str = option("", "page, nvme or none; default page, none for MLPerf Storage.")
    cache_size: str = option("", "Size of the cache of one node, e.g. 500GB.")
    shuffle: str = option("global", "global or shard.")
    decode: str = option("gpu", "gpu or cpu.")
    readers: int = option(4, "Reading threads of an accelerator.")
    samples: int | None = option(None, "Samples of the training data.")
    cold: float = option(0.0, "Share of the data on the object store only.")
    lost: int = option(0, "Servers of the storage that have failed.")
