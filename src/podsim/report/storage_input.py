"""What `podsim storage input` and `podsim storage size` print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podsim.report.columns import percent, signed_percent
from podsim.report.table import Table, console, paragraph
from podsim.results.storage import EpochRow, InputRun, ShrinkRow, SizeRun, TrainingTime
from podsim.units import format_quantity


def print_input(run: InputRun) -> None:
    """Print the pipeline of a workload."""
    out = console()
    for line in input_lines(run, out.width):
        out.print(line)


def print_size(run: SizeRun) -> None:
    """Print what a job asks of storage."""
    out = console()
    for line in size_lines(run, out.width):
        out.print(line)


def input_lines(run: InputRun, width: int) -> Iterator[str]:
    """Text of the pipeline: stages, epochs, what may shrink, time to target."""
    yield from paragraph(
        f"{run.title}: {run.clients:,} node(s), {run.accelerators:,} x {run.accelerator}, {run.batch:,} sample(s) each, "
        f"on {run.system}; {run.shuffle} shuffle", width,
    )  # fmt: skip
    yield from paragraph(
        f"Accelerators busy {percent(run.utilisation)}; they could read {format_quantity(run.demand, 'B/s')}.",
        width,
    )
    yield ""
    yield from _stages(run, width)
    yield ""
    yield from _epochs(run.epochs, width)
    yield ""
    yield from _shrink(run.shrink, width)
    if run.training is not None:
        yield ""
        yield from _training(run.training, width)
    yield ""
    for note in run.notes:
        yield from paragraph(note[:1].upper() + note[1:] + ".", width)


def _stages(run: InputRun, width: int) -> Iterator[str]:
    header = ("stage", "samples/s", "bytes/s", "cores", "one pass", "limit", "all at once")
    table = Table("lrrrrlr", header=header, indent=0)
    for row in run.stages:
        table.add(
            row.stage, f"{row.rate:,.0f}", format_quantity(row.rate * row.bytes_per_sample, "B/s"),
            f"{row.rate * row.cpu:,.1f}", _duration(row.seconds), row.limit, f"{row.together:,.0f}/s",
        )  # fmt: skip
    yield from (line for line, _ in table.lines(width))


def _shown(rows: Sequence[EpochRow]) -> list[EpochRow]:
    """The first rows, then fewer, and the last."""
    places = {0, 1, 2, 4, 8, 16, len(rows) - 1}
    return [row for place, row in enumerate(rows) if place in places]


def _epochs(rows: Sequence[EpochRow], width: int) -> Iterator[str]:
    header = ("epoch", "from cache", "samples/s", "one epoch", "storage reads", "limit")
    table = Table("lrrrrl", header=header, indent=0)
    shown = _shown(rows)
    for place, row in enumerate(shown):
        last = place + 1 == len(shown)
        name = f"{row.first} on" if last and row.first else str(row.first)
        if not last and row.last > row.first:
            name = f"{row.first} to {row.last}"
        table.add(
            name,
            percent(row.hits),
            f"{row.rate:,.0f}",
            _duration(row.seconds),
            format_quantity(row.read, "B/s"),
            row.limit,
        )
    yield from (line for line, _ in table.lines(width))


def _amount(row: ShrinkRow, value: float) -> str:
    if row.unit in ("B", "B/s"):
        return format_quantity(value, row.unit, digits=3)
    return f"{value:,.2f}" if value < 100 and value != int(value) else f"{value:,.0f}"


def _shrink(rows: Sequence[ShrinkRow], width: int) -> Iterator[str]:
    yield "What the first epoch needs at the accelerators' full speed, each alone:"
    table = Table("lrrrl", header=("resource", "there is", "needed", "in use", ""))
    for row in rows:
        short = "short" if row.needs > row.has * (1 + 1e-9) else ""
        use = "" if row.unit == "B" else percent(row.load)
        table.add(row.resource, _amount(row, row.has), _amount(row, row.needs), use, short)
    yield from (line for line, _ in table.lines(width))


def _training(time: TrainingTime, width: int) -> Iterator[str]:
    yield from paragraph(
        f"To the target: {_duration(time.seconds)}: {time.epochs:.1f} epochs at a global batch of {time.batch:,}, the "
        f"later ones {_duration(time.epoch_seconds)} each, evaluations {_duration(time.evaluation)}, start "
        f"{_duration(time.start)}.", width,
    )  # fmt: skip
    if time.published is not None and time.error is not None:
        yield from paragraph(
            f"Published: {_duration(time.published)} ({signed_percent(time.error)}): {time.source}.", width
        )


def _duration(seconds: float) -> str:
    if seconds >= 36000:
        return f"{seconds / 3600:,.1f} h"
    return f"{seconds / 60:.2f} min" if seconds >= 120 else format_quantity(seconds, "s", digits=3)


def size_lines(run: SizeRun, width: int) -> Iterator[str]:
    """Text of what a job asks of storage, beside the guidance and the systems that would do."""
    yield from paragraph(
        f"{run.workload} on {run.cluster}: {run.nodes:,} node(s), {run.accelerators:,} accelerators", width
    )
    yield ""
    table = Table("lrw", header=("needs", "", "because"), indent=0)
    for need in run.needs:
        table.add(need.what, format_quantity(need.value, need.unit), need.why)
    yield from (line + text for line, text in table.lines(width))
    yield ""
    for note in run.notes:
        yield from paragraph(note + ".", width)
    yield ""
    yield from paragraph(f"Guidance for {run.nodes:,} node(s) of a DGX SuperPOD: {_verdict(run)}", width)
    advice = Table("lrrl", header=("", "read", "write", ""))
    advice.add("this job", *(format_quantity(value, "B/s") for value in (run.read, run.write)), "")
    for name, (read, write) in run.guidance.items():
        mark = "covers it" if read >= run.read and write >= run.write else ""
        advice.add(name, format_quantity(read, "B/s"), format_quantity(write, "B/s"), mark)
    yield from (line for line, _ in advice.lines(width))
    yield ""
    systems = Table("lr", header=("storage system", "servers that would do"), indent=0)
    for name, servers in run.systems.items():
        systems.add(name, f"{servers:,}")
    yield from (line for line, _ in systems.lines(width))


def _verdict(run: SizeRun) -> str:
    if run.tier == "beyond":
        return "the job asks for more than its best row."
    return f"its row {run.tier!r} covers the job."
