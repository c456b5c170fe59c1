"""What `podsim scale` answers about losses, as plain values that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.answers.answer import Answer, View
from podsim.answers.prediction import Prediction


@dataclass(frozen=True, kw_only=True)
class FittedRange:
    """The runs that a law was fitted to."""

    runs: int
    parameters: tuple[float, float]
    """count. The fewest and the most parameters."""
    tokens: tuple[float, float]
    """count. The fewest and the most tokens."""
    compute: float
    """FLOP. The most compute, 6 FLOPs for a parameter and a token."""


@dataclass(frozen=True, kw_only=True)
class LossConstants:
    """A law of the loss, its constants, what it was fitted to, and how sure it is."""

    name: str
    form: str
    """The form: additive, coupled or kaplan."""
    constants: Mapping[str, float]
    """nat. The constants by name, exponents without a unit; `repeat` and `excess`, where fitted, for repeated tokens."""
    counts: str = "total"
    """The parameters that it counts: total, or non-embedding."""
    source: str = ""
    fitted: FittedRange | None = None
    """The fitted range; None: the source does not state it."""
    covariance: tuple[tuple[float, ...], ...] = ()
    """SI. The covariance of the coordinates over bootstraps."""
    draws: tuple[tuple[float, ...], ...] = field(default=(), repr=False)
    """SI. The coordinates of each bootstrap."""
    scatter: float = 0.0
    """share. The typical error of a run within the fitted range."""
    drift: float = 0.0
    """share. The growth of the error for each factor e outside the fitted range."""
    climb: float = 0.0
    """share. The growth of the error for each factor e of compute above the fitted runs."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """A law fitted to the runs of less compute, and its errors on the others."""

    share: float
    """share. The part of the runs, by compute, that was held out."""
    runs: int
    """The number of runs held out."""
    error: float
    """share. The mean absolute error of the loss of these runs."""
    covered: float
    """share. The part of these runs within the 80 % band."""


@dataclass(frozen=True, kw_only=True)
class FittedRun:
    """A finished run, and what the fitted law says of it."""

    line: int
    """The line of the run in its file."""
    parameters: float
    """count. The parameters of the network."""
    tokens: float
    """count. The tokens of training."""
    loss: float
    """nat. The measured loss."""
    predicted: float
    """nat. The loss by the law."""
    low: float
    """nat. The lower end of the 80 % band."""
    high: float
    """nat. The upper end of the 80 % band."""
    use: str
    """The use of the run: fitted, undertrained, overtrained, or tuned worse than another of its size and length."""

    @property
    def error(self) -> float:
        """Relative error of the predicted loss."""
        return self.predicted / self.loss - 1


@dataclass(frozen=True, kw_only=True)
class ConstantRange:
    """A constant of a law with the range of its bootstraps."""

    name: str
    value: float
    """nat. The fitted value; of exponents a pure number."""
    low: float
    """nat. The 10th percentile of the bootstraps."""
    high: float
    """nat. The 90th percentile of the bootstraps."""


@dataclass(frozen=True, kw_only=True)
class AdvisedSize:
    """The parameters and tokens with the least loss for some compute."""

    flops: float
    """FLOP. The compute of training, 6 FLOPs for a parameter and a token."""
    parameters: float
    """count. The best number of parameters."""
    tokens: float
    """count. The best number of tokens."""
    loss: float
    """nat. The loss that is reached."""
    low: float
    """nat. The lower end of the 80 % band."""
    high: float
    """nat. The upper end of the 80 % band."""


@dataclass(frozen=True, kw_only=True)
class TunedPower:
    """The best value of a setting: factor x parameters^a x tokens^b."""

    factor: float
    """SI. The value where parameters and tokens are 1."""
    parameters: float
    """factor. The exponent of the parameters."""
    tokens: float
    """factor. The exponent of the tokens."""
    cost: float
    """share. The loss gained by twice or half the best value."""


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The best learning rate and batch, from runs on a grid of them."""

    runs: int
    """The number of runs near the best of their size and length."""
    error: float
    """share. The mean absolute error of the loss of these runs."""
    rate: TunedPower | None = None
    """The best learning rate; None: it was not varied."""
    batch: TunedPower | None = None
    """The best batch in the file's unit; None: it was not varied."""


