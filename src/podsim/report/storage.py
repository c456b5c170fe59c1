"""What `podsim storage show`, `fio`, `mdtest` and `fail` print."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.report.collectives import size_text
from podsim.report.columns import percent, signed_percent
from podsim.report.table import Table, console, paragraph
from podsim.results.storage import FailRun, FioMeasured, FioRun, MdtestRun, StorageSheet
from podsim.units import format_quantity

_CONFIRMED = {
    "yes": "",
    "partial": " (some of its figures were read in no source: see the notes)",
    "no": " (unconfirmed)",
}


def _print(lines: Iterator[str]) -> None:
    out = console()
    for line in lines:
        out.print(line)


def _notes(notes: tuple[str, ...], width: int) -> Iterator[str]:
    if notes:
        yield ""
    for note in notes:
        yield from paragraph(note[:1].upper() + note[1:] + ".", width)


def print_sheets(found: StorageSheet | list[StorageSheet]) -> None:
    """Print a sheet, or one line for each of several."""
    if isinstance(found, list):
        _print(_list_lines(found))
    else:
        _print(_sheet_lines(found, console().width))


def _list_lines(sheets: list[StorageSheet]) -> Iterator[str]:
    table = Table("llrll", header=("name", "kind", "servers", "net or raw", "confirmed"), indent=0)
    for sheet in sheets:
        room = sheet.figures.get("net capacity") or sheet.figures.get("raw capacity") or "-"
        table.add(
            sheet.name, sheet.kind, sheet.figures["servers"].removeprefix("the node "), room, sheet.confirmed
        )
    yield from (line for line, _ in table.lines(120))


def _sheet_lines(sheet: StorageSheet, width: int) -> Iterator[str]:
    yield f"{sheet.name}: {sheet.kind}, for {sheet.clients:,} client(s)"
    yield ""
    table = Table("lw")
    for what, text in sheet.figures.items():
        table.add(what, text)
    yield from (line + text for line, text in table.lines(width))
    yield ""
    for what, text in sheet.notes.items():
        yield from paragraph(f"{what}: {text}", width, indent="    ", first="  ")
    yield from paragraph(f"Source: {sheet.source}{_CONFIRMED[sheet.confirmed]}", width)


def print_fio(run: FioRun) -> None:
    """Print a predicted run of fio, a line for each number of clients."""
    _print(fio_lines(run, console().width))


def fio_lines(run: FioRun, width: int) -> Iterator[str]:
    """Text of a predicted run of fio."""
    mixed = f", {percent(run.read_share)} reads" if 0 < run.read_share < 1 else ""
    yield from paragraph(
        f"fio --rw={run.rw} --bs={size_text(run.block)}{mixed}, {run.numjobs} jobs of depth {run.iodepth} a client, on "
        f"{run.system}", width,
    )  # fmt: skip
    yield ""
    shown = any(row.published for row in run.rows)
    header = ("clients", "bandwidth", "IOPS", "mean latency", "limit", "published", "error")
    table = Table("rrrrlrr", header=header, indent=0)
    unit = "B/s" if run.block >= 1 << 16 else "IOPS"
    for row in run.rows:
        table.add(
            f"{row.clients:,}", format_quantity(row.bandwidth, "B/s"), format_quantity(row.iops, "").replace(" ", ""),
            format_quantity(row.latency, "s", digits=3), row.limit,
            format_quantity(row.published, unit) if row.published else "",
            signed_percent(row.error) if row.error is not None else "",
        )  # fmt: skip
    yield from (line for line, _ in (table if shown else table.without(5, 6)).lines(width))
    if run.measured is not None:
        yield ""
        yield from _beside(run, run.measured, width)
    for source in dict.fromkeys(f"{point.source}" for point in run.published):
        yield from paragraph(f"Published: {source}", width)
    yield from _notes(run.notes, width)


def _beside(run: FioRun, real: FioMeasured, width: int) -> Iterator[str]:
    """A measured run beside the last row."""
    row = run.rows[-1]
    yield f"{real.name} ({real.version or 'no version'}), {real.seconds:.4g} s, {real.clients} client(s)"
    table = Table("lrrr", header=("", "predicted", "measured", "error"))
    for name, share, bandwidth, iops, latency in (
        ("read", run.read_share, real.read_bandwidth, real.read_iops, real.read_latency),
        ("write", 1.0 - run.read_share, real.write_bandwidth, real.write_iops, real.write_latency),
    ):
        for what, ours, theirs, unit in (
            ("bandwidth", share * row.bandwidth, bandwidth, "B/s"),
            ("operations", share * row.iops, iops, "IOPS"),
            ("mean latency", row.latency if share else 0.0, latency, "s"),
        ):
            if theirs:
                table.add(
                    f"{name} {what}", format_quantity(ours, unit), format_quantity(theirs, unit),
                    signed_percent(ours / theirs - 1.0),
                )  # fmt: skip
    yield from (line for line, _ in table.lines(width))


def print_mdtest(run: MdtestRun) -> None:
    """Print a predicted run in mdtest's own form."""
    _print(mdtest_lines(run, console().width))


def mdtest_lines(run: MdtestRun, width: int) -> Iterator[str]:
    """Text in the form of mdtest's summary, and what limits each operation."""
    yield f"{run.tasks} tasks, {run.files} files"
    yield f"# predicted for {run.system} with {run.clients} client(s), files of {run.bytes_per_file:.0f} bytes"
    yield ""
    yield "SUMMARY rate (in ops/sec): (of 1 iterations)"
    yield f"   {'Operation':22}{'Max':>14}{'Min':>14}{'Mean':>14}{'Std Dev':>14}   limit"
    yield f"   {'---------':22}{'---':>14}{'---':>14}{'----':>14}{'-------':>14}   -----"
    for row in run.rows:
        rate = f"{row.rate:14.3f}"
        yield f"   {row.operation:22}{rate}{rate}{rate}{0.0:14.3f}   {row.limit}"
    yield from _notes(run.notes, width)


def print_fail(run: FailRun) -> None:
    """Print what lost servers leave."""
    _print(fail_lines(run, console().width))


def fail_lines(run: FailRun, width: int) -> Iterator[str]:
    """Text of a storage system with none, one, two … servers lost."""
    yield from paragraph(
        f"{run.system} with {run.clients:,} client(s), stripes of {run.stripe}, {format_quantity(run.net, 'B')} net, "
        f"{percent(run.fill)} of it in use", width,
    )  # fmt: skip
    yield ""
    header = ("lost", "read", "at best", "write", "4 KiB reads", "read limit", "rebuild", "what it means")
    table = Table("rrrrrlrw", header=header, indent=0)
    for row in run.rows:
        table.add(
            str(row.failed), *(format_quantity(value, "B/s") for value in (row.read, row.read_best, row.write)),
            format_quantity(row.iops, "IOPS"), row.limit, _time(row.rebuild_seconds), row.verdict,
        )  # fmt: skip
    yield from (line + text for line, text in table.lines(width))
    for row in run.rows:
        if row.exposed:
            yield ""
            soon = (
                f"; those are made again first, in {_time(row.exposed_seconds)}"
                if row.exposed_seconds
                else ""
            )
            yield from paragraph(
                f"With {row.failed} lost, {percent(row.exposed)} of the stripes may lose no more{soon}.",
                width,
            )
    yield from _notes(run.notes, width)


def _time(seconds: float) -> str:
    if seconds == 0.0:
        return "-"
    return (
        f"{seconds / 3600:.1f} h"
        if seconds >= 5400
        else f"{seconds / 60:.0f} min"
        if seconds >= 90
        else f"{seconds:.0f} s"
    )
