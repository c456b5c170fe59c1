"""The ops of one rank in one step, as arrays: the common form of traces read and steps written.

Rows hold positions of distinct texts; op i starts after `before[first[i] : first[i + 1]]`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.axes import Floats, Ints
from podsim.errors import TraceError

KINDS = ("compute", "load", "store", "collective", "send", "recv", "metadata")
COLLECTIVES = (
    "all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all", "reduce_scatter",
    "reduce_scatter_block", "barrier",
)  # fmt: skip
"""The collectives, in the order of the Chakra schema's CollectiveCommType."""


@dataclass(frozen=True, kw_only=True)
class CommGroup:
    """Ranks that communicate among themselves."""

    name: str
    ranks: tuple[int, ...] = ()
    """The ranks of the job; empty if unknown."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TraceGraph:
    """The ops of one rank on its streams, with their dependencies."""

    rank: int
    """The number of the rank in the job; -1 if unknown."""
    names: tuple[str, ...]
    """The distinct names of ops."""
    streams: tuple[str, ...]
    """The distinct streams; ops of one stream run one after the other."""
    groups: tuple[CommGroup, ...]
    name: Ints
    """The position of each op's name in `names`."""
    kind: Ints
    """The position of each op's kind in KINDS."""
    stream: Ints
    """The position of each op's stream in `streams`; -1 for none."""
    seconds: Floats
    """s. The time of each op; 0 if unknown."""
    start: Floats
    """s. The start of each op; NaN if unknown."""
    flops: Floats
    """FLOP. The arithmetic of a compute op."""
    bytes: Floats
    """B. The bytes that a compute, load or store op moves, or those of a message: the input of a collective."""
    collective: Ints
    """The position in COLLECTIVES; -1 for other ops."""
    group: Ints
    """The position in `groups`; -1 for all ranks."""
    peer: Ints
    """The other rank of a send or receive; -1 for other ops."""
    tag: Ints
    """The tag that pairs a send with its receive."""
    first: Ints
    """The start of each op's predecessors in `before`, with one entry more than ops."""
    before: Ints
    """The predecessors, edge by edge."""

    def __post_init__(self) -> None:
        """Check that columns have equal lengths. Raises TraceError for positions out of range."""
        n = len(self.name)
        columns = (
            self.kind, self.stream, self.seconds, self.start, self.flops, self.bytes, self.collective, self.group,
            self.peer, self.tag,
        )  # fmt: skip
        assert all(len(column) == n for column in columns), [len(column) for column in columns]
        assert len(self.first) == n + 1
        assert len(self.before) == self.first[-1]
        for what, column, low, high in (
            ("name", self.name, 0, len(self.names)), ("kind", self.kind, 0, len(KINDS)),
            ("stream", self.stream, -1, len(self.streams)), ("group", self.group, -1, len(self.groups)),
            ("collective", self.collective, -1, len(COLLECTIVES)), ("before", self.before, 0, n),
        ):  # fmt: skip
            if len(column) and not (column.min() >= low and column.max() < high):
                raise TraceError(
                    f"{what} must be {low} to {high - 1}; it is {column.min()} to {column.max()}"
                )

    def __len__(self) -> int:
        """The number of ops."""
        return len(self.name)

    @property
    def after(self) -> Ints:
        """The target op of each edge, [edges]."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.first))


def critical_seconds(graph: TraceGraph) -> float:
    """Seconds of the longest chain of dependencies, for ops in topological order."""
    end = np.zeros(len(graph))
    first, before, seconds = graph.first.tolist(), graph.before.tolist(), graph.seconds.tolist()
    for op in range(len(graph)):
        waits = max((end[b] for b in before[first[op] : first[op + 1]]), default=0.0)
        end[op] = waits + seconds[op]
    return float(end.max(initial=0.0))
