"""A measured step, and one beside a simulated one, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.report.columns import percent, signed_percent
from podsim.report.table import Table, console, paragraph
from podsim.results.measured import MeasuredStep, StepComparison, StepRow
from podsim.units import format_quantity


def print_against(comparison: StepComparison) -> None:
    """Print a measured step beside a simulated one on a screen."""
    _print(against_text(comparison, console().width))


def print_measured(step: MeasuredStep) -> None:
    """Print what a trace says of a step on a screen."""
    _print(measured_text(step, console().width))


def _print(text: str) -> None:
    from rich.text import Text

    out = console()
    for place, line in enumerate(text.splitlines()):
        style = "bold" if place == 0 else "yellow" if line.startswith("Warning") else ""
        out.print(Text(line, style=style))


def against_text(comparison: StepComparison, width: int = 100) -> str:
    """Seconds by kind, measured and simulated, with the difference of each."""
    return "\n".join(_against(comparison, width)) + "\n"


def _against(one: StepComparison, width: int) -> Iterator[str]:
    yield from paragraph(
        f"{one.source} ({one.device}) against {one.model} on {one.cluster}, simulated", width
    )
    yield from paragraph(
        f"A step: {format_quantity(one.measured, 's')} measured, {format_quantity(one.simulated, 's')} simulated "
        f"({signed_percent(one.difference)}); of the simulation {one.process}", width,
    )  # fmt: skip
    yield ""
    table = Table("lrrrrw", header=("kind", "measured", "simulated", "difference", "of the step", "kernels"))
    for row in one.rows:
        table.add(*_cells(row), signed_percent(_of_step(row, one)), ", ".join(row.measured_of))
    for row in (one.exposed, one.idle):
        table.add(*_cells(row), signed_percent(_of_step(row, one)), "")
    yield from ((columns + note).rstrip() for columns, note in table.lines(width))
    yield ""
    yield from paragraph(
        "Seconds in which at least one op of the kind ran; kinds may run beside each other. Of the step: what the "
        "difference is of the measured step.", width,
    )  # fmt: skip
    for warning in one.warnings:
        yield from paragraph(f"Warning: {warning}", width)


def _cells(row: StepRow) -> tuple[str, str, str, str]:
    return row.kind, _seconds(row.measured), _seconds(row.simulated), signed_percent(row.difference)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else format_quantity(seconds, "s")


def _of_step(row: StepRow, one: StepComparison) -> float:
    return ((row.simulated or 0.0) - (row.measured or 0.0)) / one.measured


def measured_text(step: MeasuredStep, width: int = 100) -> str:
    """Seconds by kind of a measured step, and what of them is not hidden."""
    return "\n".join(_measured(step, width)) + "\n"


def _measured(step: MeasuredStep, width: int) -> Iterator[str]:
    of = f", rank {step.rank} of {step.ranks:,}" if step.ranks > 1 else ""
    yield from paragraph(f"{step.source}: {step.device}{of}", width)
    many = len(step.step_times)
    spread = ""
    if many > 1:
        low, high = (format_quantity(one, "s") for one in (min(step.step_times), max(step.step_times)))
        spread = f", mean of {many} ({low} to {high})"
    yield from paragraph(
        f"{format_quantity(step.step_time, 's')} a step{spread}: {_named(step.steps)}", width
    )
    yield ""
    table = Table("llrrrrr", header=("kind", "in", "ops", "busy", "wall", "exposed", "of the step"))
    for one in step.kinds:
        cells = (format_quantity(value, "s") for value in (one.busy, one.wall, one.exposed))
        table.add(one.kind, one.group, f"{one.count:,.4g}", *cells, percent(one.wall / step.step_time))
    shown = table if table.fits(width) else table.without(2, 3)
    yield from (line for line, _ in shown.lines(width))
    yield ""
    for said, seconds in (
        ("arithmetic", step.arithmetic), ("communication with no arithmetic beside it", step.exposed), ("idle", step.idle)
    ):  # fmt: skip
        yield from paragraph(
            f"{percent(seconds / step.step_time)} {said} ({format_quantity(seconds, 's')})",
            width,
            indent="  ",
        )
    for warning in step.warnings:
        yield from paragraph(f"Warning: {warning}", width)


def _named(steps: tuple[str, ...]) -> str:
    return steps[0] if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
