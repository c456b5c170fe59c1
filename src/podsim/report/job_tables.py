"""A chain of jobs as a table."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.job_chain import JobChain
from podsim.report.columns import Column, Table
from podsim.report.screen import Block, Paragraph, Rows, bold
from podsim.units import format_quantity

_DAY = 86400.0


def jobs_report(chain: JobChain) -> Iterator[Block]:
    """A row for each job, what has no answer, and the whole chain."""
    columns = (
        Column("job", "name", wrap=True),
        Column("trains", "train"),
        Column("GPUs", "gpus", ":d"),
        Column("tokens", "", lambda count: format_quantity(count, "", digits=3)),
        Column("step", "step_time", "s", digits=3),
        Column("memory", "", "B", digits=3, drop=1),
        Column("from day", "start", _days),
        Column("to day", "end", _days),
        Column("money", "cost", lambda dollars: f"${dollars:,.0f}"),
    )
    yield bold(chain.title)
    yield from ("", Rows(Table(columns=columns), chain.rows), "")
    for row in chain.rows:
        if row.reason:
            yield Paragraph(f"{row.name}: {row.status}: {row.reason}", "alarm")
    if chain.seconds is not None:
        money = "" if chain.cost is None else f", ${chain.cost:,.0f}"
        yield bold(f"All jobs: {_days(chain.seconds)} days{money}, with failures.")


def _days(seconds: float) -> str:
    days = seconds / _DAY
    return f"{days:,.1f}" if days >= 1 else f"{days:.2g}"
