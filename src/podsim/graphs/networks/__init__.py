"""The catalog of captured networks, which complements the transformers of the model catalog: for any batch.

Each entry of the TOML files names a module (under examples/modules) and the inputs of its capture;
`python scripts/networks.py` captures them again. The graphs are NAME.json.gz in the same folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

from podsim.embeddings.tables import TableSet, table_sets
from podsim.errors import ModelError, check_name
from podsim.foreign_files import read_start
from podsim.graphs.op_graph import OpGraph
from podsim.graphs.op_graph_batch import interpolate_batch
from podsim.graphs.op_graph_json import check_batch, graph_of, read_value
from podsim.packaged import packaged_toml
from podsim.records import dataclass, fields, replace
from podsim.units import parse_quantity
from podsim.workload.catalog import is_captured

__all__ = ["Network", "is_captured", "is_graph", "load_network", "networks"]


@dataclass(frozen=True, kw_only=True)
class Network:
    """An entry of the catalog of captured networks."""

    name: str
    title: str
    module: str
    """The function that makes it: FILE.py:FUNCTION under examples/modules."""
    inputs: tuple[str, ...]
    """The shapes of the inputs, with B for the samples of a step."""
    sample: str
    """The word for a sample."""
    parameters: int
    """count. The published number of weights, without tables whose gradients are sparse."""
    parameters_within: float = 0.0
    """share. The tolerance of the captured count."""
    source: str
    """The publication of the network, and the source of its checked figures."""
    graph: str = ""
    """The network whose graph it shares, if it has one; else its own."""
    tables: str = ""
    """The name of its embedding tables in podsim.embeddings.tables."""
    audio: float = 0.0
    """s. The audio of a sample, of speech; 0 for other samples."""

    @property
    def table_set(self) -> TableSet | None:
        """Its embedding tables; None if it has none."""
        return table_sets()[self.tables] if self.tables else None

    @property
    def all_parameters(self) -> int:
        """count. The published number of weights with those of its tables."""
        known = self.table_set
        return self.parameters + (known.parameters if known is not None and not known.is_dense else 0)


@cache
def networks() -> Mapping[str, Network]:
    """All networks by name."""
    entries: dict[str, Network] = {}
    known = {field.name for field in fields(Network)} - {"name"}
    for file in sorted(_folder().glob("*.toml")):
        content = packaged_toml(f"graphs/networks/{file.name}")
        for name, own in content.items():
            entry = {**content.get(own.get("graph"), {}), **own}
            wrong = entry.keys() - known
            assert not wrong, f"{file.name}: {name}: unknown keys {sorted(wrong)}"
            assert name not in entries, f"{file.name}: {name} is in another file, too"
            audio = parse_quantity(entry["audio"], "s") if "audio" in entry else 0.0
            entries[name] = Network(name=name, **{**entry, "inputs": tuple(entry["inputs"]), "audio": audio})
    return dict(sorted(entries.items()))


def load_network(name: str, batch: int) -> OpGraph:
    """The graph of a network of the catalog for `batch` samples. Raises ModelError for an unknown name or a bad batch."""
    check_name("network", name, networks(), ModelError)
    check_batch(batch)
    return _graph(name, batch)


@lru_cache(maxsize=256)
def _graph(name: str, batch: int) -> OpGraph:
    single, double = _ends(name)
    return interpolate_batch(single, double, batch)


@cache
def _ends(name: str) -> tuple[OpGraph, OpGraph]:
    """The graphs of a network for one and two samples, unchecked, since tests check the packaged files."""
    entry = networks()[name]
    value = read_value(_folder() / f"{entry.graph or name}.json.gz")
    single, double = (graph_of(value, name, batch, check=False) for batch in (1, 2))
    return (
        (replace(single, name=entry.title), replace(double, name=entry.title))
        if entry.graph
        else (single, double)
    )


def _folder() -> Path:
    return Path(str(files("podsim.graphs.networks")))


def is_graph(model: str) -> bool:
    """Whether a model is a captured network: by name, as a file of `podsim capture`, or as a module."""
    return (
        is_captured(model) or ".py:" in model or model.endswith((".json.gz", ".py")) or _is_graph_file(model)
    )


def _is_graph_file(model: str) -> bool:
    """Whether a JSON file is a graph, not the configuration of a transformer."""
    path = Path(model)
    if path.suffix != ".json":
        return False
    return b'"podsim_graph"' in read_start(path)
