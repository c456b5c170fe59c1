"""What is said of a captured graph and of execution traces: plain values in SI that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.results.prediction import Band


@dataclass(frozen=True, kw_only=True)
class Captured:
    """A graph that was captured, before any machine."""

    model: str
    source: str
    batch: int
    """samples of a step"""
    ops: int
    kinds: Mapping[str, int]
    """ops by kind"""
    parameters: float
    """count of weights"""
    flops: float
    """FLOP, forward"""
    flops_back: float
    """FLOP, backward"""
    torch_flops: float | None
    """FLOP, forward, as PyTorch's own counter says; None where it could not run"""
    torch_flops_back: float | None
    """FLOP, backward, as PyTorch's own counter says"""
    kept: float
    """B kept for the backward pass, as captured"""
    file: str
    """where the graph was written, if it was"""
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class GraphOp:
    """One op of a graph on a GPU."""

    name: str
    op: str
    kind: str
    shape: str
    flops: float
    """FLOP, forward"""
    flops_back: float
    """FLOP, backward"""
    bytes: float
    """B moved forward"""
    bytes_back: float
    """B moved backward"""
    forward: float
    """s"""
    backward: float
    """s"""
    light: float
    """share of the speed of light: the larger of arithmetic and bytes at the data sheet's peaks, over the time"""
    bound: str
    """arithmetic or memory"""
    part: int
    """device of the cut that holds it; 0 without a cut"""


@dataclass(frozen=True, kw_only=True)
class CutPart:
    """What one device of a cut holds."""

    ops: int
    seconds: float
    """s, forward and backward"""
    parameters: float
    """count of weights"""
    kept: float
    """B kept for the backward pass"""
    sent: float
    """B sent forward to other devices; as many come back as gradients"""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A graph divided over devices: little communication, balanced work."""

    devices: int
    bytes: float
    """B sent forward between devices, each tensor once to each device that reads it"""
    balance: float
    """factor, work of the fullest device over the mean"""
    tolerance: float
    """factor that was asked for"""
    tensors: int
    """tensors that are sent"""
    pipeline: bool
    """devices can be put in an order in which all tensors are sent onward"""
    parts: tuple[CutPart, ...]


@dataclass(frozen=True, kw_only=True)
class DataParallel:
    """A step of several replicas, gradients reduced in buckets beside the backward pass."""

    gpus: int
    buckets: int
    bytes: float
    """B of gradients"""
    reduce: float
    """s that all buckets take on the network"""
    exposed: float
    """s of them that the backward pass does not hide"""
    tables: float
    """s of exchanging rows of tables with sparse gradients, which are divided over the GPUs"""
    step_time: float
    """s"""
    samples_per_second: float
    efficiency: float
    """share of the throughput that as many lone GPUs would have"""


@dataclass(frozen=True, kw_only=True)
class GraphCost:
    """One training step of a graph on a GPU."""

    model: str
    source: str
    gpu: str
    precision: str
    software: str
    optimizer: str
    fused: tuple[str, ...]
    """rules of fusion that were applied"""
    batch: int
    """samples of a step on one GPU"""
    parameters: float
    """count of weights"""
    flops: float
    """FLOP, forward"""
    flops_back: float
    """FLOP, backward"""
    forward: float
    """s, GPU or host, whichever is longer"""
    backward: float
    """s, as forward"""
    update: float
    """s of the optimizer, and of casting weights"""
    host: float
    """s of forward and backward in which the GPU waits for the host"""
    host_step: float
    """s a step takes besides its passes and the update: data, loss scale, logging"""
    step_time: float
    """s: forward, backward, update"""
    samples_per_second: float
    utilisation: float
    """share of the peak that the products' arithmetic makes of the step"""
    kept: float
    """B of activations at the end of the forward pass"""
    kinds: Mapping[str, float]
    """s, forward and backward, by kind of op"""
    ops: tuple[GraphOp, ...]
    cut: Cut | None = None
    data_parallel: DataParallel | None = None
    notes: tuple[str, ...] = ()
    simulated: float | None = None
    """s of the step on all GPUs, or on all devices of the cut, played op by op; None if it was not asked for"""
    band: Band | None = None
    """what similar published runs leave over, of the step on all GPUs"""
    band_reason: str = ""
    """why there is no band"""


@dataclass(frozen=True, kw_only=True)
class TraceFile:
    """What one Chakra file holds, and what had to be mended."""

    file: str
    version: str
    rank: int
    """read from the file's name; -1 if it names none"""
    nodes: int
    """nodes in the file"""
    ops: int
    """ops that are left"""
    edges: int
    kinds: Mapping[str, int]
    """ops by kind"""
    collectives: Mapping[str, int]
    """collectives by name"""
    flops: float
    """FLOP"""
    communicated: float
    """B of messages"""
    seconds: float
    """s that the ops took, by the file"""
    critical: float
    """s of the longest chain of dependencies"""
    dangling: int
    """dependencies on nodes that are not there, dropped"""
    doubled: int
    """nodes whose id another has, dropped"""
    ignored: int
    """communication on the CPU, ignored"""
    cyclic: int
    """dependencies that closed a cycle, dropped"""
    ordered: int
    """dependencies added, so that each stream runs in the order of its start times"""
    truncated: bool
    """the file ends inside a node; what stands before it was read"""


@dataclass(frozen=True, kw_only=True)
class Traces:
    """Chakra files that were read, and what was written."""

    files: tuple[TraceFile, ...]
    written: tuple[str, ...] = ()
