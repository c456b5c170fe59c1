"""Data-parallel workers over many steps as text and as data: speed, idle time, staleness, the servers' links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from podsim.report.columns import percent
from podsim.report.data import plain
from podsim.report.table import Table, console, paragraph
from podsim.results.exchanged import ExchangeRun, Tradeoff
from podsim.units import format_quantity

_BAR, _BINS = 30, 10
_ALIKE = 0.0005
"""shares of idle time that print alike"""


def print_exchange(run: ExchangeRun) -> None:
    """Print one exchange on a screen."""
    _print(_run_lines(run, console().width))


def print_tradeoff(compared: Tradeoff) -> None:
    """Print a comparison of exchanges on a screen."""
    _print(_tradeoff_lines(compared, console().width))


def exchange_text(run: ExchangeRun, width: int = 100) -> str:
    """The text of one exchange, lines of at most `width`."""
    return "\n".join(line for line, _ in _run_lines(run, width)) + "\n"


def tradeoff_text(compared: Tradeoff, width: int = 100) -> str:
    """The text of a comparison, lines of at most `width` where the table allows."""
    return "\n".join(line for line, _ in _tradeoff_lines(compared, width)) + "\n"


def exchange_data(run: ExchangeRun) -> dict[str, Any]:
    """One exchange as dicts, lists and numbers in SI; links by what they carried, the timeline by its length."""
    held = {one.name: getattr(run, one.name) for one in fields(run) if one.name not in ("links", "timeline")}
    told: dict[str, Any] = plain(held)
    for use in run.links:
        short = use.name.split()[0]
        told[f"server_{short}"] = {
            "bytes": use.bytes, "busy": use.busy / run.seconds,
            "utilisation": use.bytes / use.capacity / run.seconds,
        }  # fmt: skip
    return {**told, "spans": len(run.timeline)}


def bound_name(run: ExchangeRun) -> str:
    """ "all-reduce", "0", "4", "none": what a run's bound is called."""
    if not run.servers:
        return "all-reduce"
    return "none" if run.bound is None else f"{run.bound:,}"


def _print(lines: Iterator[tuple[str, str]]) -> None:
    from rich.text import Text

    out = console()
    for line, style in lines:
        out.print(Text(line, style=style))


def _said(text: str, width: int, style: str = "") -> Iterator[tuple[str, str]]:
    return ((line, style) for line in paragraph(text, width))


