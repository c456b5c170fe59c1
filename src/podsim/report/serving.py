"""What serving a model gives, as text for a terminal."""

from __future__ import annotations

from podsim.report.table import Table, console, paragraph
from podsim.results.served import Figure, Served, ServedBatch
from podsim.units import format_quantity

_UNIT = {"encoder": "sequences/s", "generator": "requests/s", "images": "images/s"}


def _say(text: str, *, style: str = "", first: str | None = None, indent: str = "") -> None:
    from rich.text import Text

    out = console()
    for line in paragraph(text, out.width, indent=indent, first=first):
        out.print(Text(line, style=style))


def _lines(table: Table, marked: int | None = None) -> None:
    from rich.text import Text

    out = console()
    for place, (columns, note) in enumerate(table.lines(out.width)):
        out.print(Text(columns + note, style="bold" if place in (0, marked) else ""))


def print_served(served: Served) -> None:
    """Print a row for each batch, the best one, and what it rests on."""
    count = f"{served.instances} x " if served.instances > 1 else ""
    sparse = ", 2:4 sparse" if served.sparse else ""
    length = {
        "encoder": f"{served.tokens} tokens", "images": f"{served.tokens} x {served.tokens} pixels",
        "generator": f"{served.tokens} tokens in, {served.output} out",
    }[served.kind]  # fmt: skip
    _say(f"{served.model} on {count}{served.gpu}: {served.precision}{sparse}, {length}", style="bold")
    cache = f", {format_quantity(served.cache, 'B')} of keys and values a sequence" if served.cache else ""
    _say(
        f"Weights {format_quantity(served.weights, 'B')}{cache}; {format_quantity(served.memory_limit, 'B')} hold a"
        f" batch of {served.largest:,}"
    )
    print()
    _rows(served)
    print()
    _best(served)
    for warning in served.warnings:
        _say(f"Warning: {warning}", style="yellow")
    print()
    _say("Assumptions", style="dim")
    for text in served.assumptions:
        _say(text, style="dim", first="  - ", indent="    ")


def _rows(served: Served) -> None:
    generator = served.kind == "generator"
    more = ("first token", "each token", "tokens/s") if generator else ()
    table = Table(
        "rrr" + "r" * len(more) + "rrl",
        header=("batch", "latency", _UNIT[served.kind], *more, "of peak", "memory", ""),
    )
    for row in served.rows:
        tokens = (
            (
                format_quantity(row.first_token, "s"),
                format_quantity(row.token, "s"),
                f"{row.tokens_per_second:,.0f}",
            )
            if generator
            else ()
        )
        table.add(
            str(row.batch), format_quantity(row.latency, "s"), _rate(row.throughput), *tokens, f"{row.utilisation:.0%}",
            format_quantity(row.memory, "B", digits=3), _verdict(row),
        )  # fmt: skip
    _lines(table)


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _verdict(row: ServedBatch) -> str:
    return "" if row.fits and row.in_time else "DOES NOT FIT" if not row.fits else "too late"


def _best(served: Served) -> None:
    unit = _UNIT[served.kind]
    if served.best is None:
        limit = "" if served.limit is None else f" within {format_quantity(served.limit, 's')}"
        _say(f"No batch answers{limit} in the memory there is.", style="bold red")
        return
    in_time = "" if served.limit is None else f", answered within {format_quantity(served.limit, 's')}"
    _say(
        f"Best: batch {served.best.batch}, {_rate(served.total)} {unit}"
        + (f" on {served.instances} instances" if served.instances > 1 else "")
        + f"{in_time}; most of the time goes to {served.bottleneck}.",
        style="bold",
    )


def print_figure(figure: Figure) -> None:
    """Print a figure of the white paper made again."""
    _say(figure.title, style="bold")
    table = Table("lrrrw", header=("", "predicted", "relative", "printed", "setup"))
    for row in figure.rows:
        printed = (
            "-" if row.printed is None else f"{row.printed:g}" + ("" if row.confirmed == "yes" else " (?)")
        )
        number = (
            format_quantity(row.predicted, figure.unit) if figure.unit != "1/s" else f"{row.predicted:,.0f}"
        )
        table.add(row.name, number, f"{row.relative:.2f}", printed, row.how)
    _lines(table)
    if any(row.printed is not None and row.confirmed != "yes" for row in figure.rows):
        _say("(?): from memory, read in no source", style="dim", indent="  ", first="  ")
    for title, told in (("Reproduced", figure.reproduced), ("Not reproduced", figure.not_reproduced)):
        print()
        _say(title, style="bold")
        for text in told:
            _say(text, first="  - ", indent="    ")
    print()
    _say(f"Source: {figure.source}", style="dim")
