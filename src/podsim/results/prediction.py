"""What a prediction says of one plan, and a search of many: plain values in SI that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.results.expense import Expense, Trade

PARTS = {
    "compute": "matrix arithmetic and attention",
    "memory": "memory-bound kernels",
    "launch": "launch-bound (GPU waits for the host)",
    "tp": "exposed tensor-parallel communication",
    "cp": "exposed context-parallel communication",
    "ep": "exposed expert-parallel communication",
    "pp": "pipeline sends",
    "dp": "exposed data-parallel communication",
    "bubble": "pipeline bubble",
    "optimizer": "optimizer",
    "host": "host work around passes and steps",
}
"""the parts of a step's time, worded"""


@dataclass(frozen=True, kw_only=True)
class StageMemory:
    """Memory of a class of equal pipeline stages."""

    first: int
    """position of its first stage"""
    count: int
    """stages of this class"""
    kinds: Mapping[str, float]
    """B by kind: weights, gradients, optimizer, activations, logits, buffers, floor"""

    @property
    def total(self) -> float:
        """B of all kinds."""
        return sum(self.kinds.values())


@dataclass(frozen=True, kw_only=True)
class Band:
    """The error band of a prediction: what the most similar measurements left over."""

    low: float
    """share below the predicted step time, as -0.05"""
    high: float
    """share above"""
    rows: int
    """measurements it comes from"""
    basis: str
    """which they are"""


@dataclass(frozen=True, kw_only=True)
class OpReport:
    """One op of one layer (or several layers), for one micro-batch on one rank."""

    block: str
    name: str
    kind: str
    copies: int
    """layers of the whole model that hold it"""
    forward: float
    """s"""
    backward: float
    """s, without recomputation"""
    light: float
    """share of the speed of light: the larger of arithmetic and bytes at the data sheet's peaks, over the time"""
    bound: str
    """arithmetic or memory"""
    source: str
    """where its speed comes from: measured, interpolated (distance), law, roofline"""
    shape: str


@dataclass(frozen=True, kw_only=True)
class TrainingTime:
    """How long a number of tokens takes to train, with and without failures."""

    tokens: float
    """to train"""
    steps: int
    seconds: float
    """s if nothing fails and no checkpoint is written"""
    expected: float
    """s with checkpoints, failures and restarts, mean"""
    interval: float
    """s of training between checkpoints"""
    stall: float
    """s that a checkpoint stops training"""
    restart: float
    """s from a failure to the next step"""
    mtbf: float
    """s between failures of the job, mean"""
    basis: str
    """where checkpoints go, and which study the failures are from"""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Step time of a plan and where it went, memory by kind, rates, bottleneck."""

    model: str
    cluster: str
    plan: Mapping[str, object]
    gpus: int
    step_time: float
    """s"""
    parts: Mapping[str, float]
    """s by part of the step; their sum is step_time"""
    tokens_per_second: float
    """of the whole job"""
    samples_per_second: float
    mfu_6pd: float
    """model FLOPs utilisation, 6 x parameters per token, no attention"""
    mfu: float
    """model FLOPs utilisation, attention counted in full, no recomputation"""
    hfu: float
    """hardware FLOPs utilisation, recomputation counted"""
    memory: float
    """B on the fullest stage"""
    memory_kinds: Mapping[str, float]
    """B by kind on the fullest stage"""
    stages: tuple[StageMemory, ...]
    memory_limit: float
    """B of a GPU"""
    fits: bool
    bottleneck: str
    gains: Mapping[str, float] = field(default_factory=dict)
    """share of throughput gained by 10 % more of each resource"""
    band: Band | None = None
    """None: no measurement resembles this plan"""
    band_reason: str = ""
    """why there is no band"""
    warnings: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    ops: tuple[OpReport, ...] = ()
    training: TrainingTime | None = field(default=None, metadata={"optional": True})
    """days for a number of tokens, where one was asked about"""
    expense: Expense | None = field(default=None, metadata={"optional": True})
    """None: neither a price nor tokens of a run were given"""


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """One plan of the ranking."""

    rank: int
    prediction: Prediction
    reason: str
    simulated: float | None = field(default=None, metadata={"optional": True})
    """s that the simulation takes for the step; None: it was not played"""


@dataclass(frozen=True, kw_only=True)
class ParetoPoint:
    """One plan on the front of memory against time."""

    step_time: float
    memory: float
    plan: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class PlanResult:
    """The ranked plans, the Pareto front, and how much was searched."""

    model: str
    cluster: str
    gpus: int
    batch: int
    sequence: int
    ranked: tuple[Ranked, ...]
    pareto: tuple[ParetoPoint, ...]
    evaluated: int
    """plans that got a time and a memory"""
    fitting: int
    cut: Mapping[str, int]
    """combinations never evaluated, by the rule they break"""
    seconds: float
    """the search took"""
    complete: bool
    arguments: Mapping[str, object]
    """what replays the experiment"""
    trade: Trade | None = field(default=None, metadata={"optional": True})
    """None: cost and energy were not asked for"""
