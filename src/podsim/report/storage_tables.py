"""Storage systems: their sheets, fio and mdtest, lost servers, the input pipeline, and the storage needs of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podsim.answers.storage import (
    EpochRow,
    FailRun,
    FioMeasured,
    FioRun,
    InputRun,
    MdtestRun,
    ShrinkRow,
    SizeRun,
    StorageSheet,
    TrainingTime,
)
from podsim.report.columns import Column, Table, percent, signed_percent, size_text
from podsim.report.screen import Block, Paragraph, Rows, bold, facts, raw
from podsim.units import format_quantity, short_seconds

_CONFIRMED = {
    "yes": "", "partial": " (some of its figures were read in no source: see the notes)", "no": " (unconfirmed)",
}  # fmt: skip


def _sentence(note: str) -> str:
    return note[:1].upper() + note[1:] + "."


def _rebuild_time(seconds: float) -> str:
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 90:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s" if seconds else "-"


def _run_time(seconds: float) -> str:
    if seconds >= 36000:
        return f"{seconds / 3600:,.1f} h"
    return f"{seconds / 60:.2f} min" if seconds >= 120 else short_seconds(seconds)


def _capacity(sheet: StorageSheet) -> str:
    return sheet.figures.get("net capacity") or sheet.figures.get("raw capacity") or "-"


_SYSTEMS = Table(
    indent=0,
    columns=(
        Column("name"),
        Column("kind"),
        Column("servers", lambda sheet: sheet.figures["servers"].removeprefix("the node "), align="r"),
        Column("net or raw", _capacity),
        Column("confirmed"),
    ),
)
_FAILURES = Table(
    indent=0,
    columns=(
        Column("lost", "failed", ":d"),
        Column("read", "", "B/s"),
        Column("at best", "read_best", "B/s"),
        Column("write", "", "B/s"),
        Column("4 KiB reads", "iops", "IOPS"),
        Column("read limit", "limit"),
        Column("rebuild", "rebuild_seconds", _rebuild_time),
        Column("what it means", "verdict", wrap=True),
    ),
)
_STAGES = Table(
    indent=0,
    columns=(
        Column("stage"),
        Column("samples/s", "rate", ":,.0f"),
        Column("bytes/s", lambda row: row.rate * row.bytes_per_sample, "B/s"),
        Column("cores", lambda row: row.rate * row.cpu, ":,.1f"),
        Column("one pass", "seconds", _run_time),
        Column("limit"),
        Column("all at once", "together", lambda rate: f"{rate:,.0f}/s"),
    ),
)
_EPOCHS = Table(
    indent=0,
    columns=(
        Column("epoch", "0"),
        Column("from cache", "1.hits", percent),
        Column("samples/s", "1.rate", ":,.0f"),
        Column("one epoch", "1.seconds", _run_time),
        Column("storage reads", "1.read", "B/s"),
        Column("limit", "1.limit"),
    ),
)
_NEEDS = Table(
    columns=(
        Column("resource"),
        Column("there is", lambda row: _amount(row, row.has), align="r"),
        Column("needed", lambda row: _amount(row, row.needs), align="r"),
        Column("in use", lambda row: "" if row.unit == "B" else percent(row.load), align="r"),
        Column("", lambda row: "short" if row.needs > row.has * (1 + 1e-9) else ""),
    )
)
_JOB = Table(
    indent=0,
    columns=(
        Column("needs", "what"),
        Column("", lambda need: format_quantity(need.value, need.unit), align="r"),
        Column("because", "why", wrap=True),
    ),
)
_GUIDANCE = Table(
    columns=(Column("", "0"), Column("read", "1", "B/s"), Column("write", "2", "B/s"), Column("", "3"))
)
_SERVERS = Table(
    indent=0, columns=(Column("storage system", "0"), Column("servers that would do", "1", ":,"))
)


def sheets_report(sheets: StorageSheet | list[StorageSheet]) -> Iterator[Block]:
    """A storage system, or a line for each of several."""
    if isinstance(sheets, list):
        yield Rows(_SYSTEMS, sheets)
        return
    yield f"{sheets.name}: {sheets.kind}, for {sheets.clients:,} client(s)"
    yield from ("", facts(*((name, "", text) for name, text in sheets.figures.items())), "")
    yield from (
        Paragraph(f"{name}: {text}", indent="    ", first="  ") for name, text in sheets.notes.items()
    )
    yield f"Source: {sheets.source}{_CONFIRMED[sheets.confirmed]}"


def fio_report(run: FioRun) -> Iterator[Block]:
    """A predicted run of fio, a line for each number of clients."""
    mixed = f", {percent(run.read_share)} reads" if 0 < run.read_share < 1 else ""
    yield (
        f"fio --rw={run.rw} --bs={size_text(run.block)}{mixed}, {run.numjobs} jobs of depth {run.iodepth} a client, on "
        f"{run.system}"
    )
    unit = "B/s" if run.block >= 1 << 16 else "IOPS"
    columns = (
        Column("clients", "", ":,"),
        Column("bandwidth", "", "B/s"),
        Column("IOPS", "iops", lambda rate: format_quantity(rate, "").replace(" ", "")),
        Column("mean latency", "latency", "s", digits=3),
        Column("limit"),
        Column("published", lambda row: row.published or None, unit, optional=True),
        Column("error of the fit", "error", signed_percent, optional=True),
    )
    yield from ("", Rows(Table(indent=0, columns=columns), run.rows))
    if run.measured is not None:
        yield ""
        yield from _measured_fio(run, run.measured)
    yield from (
        f"Published, and fitted to: {source}"
        for source in dict.fromkeys(point.source for point in run.published)
    )
    yield from _notes(run.notes)


def _notes(notes: Sequence[str]) -> Iterator[Block]:
    if notes:
        yield from ("", *map(_sentence, notes))


def _measured_fio(run: FioRun, real: FioMeasured) -> Iterator[Block]:
    """A measured run against the last row."""
    row = run.rows[-1]
    yield f"{real.name} ({real.version or 'no version'}), {real.seconds:.4g} s, {real.clients} client(s)"
    rows = []
    for name, share in (("read", run.read_share), ("write", 1.0 - run.read_share)):
        for what, ours, theirs, unit in (
            ("bandwidth", share * row.bandwidth, getattr(real, f"{name}_bandwidth"), "B/s"),
            ("operations", share * row.iops, getattr(real, f"{name}_iops"), "IOPS"),
            ("mean latency", row.latency if share else 0.0, getattr(real, f"{name}_latency"), "s"),
        ):
            if theirs:
                texts = (format_quantity(figure, unit) for figure in (ours, theirs))
                rows.append((f"{name} {what}", *texts, ours / theirs - 1.0))
    columns = (
        Column("", "0"),
        Column("predicted", "1", align="r"),
        Column("measured", "2", align="r"),
        Column("error", "3", signed_percent),
    )
    yield Rows(Table(columns=columns), rows)


def mdtest_report(run: MdtestRun) -> Iterator[Block]:
    """A predicted run in the form of mdtest's summary, and what limits each operation."""
    yield raw(f"{run.tasks} tasks, {run.files} files")
    yield raw(
        f"# predicted for {run.system} with {run.clients} client(s), files of {run.bytes_per_file:.0f} bytes"
    )
    yield from ("", raw("SUMMARY rate (in ops/sec): (of 1 iterations)"))
    yield raw(f"   {'Operation':22}{'Max':>14}{'Min':>14}{'Mean':>14}{'Std Dev':>14}   limit")
    yield raw(f"   {'---------':22}{'---':>14}{'---':>14}{'----':>14}{'-------':>14}   -----")
    for row in run.rows:
        rate = f"{row.rate:14.3f}"
        yield raw(f"   {row.operation:22}{rate}{rate}{rate}{0.0:14.3f}   {row.limit}")
    yield from _notes(run.notes)


