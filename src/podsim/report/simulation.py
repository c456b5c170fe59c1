"""A simulated step as text and as data: its time against the closed form, what it waits for, links, critical path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from podsim.report.data import plain
from podsim.report.failed import failure_lines, failure_times
from podsim.report.figures import percent, signed_percent
from podsim.report.links import link_lines, utilisation
from podsim.report.predictions import layout
from podsim.report.table import Table, console, paragraph
from podsim.results.prediction import PARTS
from podsim.results.simulated import SimulatedStep
from podsim.results.timeline import Timeline
from podsim.units import format_quantity

_BAR, _OPS = 30, 12
_FASTER = 0.1


def print_simulated(step: SimulatedStep) -> None:
    """Print a simulated step on a screen: the times and the warnings stand out."""
    from rich.text import Text

    out = console()
    for line, style in _lines(step, out.width):
        out.print(Text(line, style=style))


def simulated_text(step: SimulatedStep, width: int = 100) -> str:
    """The text of a simulated step, lines of at most `width` where the tables allow."""
    return "\n".join(line for line, _ in _lines(step, width)) + "\n"


def _lines(step: SimulatedStep, width: int) -> Iterator[tuple[str, str]]:
    """(line, style) of everything."""
    cluster = step.cluster.removesuffix(f" ({step.gpus} GPUs)")
    yield from _said(f"{step.model} on {step.gpus:,} GPUs of {cluster}, one step simulated", width, "bold")
    yield from _said(layout(step.plan), width)
    yield "", ""
    yield from _times(step, width)
    yield "", ""
    if step.failure is not None:
        yield from failure_lines(step.failure, width)
        yield "", ""
    yield from _parts(step, width)
    yield "", ""
    fits = step.memory <= step.memory_limit
    verdict = "fits in" if fits else "DOES NOT FIT in"
    room = format_quantity(step.memory_limit, "B")
    yield from _said(
        f"Memory: {format_quantity(step.memory, 'B')} at most on the fullest rank, {verdict} {room}", width,
        "bold" if fits else "bold red",
    )  # fmt: skip
    yield "", ""
    yield from _critical(step, width)
    yield "", ""
    yield from ((line, "bold" if place == 0 else "") for place, line in enumerate(link_lines(step, width)))
    for warning in step.warnings:
        yield from _said(f"Warning: {warning}", width, "yellow")


def _said(text: str, width: int, style: str = "") -> Iterator[tuple[str, str]]:
    return ((line, style) for line in paragraph(text, width))


def _times(step: SimulatedStep, width: int) -> Iterator[tuple[str, str]]:
    against = f"; closed form {format_quantity(step.closed_form, 's')}" if step.closed_form > 0 else ""
    if against:
        against += f", {signed_percent(step.step_time / step.closed_form - 1)} by simulation"
    first = f"{format_quantity(step.step_time, 's')} a step{against}"
    if step.failure is not None:
        first = failure_times(step.failure, step.step_time)
    yield from _said(first, width, "bold")
    yield from _said(
        f"Bubble: {percent(step.bubble)} of the time between first and last pass, mean over the pipeline's ranks",
        width,
    )
    yield from _said(
        f"Played: {step.ops:,} ops on {step.ranks:,} ranks, for {step.represented:,} ops on {step.gpus:,} GPUs",
        width,
    )


def _parts(step: SimulatedStep, width: int) -> Iterator[tuple[str, str]]:
    yield "Where the step goes, on the rank that is busy longest", "bold"
    table = Table("lrrl")
    bar = min(_BAR, max(width - 60, 5))
    for name, seconds in sorted(step.parts.items(), key=lambda part: -part[1]):
        share = seconds / step.step_time
        if share >= 5e-5:
            table.add(
                PARTS.get(name, name), format_quantity(seconds, "s"), percent(share), "▇" * round(bar * share)
            )
    shown = table if table.fits(width) else table.without(3)
    yield from ((line, "") for line, _ in shown.lines(width))


def _critical(step: SimulatedStep, width: int) -> Iterator[tuple[str, str]]:
    if not step.critical:
        yield "What would shorten the step: the critical path was not followed", ""
        return
    yield "What would shorten the step: the ops on its critical path", "bold"
    header = ("op", "kind", "where", "ops", "seconds", "share", "gain")
    table = Table("lllrrrr", header=header)
    for one in step.critical[:_OPS]:
        table.add(
            one.name, one.kind, one.where, f"{one.count:,}", format_quantity(one.seconds, "s"),
            percent(one.seconds / step.step_time), format_quantity(_FASTER * one.seconds, "s", digits=3),
        )  # fmt: skip
    for gone in ((), (3,), (1, 3), (1, 2, 3)):
        shown = table.without(*gone)
        if shown.fits(width):
            break
    yield from ((line, "") for line, _ in shown.lines(width))
    rest = step.critical[_OPS:]
    if rest:
        seconds = sum(one.seconds for one in rest)
        yield from _said(f"  and {len(rest)} more, {format_quantity(seconds, 's')} together", width)
    told = (
        f"gain: what the step loses, at most, if these ops take {_FASTER * 100:.0f} % less time; beyond that another "
        "path may be the longest"
    )
    yield from ((line, "dim") for line in paragraph(told, width, indent="  "))


def simulated_data(step: SimulatedStep, *, spans: bool = False) -> dict[str, Any]:
    """A simulated step as dicts, lists and numbers in SI, for JSON and CSV.

    The timeline is told by its lanes and its seconds by kind; with `spans` every span and counter is there, too, column
    by column. A link has its mean `utilisation` beside its own fields.
    """
    held = {
        one.name: getattr(step, one.name)
        for one in fields(step)
        if one.name not in ("timeline", "links") and not (one.name == "failure" and step.failure is None)
    }
    told: dict[str, Any] = plain(held)
    told["links"] = [{**plain(use), "utilisation": utilisation(use, step.step_time)} for use in step.links]
    told["timeline"] = plain(step.timeline) if spans else _summary(step.timeline)
    return told


def _summary(timeline: Timeline) -> dict[str, Any]:
    lanes = [
        {**plain(lane), "busy": float(busy)}
        for lane, busy in zip(timeline.lanes, timeline.busy("lane"), strict=True)
    ]
    kinds = {kind: float(busy) for kind, busy in zip(timeline.kinds, timeline.busy(), strict=True)}
    return {"spans": len(timeline), "seconds": timeline.seconds, "lanes": lanes, "kinds": kinds}
