"""What a batch costs in steps and samples, and its learning rate: plain values that name no formula."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown

_RULES = {"linear": "linear in the batch", "sqrt": "with the root of the batch"}


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.4g}"


@dataclass(frozen=True, kw_only=True)
class BatchRow:
    """One batch."""

    batch: int
    steps: float = shown(format=_count)
    """factor. The steps to the target, or their ratio to the fewest where the target is unknown."""
    samples: float = shown(format=_count)
    """factor. The samples to the target, or their ratio to the fewest."""
    linear: float | None = shown("rate: linear", ":.3g")
    """factor. The learning rate by the linear rule; None without a rate."""
    root: float | None = shown(format=":.3g")
    """factor. The learning rate by the square-root rule."""
    usual: float | None = shown("advised", ":.3g")
    """factor. The learning rate by the optimizer's usual rule, which ends at the critical batch."""
    measured: float | None = shown(
        of_row=lambda row: (
            "-" if row.measured is None else f"{row.measured:,.0f}" + " (test)" * (row.role == "test")
        )
    )
    """count. The measured steps; None for a batch that was not run."""
    role: str = shown(is_hidden=True)
    """The role of the measured steps: calibrate, or test where nothing was fitted to them."""


@dataclass(frozen=True, kw_only=True)
class PublishedAccuracy:
    """A published accuracy at a batch."""

    study: str
    model: str
    optimizer: str
    batch: int
    metric: str
    value: float
    """factor. The accuracy or error in the metric's unit."""
    notes: str
    source: str


@dataclass(frozen=True, kw_only=True)
class BatchAdvice(
    Answer,
    view=View(rows="rows", figure="report.plot_training:batch_figure"),
):
    """The critical batch, and what larger and smaller batches cost."""

    source: str = shown(remark="")
    """The origin of the critical batch, in words."""
    target: str = shown("steps to", missing="relative to the fewest of any batch", remark="")
    """The target of the steps; empty if they are relative."""
    critical: float = shown("critical batch", _count, remark="samples")
    """count. The critical batch in samples."""
    low: float | None = shown(
        "80 % band", of_row=lambda advice: f"{_count(advice.low)} to {_count(advice.high)}", remark=""
    )
    """count. The lower end of its band of 80 %; None without a band."""
    high: float | None = shown(is_hidden=True)
    """count. The upper end of its band of 80 %."""
    error: float | None = shown("error of the law")
    """share. The mean error of the fitted steps; None if none were fitted."""
    held_out: float | None = shown("error held out")
    """share. The mean error on batches that were not fitted."""
    optimizer: str
    rule: str = shown(
        "usual rate", format=lambda rule: f"{_RULES[rule]}, up to the critical batch", remark=""
    )
    """The rule that is usual for the optimizer: linear or sqrt."""
    rows: tuple[BatchRow, ...]
    published: tuple[PublishedAccuracy, ...] = shown(
        title="Accuracy by batch, published or trained by podsim (it predicts none)",
        of_row=lambda advice: _published(advice.published),
    )
    """The accuracies against the batch that were published, or trained by podsim; it predicts none."""


def _published(accuracies: tuple[PublishedAccuracy, ...]) -> tuple[str, ...]:
    """The published accuracies, a sentence for each study."""
    texts = []
    for study in dict.fromkeys(row.study for row in accuracies):
        rows = [row for row in accuracies if row.study == study]
        values = (f"{row.value:.2f} at {row.batch:,}" + f" ({row.notes})" * bool(row.notes) for row in rows)
        texts.append(f"{rows[0].model}, {rows[0].optimizer}, {rows[0].metric}: {', '.join(values)} ({study})")
    return tuple(texts)


@dataclass(frozen=True, kw_only=True)
class SharpnessRow:
    """All seeds of one batch and learning rate; None where a run did not reach the target."""

    batch: int
    rule: str = shown("rate by")
    """The rule that gave the rate: none, sqrt or linear in the batch."""
    rate: float = shown(format=":.3g")
    """factor. The learning rate."""
    steps: float | None = shown(format=":,.0f")
    """count. The steps to the target."""
    training: float | None = shown(format=":.4f", drop=1)
    """nat. The training loss."""
    validation: float | None = shown(format=":.3f")
    """nat. The validation loss."""
    spread: float | None = shown("+-", ":.3f")
    """nat. The standard deviation of the validation loss over the seeds."""
    gap: float | None = shown(format=":.3f", drop=2)
    """nat. The validation loss over the training loss."""
    error: float | None = shown(format=":.1%")
    """share. The validation samples in a wrong class."""
    sharpness: float | None = shown(format=":.3g")
    """factor. The largest eigenvalue of the Hessian of the training loss."""
    verdict: str = shown("")


@dataclass(frozen=True, kw_only=True)
class Sharpness(Answer, view=View(rows="rows", figure="report.plot_training:sharpness_figure")):
    """Networks trained with small and large batches to the same training loss."""

    samples: int
    target: float = shown("ends at a training loss of", ":g", remark="nats")
    """nat. The training loss at which a run ends."""
    seeds: int
    rows: tuple[SharpnessRow, ...]
