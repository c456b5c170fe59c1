"""`podsim storage show`, `fio`, `mdtest` and `fail`: a storage system and its speed for a number of clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from podsim.answers.answer import View, call
from podsim.answers.storage import FailRun, FioMeasured, FioRow, FioRun, MdtestRun, StorageSheet
from podsim.errors import StorageError
from podsim.options.output_options import FioOutput
from podsim.options.question import question
from podsim.options.storage_options import (
    StorageFailOptions,
    StorageFioOptions,
    StorageMdtestOptions,
    StorageShowOptions,
)
from podsim.storage.catalog import load_storage, storage_names
from podsim.storage.fail import fail_row
from podsim.storage.fio import Job, fio_rows
from podsim.storage.fio_results import read_block, read_fio
from podsim.storage.mdtest import mdtest_rows
from podsim.storage.published import published_points
from podsim.storage.storage_sheet import storage_sheet
from podsim.storage.stripe import damage, net_capacity

Overrides = Mapping[str, str] | None


_VIEW = View(
    report="report.storage_tables:sheets_report",
    rows=lambda answer: answer if isinstance(answer, list) else [answer],
)


@question(
    StorageShowOptions,
    view=_VIEW,
)
def storage_show(options: StorageShowOptions) -> StorageSheet | list[StorageSheet]:
    """The sheet of a storage system (weka-ra, weka-ra:4), or of all of them."""
    if not options.name:
        return [storage_sheet(*load_storage(each)) for each in storage_names()]
    return storage_sheet(*load_storage(options.name, options.overrides, client=options.client))


def _fio_text(run: FioRun, output: FioOutput, options: Mapping[str, Any]) -> str | None:
    """The run in fio's own form, if that is wanted."""
    return call("report.fio_json:fio_json", run) + "\n" if output.fio_json else None


@question(
    StorageFioOptions,
    output=FioOutput,
    text=_fio_text,
)
def storage_fio(options: StorageFioOptions) -> FioRun:
    """The result of fio on a storage system, for each number of clients up to that of `on`.

    The default is 1M, and 4k for random accesses; 32 jobs x 1 from 64k on, 64 x 8 below, as wekatester runs fio. With
    `against`, the pattern, block, jobs and depth are those of the file.

    Raises StorageError, CatalogError or TableError for what makes no sense.
    """
    measured = None
    rw, numjobs, iodepth, rwmixread = options.rw, options.numjobs, options.iodepth, options.rwmixread
    if options.against is not None:
        names = ("rw", "bs", "numjobs", "iodepth")
        if given := [f"--{name}" for name in names if getattr(options, name) not in (None, "")]:
            raise StorageError(
                f"--against takes the job from the file; {', '.join(given)} cannot be given with it"
            )
        measured = read_fio(options.against)
        rw, block, numjobs, iodepth = measured.rw, measured.block, measured.numjobs, measured.iodepth
        rwmixread = round(100 * measured.read_iops / (measured.read_iops + measured.write_iops))
    else:
        rw = rw or "read"
        block = read_block(options.bs or ("4k" if rw.startswith("rand") else "1M"))
    if not 0.001 <= options.runtime <= 1e7:
        raise StorageError(f"runtime={options.runtime:g} s: 0.001 to 10,000,000 will do")
    system, clients = load_storage(options.on, options.overrides, client=options.client)
    if measured is not None and ":" not in options.on:
        clients = measured.clients
    job = Job.of(rw, block, numjobs, iodepth, rwmixread / 100.0)
    points = () if options.overrides or options.client else published_points(system.name, rw, job.block)
    rows = _beside(
        fio_rows(system, job, clients), {p.clients: p.bandwidth or p.iops for p in points}, job.block
    )
    return FioRun(
        system=system.name, rw=rw, block=job.block, numjobs=job.numjobs, iodepth=job.iodepth, read_share=job.read_share,
        seconds=options.runtime, rows=rows, notes=_notes(system.measured_clients, clients, rows, measured),
        published=points, measured=measured,
    )  # fmt: skip


def _beside(rows: tuple[FioRow, ...], published: Mapping[int, float], block: float) -> tuple[FioRow, ...]:
    """Rows with what was published for them."""
    compared = []
    for row in rows:
        value = published.get(row.clients)
        ours = row.bandwidth if block >= 1 << 16 else row.iops
        compared.append(
            replace(row, published=value, error=round(ours / value - 1.0, 9) + 0.0) if value else row
        )
    return tuple(compared)


def _notes(
    measured_with: int, clients: int, rows: tuple[FioRow, ...], measured: FioMeasured | None
) -> tuple[str, ...]:
    last, notes = rows[-1], []
    if any(row.published for row in rows):
        notes.append(
            "the published rates gave the system its speed: an error here is that of a fit, not of a prediction"
        )
    if measured_with and clients > measured_with:
        notes.append(
            f"its figures were measured with {measured_with} clients; past them the servers are taken to do what they "
            f"were shown to, and no more. Ports and drives would allow {last.most / 1e9:.4g} GB/s"
        )
    if not measured_with:
        notes.append("its figures are data sheet values or assumptions; `podsim storage show` tells which")
    if last.limit == "outstanding" and last.iops > 1e6:
        notes.append(
            "no rate of operations of its servers is known; latency and ports alone give these: at most"
        )
    if measured is not None and measured.clients != clients:
        notes.append(f"the run was of {measured.clients} client(s), the prediction is for {clients}")
    if measured is not None and not measured.direct:
        notes.append(
            "the run was without direct=1: what the page cache gave or took is in it, and not in the prediction"
        )
    return tuple(notes)


@question(StorageMdtestOptions)
def storage_mdtest(options: StorageMdtestOptions) -> MdtestRun:
    """What mdtest would find on a storage system: operations on names a second.

    tasks     of all clients; default 16 a client. items: files and directories of each task; write: bytes of a file
    """
    system, clients = load_storage(options.on, options.overrides, client=options.client)
    many = 16 * clients if options.tasks is None else options.tasks
    if options.items < 1:
        raise StorageError(f"items={options.items}: each task makes at least one")
    size = read_block(options.write, "write")
    rows = mdtest_rows(system, clients, many, size=size)
    return MdtestRun(
        system=system.name, clients=clients, tasks=many, files=many * options.items, bytes_per_file=size, rows=rows,
        notes=("no mdtest rate of an all-flash cluster of this kind was published: nothing to hold this against",),
    )  # fmt: skip


@question(
    StorageFailOptions,
    status=lambda run: int(not run.rows[-1].reads),
)
def storage_fail(options: StorageFailOptions) -> FailRun:
    """Reads, writes and danger with none to `servers` servers lost at once, a share `fill` of the net space in use.

    Raises StorageError for more servers than there are, and for a system whose protection is not known.
    """
    system, clients = load_storage(options.on, options.overrides, client=options.client)
    damage(system, options.servers, fill=options.fill)
    rows = tuple(fail_row(system, clients, failed, options.fill) for failed in range(options.servers + 1))
    stripe = system.stripe
    return FailRun(
        system=system.name, clients=clients, stripe=f"{stripe.data}+{stripe.parity}" if stripe else "",
        net=net_capacity(system), fill=options.fill, rows=rows,
        notes=(
            "not measured anywhere: the law of podsim.storage.stripe, on what the servers were shown to do",
            "rebuilding takes the bandwidth that clients leave; its times are those of an otherwise idle system",
        ),
    )  # fmt: skip
