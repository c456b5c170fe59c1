"""What the lab measured of storage, and predictions beside it."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.report.columns import percent, signed_percent
from podsim.report.lab import errors_line
from podsim.report.table import Table, console, paragraph
from podsim.results.lab_storage import ComparedStorage, MeasuredCheckpoints, MeasuredLoader
from podsim.units import format_quantity

_KINDS = ("compute", "write", "read", "wait", "processor", "rest")
"""columns of a comparison, in their order"""


def print_checkpoints(found: MeasuredCheckpoints) -> None:
    """Print checkpoints as they were measured."""
    out = console()
    for line in _checkpoints(found, out.width):
        out.print(line)


def _checkpoints(found: MeasuredCheckpoints, width: int) -> Iterator[str]:
    yield from paragraph(
        f"Checkpoints of {_bytes(found.size)} by {found.count} ranks to {found.place} ({found.filesystem}), "
        f"{found.rows[0].repeats} times; {found.writer}, {_bytes(found.block)} at once", width,
    )  # fmt: skip
    yield ""
    header = (
        "",
        "data",
        "median",
        "fastest",
        "slowest",
        "in all",
        "a rank",
        "slowest rank",
        "from drives",
        "cores",
    )
    table = Table("llrrrrrrrr", header=header, indent=0)
    for row in found.rows:
        each = found.size / found.count
        middle = sorted(row.ranks)[len(row.ranks) // 2]
        table.add(
            row.operation, row.state, _s(row.seconds), _s(row.fastest), _s(row.slowest), _speed(row.bandwidth),
            _speed(each / max(middle, 1e-9)), _speed(each / max(*row.ranks, 1e-9)),
            "" if row.from_drive is None else percent(row.from_drive), percent(row.cpu + row.others),
        )  # fmt: skip
    yield from (line for line, _ in table.lines(width))
    yield ""
    cached = [
        row
        for row in found.rows
        if row.state == "drive" and row.from_drive is not None and row.from_drive < 0.5
    ]
    if cached:
        yield from paragraph(
            f"No drive gave the bytes read back ({percent(cached[0].from_drive or 0.0)}): {found.filesystem} keeps files "
            "in memory, or on another machine.", width,
        )  # fmt: skip
    wrong = sum(row.wrong for row in found.rows)
    if any(row.operation == "read" for row in found.rows):
        yield (
            "what was read back is what was written" if not wrong else f"{wrong} ranks READ BACK OTHER BYTES"
        )
    for name, why in found.left_out.items():
        yield from paragraph(f"Not done: {name}: {why}", width, indent="  ", first="")


def print_loader(found: MeasuredLoader) -> None:
    """Print epochs as they were measured."""
    out = console()
    for line in _loader(found, out.width):
        out.print(line)


def _loader(found: MeasuredLoader, width: int) -> Iterator[str]:
    through = (
        "no cache"
        if found.cache_kind == "none"
        else f"fsspec's {found.cache_kind} cache in {found.cache_folder}"
    )
    yield from paragraph(
        f"{found.samples:,} samples, {_bytes(found.size)}, from {found.source} ({found.filesystem}); {through}; "
        f"{found.workers} workers, batches of {found.batch}; {found.consumer}; page cache {found.page_cache}", width,
    )  # fmt: skip
    yield ""
    header = (
        "epoch", "time", "samples/s", "B/s", "utilisation", "waited", "from the store", "from the cache", "from drives",
        "cores",
    )  # fmt: skip
    table = Table("rrrrrrrrrr", header=header, indent=0)
    for row in found.rows:
        table.add(
            f"{row.epoch + 1}" + ("" if row.whole else " (part)"), _s(row.seconds), f"{row.rate:,.1f}",
            _speed(row.bandwidth), "" if row.utilisation is None else percent(row.utilisation),
            percent(row.waited / row.seconds), _bytes(row.store), _bytes(row.cache),
            "" if row.drive is None else _bytes(row.drive), percent(row.cpu + row.others),
        )  # fmt: skip
    yield from (line for line, _ in table.lines(width))
    yield ""
    whole = [row for row in found.rows if row.whole]
    if len(whole) > 1:
        later = sum(row.rate for row in whole[1:]) / len(whole[1:])
        yield f"later epochs run at {later / whole[0].rate:.2f} times the rate of the first"
    if found.stopped:
        yield "interrupted: this is what was measured until then"


def print_compared_storage(found: ComparedStorage) -> None:
    """Print a run beside its predictions."""
    out = console()
    for line in _compared(found, out.width):
        out.print(line)


def _compared(found: ComparedStorage, width: int) -> Iterator[str]:
    yield from paragraph(f"{found.what}, {found.run}", width)
    yield from paragraph(f"measured on {found.machine}", width, indent="  ", first="  ")
    behind = f", its cache as {found.cache}" if found.cache else ""
    yield from paragraph(f"predicted for {found.system}{behind}", width, indent="  ", first="  ")
    yield ""
    kinds = [kind for kind in _KINDS if any(kind in row.parts for row in found.rows)]
    header = ("", "measured", "predicted", "off by", *kinds, "limit", "cores", "")
    table = Table("lrrr" + "r" * len(kinds) + "lrl", header=header, indent=0)
    for row in found.rows:
        table.add(
            row.row, _s(row.measured), _s(row.predicted), signed_percent(row.difference),
            *(_s(row.parts[kind]) if kind in row.parts else "" for kind in kinds), row.limit,
            percent(row.cpu + row.others),
            "" if row.verdict == "comparable" else row.verdict,
        )  # fmt: skip
    yield from (line for line, _ in table.lines(width))
    yield ""
    yield errors_line(found.mean, found.worst)
    for note in found.notes:
        yield from paragraph(note, width)


def _s(value: float) -> str:
    return format_quantity(value, "s", digits=3)


def _bytes(value: float) -> str:
    return format_quantity(value, "B", digits=4)


def _speed(value: float) -> str:
    return format_quantity(value, "B/s", digits=3)
