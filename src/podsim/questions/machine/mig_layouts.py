"""`podsim mig layouts`: the layouts of a GPU, the maximal ones or all."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.hardware.catalog import load_gpu
from podsim.hardware.mig.layouts import Layout, layouts, maximal
from podsim.hardware.mig.profiles import Slicing, slicing_of
from podsim.options.machine_options import SlicedGpu
from podsim.options.question import option, question


@dataclass(frozen=True, kw_only=True)
class MigLayoutsOptions(SlicedGpu):
    """Which layouts of a GPU are listed."""

    every: bool = option(False, "All profiles, 1g with more memory and +me, too.", flag="--every")
    partial: bool = option(False, "Layouts to which something can be added, too.", flag="--partial")


@dataclass(frozen=True, kw_only=True)
class LayoutRow:
    """One layout of a table."""

    number: int = shown("layout")
    """The position in the table."""
    layout: Layout = shown("profile@slice", of_row=lambda row: str(row.layout))
    """The instances with their positions."""
    instances: int
    compute: int
    """The number of compute slices in use."""
    memory: int
    """The number of memory slices in use."""
    maximal: bool = shown(hide_if=True)
    """Whether no instance can be added."""


@dataclass(frozen=True, kw_only=True)
class LayoutTable(Answer, view=View(rows="report.mig_tables:layout_rows")):
    """Layouts of one GPU."""

    gpu: str
    """The name of the GPU."""
    slicing: Slicing = shown(title="Slices")
    """The table of its profiles."""
    rows: tuple[LayoutRow, ...] = shown(title="Layouts")
    """The layouts that are shown."""
    total: int = shown("layouts")
    """The number of layouts of these profiles, without the empty one."""
    maximal: int = shown("maximal ones")
    """The number of layouts to which no instance can be added."""
    distinct: int = shown("sets of profiles")
    """The number of sets of profiles among all layouts, wherever they stand."""


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
