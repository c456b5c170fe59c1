"""Tables of times to a target."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.minutes import BenchmarkMinutes, MinutesTable, TargetPlan, TargetRun
from podsim.report.columns import Column, Table, rate_text
from podsim.report.screen import Block, Paragraph, Rows, bold, dim, items


def minutes_report(table: MinutesTable) -> Iterator[Block]:
    """Each benchmark at scale and for one GPU, predicted and published."""
    yield bold(f"MLPerf Training {table.round} on {table.cluster} ({table.gpu}): minutes to the target")
    columns = [
        Column("benchmark", lambda row: row.title.partition(",")[0]),
        Column("GPUs", lambda row: f"{row.run.gpus:,}" if row.run else "-", align="r"),
        Column("batch", lambda row: f"{row.run.batch:,.0f}" if row.run else "-", align="r", drop=2),
        Column("epochs", lambda row: f"{row.run.epochs:.3g}" if row.run else "-", align="r", drop=3),
        Column("minutes", lambda row: _time(row.run and row.run.seconds, 60), align="r"),
        Column("8 of 10 runs", _band, align="r", drop=4),
        Column("published", lambda row: _time(row.published, 60), align="r"),
        Column("error", lambda row: _error(row.error), align="r"),
    ]
    if any(row.node for row in table.rows):
        columns += [
            Column("one GPU, h", lambda row: _time(row.node and row.node.gpu_seconds, 3600), align="r"),
            Column("published", lambda row: _time(_published_gpu_seconds(row), 3600), align="r"),
            Column("error", lambda row: _error(row.node_error), align="r"),
        ]
    yield Rows(Table(*columns), table.rows)
    if table.mean_error is not None:
        roles = ", ".join(f"{role} {error:.1%}" for role, error in table.mean_errors.items())
        yield bold(f"Mean error of {table.compared} published times: {table.mean_error:.1%} ({roles})")
    notes = [f"{row.title}: {note}" for row in table.rows for note in row.notes]
    yield from items("Notes", notes)
    if any(row.node for row in table.rows):
        yield dim("One GPU: hours on one node times its GPUs, as published tables count them.")


def _time(seconds: float | None, unit: float) -> str:
    if seconds is None:
        return "-"
    return f"{seconds / unit:,.2f}" if seconds < 100 * unit else f"{seconds / unit:,.0f}"


def _band(row: BenchmarkMinutes) -> str:
    if row.run is None:
        return "-"
    return f"{_time(row.run.seconds_low, 60)} to {_time(row.run.seconds_high, 60)}"


def _error(error: float | None) -> str:
    return "" if error is None else f"{error:+.0%}"


def _published_gpu_seconds(row: BenchmarkMinutes) -> float | None:
    return None if row.node is None or row.node_published is None else row.node_published * row.node.gpus


def target_report(plan: TargetPlan) -> Iterator[Block]:
    """The best batch and GPUs to a target, and the best run of each number of GPUs."""
    best, unit = plan.best.run, "tokens" if plan.benchmark == "transformer" else plan.sample
    goal = "the least time" if plan.objective == "time" else "the least money"
    yield bold(f"{plan.title} to {plan.target} on {plan.cluster} ({plan.gpu}), MLPerf {plan.round}")
    money = "" if plan.best.usd is None else f", {rate_text(plan.best.usd)} USD ({plan.price})"
    count = f"{best.gpus:,} GPU{'s' if best.gpus > 1 else ''}, batch {best.batch:,.0f} {unit}"
    yield Paragraph(
        f"For {goal}: {count}: {_time(best.seconds, 60)} minutes, "
        f"8 of 10 runs {_time(best.seconds_low, 60)} to {_time(best.seconds_high, 60)}{money}"
    )
    end, is_last = plan.end.run, plan.end is plan.choices[-1]
    start = "Strong scaling has not ended" if is_last else "Strong scaling ends"
    yield Paragraph(
        f"{start} at {end.gpus:,} GPUs, batch {end.batch:,.0f}: {plan.why}."
        + ("" if is_last else " Twice the GPUs save less than a quarter of the time, not half.")
    )
    columns = (
        Column("GPUs", lambda row: f"{row.run.gpus:,}", align="r"),
        Column("batch", lambda row: f"{row.run.batch:,.0f}", align="r"),
        Column("steps", lambda row: f"{row.run.steps:,.0f}", align="r"),
        Column("epochs", lambda row: f"{row.run.epochs:.3g}", align="r"),
        Column("minutes", lambda row: _time(row.run.seconds, 60), align="r"),
        Column("saves", lambda row: "" if row.saved is None else f"{row.saved:.0%}", align="r"),
        Column("startup, evaluation", lambda row: _share(row.run), align="r", drop=2),
        Column("GPU efficiency", lambda row: f"{row.efficiency:.0%}", align="r", drop=1),
        Column("USD", "usd", rate_text),
        Column("", lambda row: "best" if row is plan.best else "end" if row is plan.end else ""),
    )
    yield Rows(Table(*columns), plan.choices)
    yield dim(f"Costed: {best.how}.")
    yield from items("Notes", plan.notes)


def _share(run: TargetRun) -> str:
    return f"{(run.startup + run.evaluation) / run.seconds:.0%}"
