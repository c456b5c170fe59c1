"""Reports of networks under a scenario and in streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podsim.answers.scenario_run import EnsembleRun, LoadPoint, ScenarioRun, StreamRun
from podsim.report.columns import Column, Table
from podsim.report.screen import Block, Paragraph, Rows, bold, items, warnings
from podsim.units import format_quantity

_LOADS = Table(
    columns=(
        Column("of largest", "share", ":.0%"),
        Column("rate/s", "rate", ":,.4g"),
        Column("p50", "", "s", digits=3),
        Column("p90", "", "s", digits=3),
        Column("p99", "", "s", digits=3),
        Column("batch", "", ":.1f"),
        Column("busy", "", ":.0%"),
    )
)


def rate_text(rate: float) -> str:
    """A rate with four digits, and separators from a hundred."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def scenario_report(run: ScenarioRun) -> Iterator[Block]:
    """The rate of a scenario, and what requests see at lower loads."""
    count = f"{run.instances} x " if run.instances > 1 else ""
    yield bold(f"{run.model} on {count}{run.gpu}: {run.scenario}, {run.precision}, {run.engine}")
    yield from _RESULTS[run.scenario](run)
    if run.points:
        yield from ("", Rows(_LOADS, run.points), "")
    yield from warnings(run.warnings)
    yield from items("Assumptions", run.assumptions)


def scenario_rows(run: ScenarioRun) -> Sequence[object]:
    """The loads of the server scenario, or the batches of another."""
    return run.points or run.rows


def _offline(run: ScenarioRun) -> Iterator[Block]:
    yield bold(f"{rate_text(run.rate)} {run.sample}/s, in batches of {run.batch:,.0f}")


def _server(run: ScenarioRun) -> Iterator[Block]:
    limit = format_quantity(run.latency if run.is_given else run.limit or run.latency, "s", digits=3)
    yield bold(
        f"{rate_text(run.rate)} {run.sample}/s, {100 * run.percentile:.4g} % of them answered within {limit}"
    )
    if run.is_given and run.limit is not None and run.latency > run.limit:
        yield Paragraph(f"That is later than the limit of {format_quantity(run.limit, 's')}.", "alarm")
    offline = f"{run.rate / run.offline:.0%} of the offline rate, {rate_text(run.offline)}/s"
    yield f"{offline}; batches of {run.batch:,.0f} on average"


def _stream(run: ScenarioRun) -> Iterator[Block]:
    latency = format_quantity(run.latency, "s")
    size = f", {run.batch:.0f} samples a query" if run.batch > 1 else ""
    yield bold(
        f"{latency} at the {100 * run.percentile:.3g}th percentile{size}; {rate_text(run.rate)} {run.sample}/s"
    )


_RESULTS = {"offline": _offline, "server": _server, "single-stream": _stream, "multi-stream": _stream}


def streams_report(run: StreamRun) -> Iterator[Block]:
    """The streams that are carried, what carries them, and what requests see at lower loads."""
    count = f"{run.instances} x " if run.instances > 1 else ""
    yield bold(f"{run.model} on {count}{run.gpu}: {run.title}, {run.precision}, {run.engine}")
    limit, latency = (format_quantity(seconds, "s", digits=3) for seconds in (run.limit, run.p99))
    answered = f"{100 * run.percentile:.4g} % of their requests answered within"
    if run.streams == run.most:
        yield bold(f"{run.most:,} streams, {answered} {limit}: {run.speed:,.0f} x real time")
    elif run.is_carried:
        yield bold(f"{run.streams:,} of at most {run.most:,} streams: {answered} {latency}")
    else:
        yield Paragraph(f"{run.streams:,} streams are too many: at most {run.most:,} within {limit}", "alarm")
    units = ", ".join(f"{name} {int(streams):,}" for name, streams in run.units.items())
    yield f"Streams by unit: {units}; batches of {run.batch:,.0f} on average"
    yield from ("", Rows(_streams(run), run.points), "")
    yield from warnings(run.warnings)
    yield from items("Assumptions", run.assumptions)


def _streams(run: StreamRun) -> Table:
    """The columns of loads in streams."""

    def streams(point: LoadPoint) -> int:
        return round(point.share * run.most)

    return Table(columns=(Column("streams", streams, ":,d"), *_LOADS.columns[1:]))


_STEPS = Table(
    columns=(
        Column("step", "name"),
        Column("runs"),
        Column("carries/s", "capacity", rate_text, align="r"),
        Column("use", "share", ":.0%"),
        Column("in step", "spent", "s", digits=3),
        Column("batch", "", ":.1f"),
    )
)


def ensemble_report(run: EnsembleRun) -> Iterator[Block]:
    """The rate of an ensemble, its steps, and what requests see at lower loads."""
    count = f"{run.instances} x " if run.instances > 1 else ""
    yield bold(f"{run.model} on {count}{run.gpu}: {len(run.steps)} steps")
    latency = format_quantity(run.latency, "s", digits=3)
    yield bold(
        f"{rate_text(run.rate)} requests/s, {100 * run.percentile:.4g} % of them answered within {latency}"
    )
    if not run.is_in_time:
        yield Paragraph(f"That is later than the limit of {format_quantity(run.limit or 0.0, 's')}.", "alarm")
    lone = format_quantity(run.lone, "s", digits=3)
    yield f"A lone request takes {lone}; at most {rate_text(run.capacity)} requests/s, limited by {run.bottleneck}"
    yield from ("", Rows(_STEPS, run.steps), "", Rows(_LOADS, run.points), "")
    yield from warnings(run.warnings)
    yield from items("Assumptions", run.assumptions)
