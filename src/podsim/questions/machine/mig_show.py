"""`podsim mig show`: one layout of a GPU in full."""

from __future__ import annotations

from dataclasses import MISSING, dataclass

from podsim.hardware.catalog import load_gpu
from podsim.hardware.mig.change import additions
from podsim.hardware.mig.commands import make_commands, make_parted, parted_text
from podsim.hardware.mig.layouts import extensions, read_layout
from podsim.hardware.mig.profiles import slicing_of
from podsim.hardware.mig.results import LayoutSheet
from podsim.hardware.mig.split import split
from podsim.options.machine_options import SlicedGpu
from podsim.options.output_options import DrawOutput
from podsim.options.question import option, question


@dataclass(frozen=True, kw_only=True)
class MigShowOptions(SlicedGpu):
    """One layout of a GPU."""

    layout: str = option(
        MISSING, "Instances: 4g,2g,1g or 7x1g.5gb, with places 3g.20gb@4,1g.5gb@0.", argument=True
    )


@question(MigShowOptions, output=DrawOutput)
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
