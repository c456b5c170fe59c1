"""The result of dividing a graph over a mesh of GPUs: plain values in SI that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.answer import Answer, View


@dataclass(frozen=True, kw_only=True)
class ShardedOp:
    """One op and what it exchanges."""

    name: str
    op: str
    copies: int
    """The number of layers that it stands for."""
    shape: str
    """The shape of its output."""
    division: str
    """The axes that divide the output, dimension by dimension."""
    exchanges: tuple[str, ...]
    """The collectives of a step, each with its axes, its bytes and its pass."""


@dataclass(frozen=True, kw_only=True)
class Sharded(Answer, view=View(report="report.shard_tables:shard_report", rows="ops", has_detail=True)):
    """A graph divided over a mesh."""

    model: str
    cluster: str
    gpus: int
    batch: int
    """The number of samples of a step on all GPUs."""
    precision: str
    software: str
    optimizer: str
    mesh: str
    annotations: tuple[str, ...]
    """The annotations from which all divisions follow."""
    is_searched: bool
    """Whether podsim found the annotations."""
    tried: int
    """The number of sets of annotations that were costed."""
    step_time: float
    """s. The time of a step."""
    samples_per_second: float
    """1/s. The rate of samples on all GPUs."""
    compute: float
    """s. The time of kernels and host."""
    exposed: float
    """s. The collectives that compute does not hide."""
    hidden: float
    """s. The collectives that compute hides, by the law of graphs."""
    update: float
    """s. The optimizer."""
    memory: float
    """B. The bytes on one GPU."""
    capacity: float
    """B. The usable memory of a GPU."""
    zero: int
    """The ZeRO stage, which its memory counts: 1 for a network, whose replicas divide the optimizer's states."""
    plan: Mapping[str, object]
    """The plan that divides the same or nearly the same; empty for a network."""
    beyond: float
    """s. The time that divisions beyond the plan add to its step; 0 where the plan says all."""
    command: str
    """The command that predicts the plan; empty for a network."""
    collectives: Mapping[str, float]
    """B. The bytes of all collectives of a step, by name and axes."""
    weights: Mapping[str, str]
    """The division of each weight."""
    ops: tuple[ShardedOp, ...]
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether a GPU holds its part."""
        return self.memory <= self.capacity
