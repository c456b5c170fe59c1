"""The schema of files of `podsim measure host`. It rejects unknown keys, missing keys and absurd numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError

from podsim.errors import CatalogError
from podsim.hardware.catalog.schema import Table
from podsim.hardware.parts import Peak

FORMAT = "podsim-host"
VERSION = 1


def _positive(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError("must be a number above 0, in SI")
    return float(value)


Number = Annotated[float, BeforeValidator(_positive)]
Count = Annotated[int, Field(ge=1, le=100_000)]


class Rank(Table):
    """The performance of one rank."""

    name: str = Field(min_length=1, max_length=80)
    compute_capability: float = Field(ge=0, lt=100)
    """The CUDA compute capability; 0 for a share of processor cores."""
    clock: Annotated[float, Field(ge=0)] = 0.0
    peaks: dict[Peak, Number] = Field(min_length=1)
    memory: Number
    memory_bandwidth: Number
    cache: Annotated[float, Field(ge=0)] = 0.0


class Processor(Table):
    """The processors of the machine."""

    name: str
    vendor: Literal["amd", "intel", "other"]
    sockets: Count
    cores: Count
    memory: Number


class RankLink(Table):
    """The link between two ranks."""

    name: str
    bandwidth: Number
    latency: Number


class Sync(Table):
    """An exchange within a layer, for one number of ranks."""

    ranks: Annotated[int, Field(ge=2, le=100_000)]
    latency: Number
    per_byte: Number


class ExchangeEntry(Sync):
    """A collective, for one number of ranks."""

    collective: Literal[
        "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send_recv"
    ]


class Disk(Table):
    """The results of fio."""

    folder: str
    capacity: Number
    read: Number
    write: Number
    read_operations: Number
    write_operations: Number
    read_latency: Number
    write_latency: Number


class Images(Table):
    """The speed of ResNet-50, for one number of ranks."""

    ranks: Count
    rate: Number


class HostEntry(Table):
    """The entire file. The readers of kernels and of software parse its tables `kernels` and `software`."""

    format: Literal["podsim-host"]
    version: Literal[1]
    name: str = Field(min_length=1, max_length=80)
    source: str = Field(min_length=1, max_length=1000)
    ranks: Count
    others: float = Field(default=0.0, ge=0.0, le=1.0)
    """share. The share of the processors that other programs used meanwhile."""
    law_error: float = Field(default=0.0, ge=0.0)
    """share. The mean absolute error of the kernel law over the rows that it was fitted to."""
    images: Images | None = None
    rank: Rank
    processor: Processor
    link: RankLink
    exchange: tuple[ExchangeEntry, ...] = ()
    sync: tuple[Sync, ...] = ()
    shard: tuple[Sync, ...] = ()
    disk: Disk | None = None
    names: dict[str, Number] = Field(default={})
    features: dict[Literal["tpm", "secure_boot", "self_encrypting", "raid"], str] = Field(default={})
    kernels: dict[str, Any]
    software: dict[str, dict[str, float]] = Field(default={})


def read_host_entry(table: Mapping[str, Any], path: Path) -> HostEntry:
    """The entry of a parsed file. Raises CatalogError with all problems of the file."""
    assert (FORMAT, VERSION) == ("podsim-host", 1)
    try:
        entry = HostEntry.model_validate(dict(table))
    except ValidationError as error:
        problems = (
            f"{'.'.join(str(step) for step in problem['loc'])}: {problem['msg'].removeprefix('Value error, ')}"
            for problem in error.errors(include_url=False)
        )
        raise CatalogError(f"{path.name}: {'; '.join(problems)}") from None
    if entry.ranks > 1 and not entry.exchange:
        raise CatalogError(f"{path.name}: {entry.ranks} ranks, and no exchange between them")
    return entry
