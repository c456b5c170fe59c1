"""What `podsim collective` answers: a collective timed over sizes, and its algorithms side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One size of a sweep."""

    size: float
    """B, as nccl-tests counts"""
    count: int
    """elements of 4 B, as nccl-tests counts: of one rank's part where the buffer is divided"""
    seconds: float
    """s of one call"""
    algorithm_bandwidth: float
    """B/s, size over seconds"""
    bus_bandwidth: float
    """B/s, as nccl-tests counts"""
    algorithm: str
    """ring, tree, nvls, pairs; or the name of the table"""
    protocol: str = ""
    """LL, LL128 or Simple; empty for a table"""
    channels: int = 0
    """channels of NCCL in use; 0 for a table"""


@dataclass(frozen=True, kw_only=True)
class AlgorithmRow:
    """One algorithm, for the largest size of the sweep and in time for each."""

    name: str
    rounds: int
    """steps in which something is sent"""
    transfers: int
    """messages of all ranks together"""
    sent: float
    """B sent by the rank that sends most"""
    peak: float
    """B into or out of the busiest rank in its busiest step"""
    fan_in: int
    """most ranks that one rank receives from in a step"""
    seconds: tuple[float, ...]
    """s for each size of the sweep"""


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One collective on one machine, over sizes."""

    collective: str
    """all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all, send-recv, gather, scatter"""
    machine: str
    """the cluster, or the file that its server was read from"""
    gpu: str
    """its GPU, or CPU; empty where a file does not tell"""
    ranks: int
    """GPUs that take part"""
    ranks_per_node: int
    """of them in one server"""
    launch: str
    """process, thread or single"""
    version: str
    """NCCL's release"""
    how: str
    """where the times come from, in words"""
    rows: tuple[Timed, ...]
    """one for each size"""
    algorithms: tuple[AlgorithmRow, ...] = ()
    """all algorithms side by side, if asked for"""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """algorithms that were not compared, and why"""
