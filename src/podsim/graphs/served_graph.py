"""A captured network as inference needs it: its graphs for one and for two samples, and the bytes of its inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from podsim.errors import ModelError
from podsim.graphs.networks import load_network, networks
from podsim.graphs.op_graph import OpGraph
from podsim.graphs.op_graph_batch import interpolate_batch, is_for_any_batch
from podsim.graphs.op_graph_json import graph_of, read_value


@dataclass(frozen=True, kw_only=True, eq=False)
class ServedGraph:
    """A captured network for any batch."""

    name: str
    """The name in the catalog, or of the file."""
    title: str
    single: OpGraph
    """The graph of one sample."""
    double: OpGraph
    """The graph of two samples."""
    sample_bytes: float
    """B. The inputs of one sample."""
    sample: str = "sample"
    """The word for a sample."""
    audio: float = 0.0
    """s. The audio of a sample, of speech; 0 for other samples."""

    def graph(self, batch: int) -> OpGraph:
        """The graph of a batch."""
        return interpolate_batch(self.single, self.double, batch)


@cache
def packaged_graph(name: str) -> ServedGraph:
    """A network of the catalog. Raises ModelError for an unknown name."""
    single, double = (load_network(name, batch) for batch in (1, 2))
    entry = networks()[name]
    return ServedGraph(
        name=name, title=entry.title, single=single, double=double, sample_bytes=_input_bytes(entry.inputs),
        sample=entry.sample, audio=entry.audio,
    )  # fmt: skip


def file_graph(path: Path) -> ServedGraph:
    """The network of a captured file. Raises ModelError for another file, and for one captured at one batch."""
    return value_graph(read_value(path), str(path))


def value_graph(value: dict[str, Any], where: str) -> ServedGraph:
    """The network of a graph's JSON value from `where`; ModelError for one captured at one batch."""
    if not is_for_any_batch(value):
        raise ModelError(
            f"{where[-120:]}: captured for {str(value.get('batch'))[:20]} samples alone; serving forms batches, so "
            "capture it for any: podsim capture … --input Bx3x224x224"
        )
    single, double = (graph_of(value, where, batch) for batch in (1, 2))
    name = Path(where).name.removesuffix(".gz").removesuffix(".json")
    return ServedGraph(
        name=name, title=single.source or single.name, single=single, double=double,
        sample_bytes=_first_bytes(double) - _first_bytes(single),
    )  # fmt: skip


def _first_bytes(graph: OpGraph) -> float:
    """B that the ops without predecessors read, a bound of the inputs."""
    first = np.diff(graph.first) == 0
    return float(graph.read[first].sum())


@lru_cache(maxsize=64)
def _input_bytes(inputs: tuple[str, ...]) -> float:
    """B of the inputs of one sample, with the targets, which are as large as results."""
    total = 0.0
    for text in inputs:
        shape, _, number = text.partition(":")
        elements = math.prod(int(size) for size in shape.split("x")[1:])
        total += elements * (8.0 if number.startswith("int64") else 4.0)
    return total
