"""Storage systems in a list, a measured run of fio beside its prediction, and mdtest's own form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podsim.answers.storage import FioMeasured, FioRun, StorageSheet
from podsim.report.columns import Column, Table, signed_percent
from podsim.report.derived import derived_report
from podsim.report.screen import Block, Rows, items, raw
from podsim.units import format_quantity, short_seconds


def _capacity(sheet: StorageSheet) -> str:
    return sheet.figures.get("net capacity") or sheet.figures.get("raw capacity") or "-"


_SYSTEMS = Table(
    Column("name"),
    Column("kind"),
    Column("servers", lambda sheet: sheet.figures["servers"].removeprefix("the node "), align="r"),
    Column("net or raw", _capacity),
    Column("confirmed"),
    indent=0,
)


def run_time(seconds: float) -> str:
    """The time of a pass, an epoch or a run as text."""
    if seconds >= 36000:
        return f"{seconds / 3600:,.1f} h"
    return f"{seconds / 60:.2f} min" if seconds >= 120 else short_seconds(seconds)


def sheets_report(sheets: StorageSheet | list[StorageSheet]) -> Iterator[Block]:
    """A storage system, or a line for each of several."""
    if isinstance(sheets, list):
        yield Rows(_SYSTEMS, sheets)
    else:
        yield from derived_report(sheets)


def fio_report(run: FioRun) -> Iterator[Block]:
    """A predicted run of fio, and the measured one that is compared."""
    yield from derived_report(run)
    if run.measured is not None:
        yield ""
        yield from _measured_fio(run, run.measured)


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
    yield Rows(Table(*columns), rows)


def mdtest_report(run: Any) -> Iterator[Block]:
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
    yield from items("Notes", run.notes)
