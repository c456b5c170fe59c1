"""Losses and scaling laws: what a fit says, the loss of a network, and what named laws advise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

from podsim.answers.scaling_answers import (
    LawAdvice,
    LossConstants,
    ScaleBest,
    ScaleFit,
    ScaleLadder,
    ScaleLaws,
    ScaleLoss,
    Tuning,
)
from podsim.report.columns import Column, Table, days
from podsim.report.predictions import cluster_name, layout
from podsim.report.screen import Block, Paragraph, Rows, bold, facts, items
from podsim.units import format_quantity

_SYMBOLS = {
    "irreducible": "E", "size": "A", "data": "B", "size_exponent": "alpha", "data_exponent": "beta",
    "coupling": "gamma",
}  # fmt: skip
_SUFFIXES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"), (0.0, ""))


def count_text(number: float | None) -> str:
    """A number of parameters or tokens as the field writes it: 8.03B, 15T."""
    if number is None:
        return ""
    scale, suffix = next((scale, suffix) for scale, suffix in _SUFFIXES if number >= scale)
    return f"{number / (scale or 1):.3g}{suffix}"


_CONSTANTS = Table(
    columns=(
        Column("", lambda row: _SYMBOLS[row.name]), Column("", lambda row: row.name.replace("_", " ")),
        Column("value", "value", ":.4g"), Column("80 % of bootstraps", lambda row: f"{row.low:.4g} to {row.high:.4g}"),
    )
)  # fmt: skip
_ADVICE = Table(
    columns=(
        Column("FLOPs", "flops", ":.3g"), Column("parameters", "parameters", count_text),
        Column("tokens", "tokens", count_text), Column("tokens each", lambda row: row.tokens / row.parameters, ":.0f"),
        Column("loss", "loss", ":.3f"), Column("80 % band", lambda row: f"{row.low:.3f} to {row.high:.3f}"),
    )
)  # fmt: skip


def _of_advice(name: str) -> Callable[[LawAdvice], float | None]:
    """Gives a figure of a law that advises sizes."""
    return lambda row: None if row.against is None else getattr(row, name)


_LAWS = Table(
    columns=(
        Column("law", "law"), Column("parameters", _of_advice("parameters"), count_text),
        Column("tokens", _of_advice("tokens"), count_text),
        Column("tokens each", lambda row: None if row.against is None else row.tokens / row.parameters, ":.3g"),
        Column("size", "against", lambda value: f"{value:.2f}x", align="r"),
        Column("loss", "lost", lambda value: f"+{value:.1%}", align="r"),
        Column("rate", "rate", ":.2g"), Column("batch", "batch", count_text),
    )
)  # fmt: skip


_KNOWN = Table(
    columns=(
        Column("model", "name"), Column("parameters", "parameters", count_text), Column("tokens", "tokens", count_text),
        Column("tokens each", lambda row: row.tokens / row.parameters, ":,.0f"), Column("loss", "loss", ":.3f"),
    )
)  # fmt: skip
_LADDER = Table(
    columns=(
        Column("parameters", "parameters", count_text), Column("tokens", "tokens", count_text),
        Column("loss", "loss", ":.3f"), Column("by the law", "predicted", ":.3f"),
        Column("80 % band", lambda row: f"{row.low:.3f} to {row.high:.3f}"),
        Column("error", "error", lambda value: f"{value:+.1%}", align="r"), Column("", "use"),
    )
)  # fmt: skip
_FRONT = Table(
    columns=(
        Column("days", "days", ":.3g"), Column("parameters", "parameters", count_text),
        Column("tokens", "tokens", count_text), Column("loss", "loss", ":.3f"),
        Column("80 % band", lambda row: f"{row.low:.3f} to {row.high:.3f}"),
        Column("USD", "money", lambda value: format_quantity(value, "", digits=3), align="r", optional=True),
    )
)  # fmt: skip


def equation(law: LossConstants) -> str:
    """The law with its constants."""
    value = law.constants
    inner = f"{value['size']:.5g} / N^{value['size_exponent']:.4g} + {value['data']:.5g} / D^{value['data_exponent']:.4g}"
    if value["coupling"] != 1:
        inner = f"({inner})^{value['coupling']:.4g}"
    return f"loss = {value['irreducible']:.4g} + {inner}" if value["irreducible"] else f"loss = {inner}"


def fit_data(answer: Any) -> Any:
    """An answer without the bootstraps of its law; a saved law has them."""
    return replace(answer, law=replace(answer.law, draws=()))


def fit_report(fit: ScaleFit) -> Iterator[Block]:
    """A fitted law: equation, constants, errors, advice, and the runs that were left out."""
    fitted = fit.law.fitted
    assert fitted is not None
    yield bold(
        f"{fit.file}: {fitted.runs} runs, {_range(fitted.parameters)} parameters, {_range(fitted.tokens)} tokens"
    )
    yield from (f"{equation(fit.law)} nats", "", Rows(_CONSTANTS, fit.constants), "")
    yield facts(*_error_facts(fit))
    if fit.tuning is not None:
        yield facts(*_tuning_facts(fit.tuning))
    yield from ("", bold("Best size for some compute"), Rows(_ADVICE, fit.advice))
    yield from items("Remarks", fit.notes)


def _range(ends: tuple[float, float]) -> str:
    return f"{count_text(ends[0])} to {count_text(ends[1])}"


def _error_facts(fit: ScaleFit) -> Iterator[tuple[str, str, str]]:
    yield (
        "mean error",
        f"{fit.error:.2%}",
        f"of the {fit.law.fitted.runs if fit.law.fitted else 0} fitted runs",
    )
    held = fit.held_out
    if held is not None:
        remark = f"of the {held.runs} runs of most compute, by a fit to the others; 80 % bands hold {held.covered:.0%}"
        yield "held out", f"{held.error:.2%}", remark
    if fit.forms:
        texts = ", ".join(f"{name} {error:.2%}" for name, error in fit.forms.items())
        yield "form", fit.law.form, f"chosen by the error on larger runs: {texts}"


def _tuning_facts(tuning: Tuning) -> Iterator[tuple[str, str, str]]:
    """The best learning rate and batch."""
    for name, power in (("learning rate", tuning.rate), ("batch", tuning.batch)):
        if power is not None:
            best = f"best at {power.factor:.3g} N^{power.parameters:.3g} D^{power.tokens:.3g}"
            yield name, "", f"{best}; twice or half of it costs {power.cost:.2%} of loss ({tuning.runs} runs)"


def loss_report(answer: ScaleLoss) -> Iterator[Block]:
    """The loss of a network, its band, and what else was possible with the compute."""
    best = answer.best
    yield bold(f"{answer.model}, {count_text(answer.tokens)} tokens: loss {answer.loss:.3f} nats")
    yield facts(*_loss_facts(answer))
    yield from ("", bold("Best size for the same compute"), Rows(_ADVICE, [best]))
    yield from items("Remarks", (*answer.notes, _comparable(answer.law)))
    if answer.others:
        texts = ", ".join(f"{name} {loss:.3f}" for name, loss in answer.others.items())
        yield from items("Other laws, of other tokenizers and data", (texts,))


def _loss_facts(answer: ScaleLoss) -> Iterator[tuple[str, str, str]]:
    if answer.law.fitted is not None:
        yield "80 % band", f"{answer.low:.3f} to {answer.high:.3f}", f"law {answer.law.name}"
    else:
        yield "law", answer.law.name, answer.law.source
    yield (
        "parameters",
        count_text(answer.parameters),
        f"{answer.law.counts}; {answer.tokens / answer.parameters:,.0f} tokens each",
    )
    if answer.unique is not None:
        yield (
            "unique tokens",
            count_text(answer.unique),
            f"{answer.tokens / answer.unique:,.3g} passes over them",
        )
    yield "compute", f"{answer.flops:.3g} FLOPs", f"the best size reaches {answer.best.loss:.3f}"
    yield from _rate_facts(answer)


def _rate_facts(answer: ScaleBest | ScaleLoss) -> Iterator[tuple[str, str, str]]:
    """The learning rates and batches that named laws advise."""
    if answer.rate:
        rates = " or ".join(f"{rate:.2g}" for rate in answer.rate.values())
        batches = " or ".join(count_text(answer.batch.get(name)) for name in answer.rate)
        yield "learning rate", rates, f"batch {batches} tokens ({', '.join(answer.rate)})"


def best_report(answer: ScaleBest) -> Iterator[Block]:
    """The best network for some days: its size, loss and shape, its plan, and other sizes and days."""
    name = f"a generated network of {count_text(answer.parameters)}" if answer.overrides else answer.model
    yield bold(
        f"{name} on {answer.gpus:,} GPUs of {cluster_name(answer.cluster, answer.gpus)}: loss {answer.loss:.3f} nats "
        f"after {days(answer.seconds)}"
    )
    yield facts(*_best_facts(answer))
    yield Paragraph(answer.command, indent="         ", first="  Type   ")
    yield from ("", bold("Models of the catalog with the same compute"), Rows(_KNOWN, answer.known[:3]))
    yield from ("", bold("Best network for other days"), Rows(_FRONT, answer.front[::2]))
    yield from items("Remarks", (*answer.notes, _comparable(answer.law)))


def _best_facts(answer: ScaleBest) -> Iterator[tuple[str, str, str]]:
    prediction, shape = answer.prediction, answer.shape
    if answer.law.fitted is not None:
        yield "80 % band", f"{answer.low:.3f} to {answer.high:.3f}", f"law {answer.law.name}"
    yield (
        "parameters",
        count_text(answer.parameters),
        ", ".join(f"{key} {value:,}" for key, value in shape.items() if value),
    )
    yield "tokens", count_text(answer.tokens), f"{answer.tokens / answer.parameters:,.0f} a parameter"
    if answer.inference:
        yield "inference", count_text(answer.inference), "tokens, out of the same compute"
    if answer.unique is not None:
        yield (
            "unique tokens",
            count_text(answer.unique),
            f"{max(1.0, answer.tokens / answer.unique):.3g} passes over them",
        )
    yield "compute", f"{answer.flops:.3g} FLOPs", f"MFU {prediction.mfu_6pd:.1%} (6 x parameters)"
    yield "plan", format_quantity(prediction.step_time, "s"), f"a step; {layout(prediction.plan)}"
    if prediction.expense is not None and prediction.expense.low:
        money = prediction.expense
        yield (
            "money",
            f"{format_quantity(money.low, '', digits=3)} USD",
            f"to {format_quantity(money.high, '', digits=3)} USD",
        )
    yield from _rate_facts(answer)


def _comparable(law: LossConstants) -> str:
    """What a loss may be compared with."""
    return f"losses are of one tokenizer and validation set: {law.source}"


def ladder_report(answer: ScaleLadder) -> Iterator[Block]:
    """Tiny networks: the law of the small ones, and the largest, foretold."""
    largest, held = answer.rows[-1], answer.held_out
    yield bold(
        f"{count_text(largest.parameters)} parameters foretold by {_sizes(answer)} smaller networks: "
        f"loss {largest.predicted:.3f}, measured {largest.loss:.3f}"
    )
    yield from (f"{equation(answer.law)} nats", "", Rows(_LADDER, answer.rows), "")
    yield facts(
        (
            "held out",
            f"{held.error:.2%}",
            f"mean error of the largest network; 80 % bands hold {held.covered:.0%}",
        ),
        ("trained", days(answer.seconds), f"{answer.steps} steps each, on {answer.data}"),
    )


def _sizes(answer: ScaleLadder) -> int:
    return len({row.parameters for row in answer.rows}) - 1


def loss_rows(answer: ScaleLoss) -> list[dict[str, float | str]]:
    """The answer as one line of CSV."""
    names = ("model", "parameters", "tokens", "loss", "low", "high", "flops")
    return [{**{name: getattr(answer, name) for name in names}, "law": answer.law.name}]


def laws_report(answer: ScaleLaws) -> Iterator[Block]:
    """What named laws advise, by compute, and what it costs by podsim's own law."""
    for flops, rows in groupby(answer.rows, key=lambda row: row.flops):
        advice: list[LawAdvice] = list(rows)
        sizes = [row.parameters for row in advice]
        yield from (
            bold(f"{flops:.3g} FLOPs: advice differs {max(sizes) / min(sizes):.2g}x in parameters"),
            Rows(_LAWS, advice),
            "",
        )
    yield from items("Laws", [f"{name}: {title}" for name, title in answer.titles.items()])
    yield from items("Remarks", [f"{name}: {note}" for name, note in answer.notes.items()])
