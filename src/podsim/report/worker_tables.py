"""Data-parallel workers over many steps: speed, idle time, staleness, the servers' links; as reports and as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from podsim.answers.exchanged import ExchangeRun, Tradeoff
from podsim.report.columns import BAR, Column, Table, percent
from podsim.report.plain_data import plain_value
from podsim.report.screen import Block, Paragraph, Rows, bold, dim
from podsim.units import format_quantity

_BINS = 10
_WEIGHTS = {"local": "local SGD", "diloco": "DiLoCo"}
_ALIKE = 0.0005
"""The difference below which shares of idle time print alike."""
_SHARES = Table(Column("", "0"), Column("", "1", percent), Column("", "1", BAR))
_STALENESS = Table(Column("", "0", align="r"), Column("", "1", percent), Column("", "1", BAR))


def exchange_data(run: ExchangeRun) -> dict[str, Any]:
    """One exchange as dicts, lists and numbers in SI; links by what they carried, the timeline by its length."""
    held = {
        field.name: getattr(run, field.name)
        for field in fields(run)
        if field.name not in ("links", "timeline") and (field.name != "to_loss" or run.to_loss is not None)
    }
    data: dict[str, Any] = plain_value(held)
    for use in run.links:
        data[f"server_{use.name.split()[0]}"] = {
            "bytes": use.bytes, "busy": use.busy / run.seconds,
            "utilisation": use.bytes / use.capacity / run.seconds,
        }  # fmt: skip
    return {**data, "spans": len(run.timeline)}


def bound_name(run: ExchangeRun) -> str:
    """ "all-reduce", "0", "4", "none": the name of a run's bound."""
    if not run.servers:
        return f"{_WEIGHTS[run.exchange]} {run.every}" if run.exchange in _WEIGHTS else "all-reduce"
    return "none" if run.bound is None else f"{run.bound:,}"


