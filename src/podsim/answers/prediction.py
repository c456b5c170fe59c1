"""What a prediction says of one plan, and a search of many: plain values in SI that name no formula."""

from __future__ import annotations

from collections.abc import Mapping

from podsim.answers.answer import Answer, View
from podsim.answers.expense import Expense, Trade
from podsim.records import dataclass, field

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
    "stream": "weights and gradients on their way to and from the wafer",
    "correction": "correction by the measured step",
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
class FastestRun:
    """The fastest measured run that is comparable with a plan predicted to be faster."""

    id: str
    """The row of the run in the reference tables."""
    utilisation: float
    """share. The measured model FLOPs utilisation, by 6 FLOPs a parameter and token, fewer where weights are frozen."""
    ratio: float
    """factor. The predicted utilisation of the plan over that of the run."""
    rows: int
    """The number of comparable runs."""
    basis: str
    """The comparable runs, in words."""


@dataclass(frozen=True, kw_only=True)
class NearestRun:
    """The measured run that resembles a plan most."""

    id: str
    """The row of the run in the reference tables."""
    distance: float
    """count. The distance, in doublings; a difference in kind counts as one to three."""
    architecture: str
    """The GPU family of the run."""
    framework: str
    """The framework of the run."""
    bits: str
    """The width of the operands: 8, 16 or 32."""
    parameters: float
    """count. The number of parameters that a token passes through."""
    gpus: int
    """The number of GPUs of the run."""
    sequence: int
    """The number of tokens of a sequence."""
    tp: int
    """The tensor-parallel degree of the run."""
    pp: int
    """The number of pipeline stages of the run."""
    utilisation: float
    """share. The measured model FLOPs utilisation, by 6 FLOPs a parameter and token, fewer where weights are frozen."""
    error: float
    """share. The error of podsim's prediction of this run, relative to the measured time."""


@dataclass(frozen=True, kw_only=True)
class Correction:
    """What one measured step of the user changed."""

    measured: float
    """s. The measured time of a step."""
    law_time: float
    """s. The time of the measured plan by the law alone."""
    factor: float
    """factor. The measured time over that of the law; it scales every plan."""
    software: str
    """The software whose constants explain the measurement best."""
    plan: str
    """The measured plan, in words."""
    changes: str = ""
    """The software that is assumed in place of the user's or the default, and its memory; "" if it is the same."""


