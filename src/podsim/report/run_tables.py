"""Checkpoints and long runs."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.runs import LOSSES, CheckpointTime, Goodput
from podsim.report.columns import BAR, Column, Table, days
from podsim.report.predictions import cluster_name, layout
from podsim.report.screen import Block, Rows, bold, facts, items, warnings
from podsim.units import duration, format_quantity

_DAY = 86400.0
_LOST_TIME = Table(
    columns=(
        Column("", "name"), Column("", "seconds", days), Column("", "share", ":.2%"), Column("", "share", BAR),
    )
)  # fmt: skip


def checkpoint_report(checkpoint: CheckpointTime) -> Iterator[Block]:
    """A checkpoint: its content, its cost, its interval, and assumptions."""
    yield bold(
        f"Checkpoint of {checkpoint.model} on {checkpoint.gpus} GPUs of "
        f"{cluster_name(checkpoint.cluster, checkpoint.gpus)}"
    )
    yield from (layout(checkpoint.plan), "", facts(*_checkpoint_facts(checkpoint)), "")
    yield (
        f"A checkpoint every {duration(checkpoint.interval)} ({checkpoint.interval_steps:,} steps) takes "
        f"{checkpoint.share:.2%} of the time; a failure is expected every {duration(checkpoint.mtbf)}."
    )
    yield from items("Assumptions", checkpoint.assumptions)


def _checkpoint_facts(checkpoint: CheckpointTime) -> Iterator[tuple[str, str, str]]:
    size, largest, read = (
        format_quantity(size, "B") for size in (checkpoint.size, checkpoint.largest, checkpoint.read_size)
    )
    who = "all ranks divide it" if checkpoint.writers == "all" else "one replica writes what all hold"
    yield "size", size, f"{checkpoint.per_parameter:.1f} B for each parameter"
    yield "written by", f"{checkpoint.files:,} ranks", f"{who}; at most {largest} each"
    speed, full = (
        format_quantity(rate, "B/s", digits=3)
        for rate in (checkpoint.write_speed, checkpoint.bottleneck_bandwidth)
    )
    target = f"to {checkpoint.store or checkpoint.to} at {speed}: {checkpoint.bottleneck} is full ({full})"
    if checkpoint.mode == "sync":
        yield "training waits", duration(checkpoint.stall), target
    else:
        yield "training waits", duration(checkpoint.stall), "copies to the memory of the servers"
        yield "complete after", duration(checkpoint.write), target
    yield (
        "reading back",
        duration(checkpoint.read),
        f"{read} for all ranks; {checkpoint.read_bottleneck} is full",
    )


def goodput_report(run: Goodput) -> Iterator[Block]:
    """A long run: its days and their parts, the interval, the checkpoint, and assumptions."""
    yield bold(
        f"{run.model} on {run.gpus} GPUs of {cluster_name(run.cluster, run.gpus)}: "
        f"{format_quantity(run.tokens, '')} tokens"
    )
    yield from (layout(run.plan), f"{run.steps:,} steps of {format_quantity(run.step_time, 's')}")
    yield from ("", facts(*_day_facts(run)))
    total = sum(run.losses.values())
    rows = [
        {"name": LOSSES[name], "seconds": seconds, "share": seconds / total}
        for name, seconds in sorted(run.losses.items(), key=lambda item: -item[1])
        if seconds / total >= 5e-5
    ]
    yield from ("", bold("Where the time goes, mean run"), Rows(_LOST_TIME, rows))
    yield from ("", bold("Failures and checkpoints"), facts(*_cause_facts(run)))
    yield from warnings(run.warnings)
    yield from items("Assumptions", (*run.assumptions, *run.checkpoint.assumptions[:2]))


def _day_facts(run: Goodput) -> Iterator[tuple[str, str, str]]:
    ends, share, failures = run.seconds, run.effective, run.interruptions
    exact = "" if run.expected is None else f"; in closed form {days(run.expected)}"
    band = f"90 % of {run.runs:,} simulated runs: {days(ends.low)} to {days(ends.high)}; median {days(ends.median)}"
    yield "without failures", days(run.work), "training alone"
    yield "with checkpoints", days(run.failure_free), "and no failure"
    yield "with failures", days(ends.mean), f"mean{exact}. {band}"
    yield "effective time", f"{share.mean:.1%}", f"90 %: {share.low:.1%} to {share.high:.1%}"
    yield "interruptions", f"{failures.mean:,.1f}", f"90 %: {failures.low:,.0f} to {failures.high:,.0f}"


def _cause_facts(run: Goodput) -> Iterator[tuple[str, str, str]]:
    each = f"{run.rate * _DAY:.3g} failures of a node a day; " if run.rate else ""
    hangs = f"; {run.hang:.1%} of failures show after {duration(run.timeout)} only" if run.hang else ""
    slow = ", slow nodes apart" if run.losses.get("slow") else ""
    marks = f"Young {duration(run.young)}, Daly {duration(run.daly)}, exact {duration(run.best)}"
    checkpoint = run.checkpoint
    target = f"to {checkpoint.store or checkpoint.to}, {checkpoint.mode}"
    yield "a failure every", duration(run.mtbf), f"{each}{run.rate_source}"
    yield "restart", duration(run.restart), f"reading the checkpoint {duration(run.load)}{hangs}"
    yield (
        "spare nodes",
        f"{run.spares:,}",
        f"{run.blocked:.2%} of the time waits for a repair, in the long run",
    )
    size = format_quantity(checkpoint.size, "B")
    yield "checkpoint", size, f"{target}: training waits {duration(checkpoint.stall)}"
    yield "checkpoint every", duration(run.interval), f"{run.interval_steps:,} steps; best: {marks}"
    first_order = f"to first order {run.first_order:.1%}"
    yield "effective share", f"{run.efficiency:.1%}", f"in closed form{slow}; {first_order}"
