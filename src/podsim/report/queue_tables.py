"""Queues and packings, as reports and as plain rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from podsim.answers.queued import ContainerStart, JobStart, QueueResult, QueueRun
from podsim.report.columns import Column, Table, quantity_text
from podsim.report.screen import Block, Paragraph, Rows, bold, dim, warnings

_HEAVY = ("jct", "timeline", "users")
_USERS = 8
"""The most users that a single policy's report lists."""


def wait_text(seconds: float) -> str:
    """Text of a time from seconds to days: 42 s, 7.1 min, 3.5 h, 12.0 d."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.3g} s"


_POLICIES = Table(
    Column("policy"),
    Column("JCT mean", "jct_mean", wait_text),
    Column("p50", "jct_p50", wait_text, drop=3),
    Column("p99", "jct_p99", wait_text),
    Column("wait mean", "wait_mean", wait_text),
    Column("p99", "wait_p99", wait_text, drop=2),
    Column("makespan", "", wait_text),
    Column("in use", "utilisation", ":.1%"),
    Column("scattered", "", ":.1%", drop=1),
    Column("preempted", "preemptions", ":,"),
    Column("fairness", "", ":.2f"),
    indent=0,
)
_USER_ROWS = Table(
    Column("user", lambda row: row.user[:24]),
    Column("jobs", "", ":,"),
    Column("GPU time", "used", ":.1%"),
    Column("wait mean", "wait", wait_text),
    Column("slowdown", "", ":,.1f"),
    indent=0,
)


def plain_rows(result: QueueResult) -> list[dict[str, Any]]:
    """One row of numbers for each policy."""
    job = {"trace": result.trace, "machine": result.machine, "gpus": result.gpus, "jobs": result.jobs}
    return [{**job, **_plain_run(run)} for run in result.runs] or [vars(start) for start in result.starts]


def plain_result(result: QueueResult) -> dict[str, Any]:
    """The result with its users, without the arrays of every job and span."""
    summary = {field.name: getattr(result, field.name) for field in fields(result) if field.name != "runs"}
    return {**summary, "runs": [{**_plain_run(run), "users": list(run.users)} for run in result.runs]}


def _plain_run(run: QueueRun) -> dict[str, Any]:
    return {field.name: getattr(run, field.name) for field in fields(run) if field.name not in _HEAVY}


def queue_report(result: QueueResult) -> Iterator[Block]:
    """A queue: the policies, and for a single one its users; or the starts of waiting jobs."""
    if result.starts:
        yield from _starts_report(result)
        return
    yield bold(f"{result.jobs:,} jobs of {result.trace} on {result.machine}")
    load = f", load {result.load:.0%} while jobs arrive" if result.load else ", all submitted at once"
    yield f"{result.source}: {result.users:,} {'user' if result.users == 1 else 'users'}{load}"
    if result.warm:
        yield f'It begins with {result.warm:,} more jobs in progress. "In use" ends with the last submission.'
    if result.container is not None:
        yield Paragraph(_container_text(result.container))
    yield from (Paragraph(text, "warning") for text in _omissions(result))
    best = min(range(len(result.runs)), key=lambda index: result.runs[index].jct_mean)
    yield from ("", Rows(_POLICIES, result.runs, marked=best), "")
    if len(result.runs) == 1:
        yield from _one_policy(result.runs[0])
    else:
        yield from _best_policy(result.runs)


def _container_text(start: ContainerStart) -> str:
    size, nodes = quantity_text(start.size, "B"), f"{start.nodes:,} {'node' if start.nodes == 1 else 'nodes'}"
    return (
        f"Containers of {size}: a job computes {wait_text(start.mount)} after its start where the image is cached. To"
        f" pull it from {start.store} takes {wait_text(max(start.pull, start.pull_each))} more on one node, and"
        f" {wait_text(start.storm)} on {nodes} at once."
    )


def _starts_report(result: QueueResult) -> Iterator[Block]:
    yield from warnings(result.warnings)
    yield from (Rows(_STARTS, result.starts[:_LISTED]), "")
    if len(result.starts) > _LISTED:
        yield dim(f"and {len(result.starts) - _LISTED:,} more; --json lists all")
    yield Paragraph(
        "Times after the files were written, if all jobs run to their limits, with EASY backfill: earlier if jobs end"
        " early, later if jobs of a higher priority come. Jobs share nodes only where sinfo lists GPUs."
    )


def _start_text(start: JobStart) -> str:
    """Text of the time until a start, or of the reason why it is unknown."""
    if start.reason:
        return f"not for want of nodes: {start.reason[:40]}"
    if start.start is None:
        return "never, or when jobs without a limit end"
    return "now" if start.start == 0 else f"in {wait_text(start.start)}"


_STARTS = Table(
    Column("job"),
    Column("place", "", ":,"),
    Column("partition", lambda row: row.partition[:20]),
    Column("GPUs", "gpus", ":,"),
    Column("starts", _start_text, wrap=True),
    indent=0,
)
_LISTED = 20
"""The most waiting jobs that a report lists."""


def _omissions(result: QueueResult) -> Iterator[str]:
    """The parts of the trace that were left out or changed."""
    for reason, count in result.left_out.items():
        yield f"{'Warning: ' if result.too_large else ''}{count:,} jobs left out: {reason}"
    if result.too_large:
        yield f"  {'; '.join(result.too_large)}"
    if result.cut:
        yield f"{result.cut:,} jobs were ended at their time limit"
    if result.rounded:
        yield (
            f"{result.rounded:,} jobs asked for a part of a GPU (gpu_milli) and are given a whole one, as a queue shares"
            " none; podsim pack does"
        )


def _best_policy(runs: tuple[QueueRun, ...]) -> Iterator[str]:
    best, worst = min(runs, key=lambda run: run.jct_mean), max(runs, key=lambda run: run.jct_mean)
    if best.jct_mean == worst.jct_mean:
        yield "The mean completion time is the same under all policies."
    elif best.jct_mean > 0:
        yield (
            f"Shortest mean completion time: {best.policy} ({best.says}), {worst.jct_mean / best.jct_mean:.2f} times"
            f" shorter than {worst.policy}."
        )


def _one_policy(run: QueueRun) -> Iterator[Block]:
    yield f"{run.policy}: {run.says}."
    if run.wasted:
        yield f"{run.wasted:.1%} of the GPU time held went into starting, saving and loading."
    if run.failed or run.away:
        yield (
            f"Failures stopped jobs {run.failed:,} times and undid {run.undone:.1%} of the GPU time held; {run.away:.1%}"
            " of all GPU time was out of service."
        )
    if run.across:
        yield f"{run.across:.1%} of the GPU time held was under more than one leaf switch."
    if run.relaid or run.fragmented:
        yield (
            f"GPUs were repartitioned {run.relaid:,} times; {run.fragmented:.1%} of all GPU time was free and of no use "
            "to a job of the trace, in the mean over them."
        )
    if run.late:
        yield f"{run.late:,} reservations slipped because free GPUs were too scattered."
    if len(run.users) > 1:
        yield from ("", Rows(_USER_ROWS, run.users[:_USERS]))
    if len(run.users) > _USERS:
        yield dim(f"and {len(run.users) - _USERS:,} more; --json lists all")
