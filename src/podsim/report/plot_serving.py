"""Inference in charts: throughput over latency, times over the load, tokens of a GPU over those of a user."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.answers.best_serving import BestServing
from podsim.answers.scenario_run import EnsembleRun, LoadPoint, ScenarioRun, StreamRun
from podsim.answers.served import Served, ServedBatch
from podsim.answers.served_load import ServedLoad
from podsim.report.chart_marks import INK, MUTED, Axis, Chart, Mark, Rule, Series, Sheet


def served_figure(served: Served) -> Sheet:
    """Throughput over latency, a point for each batch; the limit as a line."""
    title = f"{served.model} on {served.gpu}: {served.precision}, {served.engine}"
    limit = [Rule(1e3 * served.limit / 2, "half of the limit", 1, "-")] if served.limit is not None else []
    return _batches(title, served.rows, limit)


def _batches(title: str, rows: Sequence[ServedBatch], limit: Sequence[Mark] = ()) -> Sheet:
    """A point for each batch that fits, or for all if none does."""
    shown = [row for row in rows if row.fits] or list(rows)
    latencies, rates = [1e3 * row.latency for row in shown], [row.throughput for row in shown]
    points = Series(latencies, rates, mark="o", labels=[f"{row.batch}" for row in shown])
    along = Axis("latency of a batch, ms; labels are batches", "log")
    return Sheet(
        title, [Chart([points, *limit], x=along, y=Axis("throughput of one instance, 1/s", low=0.0))]
    )


def scenario_figure(run: ScenarioRun) -> Sheet:
    """Percentiles of the latency over the rate of requests, with the limit; without rates, the batches."""
    title = f"{run.model} on {run.instances} x {run.gpu}: {run.scenario}, {run.precision}"
    if not run.points:
        return _batches(title, run.rows)
    return _percentiles(title, [point.rate for point in run.points], f"{run.sample}/s", run.points, run.limit)


def streams_figure(run: StreamRun) -> Sheet:
    """Percentiles of the latency over the number of streams, with the limit."""
    title = f"{run.model} on {run.instances} x {run.gpu}: {run.title}"
    return _percentiles(
        title, [point.share * run.most for point in run.points], "streams", run.points, run.limit
    )


def ensemble_figure(run: EnsembleRun) -> Sheet:
    """Percentiles of the latency over the rate of requests, with the limit."""
    title = f"{run.model} on {run.instances} x {run.gpu}: {len(run.steps)} steps"
    return _percentiles(title, [point.rate for point in run.points], "requests/s", run.points, run.limit)


def _percentiles(
    title: str, loads: Sequence[float], along: str, points: Sequence[LoadPoint], limit: float | None
) -> Sheet:
    marks: list[Mark] = [
        Series(loads, [1e3 * getattr(point, name) for point in points], name, colour, mark="o")
        for name, colour in (("p99", 1), ("p90", 2), ("p50", 0))
    ]
    if limit is not None:
        marks.append(Rule(1e3 * limit, "limit", INK, is_level=True))
    return Sheet(title, [Chart(marks, x=Axis(along), y=Axis("latency, ms", low=0.0))])


def load_figure(served: ServedLoad) -> Sheet:
    """First token, each token and end to end over the rate of arrivals, with the rate of saturation."""
    rates = [point.rate for point in served.curve]
    marks: list[Mark] = []
    for colour, field in enumerate(("end_to_end", "first_token", "each_token")):
        name = field.replace("_", " ")
        median = [getattr(point, field) for point in served.curve]
        marks.append(Series(rates, median, f"{name}, p50", colour, mark="o"))
        if field != "each_token":
            tail = [getattr(point, f"{field}_p99") for point in served.curve]
            marks.append(Series(rates, tail, f"{name}, p99", colour, "--", width=1.1))
    marks += [Rule(served.saturation, "saturation", line="-"), Rule(served.rate, "this load", line=":")]
    chart = Chart(
        marks, x=Axis("requests that arrive, 1/s", low=0.0), y=Axis("time, s", "log"), legend="right"
    )  # fmt: skip
    return Sheet(f"{served.model} on {served.on}: {served.workload}", [chart])


def best_figure(answer: BestServing) -> Sheet:
    """The front, the simulated ways at this load, and the limit of the time per token."""
    user, gpu = [point.user for point in answer.front], [point.gpu for point in answer.front]
    words = [point.words for point in answer.front]
    marks: list[Mark] = [
        Series(user, gpu, colour=MUTED, width=1.0, is_stepped=True),
        Series(user, gpu, "Pareto front, any load, one pool", 0, "", "o", labels=words),
    ]
    if alike := [point for point in answer.measured if point.is_alike]:
        rates = [point.user for point in alike], [point.gpu for point in alike]
        notes = [point.words for point in alike]
        marks.append(Series(*rates, "measured, any load and format", 3, "", "o", is_hollow=True, notes=notes))
    for keeps, colour, mark, label in ((True, 2, "s", "keep the limits"), (False, 1, "x", "do not")):
        if ways := [way for way in answer.ways if way.keeps is keeps]:
            rates = [way.tokens_per_user for way in ways], [way.tokens_per_gpu for way in ways]
            marks.append(Series(*rates, f"simulated at this load: {label}", colour, "", mark))
    if answer.each_limit is not None:
        marks.append(Rule(1 / answer.each_limit, "limit of each token", INK))
    along = Axis("tokens/s per user", low=0.0, high=1.18 * max(user, default=1.0))
    chart = Chart(marks, x=along, y=Axis("output tokens/s per GPU", low=0.0), legend="upper right")
    return Sheet(f"{answer.model} on {answer.cluster}: {answer.rate:,.4g} requests/s", [chart])
