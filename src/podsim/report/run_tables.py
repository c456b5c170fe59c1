"""Long runs."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.runs import LOSSES, Goodput
from podsim.report.columns import BAR, Column, Table, days
from podsim.report.predictions import cluster_name, layout
from podsim.report.screen import Block, Rows, bold, facts, items, warnings
from podsim.units import duration, format_quantity

_DAY = 86400.0
_LOST_TIME = Table(
        Column("", "name"), Column("", "seconds", days), Column("", "share", ":.2%"), Column("", "share", BAR),
)  # fmt: skip


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
    failures = f"{run.rate * _DAY:.3g} failures of a node a day; " if run.rate else ""
    hangs = f"; {run.hang:.1%} of failures show after {duration(run.timeout)} only" if run.hang else ""
    slow = ", slow nodes apart" if run.losses.get("slow") else ""
    marks = f"Young {duration(run.young)}, Daly {duration(run.daly)}, exact {duration(run.best)}"
    checkpoint = run.checkpoint
    target = f"to {checkpoint.store or checkpoint.to}, {checkpoint.mode}"
    yield "a failure every", duration(run.mtbf), f"{failures}{run.rate_source}"
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