@dataclass(frozen=True, kw_only=True)
class LossPoint:
    """A point of a curve of losses."""

    parameters: float
    """count. The parameters of the network."""
    tokens: float
    """count. The tokens of training."""
    loss: float
    """nat. The loss by the law."""
    low: float
    """nat. The lower end of the 80 % band."""
    high: float
    """nat. The upper end of the 80 % band."""


@dataclass(frozen=True, kw_only=True)
class ScaleFit(
    Answer,
    view=View(
        report="report.scale_tables:fit_report",
        rows="rows",
        figure="report.plot_scaling:scale_figure",
        data="report.scale_tables:fit_data",
        chart="Runs and the law",
    ),
):
    """A law of the loss, fitted to the runs of a file."""

    file: str
    law: LossConstants
    unit: str
    """The unit of the losses in the file; those here are nats."""
    constants: tuple[ConstantRange, ...]
    rows: tuple[FittedRun, ...]
    error: float
    """share. The mean absolute error of the fitted runs."""
    held_out: HeldOut | None
    """The check on the runs of most compute, by a fit to the others; None where too few would be left."""
    forms: Mapping[str, float]
    """share. The mean error of each form on the compute held out from it."""
    advice: tuple[AdvisedSize, ...]
    """The best sizes for the compute of the runs, and ten and a hundred times as much."""
    curves: tuple[LossPoint, ...]
    """The law over the fitted range: losses by parameters at a few numbers of tokens."""
    tuning: Tuning | None = None
    """The best learning rate and batch; None where the runs are on no grid of them."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ScaleLoss(
    Answer,
    view=View(
        report="report.scale_tables:loss_report",
        rows="report.scale_tables:loss_rows",
        figure="report.plot_scaling:scale_figure",
        data="report.scale_tables:fit_data",
        chart="Loss by tokens and parameters",
    ),
):
    """The loss that a network reaches with some tokens."""

    model: str
    law: LossConstants
    parameters: float
    """count. The parameters that the law counts."""
    tokens: float
    """count. The tokens of training."""
    loss: float
    """nat. The predicted loss."""
    low: float
    """nat. The lower end of the 80 % band."""
    high: float
    """nat. The upper end of the 80 % band."""
    flops: float
    """FLOP. The compute of training."""
    best: AdvisedSize
    """The size with the least loss for the same compute."""
    curves: tuple[LossPoint, ...]
    """The losses with other numbers of tokens, then of other numbers of parameters."""
    unique: float | None = None
    """count. The tokens that differ, where some repeat."""
    others: Mapping[str, float] = field(default_factory=dict)
    """nat. The loss by other named laws, of other tokenizers and data."""
    rate: Mapping[str, float] = field(default_factory=dict)
    """factor. The best learning rate, by the named laws that state one."""
    batch: Mapping[str, float] = field(default_factory=dict)
    """count. The best batch in tokens, by the named laws that state one."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LawAdvice:
    """What one law advises for some compute."""

    law: str
    flops: float
    """FLOP. The compute of training."""
    parameters: float
    """count. The parameters that it advises."""
    tokens: float
    """count. The tokens that it advises."""
    against: float | None
    """factor. The parameters, relative to those that podsim's own law advises; None: it advises no size, these are
    podsim's.
    """
    lost: float | None
    """share. The loss above the least, by podsim's own law, for taking this advice."""
    rate: float | None
    """factor. The learning rate that it advises; None: it states none."""
    batch: float | None
    """count. The batch in tokens that it advises; None: it states none."""


@dataclass(frozen=True, kw_only=True)
class ScaleLaws(
    Answer,
    view=View(
        report="report.scale_tables:laws_report",
        rows="rows",
        figure="report.plot_scaling:scale_figure",
        chart="Advice of named laws",
    ),
):
    """The named laws, and where they disagree."""

    rows: tuple[LawAdvice, ...]
    titles: Mapping[str, str]
    """The publication of each law."""
    notes: Mapping[str, str]
    """The remarks on laws."""


