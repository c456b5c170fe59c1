"""What ports carried, when and for whom; what slowed them; the chain of causes that follows. Plain values in SI.

One record serves simulated, emulated and real runs. A row is one port and one owner: a collective of some ranks. The
row without an owner holds all that the port carried. Rows of kind "compute" hold the laps of a rank instead: the seconds
of its own work between two exchanges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.answers.answer import Answer, View

DEPTHS = (0, 1, 2, 4, 8, 16, 32, 64)
"""The lower ends of the classes of queue depth, in transfers or packets."""


@dataclass(frozen=True, kw_only=True)
class PortRow:
    """What one port carried for one owner, or the laps of one rank."""

    port: str
    """The name of the port and its direction: "node0/nic3 out", "leaf2>spine1"."""
    kind: str
    """The kind, from the rank outwards: compute, nvlink, pcie, socket, adapter, leaf, spine, torus or storage."""
    collective: str = ""
    """The kind of traffic: dp, tp, pp, …; empty for all of it."""
    ranks: str = ""
    """The ranks whose traffic it is: "0-63,128"."""
    owner: str = ""
    """The ranks whose own port it is; empty for ports of switches."""
    micro_batches: tuple[int, ...] = ()
    """The first and last micro-batch; empty for traffic of none."""
    values: tuple[float, ...] = ()
    """B. The bytes in each bin of time; the seconds of each lap in a row of laps."""
    capacity: float = 0.0
    """B/s. The nominal capacity; 0 if unknown."""
    busy: float = 0.0
    """s. The time in which it carried something."""
    utilisation: tuple[float, ...] = ()
    """s. The time in each tenth of its capacity, while busy."""
    queue: tuple[float, ...] = ()
    """s. The time at each class of queue depth (DEPTHS)."""
    queued_rate: float = 0.0
    """B/s. The mean rate while something waited for it."""
    downs: int = 0
    """The number of times that the link went down."""
    errors: int = 0
    """The number of damaged or dropped packets."""
    neighbour: str = ""
    """The part at the other end of the cable; empty if unknown."""
    expected: str = ""
    """The part that the plan has there."""

    @property
    def part(self) -> str:
        """The part of the port, without its direction."""
        return self.port.removesuffix(" out").removesuffix(" in")

    @property
    def bytes(self) -> float:
        """B. All bytes."""
        return sum(self.values)

    @property
    def queued(self) -> float:
        """s. The time in which something waited for it."""
        return sum(self.queue[1:])


@dataclass(frozen=True, kw_only=True, eq=False)
class Telemetry(Answer):
    """One run: its ports over time, and its ranks."""

    source: str
    """The kind of run: simulated, emulated or real."""
    job: str
    """The job in words."""
    seconds: float
    """s. The length of the record."""
    step_time: float = 0.0
    """s. The time of one step; 0 if unknown."""
    bins: int = 0
    """The number of bins of time."""
    question: Mapping[str, str] = field(default_factory=dict)
    """The options of the plan as it should run, as JSON values by name; empty if no simulation can repeat it."""
    ports: int = 0
    """The number of ports; more than there are rows of if those that carried little are summed up."""
    rows: tuple[PortRow, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault that a record shows."""

    kind: str
    """The kind: slow link, flapping port, wrong cable, slow disk, late rank, hot GPU, clash, GPUDirect off, wrong
    NUMA."""
    port: str
    """The port, or the rank: "rank 5"."""
    ranks: str
    """The ranks that own the port: "5"."""
    evidence: str
    """The evidence, in words with figures."""
    cost: float | None = None
    """s. The time that it costs one step; None if unknown."""
    remedy: str = ""
    """The change that would end it."""


@dataclass(frozen=True, kw_only=True)
class Contention:
    """Traffic of several owners that met on one port."""

    port: str
    kind: str
    start: float
    """s. The start of the window."""
    end: float
    """s. The end of the window."""
    owners: tuple[str, ...]
    """The owners in words, the one with the most bytes first."""
    utilisation: float
    """share. The utilisation of the port in the window."""
    reason: str = ""
    """The mapping or routing that made them meet."""
    cost: float | None = None
    """s. The time that a step would lose if the port had no limit; None if unknown."""
    remedy: str = ""
    """The change that would end it, and what it gives."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Explained(Answer, view=View(report="report.why_tables:why_report", rows="faults")):
    """Why a run is as slow as it is."""

    run: str
    """The name of the file."""
    source: str
    job: str
    step_time: float
    """s. The time of a step; 0 if unknown."""
    healthy: float | None
    """s. The time of the same step, simulated without faults; None if it cannot be simulated."""
    faults: tuple[Fault, ...]
    contention: tuple[Contention, ...]
    notes: tuple[str, ...] = ()
