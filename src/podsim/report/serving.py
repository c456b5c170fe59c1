"""Reports of serving a model, and published figures."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.answers.served import Figure, Served, ServedBatch
from podsim.report.columns import Column, Table, rate_text
from podsim.report.screen import Block, Paragraph, Rows, bold, dim, items, warnings
from podsim.units import format_quantity

_UNIT = {"encoder": "sequences/s", "generator": "requests/s", "images": "images/s", "samples": "samples/s"}


def served_report(served: Served) -> Iterator[Block]:
    """A row for each batch, the best one, and the assumptions."""
    count = f"{served.instances} x " if served.instances > 1 else ""
    sparse = ", 2:4 sparse" if served.sparse else ""
    length = {
        "encoder": f"{served.tokens} tokens", "images": f"{served.tokens} x {served.tokens} pixels",
        "generator": f"{served.tokens} tokens in, {served.output} out", "samples": "a sample as captured",
    }[served.kind]  # fmt: skip
    count = f"{served.instances} replicas, each on " if served.layout and served.instances > 1 else count
    layout = f" ({served.layout}, {served.engine})" if served.layout else ""
    yield bold(f"{served.model} on {count}{served.gpu}{layout}: {served.precision}{sparse}, {length}")
    cache = f", {format_quantity(served.cache, 'B')} of keys and values a sequence" if served.cache else ""
    weights, limit = (format_quantity(size, "B") for size in (served.weights, served.memory_limit))
    yield f"Weights {weights}{cache}; {limit} hold a batch of {served.largest:,}"
    yield from ("", Rows(_batches(served), served.rows), "")
    yield _best(served)
    yield from warnings(served.warnings)
    yield from items("Assumptions", served.assumptions)


def _batches(served: Served) -> Table:
    kind = served.kind
    of_tokens = (
        Column("first token", "first_token", "s"),
        Column("each token", "token", "s"),
        Column("tokens/s", "tokens_per_second", ":,.0f"),
    )
    return Table(
        Column("batch", "", ":d"),
        Column("latency", "", "s"),
        Column(_UNIT[kind], "throughput", rate_text),
        *(of_tokens if kind == "generator" else ()),
        *(
            (Column("x real time", lambda row: served.audio * row.throughput, ":,.0f"),)
            if served.audio
            else ()
        ),
        Column("of peak", "utilisation", ":.0%", drop=1),
        Column("memory", "", "B", digits=3),
        Column("", _verdict),
    )


def _verdict(row: ServedBatch) -> str:
    if not row.fits:
        return "no fit"
    return "" if row.in_time else "too late"


def _best(served: Served) -> Paragraph:
    limit = "" if served.limit is None else f" within {format_quantity(served.limit, 's')}"
    if served.best is None:
        return Paragraph(f"No batch answers{limit} in the memory there is.", "alarm")
    copies = "replicas" if served.layout else "instances"
    instances = f" on {served.instances} {copies}" if served.instances > 1 else ""
    in_time = f", answered{limit}" if limit else ""
    rate = f"{rate_text(served.total)} {_UNIT[served.kind]}"
    speech = f", {served.total * served.audio:,.0f} x real time" if served.audio else ""
    return bold(
        f"Best: batch {served.best.batch}, {rate}{speech}{instances}{in_time}; most of the time goes to "
        f"{served.bottleneck}."
    )


def figure_report(figure: Figure) -> Iterator[Block]:
    """A published figure, predicted."""

    def text(value: float | None) -> str:
        if value is None:
            return "-"
        return f"{value:,.0f}" if figure.unit == "1/s" else format_quantity(value, figure.unit)

    columns = (
        Column("", "name"),
        Column("predicted", lambda row: text(row.predicted), align="r"),
        Column("printed", lambda row: text(row.printed_value), align="r"),
        Column("relative", "", ":.2f"),
        Column("printed", lambda row: "-" if row.printed is None else f"{row.printed:g}", align="r"),
        Column("setup", "how", wrap=True),
    )
    yield from (bold(figure.title), Rows(Table(*columns), figure.rows))
    yield from items("Notes", figure.notes)
    yield from ("", dim(f"Source: {figure.source}"))
    for part in figure.parts:
        yield ""
        yield from figure_report(part)
