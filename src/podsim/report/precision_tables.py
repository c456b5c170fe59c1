"""Training in a precision: what rounding lost."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.trained import MeasuredTraining
from podsim.report.columns import percent
from podsim.report.screen import Block, Paragraph


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
