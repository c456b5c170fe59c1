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
    """The position of its first stage."""
    count: int
    """The number of stages of this class."""
    kinds: Mapping[str, float]
    """B. The memory by kind: weights, gradients, optimizer, activations, logits, buffers, floor."""

    @property
    def total(self) -> float:
        """B of all kinds."""
        return sum(self.kinds.values())


@dataclass(frozen=True, kw_only=True)
class Band:
    """The error band of a prediction: what the most similar measurements left over."""

    low: float
    """share. The lower end of the band, relative to the predicted step time, as -0.05."""
    high: float
    """share. The upper end of the band."""
    rows: int
    """The number of measurements behind it."""
    basis: str
    """The description of these measurements."""


@dataclass(frozen=True, kw_only=True)
class OpReport:
    """One op of one layer (or several layers), for one micro-batch on one rank."""

    block: str
    """The block: embedding, layer, head."""
    name: str
    """The name of the op in its block."""
    kind: str
    """The kind: gemm, attention, norm, activation, elementwise, …"""
    copies: int
    """The number of layers of the whole model with this op."""
    forward: float
    """s. The time of the forward pass."""
    backward: float
    """s. The time of the backward pass, without recomputation."""
    light: float
    """share. The share of the speed of light: the larger of arithmetic and bytes at the data sheet's peaks, over the
    time."""
    bound: str
    """The bound: arithmetic or memory."""
    source: str
    """The origin of its speed: measured, interpolated (distance), law, roofline."""
    shape: str
    """The shape: m x n x k of a product, heads x tokens x width of attention, bytes of the rest."""


@dataclass(frozen=True, kw_only=True)
class TrainingTime:
    """How long a number of tokens takes to train, with and without failures."""

    tokens: float
    """count. The number of tokens to train."""
    steps: int
    """The number of steps for these tokens."""
    seconds: float
    """s. The duration without failures and checkpoints."""
    expected: float
    """s. The mean duration with checkpoints, failures and restarts."""
    interval: float
    """s. The training time between checkpoints."""
    stall: float
    """s. The time that a checkpoint stops training."""
    restart: float
    """s. The time from a failure to the next step."""
    mtbf: float
    """s. The mean time between failures of the job."""
    basis: str
    """The target of checkpoints and the study of failures."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Step time of a plan and where it went, memory by kind, rates, bottleneck."""

    model: str
    """The name of the model."""
    cluster: str
    """The name of the cluster, with the number of GPUs of the job."""
    plan: Mapping[str, object]
    """The plan's fields by name, with codes spelled out."""
    gpus: int
    """The number of GPUs of the job."""
    step_time: float
    """s. The time of one optimizer step."""
    parts: Mapping[str, float]
    """s. The time by part of the step; the sum is step_time."""
    tokens_per_second: float
    """1/s. The rate of tokens of the whole job."""
    samples_per_second: float
    """1/s. The rate of sequences of the whole job."""
    mfu_6pd: float
    """share. The model FLOPs utilisation by 6 x parameters per token, without attention."""
    mfu: float
    """share. The model FLOPs utilisation with attention counted in full, without recomputation."""
    hfu: float
    """share. The hardware FLOPs utilisation, with recomputation."""
    memory: float
    """B. The memory of the fullest stage."""
    memory_kinds: Mapping[str, float]
    """B. The memory of the fullest stage, by kind."""
    stages: tuple[StageMemory, ...]
    """The memory of each class of equal stages."""
    memory_limit: float
    """B. The memory of a GPU."""
    fits: bool
    """Whether memory is at most memory_limit."""
    bottleneck: str
    """The bottleneck of the step, and its remedy."""
    gains: Mapping[str, float] = field(default_factory=dict)
    """share. The share of throughput gained by 10 % more of each resource."""
    band: Band | None = None
    """The error band; None: no measurement resembles this plan."""
    band_reason: str = ""
    """The reason why there is no band."""
    warnings: tuple[str, ...] = ()
    """The doubts about the prediction."""
    assumptions: tuple[str, ...] = ()
    """The assumptions of the prediction."""
    ops: tuple[OpReport, ...] = ()
    """The ops, if requested."""
    training: TrainingTime | None = field(default=None, metadata={"optional": True})
    """The days for a number of tokens, if requested."""
    expense: Expense | None = field(default=None, metadata={"optional": True})
    """The energy and cost; None: neither a price nor tokens of a run were given."""


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """One plan of the ranking."""

    rank: int
    """The rank; 1 is the best."""
    prediction: Prediction
    """The prediction for the plan."""
    reason: str
    """The reason for its rank."""
    simulated: float | None = field(default=None, metadata={"optional": True})
    """s. The simulated time of the step; None: it was not simulated."""


@dataclass(frozen=True, kw_only=True)
class ParetoPoint:
    """One plan on the front of memory against time."""

    step_time: float
    """s. The time of one optimizer step."""
    memory: float
    """B. The memory of the fullest stage."""
    plan: Mapping[str, object]
    """The fields of the plan, by name."""


@dataclass(frozen=True, kw_only=True)
class PlanResult:
    """The ranked plans, the Pareto front, and how much was searched."""

    model: str
    """The name of the model."""
    cluster: str
    """The name of the cluster, with the number of GPUs of the job."""
    gpus: int
    """The number of GPUs of the job."""
    batch: int
    """The number of sequences of a step."""
    sequence: int
    """The number of tokens of a sequence."""
    ranked: tuple[Ranked, ...]
    """The best plan of each layout, best first."""
    pareto: tuple[ParetoPoint, ...]
    """The plans that nothing beats in both time and memory, fastest first."""
    evaluated: int
    """The number of plans with a time and a memory."""
    fitting: int
    """The number of evaluated plans that fit the memory."""
    cut: Mapping[str, int]
    """The number of combinations never evaluated, by the rule that they break."""
    seconds: float
    """s. The duration of the search."""
    complete: bool
    """Whether the search was completed; False if it was interrupted."""
    arguments: Mapping[str, object]
    """The arguments that repeat the search."""
    trade: Trade | None = field(default=None, metadata={"optional": True})
    """The fronts of cost and energy; None: they were not requested."""
