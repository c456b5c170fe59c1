"""Laws of the loss and points of their curves, as plain values that name no formula."""

from __future__ import annotations

from collections.abc import Mapping

from podsim.answers.fields import shown
from podsim.records import dataclass, field

_SUFFIXES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"), (0.0, ""))


def count_text(number: float | None) -> str:
    """A number of parameters or tokens as the field writes it: 8.03B, 15T."""
    if number is None:
        return ""
    scale, suffix = next((scale, suffix) for scale, suffix in _SUFFIXES if number >= scale)
    return f"{number / (scale or 1):.3g}{suffix}"


def _each(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.3g}"


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

    @property
    def equation(self) -> str:
        """The law with its constants."""
        value = self.constants
        size = f"{value['size']:.5g} / N^{value['size_exponent']:.4g}"
        inner = f"{size} + {value['data']:.5g} / D^{value['data_exponent']:.4g}"
        if value["coupling"] != 1:
            inner = f"({inner})^{value['coupling']:.4g}"
        return f"loss = {value['irreducible']:.4g} + {inner}" if value["irreducible"] else f"loss = {inner}"


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

    @property
    def words(self) -> str:
        """The check in words."""
        return f"mean error {self.error:.2%} of {self.runs} runs; 80 % bands hold {self.covered:.0%}"


@dataclass(frozen=True, kw_only=True)
class LossPoint:
    """A network after some tokens, and its loss by a law."""

    parameters: float = shown(format=count_text)
    """count. The parameters of the network."""
    tokens: float = shown(
        of_row=lambda row: f"{count_text(row.tokens)} ({_each(row.tokens / row.parameters)} each)"
    )
    """count. The tokens of training; behind them those for each parameter."""
    loss: float = shown(format=":.3f")
    """nat. The loss by the law."""
    low: float = shown("80 % band", of_row=lambda row: f"{row.low:.3f} to {row.high:.3f}")
    """nat. The lower end of the 80 % band."""
    high: float = shown(is_hidden=True)
    """nat. The upper end of the 80 % band."""


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Some compute."""

    flops: float = shown("FLOPs", ":.3g")
    """FLOP. The compute of training, 6 FLOPs for a parameter and a token."""


@dataclass(frozen=True, kw_only=True)
class AdvisedSize(LossPoint, Compute):
    """The parameters and tokens with the least loss for some compute."""


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

    @property
    def words(self) -> dict[str, str]:
        """The best values by setting, in words."""
        powers = {"learning rate": self.rate, "batch": self.batch}
        return {
            name: f"best at {power.factor:.3g} N^{power.parameters:.3g} D^{power.tokens:.3g}; twice or half of it costs "
            f"{power.cost:.2%} of loss ({self.runs} runs)"
            for name, power in powers.items()
            if power is not None
        }
