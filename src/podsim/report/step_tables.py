"""A measured step, and one next to a simulated step."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.measured import MeasuredStep, StepComparison, StepRow
from podsim.report.columns import Column, Table, percent, signed_percent
from podsim.report.screen import Block, Paragraph, Rows, bold, show, warnings
from podsim.units import format_quantity


def print_against(comparison: StepComparison) -> None:
    """Print a measured step next to a simulated one on a screen."""
    show(against_report(comparison))


def print_measured(step: MeasuredStep) -> None:
    """Print a measured step on a screen."""
    show(measured_report(step))


def against_report(comparison: StepComparison) -> Iterator[Block]:
    """Seconds by kind, measured and simulated, with the difference of each."""
    measured, simulated = (format_quantity(s, "s") for s in (comparison.measured, comparison.simulated))
    yield bold(
        f"{comparison.source} ({comparison.device}) against {comparison.model} on {comparison.cluster}, simulated"
    )
    yield (
        f"A step: {measured} measured, {simulated} simulated ({signed_percent(comparison.difference)}); of the "
        f"simulation {comparison.process}"
    )

    def of_step(row: StepRow) -> float:
        return ((row.simulated or 0.0) - (row.measured or 0.0)) / comparison.measured

    columns = (
        Column("kind"),
        Column("measured", "", "s", missing="-"),
        Column("simulated", "", "s", missing="-"),
        Column("difference", "", signed_percent, missing="-"),
        Column("of the step", of_step, signed_percent),
        Column("kernels", lambda row: ", ".join(row.measured_of), wrap=True),
    )
    yield from ("", Rows(Table(*columns), (*comparison.rows, comparison.exposed, comparison.idle)), "")
    yield (
        "Seconds in which at least one op of the kind ran; kinds may run at the same time. Of the step: what the "
        "difference is of the measured step."
    )
    yield from warnings(comparison.warnings)


def measured_report(step: MeasuredStep) -> Iterator[Block]:
    """Seconds of a measured step by kind, and the exposed part of them."""
    rank = f", rank {step.rank} of {step.ranks:,}" if step.ranks > 1 else ""
    yield bold(f"{step.source}: {step.device}{rank}")
    count, spread = len(step.step_times), ""
    if count > 1:
        low, high = (
            format_quantity(seconds, "s") for seconds in (min(step.step_times), max(step.step_times))
        )
        spread = f", mean of {count} ({low} to {high})"
    names = step.steps[0] if len(step.steps) == 1 else f"{step.steps[0]} to {step.steps[-1]}"
    yield f"{format_quantity(step.step_time, 's')} a step{spread}: {names}"
    columns = (
        Column("kind"),
        Column("in", "group"),
        Column("ops", "count", ":,.4g", drop=1),
        Column("busy", "", "s", drop=2),
        Column("wall", "", "s"),
        Column("exposed", "", "s"),
        Column("of the step", lambda kind: kind.wall / step.step_time, percent),
    )
    yield from ("", Rows(Table(*columns), step.kinds), "")
    for what, seconds in (
        ("arithmetic", step.arithmetic), ("communication with no arithmetic at the same time", step.exposed),
        ("idle", step.idle),
    ):  # fmt: skip
        share = percent(seconds / step.step_time)
        yield Paragraph(f"{share} {what} ({format_quantity(seconds, 's')})", indent="  ")
    yield from warnings(step.warnings)