def fail_report(run: FailRun) -> Iterator[Block]:
    """A storage system with none, one, two … servers lost."""
    yield (
        f"{run.system} with {run.clients:,} client(s), stripes of {run.stripe}, {format_quantity(run.net, 'B')} net, "
        f"{percent(run.fill)} of it in use"
    )
    yield from ("", Rows(_FAILURES, run.rows))
    for row in run.rows:
        if row.exposed:
            first = (
                f"; those are rebuilt first, in {_rebuild_time(row.exposed_seconds)}"
                if row.exposed_seconds
                else ""
            )
            yield from (
                "",
                f"With {row.failed} lost, {percent(row.exposed)} of the stripes may lose no more{first}.",
            )
    yield from _notes(run.notes)


def input_report(run: InputRun) -> Iterator[Block]:
    """An input pipeline: its stages, epochs, possible savings, and the time to the target."""
    yield (
        f"{run.title}: {run.clients:,} node(s), {run.accelerators:,} x {run.accelerator}, {run.batch:,} sample(s) each, "
        f"on {run.system}; {run.shuffle} shuffle"
    )
    demand = format_quantity(run.demand, "B/s")
    yield f"Accelerators busy {percent(run.utilisation)}; they could read {demand}."
    yield from ("", Rows(_STAGES, run.stages), "", Rows(_EPOCHS, _shown_epochs(run.epochs)), "")
    yield bold("What the first epoch needs at the accelerators' full speed, each alone:")
    yield Rows(_NEEDS, run.shrink)
    if run.training is not None:
        yield ""
        yield from _training(run.training)
    yield from ("", *map(_sentence, run.notes))


