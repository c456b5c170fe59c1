"""fio and mdtest run on a folder, or read from files, against what `podsim storage` predicts for the expected node."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from podsim.acceptance.thresholds import MORE, Figure, check, threshold_of, unmeasured
from podsim.answers.acceptance import Check
from podsim.answers.storage import FioMeasured
from podsim.errors import LabError, PodsimError
from podsim.lab.disk import (
    FIO,
    NAMES,
    Access,
    accesses,
    fio_command,
    has_direct_access,
    mdtest_command,
    names_command,
    run_tool,
    scratch,
    tool,
)
from podsim.programs import needs_linux
from podsim.storage.catalog import load_storage
from podsim.storage.fio import Job, fio_row
from podsim.storage.fio_results import read_fio
from podsim.storage.mdtest import mdtest_rows
from podsim.storage.mdtest_results import mdtest_rates, read_mdtest
from podsim.storage.storage_links import storage_links
from podsim.storage.storage_parts import StorageSystem

Note = Callable[[str], None]
_LARGE = 1 << 16
_MDTEST = "mdtest"
_TRIES = 2
"""the better of two counts: these take a fraction of a second, in which others may fill the journal"""


@dataclass(frozen=True, kw_only=True)
class Disk:
    """What was found of a folder's storage."""

    fio: Mapping[str, FioMeasured]
    """The results of fio by the name of the access; empty without fio."""
    names: Mapping[str, float]
    """1/s. The rates of operations, by mdtest's names."""
    tasks: int
    """The number of tasks that worked on names at once."""
    names_by: str
    """The tool: mdtest, or fio's engines."""
    direct: bool
    """Whether the accesses bypassed the page cache."""
    missing: str
    """The reason why fio was not run."""
    capacity: float
    """B. The capacity of the file system."""


def measure_disk(
    folder: Path,
    cores: int,
    *,
    size: int,
    seconds: float,
    note: Note,
    of: Sequence[str] = ("storage", "metadata"),
) -> Disk:
    """What fio, and mdtest where it is installed, find on a folder. LabError where the folder cannot be used.

    of: whether accesses (storage) and operations on names (metadata) are measured.
    """
    needs_linux("measuring storage with fio's direct, asynchronous access")
    with scratch(folder, size) as own:
        direct, capacity = has_direct_access(own), float(shutil.disk_usage(own).total)
        try:
            tool("fio", FIO)
        except LabError as problem:
            return Disk(
                fio={}, names={}, tasks=0, names_by="", direct=direct, missing=str(problem), capacity=capacity
            )
        runs = _accesses(own, cores, size, seconds, direct, note) if "storage" in of else {}
        names, tasks, by = measure_names(own, cores, note) if "metadata" in of else ({}, 0, "")
    return Disk(fio=runs, names=names, tasks=tasks, names_by=by, direct=direct, missing="", capacity=capacity)


def _accesses(
    own: Path, cores: int, size: int, seconds: float, direct: bool, note: Note
) -> dict[str, FioMeasured]:
    wanted, out = accesses(cores), own / "fio.json"
    first = Access(name="lay out", rw="write", block="1M", jobs=1, depth=8)
    note("fio: writing the file")
    run_tool(fio_command(first, own, out, size=size, seconds=0.0, direct=direct), size / 20e6)
    runs = {}
    for access in wanted:
        note(f"fio: {access.name}")
        run_tool(fio_command(access, own, out, size=size, seconds=seconds, direct=direct), seconds)
        runs[access.name] = read_fio(out)
    (own / "data").unlink()
    return runs


def measure_names(own: Path, cores: int, note: Note) -> tuple[dict[str, float], int, str]:
    """(operations a second by mdtest's names, tasks, what measured them): mdtest where it is, else fio's engines."""
    try:
        command = mdtest_command(own, files=1000)
    except LabError:
        rates, jobs = dict.fromkeys(NAMES, 0.0), max(cores, 1)
        for turn in range(_TRIES):
            new = own / f"names{turn}"  # names that are there already would only be opened
            new.mkdir()
            for name, engine in NAMES.items():
                note(f"fio: {engine}")
                out = own / f"{engine}.json"
                run_tool(names_command(engine, new, out, files=500, jobs=jobs), 60.0)
                rates[name] = max(rates[name], jobs / max(read_fio(out).read_latency, 1e-9))
        return rates, jobs, f"fio's engines {', '.join(NAMES.values())}; mdtest is not installed"
    note(_MDTEST)
    rates, tasks = mdtest_rates(run_tool(command, 60.0))
    return rates, tasks, _MDTEST


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a node's storage should be."""

    system: str
    """The name in the catalog, or a file."""
    client: str
    """The node."""
    same: bool
    """Whether the figures were measured on this machine before."""
    names: Mapping[str, float]
    """1/s. The rates of operations by mdtest's names, if they were measured before."""


