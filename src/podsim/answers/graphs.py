"""The results of a captured graph and of execution traces: plain values in SI that name no formula."""

from __future__ import annotations

from collections.abc import Mapping

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.answers.prediction import Band, SparseGain
from podsim.records import dataclass, field


def flops_text(number: float) -> str:
    """An arithmetic in full, as two counters are compared to the last operation."""
    return f"{number:,.0f} FLOP"


def counts_text(counts: Mapping[str, int]) -> str:
    """Numbers and what they count: "4 gemm, 2 norm"."""
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "none"


@dataclass(frozen=True, kw_only=True)
class Captured(Answer):
    """A graph that was captured, before any machine."""

    model: str
    source: str
    batch: int
    """The number of samples of a step."""
    ops: int
    kinds: Mapping[str, int] = shown(title="Ops by kind")
    """The number of ops, by kind."""
    parameters: float = shown(format=":,.0f")
    """count. The number of weights."""
    flops: float = shown("forward", flops_text)
    """FLOP. The arithmetic of the forward pass."""
    flops_back: float = shown("backward", flops_text)
    """FLOP. The arithmetic of the backward pass."""
    torch_flops: float | None = shown("forward, by torch", flops_text)
    """FLOP. The arithmetic of the forward pass by PyTorch's own counter; None if it could not run."""
    torch_flops_back: float | None = shown("backward, by torch", flops_text)
    """FLOP. The arithmetic of the backward pass by PyTorch's own counter."""
    kept: float
    """B. The tensors kept for the backward pass, as captured."""
    file: str = shown("written")
    """The file of the graph, if it was written."""
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class GraphOp:
    """One op of a graph on a GPU."""

    name: str
    op: str
    kind: str
    shape: str
    flops: float
    """FLOP. The arithmetic of the forward pass."""
    flops_back: float
    """FLOP. The arithmetic of the backward pass."""
    bytes: float
    """B. The bytes moved in the forward pass."""
    bytes_back: float
    """B. The bytes moved in the backward pass."""
    forward: float
    """s. The time of the forward pass on the GPU."""
    backward: float
    """s. The time of the backward pass on the GPU."""
    light: float
    """share. The share of the roofline: the larger of arithmetic and bytes at the data sheet's peaks, over the
    time."""
    bound: str
    """The bound: arithmetic or memory."""
    part: int
    """The device of the cut that holds it; 0 without a cut."""


@dataclass(frozen=True, kw_only=True)
class CutPart:
    """What one device of a cut holds."""

    ops: int
    seconds: float
    """s. The time of the forward and the backward pass."""
    parameters: float
    """count. The number of weights."""
    kept: float
    """B. The tensors kept for the backward pass."""
    sent: float
    """B. The bytes sent forward to other devices; as many return as gradients."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A graph divided over devices: little communication, balanced work."""

    devices: int
    bytes: float
    """B. The bytes sent forward between devices, each tensor once to each device that reads it."""
    balance: float
    """factor. The work of the fullest device over the mean."""
    tolerance: float
    """share. The share by which a device may exceed the mean work."""
    tensors: int
    """The number of tensors that are sent."""
    pipeline: bool
    """Whether the devices can be ordered so that all tensors are sent onward."""
    parts: tuple[CutPart, ...]


@dataclass(frozen=True, kw_only=True)
class DataParallel:
    """A step of several replicas, whose gradients are reduced in buckets during the backward pass."""

    gpus: int
    buckets: int
    bytes: float
    """B. The bytes of gradients."""
    reduce: float
    """s. The time that all buckets take on the network."""
    exposed: float
    """s. The part of that time that the backward pass does not hide."""
    tables: float
    """s. The time to exchange rows of tables with sparse gradients, which are divided over the GPUs."""
    step_time: float
    """s. The time of a step with the exposed exchange."""
    samples_per_second: float
    """1/s. The rate of samples."""
    efficiency: float
    """share. The throughput relative to as many independent GPUs."""


@dataclass(frozen=True, kw_only=True)
class GraphMemory:
    """The memory of a training step on one GPU."""

    weights: float
    """B. The weights, with their copy of 16 bits."""
    gradients: float
    """B. The gradients."""
    states: float
    """B. The states of the optimizer."""
    tables: float
    """B. The share of one GPU of the tables with sparse gradients."""
    activations: float
    """B. The activations at the end of the forward pass."""
    runtime: float
    """B. The memory of context, libraries and workspaces."""
    capacity: float
    """B. The memory of the GPU."""
    largest_batch: int
    """count. The largest batch on one GPU that fits; 0 if none does."""

    @property
    def total(self) -> float:
        """B. The sum of all kinds."""
        return self.weights + self.gradients + self.states + self.tables + self.activations + self.runtime

    @property
    def fits(self) -> bool:
        """Whether the GPU holds it all."""
        return self.total <= self.capacity


@dataclass(frozen=True, kw_only=True)
class PlacedTable:
    """An embedding table and its place."""

    name: str
    rows: int
    width: int
    pooling: float
    """count. The mean number of rows that a sample looks up."""
    bytes: float
    """B. The size of its rows."""
    way: str
    """The way that it is divided, by TorchRec's name."""
    slices: int
    """The number of slices of its columns."""
    gpus: str
    """The GPUs that hold it."""
    tier: str
    """The memory that holds it: hbm, host, nvme, server."""
    cached: float
    """share. The rows in a cache on the GPU; 1 in its memory."""
    hit_rate: float
    """share. The distinct rows of a batch that the cache holds."""
    hot: int
    """The number of popular rows that every GPU has."""
    seconds: float
    """s. The lookups, sent vectors and fetched rows of one of its GPUs."""


