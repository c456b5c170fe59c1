"""Checkpoints and long runs as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from podsim.report.columns import days, duration
from podsim.report.predictions import layout
from podsim.report.table import Table, console, paragraph
from podsim.results.runs import LOSSES, CheckpointTime, Goodput, Quantiles
from podsim.units import format_quantity

_DAY = 86400.0
_BAR = 24


def print_checkpoint(found: CheckpointTime) -> None:
    """Print a checkpoint on a screen."""
    _print(checkpoint_text(found, console().width))


def print_goodput(found: Goodput) -> None:
    """Print a long run on a screen."""
    _print(goodput_text(found, console().width))


def _print(lines: Iterable[str]) -> None:
    from rich.text import Text

    out = console()
    for place, line in enumerate(lines):
        out.print(Text(line, style="bold" if place == 0 else ""))


def _table(rows: Iterable[tuple[str, str, str]], width: int) -> list[str]:
    """Names, values to the right, and what is said of them beside or below."""
    table = Table("lrw")
    for row in rows:
        table.add(*row)
    return [columns + note for columns, note in table.lines(width)]


def checkpoint_text(found: CheckpointTime, width: int) -> list[str]:
    """Lines about a checkpoint: what it holds, what it costs, how often, what was assumed."""
    place = found.store or found.to
    lines = paragraph(
        f"Checkpoint of {found.model} on {found.gpus} GPUs of {found.cluster.removesuffix(f' ({found.gpus} GPUs)')}",
        width,
    )
    lines += paragraph(layout(found.plan), width)
    lines += ["", *_table(_checkpoint_rows(found, place), width), ""]
    lines += paragraph(
        f"A checkpoint every {duration(found.interval)} ({found.interval_steps:,} steps) takes {found.share:.2%} of the "
        f"time; a failure is expected every {duration(found.mtbf)}.",
        width,
    )
    return [*lines, *_assumptions(found.assumptions, width)]


def _checkpoint_rows(found: CheckpointTime, place: str) -> list[tuple[str, str, str]]:
    who = "all ranks divide it" if found.writers == "all" else "one replica writes what all hold"
    rows = [
        ("size", format_quantity(found.size, "B"), f"{found.per_parameter:.1f} B for each parameter"),
        (
            "written by",
            f"{found.files:,} ranks",
            f"{who}; at most {format_quantity(found.largest, 'B', digits=3)} each",
        ),
    ]
    fullest = f"{found.bottleneck} is full ({format_quantity(found.bottleneck_bandwidth, 'B/s', digits=3)})"
    speed = f"to {place} at {format_quantity(found.write_speed, 'B/s', digits=3)}: {fullest}"
    if found.mode == "sync":
        rows.append(("training waits", duration(found.stall), speed))
    else:
        rows.append(("training waits", duration(found.stall), "copies to the memory of the servers"))
        rows.append(("complete after", duration(found.write), speed))
    read = f"{format_quantity(found.read_size, 'B')} for all ranks; {found.read_bottleneck} is full"
    rows.append(("reading back", duration(found.read), read))
    return rows


def goodput_text(found: Goodput, width: int) -> list[str]:
    """Lines about a long run: days, where they go, the interval, the checkpoint, what was assumed."""
    lines = paragraph(
        f"{found.model} on {found.gpus} GPUs of {found.cluster.removesuffix(f' ({found.gpus} GPUs)')}: "
        f"{format_quantity(found.tokens, '')} tokens",
        width,
    )
    lines += paragraph(layout(found.plan), width)
    lines += paragraph(f"{found.steps:,} steps of {format_quantity(found.step_time, 's')}", width)
    lines += ["", *_table(_day_rows(found), width)]
    lines += ["", "Where the time goes, mean run", *_loss_rows(found)]
    lines += ["", "Failures and checkpoints", *_table(_cause_rows(found), width)]
    for warning in found.warnings:
        lines += paragraph(f"Warning: {warning}", width)
    return [*lines, *_assumptions((*found.assumptions, *found.checkpoint.assumptions[:2]), width)]


def _day_rows(found: Goodput) -> list[tuple[str, str, str]]:
    ends = found.seconds
    exact = "" if found.expected is None else f"; in closed form {days(found.expected)}"
    band = f"90 % of {found.runs:,} simulated runs: {days(ends.low)} to {days(ends.high)}; median {days(ends.median)}"
    failures = found.interruptions
    return [
        ("without failures", days(found.work), "training alone"),
        ("with checkpoints", days(found.failure_free), "and no failure"),
        ("with failures", days(ends.mean), f"mean{exact}. {band}"),
        ("effective time", f"{found.effective.mean:.1%}", f"90 %: {_percents(found.effective)}"),
        ("interruptions", f"{failures.mean:,.1f}", f"90 %: {failures.low:,.0f} to {failures.high:,.0f}"),
    ]


def _percents(found: Quantiles) -> str:
    return f"{found.low:.1%} to {found.high:.1%}"


def _loss_rows(found: Goodput) -> list[str]:
    table = Table("lrrl")
    whole = sum(found.losses.values())
    for name, seconds in sorted(found.losses.items(), key=lambda item: -item[1]):
        share = seconds / whole
        if share >= 5e-5:
            table.add(LOSSES[name], days(seconds), f"{share:.2%}", "▇" * round(_BAR * share))
    return [columns for columns, _ in table.lines(console().width)]


def _cause_rows(found: Goodput) -> list[tuple[str, str, str]]:
    each = f"{found.rate * _DAY:.3g} failures of a node a day; " if found.rate else ""
    checkpoint = found.checkpoint
    where = checkpoint.store or checkpoint.to
    hangs = f"; {found.hang:.1%} of failures show after {duration(found.timeout)} only" if found.hang else ""
    slow = ", slow nodes apart" if found.losses.get("slow") else ""
    marks = f"Young {duration(found.young)}, Daly {duration(found.daly)}, exact {duration(found.best)}"
    return [
        ("a failure every", duration(found.mtbf), f"{each}{found.rate_source}"),
        ("restart", duration(found.restart), f"reading the checkpoint {duration(found.load)}{hangs}"),
        (
            "spare nodes",
            f"{found.spares:,}",
            f"{found.blocked:.2%} of the time waits for a repair, in the long run",
        ),
        (
            "checkpoint",
            format_quantity(checkpoint.size, "B"),
            f"to {where}, {checkpoint.mode}: training waits {duration(checkpoint.stall)}",
        ),
        ("checkpoint every", duration(found.interval), f"{found.interval_steps:,} steps; best: {marks}"),
        (
            "effective share",
            f"{found.efficiency:.1%}",
            f"in closed form{slow}; to first order {found.first_order:.1%}",
        ),
    ]


def _assumptions(said: Iterable[str], width: int) -> list[str]:
    lines = ["", "Assumptions"]
    for one in said:
        lines += paragraph(one, width, first="  - ", indent="    ")
    return lines