@dataclass(frozen=True, kw_only=True)
class RunsCorrection:
    """What several measured runs of the user changed."""

    runs: int
    """The number of runs."""
    law_time: float
    """s. The time of the step by the law alone."""
    compute: float
    """factor. The time of kernels over that of the law, as the runs say."""
    communication: float
    """factor. The same of exposed communication."""
    host: float
    """factor. The same of waiting for the host."""
    moved: str
    """The cause that changed this step most: compute, communication or host."""


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
    """share. The share of the roofline: the larger of arithmetic and bytes at the data sheet's peaks, over the
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
class SparseGain:
    """A step whose forward products read weights pruned 2:4, against the dense step."""

    kernel: float
    """factor. The measured gain of a sparse product, as a mean of published runs."""
    kernel_low: float
    """factor. The smallest of these gains."""
    kernel_high: float
    """factor. The largest of these gains."""
    products: float
    """share. The share of the dense step in the forward products of weights."""
    dense_time: float
    """s. The time of the dense step."""
    gain: float
    """factor. The time of the dense step over that of the sparse one."""
    gain_low: float
    """factor. The same with the smallest gain of a product."""
    gain_high: float
    """factor. The same with the largest gain of a product."""
    source: str
    """The published runs."""


@dataclass(frozen=True, kw_only=True)
class Prediction(
    Answer,
    view=View(
        report="report.predictions:prediction_report",
        figure="report.plot_plans:prediction_figure",
        brief="report.glance:prediction_glance",
        charts="report.plot_plans:prediction_charts",
    ),
):
    """Step time of a plan and where it went, memory by kind, rates, bottleneck."""

    model: str
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
    """share. The model FLOPs utilisation by `parameter_flops` x parameters per token, without attention."""
    parameter_flops: float = 6.0
    """FLOP. The work that `mfu_6pd` counts for a parameter and token: 6, or 2 to 6 where fine-tuning freezes weights."""
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
    """The error band; None: the law alone was asked."""
    faster_than: FastestRun | None = None
    """The fastest comparable run, if the plan would be faster; None: it would not, or too few runs were measured."""
    nearest: NearestRun | None = None
    """The measured run that resembles the plan most; None: nothing was measured."""
    software_range: Mapping[str, float] = field(default_factory=dict)
    """s. The time of the plan's step under each calibrated software of the GPU's family, if no run is this fast."""
    correction: Correction | None = field(default=None, metadata={"optional": True})
    own_runs: RunsCorrection | None = field(default=None, metadata={"optional": True})
    """The correction by a measured step; None: none was given."""
    sparse: SparseGain | None = field(default=None, metadata={"optional": True})
    """The gain of weights pruned 2:4; None: they are dense."""
    dropped: float | None = field(default=None, metadata={"optional": True})
    """share. The share of tokens that find no room at their experts; None: experts have no capacity."""
    unchanged_time: float | None = field(default=None, metadata={"optional": True})
    """s. The time of the plan's step without the user's changes of model and cluster; None: nothing was changed."""
    command: str = field(default="", compare=False)
    """The command that predicts the plan again."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """The meaning of the cluster's name and of settings that were left open."""
    warnings: tuple[str, ...] = ()
    """The doubts about the prediction."""
    assumptions: tuple[str, ...] = ()
    ops: tuple[OpReport, ...] = ()
    """The ops, if requested."""
    training: TrainingTime | None = field(default=None, metadata={"optional": True})
    """The days for a number of tokens, if requested."""
    expense: Expense | None = field(default=None, metadata={"optional": True})
    """The energy and cost; None: neither a price nor tokens of a run were given."""

    @property
    def law_time(self) -> float:
        """s. The time of a step by the law alone."""
        own = self.correction or self.own_runs
        return own.law_time if own else self.step_time


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """One plan of the ranking."""

    rank: int
    """The rank; 1 is the best."""
    prediction: Prediction
    reason: str
    simulated: float | None = field(default=None, metadata={"optional": True})
    """s. The simulated time of the step; None: it was not simulated."""
    is_tight: bool = False
    """Whether its memory leaves less than the headroom: it stands after the plans that leave more."""


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
class Optimism:
    """How much the errors of the law helped the plan that it ranks first."""

    share: float
    """share. The time that the first plan's step takes beyond that of the law, as a mean over redrawn errors."""
    step_time: float
    """s. The time of the first plan's step with that share."""
    plans: int
    """The number of plans that compete: the fastest of each parallel degrees and micro-batch."""
    basis: str
    """The same in a sentence."""


@dataclass(frozen=True, kw_only=True)
class PlanResult(
    Answer,
    view=View(
        report="report.predictions:plans_report",
        figure="report.plot_plans:plans_figure",
        brief="report.glance:plans_glance",
        charts="report.plot_plans:plans_charts",
    ),
):
    """The ranked plans, the Pareto front, and how much was searched."""

    model: str
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
    optimism: Optimism | None = field(default=None, metadata={"optional": True})
    """The help of the law's errors to the first plan; None: the law's time does not rank them, or one competes."""
    arguments: Mapping[str, object]
    """The arguments that repeat the search."""
    notes: tuple[str, ...] = field(default=(), compare=False)
    """The meaning of the cluster's name and of settings that were left open."""
    trade: Trade | None = field(default=None, metadata={"optional": True})
    """The fronts of cost and energy; None: they were not requested."""
