"""The data that training reads, and the speed of an accelerator on it: catalog/workloads.toml.

load_workload("resnet50")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, cast

from pydantic import BeforeValidator, Field

from podsim.errors import CatalogError, unknown_name
from podsim.hardware.catalog.schema import Count, Entry, Rate, Seconds, parse_catalog
from podsim.units import parse_quantity
from podsim.workload.image_loaders import SYNTHETIC, load_image_loader

Amount = Annotated[
    float, BeforeValidator(lambda value: parse_quantity(value, "B", what="value")), Field(gt=0.0)
]
Duration = Annotated[
    float, BeforeValidator(lambda value: parse_quantity(value, "s", what="value")), Field(gt=0.0)
]
Number = Annotated[float, Field(gt=0.0)]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Samples that are read, decoded and trained on."""

    name: str
    title: str
    samples: int
    """The number of samples of the training data; 0: as many as MLPerf Storage asks for."""
    validation: int
    raw: float
    """B. The size of a sample as it arrives."""
    record: float
    """B. The size of a sample as training reads it."""
    read_block: float
    """B. The bytes that a reader requests at once."""
    transform_cpu: float
    """s. The core time to turn a raw sample into a record."""
    loaders: Mapping[str, str]
    """The loader of images by what decodes them, cpu or gpu; empty where no core works on a sample."""
    batch: int
    """The number of samples of one accelerator's step."""
    steps: Mapping[str, float]
    """s. The prescribed time of a step of the batch, by accelerator."""
    host_step: float
    """s. The time of a step in addition to the accelerator's own."""
    host_bandwidth: float
    """B/s. The bandwidth at which a host hands a batch over."""
    threshold: float
    """share. The accelerator utilisation that a result must reach; 0 if there is none."""
    parameters: float
    """count. The number of parameters of the network."""
    inference: float
    """1/s. The rate of one accelerator in inference; 0 if unknown."""
    benchmark: str
    """The benchmark of MLPerf Training that it is; empty for another workload."""
    software: str
    """The software of the benchmark where none is named."""
    source: str
    confirmed: str
    notes: Mapping[str, str] = field(default_factory=dict, hash=False)

    def core_seconds(self, decode: str) -> float:
        """s. The core time of a sample that the processor (cpu) or the accelerator (gpu) decodes."""
        return load_image_loader(self.loaders.get(decode, SYNTHETIC)).core_seconds()


class _Entry(Entry):
    title: str
    samples: Annotated[int, Field(ge=0)] = 0
    validation: Annotated[int, Field(ge=0)] = 0
    raw: Amount
    record: Amount
    read_block: Amount
    transform_cpu: Seconds = 0.0
    loaders: dict[str, str] = Field(default_factory=dict)
    batch: Count = 0
    steps: dict[str, Seconds] = Field(default_factory=dict)
    host_step: Seconds = 0.0
    host_bandwidth: Rate | None = None
    threshold: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    parameters: Annotated[float, Field(ge=0.0)] = 0.0
    inference: Annotated[float, Field(ge=0.0)] = 0.0
    benchmark: str = ""
    software: str = ""


@cache
def _entries() -> dict[str, _Entry]:
    file = "workloads.toml"
    text = (Path(__file__).with_name("catalog") / file).read_text(encoding="utf-8")
    return cast("dict[str, _Entry]", parse_catalog("workload", text, file, _Entry))


def workload_names() -> tuple[str, ...]:
    """Names of the workloads, in the order of their file."""
    return tuple(_entries())


def load_workload(name: str) -> Workload:
    """The workload of that name or alias. Raises CatalogError for another."""
    entries = _entries()
    others = {alias: key for key, entry in entries.items() for alias in entry.aliases}
    key = name.strip().lower()
    key = others.get(key, key)
    if key not in entries:
        raise CatalogError(unknown_name("workload", name, [*entries, *others]))
    entry = entries[key]
    skipped = {"aliases", "source", "host_bandwidth", "notes"}
    values = {field: getattr(entry, field) for field in type(entry).model_fields if field not in skipped}
    return Workload(
        **values, name=key, source="; ".join(entry.source), notes=dict(entry.notes),
        host_bandwidth=entry.host_bandwidth or float("inf"),
    )  # fmt: skip
