"""`podsim mig state`: the instances that nvidia-smi shows, and whether another layout can be reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from podsim.answers.answer import View
from podsim.errors import MigError, PodsimError
from podsim.hardware.mig.gpu_states import gpu_state
from podsim.hardware.mig.results import GpuState
from podsim.hardware.mig.smi import read_smi, read_smi_text
from podsim.options.output_options import DrawOutput
from podsim.options.question import option, question

_STATES = View(
    report="report.mig_tables:states_report",
    rows="report.mig_tables:state_rows",
    image="report.mig_drawing:states_image",
    chart="Slices",
)


@dataclass(frozen=True, kw_only=True)
class MigStateOptions:
    """The output of nvidia-smi, and the requested change."""

    file: Path | str = option(
        MISSING, "Output of nvidia-smi -L, mig -lgi, mig -lgipp, or several in one.", argument=True
    )
    gpu: str = option("", "The GPU, where the text does not name it.")
    want: str = option("", "The layout that each GPU should have, e.g. 3g,2g,2g.")
    add: str = option("", "Instances to create in addition to those that are there.")
    busy: Sequence[str] = option((), "Instance that may not be destroyed (its number), or all. Repeatable.")


@question(
    MigStateOptions,
    output=DrawOutput,
    view=_STATES,
    status=lambda states: int(any(gpu.change is not None and not gpu.change.reachable for gpu in states)),
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
    ids = {entry.instance_id for gpu in seen for entry in gpu.instances}
    wrong = [text for text in options.busy if text != "all" and not (text.isdecimal() and int(text) in ids)]
    if wrong:
        known = ", ".join(str(entry) for entry in sorted(i for i in ids if i is not None)) or "none"
        raise MigError(
            [f"busy {text[:20]!r}: no instance of that number; there are {known}, or all" for text in wrong]
        )
    return tuple(
        gpu_state(entry, options.gpu, options.want, options.add, set(options.busy)) for entry in seen
    )
