"""`podsim storage fio`: the result of fio on a storage system, by the number of clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsim.answers.answer import call
from podsim.answers.storage import FioMeasured, FioRow, FioRun
from podsim.errors import StorageError
from podsim.options.output_options import PlotOutput
from podsim.options.question import like, option, question
from podsim.options.storage_options import MountedOptions
from podsim.storage.catalog import load_storage
from podsim.storage.fio import Job, fio_rows
from podsim.storage.fio_results import read_block, read_fio
from podsim.storage.published import published_points, with_published


@dataclass(frozen=True, kw_only=True)
class StorageFioOptions(MountedOptions):
    """A run of fio."""

    rw: str = option("", "read, write, randread, randwrite, rw, randrw.")
    bs: str = option("", "Bytes of an access: 4k, 128k, 1M.")
    numjobs: int | None = option(None, "Jobs of a client; default as wekatester.")
    iodepth: int | None = option(None, "Accesses of a job at once; default as wekatester.")
    rwmixread: int = option(50, "Percent of a mixed run that reads.")
    runtime: float = option(30.0, "Seconds it would run.")
    against: Path | None = option(None, "A JSON file of fio: its job, predicted and measured.")


@dataclass(frozen=True, kw_only=True)
class FioOutput(PlotOutput):
    """A picture of the scaling, and fio's own form."""

    plot: Path | None = like(PlotOutput, "plot", "Draw the scaling over clients: FILE.svg or .png.")
    fio_json: bool = option(False, "Print the run of all clients in fio's own JSON form.", flag="--fio-json")


def _fio_text(run: FioRun, output: FioOutput, options: Mapping[str, Any]) -> str | None:
    """The run in fio's own form, if that is wanted."""
    return call("report.fio_json:fio_json", run) + "\n" if output.fio_json else None


@question(StorageFioOptions, output=FioOutput, text=_fio_text)
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
    rows = with_published(fio_rows(system, job, clients), points)
    return FioRun(
        system=system.name, rw=rw, block=job.block, numjobs=job.numjobs, iodepth=job.iodepth, read_share=job.read_share,
        seconds=options.runtime, rows=rows, notes=_notes(system.measured_clients, clients, rows, measured),
        published=points, measured=measured,
    )  # fmt: skip


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
