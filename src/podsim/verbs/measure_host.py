"""`podsim measure host`: what this machine does, rank by rank, and the catalog entry that comes of it."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from podsim.acceptance.storage_checks import Disk, measure_disk
from podsim.errors import LabError, PodsimError
from podsim.lab.host import Measuring, measure_ranks
from podsim.lab.host_steps import small_steps
from podsim.lab.inventory import read_inventory
from podsim.lab.ranks import MOST_RANKS, Task, run_here
from podsim.lab.training.run import PARTS
from podsim.lab.usage import busiest, cores
from podsim.lab.wires import gpus_here, load_torch
from podsim.options.measure_options import MeasureHostOptions
from podsim.options.question import question
from podsim.results.host import MeasuredHost, MeasuredKernel, MeasuredSend
from podsim.storage.fio_results import read_block
from podsim.verbs.measure_host_entry import entry_of
from podsim.verbs.measure_host_steps import runtime_of, small_runs
from podsim.verbs.verify_training import measure_images

Note = Callable[[str], None]


@question(MeasureHostOptions)
def measure_host(options: MeasureHostOptions, *, progress: Note = lambda _: None) -> MeasuredHost:
    """What this machine does, and its catalog entry, which `--on FILE` and `verify --expect FILE` take.

    ranks     processes that are busy at once; default one for each GPU, else 8
    name      of the entry; default the machine's own
    folder    where fio works; size: of its file; disk: whether it is run (where it is installed)
    seconds   of each kernel; more of them make a shared machine's figures steadier
    images    whether ResNet-50 is trained, too, for `podsim verify`
    backend   auto (NCCL where every rank has a GPU), gloo, nccl
    timeout   s after which a silent rank is given up
    save      file that the entry is written to, such as host.toml

    Raises LabError for a run that broke off, PodsimError for what makes no sense.
    """
    count = options.ranks if options.ranks is not None else gpus_here() or 8
    _checked(count, options)
    started, begun = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
    torch = load_torch()
    found_disk, notes = _disk(options.folder, options.size, options.disk, cores(), progress)
    rate = _images(options.folder, count, options.images, progress)
    measuring = Measuring(seconds=options.seconds, precisions=("fp32", "bf16"))

    def watch(rank: int, heard: Mapping[str, Any]) -> None:
        if rank == 0:
            progress(str(heard.get("doing", "")))

    def on_ranks(work: Callable[[Any, Any], Any], parts: tuple[str, ...] = ()) -> Any:
        task = Task(work=work, nodes=count, timeout=options.timeout, backend=options.backend, parts=parts)
        return run_here(task, watch=watch)

    told = on_ranks(lambda wires, note: measure_ranks(measuring, wires, note))
    told["steps"] = {}
    # each in processes of its own, as a training run is
    for runs in small_runs(count, options.backend, options.timeout):
        told["steps"] |= on_ranks(partial(small_steps, runs), PARTS)
    machine = read_inventory()
    device = told["device"]
    host = _host(told, count, options.name or _own_name(), rate, found_disk, notes)
    host = replace(
        host, started=started, seconds=time.monotonic() - begun,
        software=f"torch {torch.__version__}, Python {platform.python_version()}",
    )  # fmt: skip
    entry = entry_of(
        host, machine, memory=device["memory"] or machine.memory / count, capability=device["capability"],
        cache=device["cache"] or machine.cache / count, folder=str(options.folder.resolve()), features=_features(),
    )  # fmt: skip
    if options.save is not None:
        options.save.write_text(entry.text, "utf-8")
    return replace(entry.host, entry=entry.text)


def _own_name() -> str:
    return re.sub(r"[^a-z0-9-]+", "-", platform.node().lower()).strip("-")[:40] or "host"


def _checked(ranks: int, options: MeasureHostOptions) -> None:
    """Raise PodsimError with all that is wrong."""
    name, folder, save = options.name, options.folder, options.save
    wrong = (
        [] if 1 <= ranks <= MOST_RANKS else [f"--ranks {ranks}; 1 to {MOST_RANKS} are started on one machine"]
    )
    if len(name) > 60 or any(not char.isprintable() for char in name):
        wrong.append(f"--name {name[:60]!r}: a name of up to 60 letters")
    if not folder.is_dir():
        wrong.append(f"--folder {str(folder)[-200:]}: there is no such folder")
    wrong += [
        f"--{key} {value:g}; it must be at least {least:g}"
        for key, least in (("seconds", 0.001), ("timeout", 1.0))
        if not (value := getattr(options, key)) >= least
    ]
    if save is not None and (save.suffix.lower() != ".toml" or not save.parent.is_dir()):
        wrong.append(f"--save {save}: give the name of a .toml file in a folder that is there")
    if wrong:
        raise PodsimError("; ".join(wrong))


def _disk(folder: Path, size: str, wanted: bool, cores: int, note: Note) -> tuple[Disk | None, list[str]]:
    """What fio found; None with a note where it was not run."""
    if not wanted:
        return None, ["the disk was not measured (--no-disk)"]
    try:
        found = measure_disk(folder, cores, size=int(read_block(size, "--size")), seconds=3.0, note=note)
    except LabError as problem:
        return None, [f"the disk was not measured: {problem}"]
    if found.missing:
        return None, [f"the disk was not measured: {found.missing}"]
    told = [] if found.direct else ["the folder has no direct access: the page cache was measured, too"]
    return found, told


def _images(folder: Path, ranks: int, wanted: bool, note: Note) -> float | None:
    if not wanted:
        return None
    gpus = gpus_here()
    count = ranks if gpus >= ranks else min(ranks, cores())
    rates = measure_images(folder, count, gpu=gpus >= count, note=note, alone=True).rates[count]
    return sum(rates[1:]) / len(rates[1:])


def _host(
    told: Mapping[str, Any], ranks: int, name: str, images: float | None, disk: Disk | None, notes: list[str]
) -> MeasuredHost:
    """Plain values as the result, with what follows from them at once."""
    kernels = tuple(
        MeasuredKernel(**{**row, "shape": tuple(int(n) for n in row["shape"])}) for row in told["kernels"]
    )
    sends = tuple(MeasuredSend(**row) for row in told["sends"])
    runtime = runtime_of(told["steps"], ranks)
    streams = [row for row in kernels if row.name == "stream"]
    pairs = [row for row in sends if row.collective == "send_recv"]
    most = max((row.ranks for row in pairs), default=0)
    pairs = [row for row in pairs if row.ranks == most]
    launch = next(row.seconds for row in kernels if row.name == "launch")
    return MeasuredHost(
        name=name, ranks=ranks, device=told["device"]["name"], software="", cores=told["cores"], started="", seconds=0.0,
        peaks=_peaks(kernels), memory_bandwidth=max(12.0 * row.shape[0] / row.seconds for row in streams),
        launch=launch, link=max((row.size / row.seconds for row in pairs), default=1.0),
        link_latency=min((row.seconds for row in pairs), default=launch), kernels=kernels, sends=sends,
        runtime=runtime, disk=_disk_table(disk), names=dict(disk.names) if disk else {}, images=images,
        others=_others(told), notes=(*notes, *_shared(told)),
    )  # fmt: skip


def _peaks(kernels: tuple[MeasuredKernel, ...]) -> dict[str, float]:
    """The best FLOP/s of each precision."""
    found: dict[str, float] = {}
    for row in kernels:
        if row.name == "product":
            m, n, k = row.shape
            found[row.precision] = max(found.get(row.precision, 0.0), 2.0 * m * n * k / row.seconds)
    return found


def _disk_table(disk: Disk | None) -> dict[str, float]:
    if disk is None or not disk.fio:
        return {}
    runs = disk.fio
    return {
        "capacity": disk.capacity, "read": runs["read 1M"].read_bandwidth, "write": runs["write 1M"].write_bandwidth,
        "read_operations": runs["read 4k"].read_iops, "write_operations": runs["write 4k"].write_iops,
        "read_latency": runs["read 4k alone"].read_latency, "write_latency": runs["write 4k alone"].write_latency,
    }  # fmt: skip


def _others(told: Mapping[str, Any]) -> float:
    used = told["used"]
    return busiest(used, ["here"] * len(used), {"here": told["cores"]})[1]


def _shared(told: Mapping[str, Any]) -> list[str]:
    others = _others(told)
    if others <= 0.1:
        return []
    return [
        f"other programs used {others:.0%} of the processors meanwhile: measure again when the machine is idle"
    ]


def _features() -> dict[str, str]:
    """What `podsim verify` holds the machine against later: only what can be told here."""
    found = read_inventory()
    told = {}
    if found.tpm:
        told["tpm"] = f"{found.tpm}.0" if found.tpm == "2" else found.tpm
    if found.secure_boot is not None:
        told["secure_boot"] = "on" if found.secure_boot else "off"
    return told
