"""`podsim measure host`: what this machine does, rank by rank, and the catalog entry that comes of it."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from podsim.acceptance.host_constants import small_runs
from podsim.acceptance.host_entry import entry_of
from podsim.acceptance.host_result import features_of, host_result
from podsim.acceptance.storage_checks import Disk, measure_disk
from podsim.acceptance.training_checks import measure_images
from podsim.answers.host import MeasuredHost
from podsim.errors import LabError, raise_all
from podsim.lab.collective_job import usual_ranks
from podsim.lab.host_rates import Measuring, measure_ranks
from podsim.lab.host_steps import small_steps
from podsim.lab.inventory import read_inventory
from podsim.lab.processes import stopped_by_signals
from podsim.lab.ranks import MOST_RANKS, Task, run_here
from podsim.lab.training.train_run import PARTS
from podsim.lab.usage import cores, now_text
from podsim.lab.wires import gpus_here, load_torch
from podsim.options.measure_options import RanksOptions
from podsim.options.question import like, option, question
from podsim.storage.fio_results import read_block
from podsim.whole_files import write_whole

Note = Callable[[str], None]
_STEPS, _DISK, _IMAGES = "steps of small networks", "the disk", "ResNet-50"


@dataclass(frozen=True, kw_only=True)
class MeasureHostOptions(RanksOptions):
    """This machine, and how long it is measured."""

    ranks: int | None = like(
        RanksOptions, "ranks", "Processes busy at once; default one a GPU, else one a core, from 2 to 8."
    )
    timeout: float = like(RanksOptions, "timeout", default=300.0)
    save: Path | None = like(RanksOptions, "save", "Write the catalog entry to this .toml file.")
    name: str = option("", "Name of the entry; default the machine's own.")
    folder: Path = option(Path(), "Folder on the disk that is measured.")
    size: str = option("1G", "Size of fio's file, as fio writes it.")
    seconds: float = option(0.3, "Seconds for each kernel.")
    disk: bool = option(True, "Measure the disk with fio.")
    images: bool = option(True, "Train ResNet-50, too, for podsim verify.")


@question(
    MeasureHostOptions,
    progress="doing",
    status=lambda host: 130 if host.stopped else 0,
)
def measure_host(options: MeasureHostOptions, *, progress: Note = lambda _: None) -> MeasuredHost:
    """Measured speeds of this machine, and its catalog entry, which `--on FILE` and `verify --expect FILE` take.

    fio works in `folder`, where it is installed. `save` has the entry as soon as kernels and exchanges are measured, and
    again after each further part; Ctrl-C, SIGTERM and SIGHUP end it with what there is then. More seconds of each kernel
    make a shared machine's figures steadier.

    Raises LabError for a run that broke off, PodsimError for what makes no sense.
    """
    count = options.ranks if options.ranks is not None else gpus_here() or usual_ranks()
    _checked(count, options)
    started, begun = now_text(), time.monotonic()
    torch = load_torch()
    measuring = Measuring(seconds=options.seconds, precisions=("fp32", "bf16"))

    def watch(rank: int, heard: Mapping[str, Any]) -> None:
        if rank == 0:
            progress(str(heard.get("doing", "")))

    def on_ranks(work: Callable[[Any, Any], Any], parts: tuple[str, ...] = ()) -> Any:
        task = Task(work=work, nodes=count, timeout=options.timeout, backend=options.backend, parts=parts)
        return run_here(task, watch=watch)

    result = on_ranks(lambda wires, note: measure_ranks(measuring, wires, note))
    parts: dict[str, Callable[[], Any]] = {
        _STEPS: lambda: _small_steps(count, options, on_ranks, progress),
        _DISK: lambda: _disk(options.folder, options.size, options.disk, cores(), progress),
        _IMAGES: lambda: _images(options.folder, count, options.images, progress),
    }
    measured: dict[str, Any] = {_STEPS: {}, _DISK: (None, []), _IMAGES: None}
    left = list(parts)

    def keep() -> MeasuredHost:
        """The entry of what is measured, in its file too."""
        notes = [*measured[_DISK][1], *([f"stopped before: {', '.join(left)}"] if left else [])]
        host = host_result(
            result | {"steps": measured[_STEPS]}, count, options.name or _own_name(), measured[_IMAGES],
            measured[_DISK][0], notes,
        )  # fmt: skip
        host = replace(
            host, started=started, seconds=time.monotonic() - begun, stopped=bool(left),
            software=f"torch {torch.__version__}, Python {platform.python_version()}",
        )  # fmt: skip
        return _with_entry(host, result["device"], options)

    with suppress(KeyboardInterrupt), stopped_by_signals():
        for name, measure in parts.items():
            keep()
            measured[name] = measure()
            left.remove(name)
    return keep()


def _small_steps(
    ranks: int, options: MeasureHostOptions, on_ranks: Callable[..., Any], note: Note
) -> dict[str, Any]:
    """Steps of small networks, each group in processes of its own, as a training run is."""
    steps: dict[str, Any] = {}
    groups = list(small_runs(ranks, options.backend, options.timeout))
    for number, runs in enumerate(groups, 1):
        note(f"steps of small networks, {number} of {len(groups)}")
        steps |= on_ranks(partial(small_steps, runs), PARTS)
    return steps


def _with_entry(host: MeasuredHost, device: Mapping[str, Any], options: MeasureHostOptions) -> MeasuredHost:
    """The host with its catalog entry, in its file too."""
    machine = read_inventory()
    entry = entry_of(
        host, machine, memory=device["memory"] or machine.memory / host.ranks, capability=device["capability"],
        cache=device["cache"] or machine.cache / host.ranks, folder=str(options.folder.resolve()),
        features=features_of(machine),
    )  # fmt: skip
    if options.save is not None:
        write_whole(options.save, entry.text)
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
    raise_all(wrong)


def _disk(folder: Path, size: str, wanted: bool, cores: int, note: Note) -> tuple[Disk | None, list[str]]:
    """What fio found; None with a note where it was not run."""
    if not wanted:
        return None, ["the disk was not measured (--no-disk)"]
    try:
        disk = measure_disk(folder, cores, size=int(read_block(size, "--size")), seconds=3.0, note=note)
    except LabError as problem:
        return None, [f"the disk was not measured: {problem}"]
    if disk.missing:
        return None, [f"the disk was not measured: {disk.missing}"]
    notes = [] if disk.direct else ["the folder has no direct access: the page cache was measured, too"]
    return disk, notes


def _images(folder: Path, ranks: int, wanted: bool, note: Note) -> float | None:
    if not wanted:
        return None
    gpus = gpus_here()
    count = ranks if gpus >= ranks else min(ranks, cores())
    rates = measure_images(folder, count, gpu=gpus >= count, note=note, alone=True).rates[count]
    return sum(rates[1:]) / len(rates[1:])
