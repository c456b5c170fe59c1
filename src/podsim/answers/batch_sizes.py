"""What a batch costs in steps and samples, and its learning rate: plain values that name no formula."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View


@dataclass(frozen=True, kw_only=True)
class BatchRow:
    """One batch."""

    batch: int
    steps: float
    """factor. The steps to the target, or their ratio to the fewest where the target is unknown."""
    samples: float
    """factor. The samples to the target, or their ratio to the fewest."""
    linear: float | None
    """factor. The learning rate by the linear rule; None without a rate."""
    root: float | None
    """factor. The learning rate by the square-root rule."""
    usual: float | None
    """factor. The learning rate by the optimizer's usual rule, which ends at the critical batch."""
    measured: float | None
    """count. The measured steps; None for a batch that was not run."""
    role: str
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
    view=View(
        report="report.batch_tables:batch_report", rows="rows", figure="report.plot_batches:batch_figure"
    ),
):
    """The critical batch, and what larger and smaller batches cost."""

    source: str
    """The origin of the critical batch, in words."""
    target: str
    """The target of the steps; empty if they are relative."""
    critical: float
    """count. The critical batch in samples."""
    low: float | None
    """count. The lower end of its band of 80 %; None without a band."""
    high: float | None
    """count. The upper end of its band of 80 %."""
    error: float | None
    """share. The mean error of the fitted steps; None if none were fitted."""
    held_out: float | None
    """share. The mean error on batches that were not fitted."""
    optimizer: str
    rule: str
    """The rule that is usual for the optimizer: linear or sqrt."""
    rows: tuple[BatchRow, ...]
    published: tuple[PublishedAccuracy, ...]
    """The published accuracies against the batch; podsim predicts none."""