@dataclass(frozen=True, kw_only=True)
class TablePlacement:
    """The places of a recommender's tables, and their part of a step."""

    name: str
    """The name of the set of tables."""
    bytes: float
    """B. The size of all rows, without states of the optimizer."""
    lookups: float
    """count. The rows that a sample looks up."""
    forward: float
    """s. The lookups of the slowest GPU."""
    backward: float
    """s. The updates of rows on the slowest GPU."""
    sent: float
    """s. The exchange of indices, vectors and gradients, with its start."""
    fetched: float
    """s. The rows that arrive too late from other memory."""
    shared: float
    """s. The reduction of gradients of rows that every GPU has."""
    seconds: float
    """s. The time that the tables add to the step."""
    bound: float
    """s. A time that no placement by these ways can beat."""
    plain: float | None
    """s. The time that whole tables on single GPUs would add; None if they do not fit, or were chosen."""
    least: float
    """B. The tables on the emptiest GPU."""
    most: float
    """B. The tables on the fullest GPU."""
    tables: tuple[PlacedTable, ...]


@dataclass(frozen=True, kw_only=True)
class GraphCost(Answer, view=View(report="report.graph_tables:graph_report", rows="ops", has_detail=True)):
    """One training step of a graph on a GPU."""

    model: str
    source: str
    gpu: str
    precision: str
    software: str
    optimizer: str
    fused: tuple[str, ...]
    """The rules of fusion that were applied."""
    batch: int
    """The number of samples of a step on one GPU."""
    parameters: float
    """count. The number of weights."""
    flops: float
    """FLOP. The arithmetic of the forward pass."""
    flops_back: float
    """FLOP. The arithmetic of the backward pass."""
    forward: float
    """s. The time of the forward pass: GPU or host, whichever is longer."""
    backward: float
    """s. The time of the backward pass: GPU or host, whichever is longer."""
    update: float
    """s. The time of the optimizer and of casting weights."""
    host: float
    """s. The time of both passes in which the GPU waits for the host."""
    host_step: float
    """s. The time of a step outside its passes and the update: data, loss scale, logging."""
    step_time: float
    """s. The time of forward pass, backward pass and update."""
    samples_per_second: float
    """1/s. The rate of samples."""
    utilisation: float
    """share. The arithmetic of the products in a step, relative to the peak."""
    kept: float
    """B. The activations at the end of the forward pass."""
    kinds: Mapping[str, float]
    """s. The time of both passes, by kind of op."""
    ops: tuple[GraphOp, ...]
    memory: GraphMemory
    """The memory of the step on one GPU."""
    loader: str = "synthetic"
    """The loader of images."""
    loading: float = 0.0
    """s. The time in which a node prepares the images of a step; 0 if nothing is known to limit it."""
    cut: Cut | None = None
    data_parallel: DataParallel | None = None
    sparse: SparseGain | None = field(default=None, metadata={"optional": True})
    """The gain of weights pruned 2:4 on one GPU; None: they are dense."""
    placement: TablePlacement | None = field(default=None, metadata={"optional": True})
    """The places of a recommender's tables; None: it has none."""
    notes: tuple[str, ...] = ()
    simulated: float | None = None
    """s. The time of the simulated step on all GPUs, or on all devices of the cut; None if not requested."""
    band: Band | None = None
    """The error band of similar published runs, for the step on all GPUs."""


@dataclass(frozen=True, kw_only=True)
class TraceFile:
    """The content of one Chakra file, and its repairs."""

    file: str
    version: str = shown("schema", missing="not stated")
    rank: int = shown(hide_if=-1)
    """The rank in the file's name; -1 if it has none."""
    nodes: int
    ops: int = shown("ops left")
    """The number of ops that are left."""
    edges: int = shown("dependencies")
    kinds: Mapping[str, int] = shown(of_row=lambda file: counts_text(file.kinds))
    """The number of ops, by kind."""
    collectives: Mapping[str, int] = shown(of_row=lambda file: counts_text(file.collectives))
    flops: float
    """FLOP. The arithmetic."""
    communicated: float = shown("messages", hide_if=0.0)
    """B. The bytes of messages."""
    seconds: float = shown("all ops")
    """s. The time of the ops, according to the file."""
    critical: float = shown("longest chain")
    """s. The time of the longest chain of dependencies."""
    dangling: int = shown("loose edges dropped", hide_if=0)
    """The number of dropped dependencies on missing nodes."""
    doubled: int = shown("doubled nodes dropped", hide_if=0)
    """The number of dropped nodes with the id of another."""
    ignored: int = shown("CPU messages ignored", hide_if=0)
    """The number of ignored communication nodes of the CPU."""
    cyclic: int = shown("cycles cut", hide_if=0)
    """The number of dropped dependencies that closed a cycle."""
    ordered: int = shown("order added", hide_if=0)
    """The number of added dependencies that keep each stream in order of its start times."""
    truncated: bool = shown("ends inside a node", hide_if=False)
    """Whether the file ends inside a node; the part before was read."""
    played: float | None = shown("ends", default=None, optional=True)
    """s. The end of its last op as it was played on a fabric."""
    exposed: float | None = shown("communicates only", default=None, optional=True)
    """s. The time in which it communicated and computed nothing, as it was played."""


@dataclass(frozen=True, kw_only=True)
class Traces(Answer, view=View(rows="files")):
    """Chakra files that were read, and what was written."""

    files: tuple[TraceFile, ...]
    cluster: str = shown("simulated on", default="", optional=True)
    """The cluster on whose fabric they were played; "" if they were not."""
    written: tuple[str, ...] = ()
