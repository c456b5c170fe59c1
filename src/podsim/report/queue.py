"""Queues and packings as tables for a terminal, and as plain rows."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from podsim.report.table import Table, console, paragraph
from podsim.results.queued import PackResult, QueueResult, QueueRun

_HEAVY = ("jct", "timeline", "users")
_USERS = 8
"""users that a single policy's report lists"""


def duration(seconds: float) -> str:
    """Text of a time from seconds to days: 42 s, 7.1 min, 3.5 h, 12.0 d."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.3g} s"


def plain_rows(result: QueueResult) -> list[dict[str, Any]]:
    """One row of numbers for each policy."""
    return [
        {
            "trace": result.trace,
            "machine": result.machine,
            "gpus": result.gpus,
            "jobs": result.jobs,
            **_plain(run),
        }
        for run in result.runs
    ]


def plain_result(result: QueueResult) -> dict[str, Any]:
    """The result with its users, without the arrays of every job and span."""
    whole = {one.name: getattr(result, one.name) for one in fields(result) if one.name != "runs"}
    return {**whole, "runs": [{**_plain(run), "users": list(run.users)} for run in result.runs]}


def _plain(run: QueueRun) -> dict[str, Any]:
    return {one.name: getattr(run, one.name) for one in fields(run) if one.name not in _HEAVY}


def _say(text: str, *, style: str = "", indent: str = "") -> None:
    from rich.text import Text

    out = console()
    for line in paragraph(text, out.width, indent=indent):
        out.print(Text(line, style=style))


def _lines(table: Table, *, best: int = -1) -> None:
    from rich.text import Text

    out = console()
    start = 1 if table.header else 0
    for place, (columns, note) in enumerate(table.lines(out.width)):
        bold = place < start or place - start == best
        out.print(Text(columns, style="bold" if bold else "").append(note, style="dim"))


def print_queue(result: QueueResult) -> None:
    """Print a queue on a screen: the policies, and for a single one its users."""
    _say(f"{result.jobs:,} jobs of {result.trace} on {result.machine}", style="bold")
    load = f", load {result.load:.0%} while jobs arrive" if result.load else ", all submitted at once"
    _say(f"{result.source}: {result.users:,} {'user' if result.users == 1 else 'users'}{load}")
    for reason, count in result.left_out.items():
        _say(f"{'Warning: ' if result.too_large else ''}{count:,} jobs left out: {reason}", style="yellow")
    if result.too_large:
        _say(f"  {'; '.join(result.too_large)}", style="yellow")
    if result.cut:
        _say(f"{result.cut:,} jobs were ended at their time limit", style="yellow")
    if result.rounded:
        _say(
            f"{result.rounded:,} jobs asked for a part of a GPU (gpu_milli) and are given a whole one, as a queue shares"
            " none; podsim pack does",
            style="yellow",
        )
    print()
    _print_runs(result)
    if len(result.runs) == 1:
        _print_one(result.runs[0])
    else:
        best = min(result.runs, key=lambda run: run.jct_mean)
        worst = max(result.runs, key=lambda run: run.jct_mean)
        if best.jct_mean == worst.jct_mean:
            print()
            _say("The mean completion time is the same under all of them.")
        elif best.jct_mean > 0:
            print()
            _say(
                f"Shortest mean completion time: {best.policy} ({best.says}), {worst.jct_mean / best.jct_mean:.2f} times"
                f" shorter than {worst.policy}."
            )


def _print_runs(result: QueueResult) -> None:
    header = (
        "policy",
        "JCT mean",
        "p50",
        "p99",
        "wait mean",
        "p99",
        "makespan",
        "in use",
        "scattered",
        "preempted",
        "fairness",
    )
    table = Table("l" + "r" * (len(header) - 1), header=header, indent=0)
    for run in result.runs:
        table.add(
            run.policy, duration(run.jct_mean), duration(run.jct_p50), duration(run.jct_p99), duration(run.wait_mean),
            duration(run.wait_p99), duration(run.makespan),
            f"{run.utilisation:.1%}", f"{run.scattered:.1%}", f"{run.preemptions:,}", f"{run.fairness:.2f}",
        )  # fmt: skip
    for column in (8, 5, 2):
        if not table.fits(console().width):
            table = table.without(column)
    _lines(table, best=min(range(len(result.runs)), key=lambda place: result.runs[place].jct_mean))


def _print_one(run: QueueRun) -> None:
    print()
    _say(f"{run.policy}: {run.says}.")
    if run.wasted:
        _say(f"{run.wasted:.1%} of the GPU time held went into starting, saving and loading.")
    if run.across:
        _say(f"{run.across:.1%} of the GPU time held was under more than one leaf switch.")
    if run.relaid or run.fragmented:
        _say(
            f"GPUs were divided anew {run.relaid:,} times; {run.fragmented:.1%} of all GPU time was free and of no use to"
            " a job of the trace, in the mean over them."
        )
    if run.late:
        _say(f"{run.late:,} reservations slipped because free GPUs were too scattered.")
    if len(run.users) < 2:
        return
    print()
    table = Table("lrrrr", header=("user", "jobs", "GPU time", "wait mean", "slowdown"), indent=0)
    for row in run.users[:_USERS]:
        table.add(
            row.user[:24], f"{row.jobs:,}", f"{row.used:.1%}", duration(row.wait), f"{row.slowdown:,.1f}"
        )
    _lines(table)
    if len(run.users) > _USERS:
        _say(f"and {len(run.users) - _USERS:,} more; --json lists all", style="dim")


def print_pack(result: PackResult) -> None:
    """Print a packing on a screen."""
    _say(
        f"{result.requests:,} kinds of request of {result.trace} on {result.nodes:,} nodes with {result.gpus:,} GPUs",
        style="bold",
    )
    many = "order" if result.seeds == 1 else "orders, mean"
    _say(f"Requests arrive until they ask for {result.load:.0%} of the GPUs; {result.seeds} random {many}")
    print()
    table = Table(
        "lrrrrw", header=("packer", "given out", "spread", "fragmented", "turned away", "chooses"), indent=0
    )
    for row in result.rows:
        table.add(
            row.packer, f"{row.allocated:.2%}", f"{row.spread:.2%}", f"{row.fragmented:.1%}", f"{row.turned_away:.1%}",
            row.says,
        )  # fmt: skip
    _lines(table, best=max(range(len(result.rows)), key=lambda place: result.rows[place].allocated))
