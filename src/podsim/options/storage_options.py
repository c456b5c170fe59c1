"""Options about storage systems and the input pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path

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
class StorageFioOptions(MountedOptions):
    """A run of fio."""

    rw: str = option("", "read, write, randread, randwrite, rw, randrw.")
    bs: str = option("", "Bytes of an access: 4k, 128k, 1M.")
    numjobs: int | None = option(None, "Jobs of a client; default as wekatester.")
    iodepth: int | None = option(None, "Accesses of a job at once; default as wekatester.")
    rwmixread: int = option(50, "Percent of a mixed run that reads.")
    runtime: float = option(30.0, "Seconds it would run.")
    against: Path | None = option(None, "A JSON file of fio: its job, predicted and measured.")


@dataclass(frozen=True, kw_only=True)
class StorageMdtestOptions(MountedOptions):
    """A run of mdtest."""

    tasks: int | None = option(None, "Tasks of all clients; default 16 a client.")
    items: int = option(1000, "Files and directories of each task.")
    write: str = option("0", "Bytes of each file, e.g. 4k.")


@dataclass(frozen=True, kw_only=True)
class StorageFailOptions(MountedOptions):
    """Servers that fail."""

    servers: int = option(3, "Servers lost at once, at most.")
    fill: float = option(0.5, "Share of the net space in use, for the rebuild.")


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
    era: str = option("", "Software that was measured, e.g. mlperf-v1.1.")
    cache: str = option("", "page, nvme or none; default page, none for MLPerf Storage.")
    cache_size: str = option("", "Size of the cache of one node, e.g. 500GB.")
    shuffle: str = option("global", "global or shard.")
    decode: str = option("gpu", "gpu or cpu.")
    readers: int = option(4, "Reading threads of an accelerator.")
    samples: int | None = option(None, "Samples of the training data.")
    cold: float = option(0.0, "Share of the data on the object store only.")
    lost: int = option(0, "Servers of the storage that have failed.")


@dataclass(frozen=True, kw_only=True)
class StorageSizeOptions:
    """A job that needs storage."""

    model: str = option(MISSING, "A workload, or a model as podsim predict takes it.", argument=True)
    on: str = option(MISSING, "Cluster: dgx-a100:32, superpod-a100:2su, selene.")
    batch: int | None = like(StorageInputOptions, "batch")
    accelerator: str = like(StorageInputOptions, "accelerator")
    era: str = like(StorageInputOptions, "era")
    tokens: str | float | None = option(None, "Tokens of a language model's data, e.g. 300G.")
    slower: float = option(0.05, "Share by which waiting for storage may make the run longer.")
    shuffle: str = option("shard", "shard: nodes keep to their part of the samples; or global.")
    overrides: Mapping[str, str] | None = overrides_option("gpus_per_node=4")
