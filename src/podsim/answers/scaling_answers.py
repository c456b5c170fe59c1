"""What `podsim scale` answers about losses, as plain values that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.answers.losses import AdvisedSize, HeldOut, LossConstants, LossPoint, Tuning, count_text
from podsim.answers.prediction import Prediction
from podsim.records import dataclass, field, replace
from podsim.units import format_quantity

_SYMBOLS = {
    "irreducible": "E", "size": "A", "data": "B", "size_exponent": "alpha", "data_exponent": "beta",
    "coupling": "gamma",
}  # fmt: skip


def without_draws(answer: Any) -> Any:
    """An answer without the bootstraps of its law; a saved law has them."""
    return replace(answer, law=replace(answer.law, draws=()))


def rates_text(rates: Mapping[str, float], batches: Mapping[str, float]) -> str:
    """The learning rates and batches that named laws advise."""
    texts = (
        f"{rate:.2g} with batches of {count_text(batches.get(name))} ({name})" for name, rate in rates.items()
    )
    return " or ".join(texts)


def _tokens_text(answer: Any) -> str:
    return f"{count_text(answer.tokens)} ({answer.tokens / answer.parameters:,.0f} a parameter)"


def _band_text(answer: Any) -> str:
    return f"{answer.low:.3f} to {answer.high:.3f}" if answer.law.fitted else ""


def _unique_text(answer: Any) -> str:
    passes = max(1.0, answer.tokens / answer.unique)
    return f"{count_text(answer.unique)} ({passes:.3g} passes over them)"


@dataclass(frozen=True, kw_only=True)
class CheckedLoss:
    """A measured loss, and what the law says of it."""

    parameters: float = shown(format=count_text)
    """count. The parameters of the network."""
    tokens: float = shown(format=count_text)
    """count. The tokens of training so far."""
    loss: float = shown(format=":.3f")
    """nat. The measured loss."""
    predicted: float = shown("by the law", of_row=lambda row: f"{row.predicted:.3f} ({row.error:+.1%})")
    """nat. The loss by the law."""
    low: float = shown("80 % band", of_row=lambda row: f"{row.low:.3f} to {row.high:.3f}")
    """nat. The lower end of the 80 % band."""
    high: float = shown(is_hidden=True)
    """nat. The upper end of the 80 % band."""
    use: str
    """The use of the run: fitted, held out, foretold (before it was trained), undertrained, overtrained, or tuned worse
    than another of its size and length."""

    @property
    def error(self) -> float:
        """Relative error of the predicted loss."""
        return self.predicted / self.loss - 1


@dataclass(frozen=True, kw_only=True)
class _Line:
    """A line of a file."""

    line: int
    """The line of the run in its file."""


@dataclass(frozen=True, kw_only=True)
class FittedRun(CheckedLoss, _Line):
    """A finished run, and what the fitted law says of it."""


@dataclass(frozen=True, kw_only=True)
class ConstantRange:
    """A constant of a law with the range of its bootstraps."""

    name: str = shown(of_row=lambda row: f"{_SYMBOLS[row.name]} {row.name}".replace("_", " "))
    value: float = shown(format=":.4g")
    """nat. The fitted value; of exponents a pure number."""
    low: float = shown("80 % of bootstraps", of_row=lambda row: f"{row.low:.4g} to {row.high:.4g}")
    """nat. The 10th percentile of the bootstraps."""
    high: float = shown(is_hidden=True)
    """nat. The 90th percentile of the bootstraps."""


@dataclass(frozen=True, kw_only=True)
class ScaleFit(
    Answer,
    view=View(
        rows="rows",
        figure="report.plot_scaling:scale_figure",
        data=without_draws,
        chart="Runs and the law",
    ),
):
    """A law of the loss, fitted to the runs of a file."""

    file: str
    law: LossConstants = shown(of_row=lambda answer: f"{answer.law.equation} nats")
    unit: str = shown(is_hidden=True)
    """The unit of the losses in the file; those here are nats."""
    constants: tuple[ConstantRange, ...] = shown("runs", title="Constants")
    rows: tuple[FittedRun, ...] = shown("fitted", of_row=lambda answer: answer.fitted_words)
    error: float = shown("mean error", ":.2%", remark="of the fitted runs")
    """share. The mean absolute error of the fitted runs."""
    held_out: HeldOut | None = shown(of_row=lambda answer: answer.held_out.words)
    """The check on the runs of most compute, by a fit to the others; None where too few would be left."""
    forms: Mapping[str, float] = shown("form", of_row=lambda answer: answer.form_words)
    """share. The mean error of each form on the compute held out from it."""
    advice: tuple[AdvisedSize, ...] = shown(title="Best size for some compute")
    """The best sizes for the compute of the runs, and ten and a hundred times as much."""
    curves: tuple[LossPoint, ...] = shown(is_hidden=True)
    """The law over the fitted range: losses by parameters at a few numbers of tokens."""
    tuning: Tuning | None = shown(of_row=lambda answer: answer.tuning.words, default=None)
    """The best learning rate and batch; None where the runs are on no grid of them."""
    notes: tuple[str, ...] = shown(title="Remarks", default=())

    @property
    def fitted_words(self) -> str:
        """What the law was fitted to, in words."""
        fitted = self.law.fitted
        if fitted is None:
            return ""
        low, high = (
            f"{count_text(ends[0])} to {count_text(ends[1])}" for ends in (fitted.parameters, fitted.tokens)
        )
        return f"{fitted.runs} runs, {low} parameters, {high} tokens"

    @property
    def form_words(self) -> str:
        """The form, and why it was chosen."""
        errors = ", ".join(f"{name} {error:.2%}" for name, error in self.forms.items())
        return f"{self.law.form}, by the error on larger runs: {errors}"


@dataclass(frozen=True, kw_only=True)
class ScaleLoss(
    Answer,
    view=View(
        rows=lambda answer: answer.csv_rows,
        figure="report.plot_scaling:scale_figure",
        data=without_draws,
        chart="Loss by tokens and parameters",
    ),
):
    """The loss that a network reaches with some tokens."""

    model: str = shown(remark="")
    law: LossConstants = shown(of_row=lambda answer: f"{answer.law.name}: {answer.law.source}")
    parameters: float = shown(format=count_text)
    """count. The parameters that the law counts."""
    tokens: float = shown(of_row=_tokens_text, remark="")
    """count. The tokens of training."""
    loss: float = shown(format=":.3f", remark="nats")
    """nat. The predicted loss."""
    low: float = shown("80 % band", of_row=_band_text, remark="")
    """nat. The lower end of the 80 % band."""
    high: float = shown(is_hidden=True)
    """nat. The upper end of the 80 % band."""
    flops: float = shown("compute", lambda flops: f"{flops:.3g} FLOPs", remark="")
    """FLOP. The compute of training."""
    best: AdvisedSize = shown(title="Best size for the same compute", of_row=lambda answer: (answer.best,))
    """The size with the least loss for the same compute."""
    curves: tuple[LossPoint, ...] = shown(is_hidden=True)
    """The losses with other numbers of tokens, then of other numbers of parameters."""
    unique: float | None = shown("unique tokens", of_row=_unique_text, remark="", default=None)
    """count. The tokens that differ, where some repeat."""
    others: Mapping[str, float] = shown(
        title="Other laws, of other tokenizers and data", format=":.3f", default=dict
    )
    """nat. The loss by other named laws, of other tokenizers and data."""
    rate: Mapping[str, float] = shown(
        "learning rate", of_row=lambda answer: rates_text(answer.rate, answer.batch), default=dict
    )
    """factor. The best learning rate, by the named laws that state one."""
    batch: Mapping[str, float] = shown(is_hidden=True, default=dict)
    """count. The best batch in tokens, by the named laws that state one."""
    notes: tuple[str, ...] = shown(title="Remarks", default=())

    @property
    def csv_rows(self) -> list[dict[str, float | str]]:
        """The answer as one line of CSV."""
        names = ("model", "parameters", "tokens", "loss", "low", "high", "flops")
        return [{**{name: getattr(self, name) for name in names}, "law": self.law.name}]


@dataclass(frozen=True, kw_only=True)
class LawAdvice:
    """What one law advises for some compute."""

    law: str
    flops: float = shown("FLOPs", ":.3g")
    """FLOP. The compute of training."""
    parameters: float = shown("size", of_row=lambda row: row.of_size(count_text(row.parameters)))
    """count. The parameters that it advises."""
    tokens: float = shown(
        of_row=lambda row: row.of_size(f"{count_text(row.tokens)}, {row.tokens / row.parameters:.3g} each")
    )
    """count. The tokens that it advises."""
    against: float | None = shown("ratio", of_row=lambda row: row.of_size(f"{row.against or 0:.2f}x"))
    """factor. The parameters, relative to those that podsim's own law advises; None: it advises no size, these are
    podsim's.
    """
    lost: float | None = shown("loss", of_row=lambda row: row.of_size(f"+{row.lost or 0:.1%}"))
    """share. The loss above the least, by podsim's own law, for taking this advice."""
    rate: float | None = shown(format=":.2g")
    """factor. The learning rate that it advises; None: it states none."""
    batch: float | None = shown(format=count_text)
    """count. The batch in tokens that it advises; None: it states none."""

    def of_size(self, text: str) -> str:
        """A text about the advised size; empty for a law that advises none."""
        return "" if self.against is None else text


