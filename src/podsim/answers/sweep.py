"""What `podsim collective` answers: a collective timed over sizes, and its algorithms side by side."""

from __future__ import annotations

from collections.abc import Mapping

from podsim.answers.answer import Answer, View
from podsim.records import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One size of a sweep."""

    size: float
    """B. The size, as nccl-tests counts it."""
    count: int
    """The number of elements of 4 B, as nccl-tests counts: of one rank's part if the buffer is divided."""
    seconds: float
    """s. The time of one call."""
    algorithm_bandwidth: float
    """B/s. The size over the time."""
    bus_bandwidth: float
    """B/s. The bus bandwidth, as nccl-tests counts it."""
    algorithm: str
    """The algorithm: ring, tree, nvls, pairs; or the name of the table."""
    protocol: str = ""
    """The protocol: LL, LL128 or Simple; empty for a table."""
    channels: int = 0
    """The number of NCCL's channels in use; 0 for a table."""
    low: float = 0.0
    """s. The shortest time over the values of assumed settings; 0 where nothing is assumed."""
    high: float = 0.0
    """s. The longest time over the same."""


@dataclass(frozen=True, kw_only=True)
class AlgorithmRow:
    """One algorithm, for the largest size of the sweep and in time for each."""

    name: str
    rounds: int
    """The number of steps in which something is sent."""
    transfers: int
    """The number of messages of all ranks together."""
    sent: float
    """B. The bytes sent by the rank that sends most."""
    peak: float
    """B. The bytes into or out of the busiest rank in its busiest step."""
    fan_in: int
    """The most ranks that one rank receives from in a step."""
    seconds: tuple[float, ...]
    """s. The time of each size of the sweep."""


@dataclass(frozen=True, kw_only=True)
class LineShare:
    """What takes some of an adapter's line rate, or what is answered."""

    name: str
    rate: float
    """B/s. The rate of one adapter that it takes."""


@dataclass(frozen=True, kw_only=True)
class SendBudget:
    """The line rate of an adapter in a send between nodes, divided."""

    size: float
    """B. The size of the message."""
    line: float
    """B/s. The line rate of one adapter."""
    adapters: int
    """The number of adapters of a server."""
    shares: tuple[LineShare, ...]
    """The shares of what takes some of it, and last of the answer; together the line."""
    chunk: float
    """B. The size of NCCL's chunks."""
    waits: tuple[float, float]
    """s. The least and the most that a chunk may wait: a hypothesis, not in the answer."""
    chunked: tuple[float, float]
    """B/s. The rate of an adapter if each chunk waits so long, the lower end first."""


@dataclass(frozen=True, kw_only=True)
class Sweep(
    Answer,
    view=View(
        report="report.collectives:sweep_report",
        figure="report.plot_machine:sweep_figure",
        rows=lambda sweep: sweep.algorithms or sweep.rows,
        chart="Time and bandwidth",
    ),
):
    """One collective on one machine, over sizes."""

    collective: str
    """The collective: all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all, send-recv, gather,
    scatter."""
    machine: str
    """The cluster, or the file that describes its server."""
    gpu: str
    """The GPU, or CPU; empty if a file does not tell."""
    ranks: int
    """The number of GPUs that take part."""
    ranks_per_node: int
    """The number of ranks in one server."""
    launch: str
    """The launch: process, thread or single."""
    version: str
    """The release of NCCL."""
    how: str
    """The origin of the times, in words."""
    rows: tuple[Timed, ...]
    """The row of each size."""
    algorithms: tuple[AlgorithmRow, ...] = ()
    """The algorithms for comparison, if requested."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings of NCCL by name, in words; none for a table."""
    assumed: tuple[str, ...] = ()
    """The names of the settings that nobody stated."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The algorithms that were not compared, with the reason."""
    budget: SendBudget | None = None
    """The line rate of an adapter, divided, at the largest size; only of a send-recv between nodes, as NCCL runs it."""
