"""`podsim storage mdtest`: operations on names that a storage system does in a second."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.storage import MdtestRow
from podsim.errors import StorageError
from podsim.options.question import option, question
from podsim.options.storage_options import MountedOptions
from podsim.storage.catalog import load_storage
from podsim.storage.fio_results import read_block
from podsim.storage.mdtest import mdtest_rows


@dataclass(frozen=True, kw_only=True)
class StorageMdtestOptions(MountedOptions):
    """A run of mdtest."""

    tasks: int | None = option(None, "Tasks of all clients; default 16 a client.")
    items: int = option(1000, "Files and directories of each task.")
    write: str = option("0", "Bytes of each file, e.g. 4k.")


@dataclass(frozen=True, kw_only=True)
class MdtestRun(Answer, view=View(report="report.storage_tables:mdtest_report", rows="rows")):
    """mdtest predicted on a storage system."""

    system: str
    clients: int
    tasks: int
    """The number of tasks of all clients."""
    files: int
    """The number of files of all tasks."""
    bytes_per_file: float
    """B. The size of each file."""
    rows: tuple[MdtestRow, ...]
    notes: tuple[str, ...]


@question(StorageMdtestOptions)
def storage_mdtest(options: StorageMdtestOptions) -> MdtestRun:
    """Predicted result of mdtest on a storage system: operations on names per second.

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