def storage_checks(disk: Disk, expected: Expected) -> Iterator[Check]:
    """Checks of what was measured here."""
    if disk.missing:
        yield from not_run(disk.missing)
        return
    why = "" if disk.direct else "this file system has no direct access: the page cache is measured, too"
    yield from remarked(
        [_access(f"fio {name}", measured, expected, why) for name, measured in disk.fio.items()]
    )
    yield from _names(disk.names, disk.tasks, disk.names_by, expected)


def remarked(checks: Sequence[Check]) -> Iterator[Check]:
    """Checks of reads and writes; writes far above the reads of the same accesses are a remark: a cache took them."""
    rates = {check.name: check.measured for check in checks}
    for each in checks:
        reads = rates.get(each.name.replace("write", "read"))
        times = (each.measured or 0.0) / reads if reads and "write" in each.name else 0.0
        if times > MORE and each.verdict in ("ok", "no expectation"):
            why = f"writes are {times:.2g} times reads: a cache took them; write more than it holds (--size)"
            yield replace(each, verdict="remark", why="; ".join(filter(None, (each.why, why))))
        else:
            yield each


def stored_checks(fio: Sequence[Path], mdtest: Path | None, expected: Expected) -> Iterator[Check]:
    """Checks of earlier runs: files of fio, and the output of mdtest."""
    yield from remarked([_access(f"fio {path.stem}", read_fio(path), expected, "") for path in fio])
    if mdtest is not None:
        rates, tasks = read_mdtest(mdtest)
        yield from _names(rates, tasks, f"mdtest ({mdtest.name})", expected)


def not_run(why: str) -> Iterator[Check]:
    """The checks of storage, none of which could be run."""
    for access in accesses(1):
        unit = "1/s" if "4k" in access.name else "B/s"
        yield unmeasured(Figure(group="storage", name=f"fio {access.name}", unit=unit, how="fio"), why)
    for name in NAMES:
        yield unmeasured(Figure(group="metadata", name=name, unit="1/s", how="fio"), why)


def _access(name: str, measured: FioMeasured, expects: Expected, why: str) -> Check:
    """One run of fio and its prediction: B/s from 64 KiB on, accesses a second below."""
    node, clients = load_storage(expects.system, client=expects.client)
    same = expects.same
    clients = max(clients, measured.clients)
    job = Job.of(measured.rw, measured.block, measured.numjobs, measured.iodepth)
    row = fio_row(node, job, clients)
    large = measured.block >= _LARGE
    rate = measured.read_bandwidth + measured.write_bandwidth
    limit, drives = _most(node, clients, write=job.read_share < 0.5), node.server.ssd
    expected: float | None = row.bandwidth if large else row.iops
    basis = f"podsim storage fio --on {node.name}, limited by {row.limit}"
    if not large and drives is not None:
        iops = drives.read_iops if job.read_share else drives.write_iops
        if iops is None and measured.numjobs * measured.iodepth > 1:
            expected, basis = None, "no rate of operations is known of these drives"
        limit = min(limit, iops * node.server.ssds * measured.block) if iops else limit
    how = f"fio --rw={measured.rw} --bs={int(measured.block)} --numjobs={measured.numjobs} --iodepth={measured.iodepth}"
    # what a disk once reached is no limit of its parts
    return check(
        Figure(group="storage", name=name, unit="B/s" if large else "1/s", basis=basis, how=how),
        threshold_of("bandwidth" if large else "operations", same=same),
        measured=rate if large else measured.read_iops + measured.write_iops,
        expected=expected, limit=None if same else limit if large else limit / measured.block, why=why,
    )  # fmt: skip


def _most(node: StorageSystem, clients: int, *, write: bool) -> float:
    """B/s that ports and drives allow, whatever asks for them."""
    way = "write" if write else "read"
    side = ("client ports out", "server ports in") if write else ("client ports in", "server ports out")
    links = storage_links(node, clients, parts_only=True)
    return min(
        (links[name].bandwidth for name in (*side, f"drives {way}") if name in links), default=math.inf
    )


def _names(rates: Mapping[str, float], tasks: int, by: str, expects: Expected) -> Iterator[Check]:
    """Operations on names, as mdtest counts them, and their predictions."""
    node, clients = load_storage(expects.system, client=expects.client)
    same = expects.same
    predicted = {row.operation: row for row in mdtest_rows(node, clients, max(tasks, clients))}
    for name, rate in rates.items():
        row = predicted.get(name)
        if row is None:
            continue
        basis = "measured before" if same else f"podsim storage mdtest --on {node.name} --tasks {tasks}"
        yield check(
            Figure(group="metadata", name=name, unit="1/s", basis=basis, how=f"{by}, {tasks} task(s)"),
            threshold_of("names", same=same), measured=rate,
            expected=expects.names.get(name) if same else row.rate,
        )  # fmt: skip


def check_storage(system: str, client: str) -> None:
    """Raise PodsimError where a storage system, or its drives in these nodes, cannot be predicted."""
    try:
        load_storage(system, client=client)
    except PodsimError as problem:
        raise type(problem)(f"--storage {system}: {problem}") from None