def _rate(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


def _how(run: ExchangeRun) -> str:
    """How the workers exchange, in words."""
    each = "step" if run.every == 1 else f"{run.every} steps"
    if not run.servers:
        return f"all-reduce after every {each}"
    where = "" if not run.beside else " beside workers"
    servers = f"{run.servers:,} parameter server{'s' if run.servers > 1 else ''}{where}"
    if run.bound is None:
        return f"{servers}, every {each}, nobody waits"
    if run.bound == 0:
        return f"{servers}, all wait after every {each}"
    ahead = "1 round" if run.bound == 1 else f"{run.bound} rounds"
    return f"{servers}, every {each}, at most {ahead} ahead of the slowest"


def _who(run: ExchangeRun) -> str:
    beside = f", {percent(run.overlap)} of it beside the exchange" if run.overlap else ""
    members = f" of {run.members} replicas" if run.members > 1 else ""
    count = f"{run.workers:,} worker{'s' if run.workers > 1 else ''}{members}"
    return (
        f"{count}, {format_quantity(run.compute, 's')} a step{beside}; each sends "
        f"{format_quantity(run.gradients, 'B')} and gets {format_quantity(run.weights, 'B')}"
    )


def _run_lines(run: ExchangeRun, width: int) -> Iterator[tuple[str, str]]:
    yield from _said(f"{run.name}: {_how(run)}", width, "bold")
    yield from _said(_who(run), width)
    yield "", ""
    samples = "" if run.samples_per_second is None else f", {_rate(run.samples_per_second)} samples/s of all"
    yield from _said(f"{_rate(run.steps_per_second)} steps/s of a worker{samples}", width, "bold")
    looked = (
        f"{format_quantity(run.seconds, 's')} looked at, until the first worker finished step {run.steps:,}"
    )
    yield from _said(looked, width)
    yield "", ""
    yield "What a worker does with its time, mean", "bold"
    table = Table("lrl")
    parts = {"compute": 1.0 - run.idle, "exchange": run.moving, "wait for others": run.waiting}
    for name, share in parts.items():
        table.add(name, percent(share), "▇" * round(_BAR * share))
    yield from ((line, "") for line, _ in table.lines(width))
    order = sorted(range(run.workers), key=lambda w: -run.idle_each[w])
    least, most = run.idle_each[order[-1]], run.idle_each[order[0]]
    if most - least > _ALIKE:
        yield from _said(
            f"Idle: worker {order[0]} most, {percent(most)}; worker {order[-1]} least, {percent(least)}",
            width,
        )
    yield "", ""
    yield from _stale_lines(run, width)
    yield from _link_lines(run, width)


def _stale_lines(run: ExchangeRun, width: int) -> Iterator[tuple[str, str]]:
    yield "Staleness: others' updates between a worker's read and its write", "bold"
    if run.bound == 0:
        yield from _said("  none: the gradients of a round are added to the same weights, together", width)
        return
    yield from _said(
        f"  mean {run.staleness:.1f}, 99 % within {run.staleness_p99:.0f}, most {run.staleness_most:,}; at most "
        f"{run.ahead:,} round{'s' if run.ahead != 1 else ''} ahead of the slowest", width,
    )  # fmt: skip
    table = Table("rrl")
    wide = -(-len(run.histogram) // _BINS)
    bins = [sum(run.histogram[at : at + wide]) for at in range(0, len(run.histogram), wide)]
    whole = max(sum(bins), 1)
    for place, count in enumerate(bins):
        low, high = place * wide, place * wide + wide - 1
        label = f"{low}" if wide == 1 else f"{low}-{high}"
        table.add(label, percent(count / whole), "▇" * round(_BAR * count / whole))
    yield from ((line, "") for line, _ in table.lines(width))


def _link_lines(run: ExchangeRun, width: int) -> Iterator[tuple[str, str]]:
    if not run.links:
        return
    yield "", ""
    yield f"Links of each server, {format_quantity(run.links[0].capacity, 'B/s')} one way", "bold"
    table = Table("lrrr", header=("link", "bytes", "busy", "utilisation"))
    for use in run.links:
        table.add(
            use.name, format_quantity(use.bytes, "B"), percent(use.busy / run.seconds),
            percent(use.bytes / use.capacity / run.seconds),
        )  # fmt: skip
    yield from ((line, "") for line, _ in table.lines(width))


def _tradeoff_lines(compared: Tradeoff, width: int) -> Iterator[tuple[str, str]]:
    served = compared.runs[-1]
    yield from _said(f"{compared.name}: idle time against staleness", width, "bold")
    yield from _said(_who(served), width)
    beside = " beside workers" if served.beside else ""
    servers = f"{served.servers:,} parameter server{'s' if served.servers > 1 else ''}{beside}"
    yield from _said(f"By all-reduce, or over {servers}; bound: rounds ahead of the slowest", width)
    yield "", ""
    known = served.samples_per_second is not None
    header = (
        "bound", "steps/s", *(("samples/s",) if known else ()), "idle", "waiting", "stale", "p99", "ahead", "server busy",
    )  # fmt: skip
    table = Table("l" + "r" * (len(header) - 1), header=header)
    for run in compared.runs:
        busy = max((use.busy for use in run.links), default=0.0) / run.seconds
        table.add(
            bound_name(run), _rate(run.steps_per_second),
            *((_rate(run.samples_per_second),) if run.samples_per_second is not None else ()), percent(run.idle),
            percent(run.waiting), f"{run.staleness:.1f}", f"{run.staleness_p99:.0f}",
            f"{run.ahead:,}", percent(busy) if run.links else "-",
        )  # fmt: skip
    yield from ((line, "") for line, _ in table.lines(width))
    yield from _said(
        "stale: others' updates between a worker's read and its write, mean; the same durations in every row", width,
        "dim",
    )  # fmt: skip
