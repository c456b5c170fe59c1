"""What `podsim scale` answers about losses, as values with their bands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.learning.loss_choice import HeldOut
from podsim.learning.loss_law import LossLaw
from podsim.results.shown import Shown


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
    """nats. The measured loss."""
    predicted: float
    """nats. The loss by the law."""
    low: float
    """nats. The lower end of the 80 % band."""
    high: float
    """nats. The upper end of the 80 % band."""
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
    """nats. The fitted value; of exponents a pure number."""
    low: float
    """nats. The 10th percentile of the bootstraps."""
    high: float
    """nats. The 90th percentile of the bootstraps."""


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
    """nats. The loss that is reached."""
    low: float
    """nats. The lower end of the 80 % band."""
    high: float
    """nats. The upper end of the 80 % band."""


@dataclass(frozen=True, kw_only=True)
class ScaleFit(Shown):
    """A law of the loss, fitted to the runs of a file."""

    file: str
    law: LossLaw
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
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ScaleLoss(Shown):
    """The loss that a network reaches with some tokens."""

    model: str
    law: LossLaw
    parameters: float
    """count. The parameters that the law counts."""
    tokens: float
    """count. The tokens of training."""
    loss: float
    """nats. The predicted loss."""
    low: float
    """nats. The lower end of the 80 % band."""
    high: float
    """nats. The upper end of the 80 % band."""
    flops: float
    """FLOP. The compute of training."""
    best: AdvisedSize
    """The size with the least loss for the same compute."""
    unique: float | None = None
    """count. The tokens that differ, where some repeat."""
    others: Mapping[str, float] = field(default_factory=dict)
    """nats. The loss by other named laws, of other tokenizers and data."""
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
    against: float
    """factor. The parameters, relative to those that podsim's own law advises."""
    lost: float
    """share. The loss above the least, by podsim's own law, for taking this advice."""
    rate: float | None
    """factor. The learning rate that it advises; None: it states none."""
    batch: float | None
    """count. The batch in tokens that it advises; None: it states none."""


@dataclass(frozen=True, kw_only=True)
class ScaleLaws(Shown):
    """The named laws, and where they disagree."""

    rows: tuple[LawAdvice, ...]
    titles: Mapping[str, str]
    """The publication of each law."""
    notes: Mapping[str, str]
    """The remarks on laws."""
