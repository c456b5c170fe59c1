"""The report of a server under load."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.served_load import LatencyRow, ServedLoad
from podsim.report.best_tables import band_text, measured_text
from podsim.report.columns import FACTS, Column, Table, quantity_text
from podsim.report.expenses import money_text
from podsim.report.screen import Block, Paragraph, Rows, bold, items, warnings
from podsim.units import duration, short_seconds

_FACTS = Table(FACTS.columns[0], Column("", "1", wrap=True))


def load_report(served: ServedLoad) -> Iterator[Block]:
    """The times, the rates, and what holds the server back."""
    count = f"{served.gpus} GPU{'s' if served.gpus > 1 else ''}"
    yield bold(f"{served.model} on {served.on.removesuffix(f' ({count})')} ({count})")
    yield f"{served.layout}"
    yield f"{served.requests:,} requests, {served.kept:,} after the warm-up: {served.workload}"
    yield from ("", Rows(_TIMES, served.rows), "")
    yield Rows(_FACTS, tuple(_facts(served)))
    medians = {row.name: row.p50 for row in served.rows}
    yield from map(Paragraph, [*band_text(served.bands, medians), *measured_text(served.measured)])
    yield from warnings(served.warnings)
    yield from items("Assumptions", served.assumptions)


def _time(seconds: float) -> str:
    return short_seconds(seconds) if seconds < 1000 else duration(seconds)


def _interval(mean: str, half: str) -> Column:
    def text(row: LatencyRow) -> str:
        value, width = getattr(row, mean), getattr(row, half)
        return f"{_time(value)} ±{width / value:.1%}" if value and width else _time(value)

    return Column(mean, text, align="r")


_TIMES = Table(
    Column("", "name"),
    _interval("mean", "mean_half"),
    Column("p50", "", _time),
    Column("p90", "", _time),
    Column("p95", "", _time, drop=1),
    _interval("p99", "p99_half"),
)


def _facts(served: ServedLoad) -> Iterator[tuple[str, str]]:
    rate, most = quantity_text(served.rate, "1/s"), quantity_text(served.saturation, "1/s")
    share = served.rate / served.saturation if served.saturation else 0.0
    yield "load", f"{rate} arrive, {share:.0%} of the {most} at which it saturates"
    answers = quantity_text(served.answered_rate, "1/s")
    per_gpu, per_user = f"{served.gpu_output_rate:,.0f} per GPU", f"{served.user_rate:,.1f} per user"
    yield "answers", f"{answers}; {served.output_rate:,.0f} tokens/s, {per_gpu}, {per_user}"
    if served.goodput is not None:
        limits = ", ".join(f"{name} {short_seconds(limit)}" for name, limit in served.slo.items())
        goodput = quantity_text(served.goodput, "1/s")
        yield "goodput", f"{goodput}: {served.good_share or 0:.1%} of requests within {limits}"
    yield "held back by", served.bottleneck
    cache = f"cache {served.blocks:.0%} full (at most {served.most_blocks:.0%})"
    yield (
        "replicas",
        f"busy {served.busy:.0%}, {served.batch:,.1f} sequences a step, {cache}{_events(served)}",
    )
    yield "scheduler", served.scheduler
    power = f"{served.watts / 1e3:,.3g} kW, {served.token_energy:,.3g} J a token"
    prices = f"{money_text(served.price_low, served.price_high)} USD a million tokens at {served.price}, "
    yield "cost", f"{prices if served.price else ''}{power}"


def _events(served: ServedLoad) -> str:
    parts = {"preemptions": served.preempted, "gave up": served.given_up, "refused": served.refused}
    texts = [f"{count:,} {name}" for name, count in parts.items() if count]
    if served.cached:
        texts.append(f"{served.cached:.0%} of prompts from the prefix cache")
    if served.replicas_on % 1 > 1e-6:
        texts.append(f"{served.replicas_on:.2f} replicas on")
    return "".join(f", {text}" for text in texts)
