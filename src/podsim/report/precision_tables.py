"""Training in a precision: what rounding lost, and runs in several precisions side by side."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.trained import MeasuredTraining
from podsim.answers.trained_precisions import TrainedPrecisions
from podsim.report.columns import Column, Table, percent
from podsim.report.screen import Block, Paragraph, Rows, bold, dim
from podsim.units import short_seconds

_SEEDS = Table(
    indent=0,
    columns=(
        Column("precision", "precision"),
        Column("scale", lambda row: "" if row.loss_scale == "none" else row.loss_scale, optional=True),
        Column("loss", "loss", ":.4f", missing="-"),
        Column("spread", "spread", ":.4f", missing="-", drop=2),
        Column("difference", "difference", ":+.4f", missing="-"),
        Column("underflow", "lost", percent),
        Column("step", "step_time", short_seconds, drop=1),
        Column("verdict", "verdict", wrap=True),
    ),
)


def precisions_report(runs: TrainedPrecisions) -> Iterator[Block]:
    """Each precision next to the first."""
    first = runs.rows[0]
    seeds = f"{first.seeds} seed{'s' * (first.seeds > 1)}"
    yield bold(f"{runs.model}, {runs.data}: {runs.steps} steps, {seeds}")
    yield Rows(_SEEDS, runs.rows)
    yield ""
    noise = (
        f"Seed noise: {runs.noise:.4f}, the spread of {first.precision} over its seeds. "
        if runs.noise
        else ""
    )
    yield dim(
        f"{noise}Loss: mean of the last tenth of the steps. Underflow: gradients that rounding makes 0."
    )
    for row in runs.rows:
        name = row.precision + (f" with loss scale {row.loss_scale}" if row.loss_scale != "none" else "")
        if row.lost_most:
            yield Paragraph(f"{name}: the gradients that underflow most are {row.lost_most}.")
        if row.skipped:
            yield Paragraph(f"{name}: {row.skipped} steps were skipped, as gradients overflowed.")


def precision_report(run: MeasuredTraining) -> Iterator[Block]:
    """What a precision did to one run; nothing of one in fp32 without a loss scale."""
    if run.precision == "fp32" and run.loss_scale == "none":
        return
    lost = sum(run.lost) / max(1, len(run.lost))
    names = ", ".join(f"{name} {share:.0%}" for name, share in list(run.lost_by.items())[:3])
    most = f"; most in {names}" if names else ""
    scale = f", loss scale {run.loss_scale}" if run.loss_scale != "none" else ""
    yield Paragraph(
        f"precision {run.precision}{scale}: {percent(lost)} of the gradients became 0 by rounding{most}"
    )
    if run.scales and run.loss_scale == "dynamic":
        yield Paragraph(
            f"the loss scale ended at {run.scales[-1]:,.0f}; {len(run.skipped)} steps were skipped"
        )
    if run.diverged is not None:
        where = f": {run.overflow} is not finite" if run.overflow else ""
        yield Paragraph(f"diverged at step {run.diverged}{where}", "alarm")