@dataclass(frozen=True, kw_only=True)
class ScaleLaws(
    Answer,
    view=View(
        rows="rows",
        figure="report.plot_scaling:scale_figure",
        chart="Advice of named laws",
    ),
):
    """The named laws, and where they disagree."""

    rows: tuple[LawAdvice, ...]
    titles: Mapping[str, str] = shown(title="Laws")
    """The publication of each law."""
    notes: Mapping[str, str] = shown(
        title="Remarks", of_row=lambda answer: {**answer.differences, **answer.notes}
    )
    """The remarks on laws."""

    @property
    def differences(self) -> dict[str, str]:
        """How far the advice differs, by compute."""
        sizes: dict[float, list[float]] = {}
        for row in self.rows:
            sizes.setdefault(row.flops, []).append(row.parameters)
        return {
            f"{flops:.3g} FLOPs": f"advice differs {max(each) / min(each):.2g}x in parameters"
            for flops, each in sizes.items()
        }


@dataclass(frozen=True, kw_only=True)
class _Days:
    """A budget."""

    days: float = shown(format=":.3g")
    """count. The days of training."""


@dataclass(frozen=True, kw_only=True)
class SizePoint(LossPoint, _Days):
    """A network that spends the budget of some days, on an IsoFLOP curve."""

    name: str = shown("model", default="")
    """The model of the catalog with about this size; "" for none."""