@dataclass(frozen=True, kw_only=True)
class SizePoint:
    """A network that spends the budget of some days, on an IsoFLOP curve."""

    days: float
    """count. The days of the budget."""
    parameters: float
    """count. The parameters of the network."""
    tokens: float
    """count. The tokens that it trains on."""
    loss: float
    """nat. The loss that it reaches."""
    low: float
    """nat. The lower end of the 80 % band."""
    high: float
    """nat. The upper end of the 80 % band."""
    name: str = ""
    """The model of the catalog with about this size; "" for none."""


@dataclass(frozen=True, kw_only=True)
class DaysPoint:
    """The best network for some days on the same machine."""

    days: float
    """count. The days of training."""
    parameters: float
    """count. The best number of parameters."""
    tokens: float
    """count. The tokens of training."""
    loss: float
    """nat. The loss that is reached."""
    low: float
    """nat. The lower end of the 80 % band."""
    high: float
    """nat. The upper end of the 80 % band."""
    money: float | None
    """USD. The cost of the GPUs, low; None: no price is known."""


@dataclass(frozen=True, kw_only=True)
class ScaleBest(
    Answer,
    view=View(
        report="report.scale_tables:best_report",
        rows="front",
        figure="report.plot_scaling:scale_figure",
        data="report.scale_tables:fit_data",
        chart="IsoFLOP curves and days",
    ),
):
    """The network that learns most on a machine in some days."""

    cluster: str
    gpus: int
    law: LossConstants
    model: str
    """The model of the catalog, or the one that a generated network changes."""
    overrides: Mapping[str, str]
    """The changes of a generated network; empty for one of the catalog."""
    shape: Mapping[str, int]
    """The layers, hidden, heads, kv_heads and ffn of the network."""
    parameters: float
    """count. The parameters of the network."""
    tokens: float
    """count. The tokens that it trains on in the days."""
    loss: float
    """nat. The loss that it reaches."""
    low: float
    """nat. The lower end of the 80 % band."""
    high: float
    """nat. The upper end of the 80 % band."""
    seconds: float
    """s. The time of training with failures."""
    flops: float
    """FLOP. The compute of training."""
    inference: float
    """count. The tokens to infer out of the same compute."""
    unique: float | None
    """count. The tokens that differ; None: no token repeats."""
    prediction: Prediction
    """The plan and its prediction, with days, money and energy."""
    curve: tuple[SizePoint, ...]
    """The networks of other sizes that spend the compute of a quarter of the days, of the days, and of four times
    these.
    """
    known: tuple[SizePoint, ...]
    """The models of the catalog nearest in size that spend the same compute."""
    front: tuple[DaysPoint, ...]
    """The best network for fewer and for more days."""
    rate: Mapping[str, float]
    """factor. The best learning rate, by the named laws that state one."""
    batch: Mapping[str, float]
    """count. The best batch in tokens, by the named laws that state one."""
    command: str = field(default="", compare=False)
    """The command that plans the run again."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LadderRun:
    """A moment of a tiny network's training, and what the law says of it."""

    parameters: float
    """count. The parameters of the network."""
    tokens: float
    """count. The tokens so far."""
    loss: float
    """nat. The measured loss."""
    predicted: float
    """nat. The loss by the law of the smaller networks."""
    low: float
    """nat. The lower end of the 80 % band."""
    high: float
    """nat. The upper end of the 80 % band."""
    use: str
    """The use of the moment: fitted, or held out."""

    @property
    def error(self) -> float:
        """Relative error of the predicted loss."""
        return self.predicted / self.loss - 1


@dataclass(frozen=True, kw_only=True)
class ScaleLadder(
    Answer,
    view=View(
        report="report.scale_tables:ladder_report",
        rows="rows",
        figure="report.plot_scaling:scale_figure",
        data="report.scale_tables:fit_data",
        chart="Runs and the law",
    ),
):
    """Tiny networks trained for real, the law of all but the largest, and its error on that one."""

    law: LossConstants
    data: str
    """The name of the text."""
    steps: int
    """The number of steps of each network."""
    seconds: float
    """s. The time of all steps."""
    held_out: HeldOut
    """The errors on the largest network."""
    rows: tuple[LadderRun, ...]
