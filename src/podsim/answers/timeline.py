"""When each op (or job) ran: spans in arrays, on lanes; what a simulation gives, of one step or of a year of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A row of the picture: what runs on it runs one after the other, unless the lane says it is shared."""

    process: str
    """The process of the lane: "stage 3 (ranks 24-31)", a node, a partition."""
    name: str
    """The name: "compute", "tp", "NIC 0", …"""
    copies: int = 1
    """The number of equal rows that it stands for."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Counter:
    """A value over time: memory, bytes per second of a link, jobs in a queue. It holds from each time to the next."""

    name: str
    process: str
    unit: str
    """The unit of the value: B, B/s, 1, W."""
    time: Floats
    """s. The times, rising."""
    value: Floats
    """SI. The values, in `unit`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Timeline:
    """Spans of time, one row each; text is kept once, rows hold its position."""

    lanes: tuple[Lane, ...]
    names: tuple[str, ...]
    """The distinct names of spans."""
    kinds: tuple[str, ...]
    """The distinct kinds: "forward", "tp", "send", …"""
    lane: Ints
    """The position in `lanes` of each span."""
    name: Ints
    kind: Ints
    start: Floats
    """s. The start of each span."""
    end: Floats
    """s. The end of each span."""
    arguments: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    """The further values of each span, by name: micro-batch, layer, bytes."""
    counters: tuple[Counter, ...] = ()

    def __post_init__(self) -> None:
        """Columns are of one length, and spans end after they start."""
        n = len(self.lane)
        columns = [self.name, self.kind, self.start, self.end, *self.arguments.values()]
        assert all(len(column) == n for column in columns), [len(column) for column in columns]
        assert n == 0 or np.all(self.end >= self.start)

    def __len__(self) -> int:
        """Spans."""
        return len(self.lane)

    @property
    def seconds(self) -> float:
        """End of the last span, s."""
        return float(self.end.max(initial=0.0))

    def busy(self, by: str = "kind") -> Floats:
        """Seconds of the spans of each kind (or of each lane, by="lane"), a lane's copies counted once."""
        column, n = (self.kind, len(self.kinds)) if by == "kind" else (self.lane, len(self.lanes))
        return np.bincount(column, self.end - self.start, n).astype(np.float64)
