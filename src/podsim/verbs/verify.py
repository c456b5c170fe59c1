"""`podsim verify`: a machine held against what it should be, as an acceptance suite does."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from podsim.acceptance.inventory_checks import inventory_parts
from podsim.acceptance.storage_checks import (
    checked_storage,
    measure_disk,
    not_run,
    storage_checks,
    stored_checks,
)
from podsim.acceptance.thresholds import thresholds_of
from podsim.errors import LabError, PodsimError, unknown_name
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.lab.inventory import Inventory, read_inventory
from podsim.lab.inventory_tools import ask_machine, nothing_told
from podsim.lab.ranks import MOST_RANKS
from podsim.lab.usage import clocks, cores, others_since
from podsim.lab.wires import gpus_here
from podsim.options.measure_options import VerifyOptions
from podsim.options.question import question
from podsim.results.acceptance import Acceptance, Check, Curve, Part
from podsim.storage.fio_results import read_block
from podsim.units import format_quantity
from podsim.verbs.verify_network import all_reduce, network_checks, read_network
from podsim.verbs.verify_training import measure_images, training_checks

GROUPS = ("inventory", "storage", "network", "training")
Note = Callable[[str], None]
_LARGEST = 1 << 40
_DISTURBED = 0.1
"""share of the processors that others may use before a note says so"""


@question(VerifyOptions)
def verify_machine(options: VerifyOptions, *, progress: Note = lambda _: None) -> Acceptance:
    """This machine, or what was run elsewhere, held against an expected system.

    expect    a system or cluster of the catalog, or a cluster's file, such as `podsim measure host` writes
    only      inventory, storage, network, training, with commas between; default all
    folder    where fio and mdtest work, and records lie: on the storage that is to be judged
    storage   what is expected there: local-nvme (the system's own drives), or a storage system of the catalog, weka-ra:1
    ranks     of the all-reduce and of ResNet-50; default one for each GPU, else as many as the expected node has, up to 8
              (ResNet-50: up to the cores, as more would only wait for each other)
    sizes     of the all-reduce, FIRST:LAST:FACTOR as nccl-tests counts
    size      of fio's file, as fio writes it; seconds: of each run of fio
    fio       files of fio to judge instead of running it; mdtest: what mdtest printed; run: what `podsim measure
              collective --algo library --save` kept: of several nodes, say
    root      where the file systems of the machine lie whose inventory is taken

    What cannot be run is said, and the rest goes on. Raises PodsimError for what makes no sense.
    """
    groups = _groups(options.only)
    cluster = load_cluster(options.expect)
    bytes_ = int(read_block(options.size, "--size"))
    _checked(options.folder, bytes_, options.seconds, options.ranks)
    started, begun = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    found = read_inventory(options.root)
    job = _Job(
        cluster=cluster,
        client=options.expect if options.expect.lower().endswith(".toml") else cluster.system.name,
        storage=options.storage, folder=options.folder, root=options.root, ranks=options.ranks, sizes=options.sizes,
        size=bytes_, seconds=options.seconds, fio=tuple(options.fio), mdtest=options.mdtest, run=options.run,
        note=progress,
    )  # fmt: skip
    made, before = _Found(), clocks()
    if "inventory" in groups:
        _inventory(job, found, made)
    for name, work in (("storage", _storage), ("network", _network), ("training", _training)):
        if name in groups:
            work(job, made)

    kept = {
        "inventory",
        *(["network"] if options.run else []),
        *(["storage"] if options.fio or options.mdtest else []),
    }
    if set(groups) - kept:  # else nothing was measured here and now
        made.notes += _disturbed(others_since(before))

    return Acceptance(
        machine=_machine(found), expected=cluster.name, started=started, seconds=time.monotonic() - begun,
        parts=tuple(made.parts), checks=tuple(made.checks), curves=tuple(made.curves),
        thresholds=thresholds_of(made.checks), notes=tuple(made.notes),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Job:
    """What is asked for."""

    cluster: Cluster
    client: str
    storage: str
    folder: Path
    root: Path
    ranks: int | None
    sizes: str
    size: int
    seconds: float
    fio: tuple[Path, ...]
    mdtest: Path | None
    run: Path | None
    note: Note

    @property
    def same(self) -> bool:
        """Whether the expected figures were measured on this machine before."""
        return self.cluster.host is not None

    @property
    def here(self) -> int:
        """Ranks to start."""
        return self.ranks or gpus_here() or min(self.cluster.gpus_per_node, 8)


@dataclass
class _Found:
    parts: list[Part] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _groups(only: str) -> tuple[str, ...]:
    wanted = tuple(one.strip() for one in only.split(",") if one.strip()) or GROUPS
    if unknown := [one for one in wanted if one not in GROUPS]:
        raise PodsimError("; ".join(unknown_name("group of checks (--only)", one, GROUPS) for one in unknown))
    return wanted


def _checked(folder: Path, size: int, seconds: float, ranks: int | None) -> None:
    wrong = [] if folder.is_dir() else [f"--folder {str(folder)[-200:]}: there is no such folder"]
    if not 1 << 20 <= size <= _LARGEST:
        wrong.append(f"--size {size:,} B; 1M to 1024G will do")
    if not 0.5 <= seconds <= 3600:
        wrong.append(f"--seconds {seconds:g}; 0.5 to 3600 will do")
    if ranks is not None and not 1 <= ranks <= MOST_RANKS:
        wrong.append(f"--ranks {ranks}; 1 to {MOST_RANKS} are started on one machine")
    if wrong:
        raise PodsimError("; ".join(wrong))


def _disturbed(others: float) -> list[str]:
    """A note where other programs took so much that figures are theirs, too."""
    if others <= _DISTURBED:
        return []
    return [
        f"Other programs used {others:.0%} of the processors meanwhile: what falls short may be their doing. "
        "Run it again when the machine is idle."
    ]


def _machine(found: Inventory) -> str:
    gpus = f"{len(found.gpus)} GPUs, " if found.gpus else "no GPU, "
    return (
        f"{found.sockets} x {found.processor or 'unnamed processor'}, {found.cores} cores,"
        f" {format_quantity(found.memory, 'B')}, {gpus}{'virtual' if found.virtual else 'not virtual'}"
    )


def _inventory(job: _Job, found: Inventory, made: _Found) -> None:
    job.note("inventory")
    told = ask_machine() if job.root == Path("/") else nothing_told(f"{job.root} is not this machine")
    made.parts += inventory_parts(found, told, job.cluster.system)


def _storage(job: _Job, made: _Found) -> None:
    names = job.cluster.host.names if job.cluster.host is not None else {}
    checked_storage(job.storage, job.client)
    if job.fio or job.mdtest is not None:
        made.checks += stored_checks(
            job.fio, job.mdtest, system=job.storage, client=job.client, same=job.same, names=names
        )
        return
    try:
        disk = measure_disk(job.folder, cores(), size=job.size, seconds=job.seconds, note=job.note)
    except LabError as problem:
        made.checks += not_run(str(problem))
        return
    made.checks += storage_checks(disk, system=job.storage, client=job.client, same=job.same, names=names)


def _network(job: _Job, made: _Found) -> None:
    if job.run is not None:
        measured = read_network(job.run)
    else:
        try:
            job.note("all-reduce")
            measured = all_reduce(job.here, job.sizes, limit=1.5)
        except LabError as problem:
            made.checks.append(_failed("network", "all-reduce", "B/s", problem))
            return
    checks, curve = network_checks(measured, job.cluster, same=job.same)
    made.checks += checks
    made.curves.append(curve)


def _training(job: _Job, made: _Found) -> None:
    try:
        gpus = gpus_here()
        ranks = job.here if gpus >= job.here or job.ranks else min(job.here, max(cores(), 1))
        images = measure_images(job.folder, ranks, gpu=gpus >= ranks, note=job.note)
    except LabError as problem:
        made.checks.append(_failed("training", "ResNet-50", "1/s", problem))
        return
    before = job.cluster.host.images.get(ranks) if job.cluster.host is not None else None
    checks, curves = training_checks(images, job.cluster, job.client, same=job.same, before=before)
    made.checks += checks
    made.curves += curves


def _failed(group: str, name: str, unit: str, problem: LabError) -> Check:
    return Check(
        group=group, name=name, unit=unit, measured=None, expected=None, limit=None, threshold="", least=0.0,
        verdict="not run", why=str(problem), basis="", how="",
    )  # fmt: skip
