"""The report of the best way to serve: the answer, its times, the ways that come next, and the front."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from podsim.answers.best_serving import BestServing, FrontPoint, MeasuredPoint, ServingWay
from podsim.report.columns import Column, Table, rate_text
from podsim.report.screen import Block, Paragraph, Rows, bold, dim, items
from podsim.units import format_quantity

_OTHERS = 3
_POINTS = 4


class _Times(NamedTuple):
    """A row of the table of times."""

    name: str
    seconds: Mapping[str, float]
    limit: float | None


_TIMES = Table(
    Column("", "name"),
    Column("p50", "seconds.p50", "s", digits=3),
    Column("p90", "seconds.p90", "s", digits=3),
    Column("p99", "seconds.p99", "s", digits=3),
    Column("limit", "limit", "s", digits=3, missing="-"),
)


def best_report(answer: BestServing) -> Iterator[Block]:
    """The best way, or what lacks; others that come near; the front; how it was searched."""
    yield bold(
        f"{answer.model} on {answer.cluster}: {answer.rate:,.4g} requests/s, {answer.input_tokens:,.0f} tokens in, "
        f"{answer.output_tokens:,.0f} out"
    )
    way = answer.best
    if way is None:
        yield from _refusal(answer)
        way = answer.ways[0] if answer.ways else None
    if way is not None:
        yield from _way(answer, way)
    yield from _others(answer)
    yield from _front(answer.front)
    shown = {"first token": way.first["p50"], "each token": way.each["p50"]} if way else {}
    yield from map(Paragraph, [*band_text(answer.bands, shown), *measured_text(answer.measured)])
    if answer.other_format:
        yield Paragraph(f"{answer.other_format[0].upper()}{answer.other_format[1:]}.")
    yield dim(
        f"{answer.candidates:,} candidates in closed form, {answer.simulated} simulated with {answer.requests:,} "
        f"requests each: {answer.seconds:.1f} s"
    )
    yield from items("Notes", answer.notes)


def band_text(bands: Mapping[str, tuple[float, float]], medians: Mapping[str, float]) -> Iterator[str]:
    """The 80 % bands of medians in words; nothing without any."""
    texts = []
    for name in bands.keys() & medians.keys():
        low, high = (format_quantity(share * medians[name], "s", digits=3) for share in bands[name])
        texts.append(f"{name} {low} to {high}")
    if texts:
        yield f"Four of five measured servers lie within: {', '.join(sorted(texts))} (medians)."


def measured_text(points: Sequence[MeasuredPoint]) -> Iterator[str]:
    """The nearest measured server in words; nothing without one."""
    for point in points[:1]:
        first = (
            ""
            if point.first is None
            else f", {format_quantity(point.first, 's', digits=3)} to the first token"
        )
        date = f", {point.measured}" * bool(point.measured)
        yield (
            f"Nearest measured: {point.words}: {format_quantity(point.each, 's', digits=3)} a token{first}, "
            f"{point.gpu:,.0f} tokens/s per GPU ({point.id}{date})."
        )


def _refusal(answer: BestServing) -> Iterator[Block]:
    has = f"the {answer.gpus} GPUs of {answer.cluster}"
    if answer.fewest > answer.gpus:
        yield Paragraph(
            f"No way on {has} keeps the limits; about {answer.fewest:,} such GPUs would.", "alarm"
        )
    else:
        yield Paragraph(f"No way that was simulated on {has} keeps the limits.", "alarm")
    if answer.fewest == 0:
        first, each = (
            format_quantity(answer.least[name], "s", digits=3) for name in ("first_model", "each_model")
        )
        yield f"More GPUs do not help: the fastest layout needs {first} to a first token and {each} a token, alone."


def _way(answer: BestServing, way: ServingWay) -> Iterator[Block]:
    yield bold(f"{'Best' if way.keeps else 'Nearest'}: {way.words}.")
    rows = [
        _Times("first token", way.first, answer.first_limit),
        _Times("each token", way.each, answer.each_limit),
        _Times("end to end", way.end, None),
    ]
    yield Rows(_TIMES, rows)
    money = "" if way.cost is None else f"; {way.cost:,.2f} USD a million tokens at {answer.price}"
    yield f"{way.tokens_per_gpu:,.0f} tokens/s per GPU, {way.tokens_per_user:,.0f} tokens/s per user{money}"
    kept = f"{way.met:.1%} of requests keep the limits"
    few = f", the fewest that carry this load ({answer.fewest})" if answer.fewest and way.keeps else ""
    yield f"{way.gpus} of {answer.gpus} GPUs{few}; {kept}; saturates at about {rate_text(way.capacity)} requests/s"
    yield f"Held back: {'; '.join(way.limits)}"
    if way.command:
        yield Paragraph(way.command, indent="    ", first="  $ ")


def _others(answer: BestServing) -> Iterator[Block]:
    others = [way for way in answer.ways if way is not answer.best][:_OTHERS]
    if not others:
        return
    name = f"p{answer.percentile}"
    yield Rows(
        Table(
            Column("next", "rank", ":d"),
            Column("GPUs", "gpus", ":d"),
            Column(f"first {name}", f"first.{name}", "s", digits=3),
            Column(f"each {name}", f"each.{name}", "s", digits=3),
            Column("keep", "met", ":.0%"),
            Column("way", "brief", wrap=True),
        ),
        others,
    )


def _front(points: Sequence[FrontPoint]) -> Iterator[Block]:
    """Some points of the front, from the fastest user to the most tokens."""
    if len(points) < 2:
        return
    step = (len(points) - 1) / (min(len(points), _POINTS) - 1)
    shown = [points[round(step * at)] for at in range(min(len(points), _POINTS))]
    yield Rows(
        Table(
            Column("tokens/s: user", "user", ":,.0f"),
            Column("GPU", "gpu", ":,.0f"),
            Column("sequences", "sequences", ":,.0f"),
            Column("fastest layouts (front)", "words"),
        ),
        shown,
    )