@dataclass(frozen=True, kw_only=True)
class DaysPoint(LossPoint, _Days):
    """The best network for some days on the same machine."""

    money: float | None = shown("USD", lambda money: format_quantity(money, "", digits=3))
    """USD. The cost of the GPUs, low; None: no price is known."""


@dataclass(frozen=True, kw_only=True)
class ScaleBest(
    Answer,
    view=View(
        rows="front",
        figure="report.plot_scaling:scale_figure",
        data=without_draws,
        chart="IsoFLOP curves and days",
    ),
):
    """The network that learns most on a machine in some days."""

    cluster: str = shown(remark="")
    gpus: int = shown("GPUs", ":,d")
    law: LossConstants = shown(of_row=lambda answer: f"{answer.law.name}: {answer.law.source}")
    model: str = shown(
        of_row=lambda answer: f"a generated network, as {answer.model}" if answer.overrides else answer.model,
        remark="",
    )
    """The model of the catalog, or the one that a generated network changes."""
    overrides: Mapping[str, str] = shown(is_hidden=True)
    """The changes of a generated network; empty for one of the catalog."""
    shape: Mapping[str, int] = shown(is_hidden=True)
    """The layers, hidden, heads, kv_heads and ffn of the network."""
    parameters: float = shown(of_row=lambda answer: answer.shape_words)
    """count. The parameters of the network."""
    tokens: float = shown(of_row=_tokens_text, remark="")
    """count. The tokens that it trains on in the days."""
    loss: float = shown(format=":.3f", remark="nats")
    """nat. The loss that it reaches."""
    low: float = shown("80 % band", of_row=_band_text, remark="")
    """nat. The lower end of the 80 % band."""
    high: float = shown(is_hidden=True)
    """nat. The upper end of the 80 % band."""
    seconds: float = shown("time", "report.columns:days", remark="of training, with failures")
    """s. The time of training with failures."""
    flops: float = shown("compute", lambda flops: f"{flops:.3g} FLOPs", remark="")
    """FLOP. The compute of training."""
    inference: float = shown(format=count_text, hide_if=0.0, remark="tokens, out of the same compute")
    """count. The tokens to infer out of the same compute."""
    unique: float | None = shown("unique tokens", of_row=_unique_text, remark="")
    """count. The tokens that differ; None: no token repeats."""
    prediction: Prediction = shown("plan", of_row="report.predictions:plan_words", remark="")
    """The plan and its prediction, with days, money and energy."""
    curve: tuple[SizePoint, ...] = shown(is_hidden=True)
    """The networks of other sizes that spend the compute of a quarter of the days, of the days, and of four times
    these.
    """
    known: tuple[SizePoint, ...] = shown(
        title="Models of the catalog with the same compute", of_row=lambda answer: answer.known[:3]
    )
    """The models of the catalog nearest in size that spend the same compute."""
    front: tuple[DaysPoint, ...] = shown(
        title="Best network for other days", of_row=lambda answer: answer.front[::2]
    )
    """The best network for fewer and for more days."""
    rate: Mapping[str, float] = shown(
        "learning rate", of_row=lambda answer: rates_text(answer.rate, answer.batch)
    )
    """factor. The best learning rate, by the named laws that state one."""
    batch: Mapping[str, float] = shown(is_hidden=True)
    """count. The best batch in tokens, by the named laws that state one."""
    command: str = field(default="", compare=False)
    """The command that plans the run again."""
    notes: tuple[str, ...] = shown(title="Remarks", default=())

    @property
    def shape_words(self) -> str:
        """The parameters, and the shape of the network."""
        shape = ", ".join(f"{key} {value:,}" for key, value in self.shape.items() if value)
        return f"{count_text(self.parameters)} ({shape})" if shape else count_text(self.parameters)


@dataclass(frozen=True, kw_only=True)
class ScaleLadder(
    Answer,
    view=View(
        rows="rows",
        figure="report.plot_scaling:scale_figure",
        data=without_draws,
        chart="Runs and the law",
    ),
):
    """Tiny networks trained for real, the law of all but the largest, and its error on that one."""

    law: LossConstants = shown(of_row=lambda answer: f"{answer.law.equation} nats")
    data: str
    """The name of the text."""
    steps: int
    """The number of steps of each network."""
    seconds: float = shown("trained for", "report.columns:days", remark="")
    """s. The time of all steps."""
    held_out: HeldOut = shown(of_row=lambda answer: answer.held_out.words)
    """The errors on the largest network."""
    rows: tuple[CheckedLoss, ...]