def _rate_text(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


def _servers(run: ExchangeRun) -> str:
    where = " on workers' machines" if run.beside else ""
    return f"{run.servers:,} parameter server{'s' if run.servers > 1 else ''}{where}"


def _exchange_text(run: ExchangeRun) -> str:
    """How the workers exchange, in words."""
    each = "step" if run.every == 1 else f"{run.every} steps"
    if run.exchange in _WEIGHTS:
        return f"{_WEIGHTS[run.exchange]}, weights after every {each}"
    if not run.servers:
        return f"all-reduce after every {each}"
    servers = _servers(run)
    if run.bound is None:
        return f"{servers}, every {each}, nobody waits"
    if run.bound == 0:
        return f"{servers}, all wait after every {each}"
    ahead = "1 round" if run.bound == 1 else f"{run.bound} rounds"
    return f"{servers}, every {each}, at most {ahead} ahead of the slowest"


def _workers_text(run: ExchangeRun) -> str:
    overlap = f", {percent(run.overlap)} of it during the exchange" if run.overlap else ""
    members = f" of {run.members} replicas" if run.members > 1 else ""
    count = f"{run.workers:,} worker{'s' if run.workers > 1 else ''}{members}"
    gradients, weights = (format_quantity(size, "B") for size in (run.gradients, run.weights))
    return f"{count}, {format_quantity(run.compute, 's')} a step{overlap}; each sends {gradients} and gets {weights}"


def exchange_report(run: ExchangeRun) -> Iterator[Block]:
    """One exchange: speed, the parts of a worker's time, staleness, links."""
    yield from (bold(f"{run.name}: {_exchange_text(run)}"), _workers_text(run), "")
    samples = (
        "" if run.samples_per_second is None else f", {_rate_text(run.samples_per_second)} samples/s of all"
    )
    yield bold(f"{_rate_text(run.steps_per_second)} steps/s of a worker{samples}")
    if run.to_loss is not None:
        yield from _to_loss(run)
    yield f"{format_quantity(run.seconds, 's')} looked at, until the first worker finished step {run.steps:,}"
    shares = [("compute", 1.0 - run.idle), ("exchange", run.moving), ("wait for others", run.waiting)]
    yield from ("", bold("What a worker does with its time, mean"), Rows(_SHARES, shares))
    order = sorted(range(run.workers), key=lambda worker: -run.idle_each[worker])
    most, least = run.idle_each[order[0]], run.idle_each[order[-1]]
    if most - least > _ALIKE:
        yield f"Idle: worker {order[0]} most, {percent(most)}; worker {order[-1]} least, {percent(least)}"
    yield ""
    yield from _staleness(run)
    yield from _links(run)


def _to_loss(run: ExchangeRun) -> Iterator[Block]:
    """When the run reaches its loss, and what that rests on."""
    time = run.to_loss
    if time is None:
        return
    yield bold(f"loss {time.loss:g} after {format_quantity(time.seconds, 's')}")
    error = f" (within {percent(time.error)} on podsim's own runs)" if time.growth != 1 else ""
    yield Paragraph(
        f"{time.in_step:,.0f} rounds in step {time.source}, times {time.growth:.2f}{error}", indent="  "
    )


def _staleness(run: ExchangeRun) -> Iterator[Block]:
    yield bold("Staleness: others' updates between a worker's read and its write")
    if run.bound == 0:
        yield "  none: the gradients of a round are added to the same weights, together"
        return
    yield (
        f"  mean {run.staleness:.1f}, 99 % within {run.staleness_p99:.0f}, most {run.staleness_most:,}; at most "
        f"{run.ahead:,} round{'s' if run.ahead != 1 else ''} ahead of the slowest"
    )
    size = -(-len(run.histogram) // _BINS)
    total = max(sum(run.histogram), 1)
    rows = [
        (f"{low}" if size == 1 else f"{low}-{low + size - 1}", sum(run.histogram[low : low + size]) / total)
        for low in range(0, len(run.histogram), size)
    ]
    yield Rows(_STALENESS, rows)


def _links(run: ExchangeRun) -> Iterator[Block]:
    if not run.links:
        return
    yield from ("", bold(f"Links of each server, {format_quantity(run.links[0].capacity, 'B/s')} one way"))
    columns = (
        Column("link", "name"),
        Column("bytes", "", "B"),
        Column("busy", lambda use: use.busy / run.seconds, percent),
        Column("utilisation", lambda use: use.bytes / use.capacity / run.seconds, percent),
    )
    yield Rows(Table(*columns), run.links)


def _busiest(run: ExchangeRun) -> float | None:
    return max(use.busy for use in run.links) / run.seconds if run.links else None


_TRADEOFF = Table(
    Column("bound", bound_name),
    Column("steps/s", "steps_per_second", _rate_text),
    Column("samples/s", "samples_per_second", _rate_text, optional=True),
    Column("idle", "", percent),
    Column("waiting", "", percent),
    Column("stale", "staleness", ":.1f"),
    Column("p99", "staleness_p99", ":.0f"),
    Column("ahead", "", ":,"),
    Column("server busy", _busiest, percent, missing="-", drop=1),
    Column("to loss", lambda run: run.to_loss and run.to_loss.seconds, "s", optional=True),
)


def tradeoff_report(compared: Tradeoff) -> Iterator[Block]:
    """A comparison of exchanges."""
    served = [run for run in compared.runs if run.servers][-1]
    yield from (bold(f"{compared.name}: idle time against staleness"), _workers_text(served))
    yield f"By all-reduce, or over {_servers(served)}; bound: rounds ahead of the slowest"
    yield from ("", Rows(_TRADEOFF, compared.runs))
    if compared.first is not None and compared.first.to_loss is not None:
        time = compared.first.to_loss
        yield bold(
            f"Loss {time.loss:g} first: bound {bound_name(compared.first)}, after {format_quantity(time.seconds, 's')}"
        )
        errors = [run.to_loss.error for run in compared.runs if run.to_loss is not None]
        yield Paragraph(
            f"{time.in_step:,.0f} rounds in step {time.source}; the growth of rounds by staleness is podsim's own "
            f"measurement of a small GPT, within {percent(max(errors))}",
            indent="  ",
        )
    yield dim(
        "stale: others' updates between a worker's read and its write, mean; the same durations in every row"
    )


def tradeoff_rows(compared: Tradeoff) -> list[dict[str, Any]]:
    """The runs of a comparison as plain data."""
    return [exchange_data(run) for run in compared.runs]


def tradeoff_data(compared: Tradeoff) -> dict[str, Any]:
    """A comparison as plain data."""
    return {"name": compared.name, "runs": tradeoff_rows(compared)}