def _shown_epochs(rows: Sequence[EpochRow]) -> list[tuple[str, EpochRow]]:
    """The first rows, then fewer, and the last, each with its name."""
    shown = {0, 1, 2, 4, 8, 16, len(rows) - 1}
    names = []
    for index, row in enumerate(rows):
        if index == len(rows) - 1 and row.first:
            name = f"{row.first} on"
        else:
            is_range = index < len(rows) - 1 and row.last > row.first
            name = f"{row.first} to {row.last}" if is_range else f"{row.first}"
        names.append((name, row))
    return [pair for index, pair in enumerate(names) if index in shown]


def _amount(row: ShrinkRow, amount: float) -> str:
    if row.unit in ("B", "B/s"):
        return format_quantity(amount, row.unit, digits=3)
    return f"{amount:,.2f}" if amount < 100 and amount != int(amount) else f"{amount:,.0f}"


def _training(time: TrainingTime) -> Iterator[Block]:
    yield (
        f"To the target: {_run_time(time.seconds)}: {time.epochs:.1f} epochs at a global batch of {time.batch:,}, the "
        f"later ones {_run_time(time.epoch_seconds)} each, evaluations {_run_time(time.evaluation)}, start "
        f"{_run_time(time.start)}."
    )
    if time.published is not None and time.error is not None:
        yield f"Published: {_run_time(time.published)} ({signed_percent(time.error)}): {time.source}."


def size_report(run: SizeRun) -> Iterator[Block]:
    """The storage needs of a job, next to the guidance and the systems that meet them."""
    yield f"{run.workload} on {run.cluster}: {run.nodes:,} node(s), {run.accelerators:,} accelerators"
    yield from ("", Rows(_JOB, run.needs), "")
    yield from (f"{note}." for note in run.notes)
    yield ""
    covers = f"its row {run.tier!r} covers the job."
    verdict = "the job asks for more than its best row." if run.tier == "beyond" else covers
    yield f"Guidance for {run.nodes:,} node(s) of a DGX SuperPOD: {verdict}"
    rows = [("this job", run.read, run.write, "")]
    for name, (read, write) in run.guidance.items():
        rows.append((name, read, write, "covers it" if read >= run.read and write >= run.write else ""))
    yield from (Rows(_GUIDANCE, rows), "", Rows(_SERVERS, list(run.systems.items())))
