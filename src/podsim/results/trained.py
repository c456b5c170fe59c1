"""What training for real gave, and how predictions compare with it. Plain values that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from podsim.results.lab import Emulated

WARM = 2
"""first steps of a run, or after it resumed, that no step time counts: buffers and connections are made in them"""


@dataclass(frozen=True, kw_only=True)
class TrainedStep:
    """One step."""

    step: int
    """from 0"""
    loss: float
    """mean over the samples of all replicas, before the step changed the weights"""
    seconds: float
    """s on the rank that took longest"""


@dataclass(frozen=True, kw_only=True)
class MeasuredTraining:
    """A training run."""

    model: str
    changes: Mapping[str, str]
    """fields of the model that were changed"""
    plan: Mapping[str, int | str | bool]
    """fields of the plan as it was run"""
    sequence: int
    """tokens of a sample; 0 for images"""
    all_reduce: str
    """what added the gradients up: a table's name, or "library" """
    exchange: str
    """bsp, ps, ssp or async"""
    staleness: int | None
    """of ssp: steps that the fastest replica may be ahead of the slowest"""
    late: Mapping[str, int]
    """gradients by how many updates the weights had had since they left the server; empty where all are in step"""
    data: str
    seed: int
    rate: float
    """learning rate"""
    ranks: int
    backend: str
    """gloo or nccl"""
    device: str
    """what computed: the GPU's name, or CPU"""
    software: str
    """versions of what ran it"""
    hosts: tuple[str, ...]
    """name of the machine of each rank"""
    cores: int
    """processor cores of the smallest machine"""
    emulated: Emulated | None
    """the links, if they were shaped; None on links as they are"""
    started: str
    """date and time in UTC, ISO 8601"""
    resumed: tuple[int, ...]
    """steps at which the run went on from a checkpoint"""
    cpu: float
    """share of the busiest machine's processor time that the ranks used"""
    others: float
    """share of the busiest machine's processor time that went to other programs"""
    rows: tuple[TrainedStep, ...]

    @property
    def step_time(self) -> float:
        """s of a step, median of those since the run started or last resumed, without the first of them."""
        since = [row.seconds for row in self.rows if row.step >= max(self.resumed, default=0)]
        return median(since[WARM:] or since or [row.seconds for row in self.rows])

    @property
    def samples(self) -> float:
        """Samples per second."""
        return float(self.plan["global_batch"]) / self.step_time


@dataclass(frozen=True, kw_only=True)
class ComparedTraining:
    """A measured step time beside its prediction."""

    run: str
    """name of its file"""
    model: str
    cluster: str
    """what was predicted for"""
    plan: Mapping[str, int | str | bool]
    """fields of the plan as it was run"""
    measured: float
    """s of a step, median"""
    predicted: float
    """s of a step"""
    difference: float
    """share, predicted over measured less one"""
    parts: Mapping[str, float]
    """s by kind of the prediction"""
    cpu: float
    """share of processor time that the ranks used"""
    others: float
    """share of processor time that went to other programs"""
    verdict: str
    """comparable; or not comparable, and why"""


@dataclass(frozen=True, kw_only=True)
class MeasuredPass:
    """One forward and backward pass."""

    step: int
    """from 0"""
    seconds: float
    """s on the rank that took longest"""


@dataclass(frozen=True, kw_only=True)
class MeasuredDdp:
    """Steps of torch's DistributedDataParallel whose compute is a pause, so that only their communication is real."""

    layers: int
    size: float
    """B of gradients of a layer; each is a bucket of its own"""
    forward: float
    """s that a layer's forward pass pauses"""
    backward: float
    """s that a layer's backward pass pauses"""
    overlap: bool
    """gradients were added up beside the backward pass, as DistributedDataParallel does; else after it"""
    all_reduce: str
    """what added the gradients up: a table's name, or "library" """
    ranks: int
    local: int
    """ranks of a server"""
    backend: str
    """gloo or nccl"""
    software: str
    """versions of what ran it"""
    hosts: tuple[str, ...]
    """name of the machine of each rank"""
    cores: int
    """processor cores of the smallest machine"""
    emulated: Emulated | None
    """the links, if they were shaped; None on links as they are"""
    message: float
    """s from sending 4 B to receiving them, between ranks 0 and 1, half of a round trip, median"""
    started: str
    """date and time in UTC, ISO 8601"""
    cpu: float
    """share of the busiest machine's processor time that the ranks used"""
    others: float
    """share of the busiest machine's processor time that went to other programs"""
    rows: tuple[MeasuredPass, ...]

    @property
    def step_time(self) -> float:
        """s of a step, median."""
        return median(row.seconds for row in self.rows)


@dataclass(frozen=True, kw_only=True)
class ComparedDdp:
    """A measured step of DistributedDataParallel beside two predictions: with and without overlap."""

    run: str
    """name of its file"""
    machine: str
    """what was run on, in words"""
    overlap: bool
    """gradients were added up beside the backward pass"""
    measured: float
    """s of a step, median"""
    bucket: float
    """s of the all-reduce of one bucket, predicted"""
    overlapped: float
    """s of a step, predicted with overlap"""
    apart: float
    """s of a step, predicted without overlap"""
    told: bool
    """the prediction of what was run is the nearer one"""
    difference: float
    """share, the prediction of what was run over measured, less one"""
    cpu: float
    """share of processor time that the ranks used"""
    others: float
    """share of processor time that went to other programs"""
    verdict: str
    """comparable; or not comparable, and why"""
