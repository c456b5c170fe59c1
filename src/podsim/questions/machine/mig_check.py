"""`podsim mig check`: whether the configurations of a mig-parted file can stand on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from podsim.answers.answer import View, call
from podsim.answers.fields import shown
from podsim.errors import MigError, raise_all
from podsim.hardware.catalog import load_gpu
from podsim.hardware.mig.commands import read_parted
from podsim.hardware.mig.layouts import Layout, read_layout
from podsim.hardware.mig.profiles import slicing_of
from podsim.hardware.mig.smi import read_smi_text
from podsim.options.question import option, question


@dataclass(frozen=True, kw_only=True)
class MigCheckOptions:
    """A mig-parted file."""

    file: Path | str = option(MISSING, "A mig-parted file.", argument=True)
    gpu: str = option(MISSING, "The GPU it is for: a100-40gb, a100-80gb, a30, h100, h200.")


@dataclass(frozen=True, kw_only=True)
class ConfigRow:
    """One entry of a mig-parted file."""

    name: str = shown("configuration")
    devices: tuple[int, ...] | None = shown("GPUs", missing="all")
    """The numbers of the GPUs; None for all."""
    enabled: bool
    """Whether MIG mode is on."""
    layout: Layout | None = shown("profile@slice", of_row=lambda row: str(row.layout or "-"))
    """One way to place its instances; None if there is none."""


def _view(rows: object, output: object, options: Mapping[str, Any]) -> View:
    """The configurations as a table, and the verdict."""
    verdict = f"Every entry can stand on a GPU of {options['gpu']}."
    return View(
        report=lambda rows: (*call("report.derived:derived_report", rows), verdict),
        rows="report.mig_tables:config_rows",
    )


@question(MigCheckOptions, view=_view)
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
    raise_all(problems, MigError)
    return tuple(made)
