"""`podsim mig …`: layouts of a GPU, one layout in full, what a node becomes for a mix of jobs, a state read back."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podsim.answers.answer import View, call
from podsim.errors import MigError, NoFitError, PodsimError
from podsim.foreign_files import read_text
from podsim.hardware.catalog import load_gpu
from podsim.hardware.mig.change import additions, change_to
from podsim.hardware.mig.commands import change_commands, make_commands, make_parted, parted_text, read_parted
from podsim.hardware.mig.layouts import Layout, extensions, layouts, maximal, place, read_layout
from podsim.hardware.mig.measured_slices import cases, interference, slice_scores
from podsim.hardware.mig.profiles import Slicing, find_profile, slicing_of
from podsim.hardware.mig.results import (
    ConfigRow,
    GpuState,
    LawReport,
    LayoutRow,
    LayoutSheet,
    LayoutTable,
    SeventhRow,
)
from podsim.hardware.mig.smi import SeenGpu, differences, find_slicing, layout_of, read_smi
from podsim.hardware.mig.split import split
from podsim.options.machine_options import MigCheckOptions, MigLayoutsOptions, MigShowOptions, MigStateOptions
from podsim.options.output_options import DrawOutput
from podsim.options.question import NoOptions, question
from podsim.serving.mlperf import sevenths

_LARGEST = 4_000_000
"""characters of a text that is read"""


_STATES = View(
    report="report.mig_tables:states_report",
    rows="report.mig_tables:state_rows",
    image="report.mig_drawing:states_image",
    chart="Slices",
)


def _configurations(answer: Sequence[ConfigRow], output: object, options: Mapping[str, Any]) -> View:
    """How the configurations of a mig-parted file look on a GPU."""
    slicing = slicing_of(load_gpu(options["gpu"]))
    return View(
        report=lambda made: call("report.mig_tables:configs_report", made, slicing),
        rows="report.mig_tables:config_rows",
    )


@question(MigLayoutsOptions)
def mig_layouts(options: MigLayoutsOptions) -> LayoutTable:
    """The maximal layouts of a GPU; with `partial` also those to which something can be added.

    Of the basic profiles (1g, 2g, 3g, 4g, 7g), or with `every` of all.  Raises PodsimError for an unknown GPU and one
    without MIG.
    """
    chip = load_gpu(options.gpu)
    slicing = slicing_of(chip)
    all_, full = layouts(slicing, every=options.every), maximal(slicing, every=options.every)

    def order(layout: Layout) -> tuple[tuple[int, int, str], ...]:
        return tuple((instance.start, -instance.size, instance.profile) for instance in layout.instances)

    shown = sorted(all_ if options.partial else full, key=order)
    own = set(full)
    return LayoutTable(
        gpu=chip.name, slicing=slicing, total=len(all_), maximal=len(full),
        distinct=len({row.profiles for row in all_}),
        rows=tuple(
            LayoutRow(
                number=number, layout=row, instances=len(row.instances), compute=row.compute, memory=row.memory,
                maximal=row in own,
            )
            for number, row in enumerate(shown, start=1)
        ),
    )  # fmt: skip


@question(
    MigShowOptions,
    output=DrawOutput,
)
def mig_show(options: MigShowOptions) -> LayoutSheet:
    """One layout ("4g,2g,1g", "7x1g.5gb", "3g.20gb@4"): its instances as GPUs, possible additions, and its commands.

    Raises PodsimError for a GPU without MIG, and for a layout that cannot be, with all that stands in its way.
    """
    chip = load_gpu(options.gpu)
    slicing = slicing_of(chip)
    made = read_layout(slicing, options.layout)
    return LayoutSheet(
        gpu=chip.name, slicing=slicing, layout=made, slices=tuple(split(chip, made)),
        more={name: count for name, count in additions(slicing, made).items() if count},
        open=extensions(slicing, made), commands=make_commands(slicing, [made]),
        parted=parted_text({"podsim": make_parted([made])}),
    )  # fmt: skip


def read_smi_text(path: Path) -> str:
    """The text of a file. Raises PodsimError where it cannot be read."""
    return read_text(
        path, most=_LARGEST, error=PodsimError, hint="no output of nvidia-smi is", is_lenient=True
    )


@question(
    MigStateOptions,
    output=DrawOutput,
    view=_STATES,
    status=lambda states: int(any(each.change is not None and not each.change.reachable for each in states)),
)
def mig_state(options: MigStateOptions) -> tuple[GpuState, ...]:
    """The instances that nvidia-smi shows (-L, mig -lgi, mig -lgipp, or several in one file), GPU by GPU.

    `gpu` names the GPU where the text does not ("a100-40gb").  `want` is a layout that each shown GPU shall have; `add`
    is what shall be created beside what is there.  `busy` are instances that may not be destroyed, as their numbers in
    nvidia-smi, or "all".  Raises PodsimError for text that is not understood, and for a layout that cannot be.
    """
    if options.want and options.add:
        raise PodsimError(
            "want and add: give one of them: a whole layout, or what to create beside what is there"
        )
    seen = read_smi(read_smi_text(Path(options.file)))
    ids = {entry.instance_id for each in seen for entry in each.instances}
    wrong = [text for text in options.busy if text != "all" and not (text.isdecimal() and int(text) in ids)]
    if wrong:
        known = ", ".join(str(entry) for entry in sorted(i for i in ids if i is not None)) or "none"
        raise MigError(
            [f"busy {text[:20]!r}: no instance of that number; there are {known}, or all" for text in wrong]
        )
    return tuple(_state(entry, options.gpu, options.want, options.add, set(options.busy)) for entry in seen)


def _state(seen: SeenGpu, gpu: str, want: str, add: str, busy: set[str]) -> GpuState:
    slicing = slicing_of(load_gpu(gpu)) if gpu else find_slicing(seen)
    now = layout_of(slicing, seen)
    numbers = {
        instance.start: instance.instance_id for instance in seen.instances if instance.start is not None
    }
    uuids = {instance.start: instance.uuid for instance in seen.instances if instance.start is not None}
    ids = {start: number for start, number in numbers.items() if number is not None}
    change = None
    if want or add:
        stays = [
            instance for instance in now.instances if "all" in busy or str(numbers[instance.start]) in busy
        ]
        target, free = _target(slicing, now, want, add)
        change = change_to(slicing, now.instances, target, free=free, busy=stays)
    reached = change is not None and change.reachable
    return GpuState(
        index=seen.index, name=seen.name or slicing.name, slicing=slicing, layout=now,
        uuids=tuple(uuids[instance.start] for instance in now.instances),
        more={name: count for name, count in additions(slicing, now).items() if count},
        open=extensions(slicing, now), differences=differences(slicing, seen), change=change,
        commands=change_commands(slicing, seen.index, change, ids) if change is not None and reached else (),
    )  # fmt: skip


def _target(slicing: Slicing, now: Layout, want: str, add: str) -> tuple[Layout, bool]:
    """(layout that is wanted, whether its instances may stand elsewhere). Raises NoFitError for too much to add."""
    if want:
        return read_layout(slicing, want), not re.search(r"[@:]", want)
    more = read_layout(slicing, add).instances
    try:
        return place(
            slicing, [find_profile(slicing, instance.profile) for instance in (*now.instances, *more)]
        ), True
    except MigError as error:
        raise NoFitError([f"beside {now} no {add[:60]}: {problem}" for problem in error.problems]) from None


@question(
    MigCheckOptions,
    view=_configurations,
)
def mig_check(options: MigCheckOptions) -> tuple[ConfigRow, ...]:
    """The configurations of a mig-parted file, each of its entries placed on a GPU of this name.

    Raises MigError with every entry that cannot stand on it, and with what breaks the format.
    """
    slicing = slicing_of(load_gpu(options.gpu))
    problems: list[str] = []
    made = []
    for name, entries in read_parted(read_smi_text(Path(options.file))).items():
        for entry in entries:
            layout = None
            try:
                if entry.instances:
                    layout = read_layout(
                        slicing, " ".join(f"{n}x{profile}" for profile, n in entry.instances.items())
                    )
                    if not entry.enabled:
                        problems.append(f"{name}: mig-devices are named, but mig-enabled is false")
            except MigError as error:
                problems += [f"{name}: {problem}" for problem in error.problems]
            made.append(ConfigRow(name=name, devices=entry.devices, enabled=entry.enabled, layout=layout))
    if problems:
        raise MigError(problems)
    return tuple(made)


@question(NoOptions)
def mig_law(options: NoOptions) -> LawReport:
    """The laws of slices against what was measured: 28 training jobs by leaving out, and MLPerf's smallest instances."""
    rows = tuple(SeventhRow(**vars(row)) for row in sevenths())
    return LawReport(
        scores=slice_scores(), cases=cases(), busy=interference(), sevenths=rows,
        seventh_error=sum(abs(row.predicted / row.measured - 1) for row in rows) / len(rows),
    )  # fmt: skip
