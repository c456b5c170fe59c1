"""`podsim show`: the sheet of anything in the catalogs, with every figure's source or derivation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from podsim.answers.answer import call
from podsim.errors import CatalogError, ModelError, PodsimError, unknown_name
from podsim.fleet.power_hpl import with_prediction
from podsim.graphs.network_sheets import all_networks_sheet, network_sheet
from podsim.graphs.networks import networks
from podsim.hardware.cluster import load_cluster
from podsim.hardware.cluster_names import is_slice
from podsim.hardware.fabrics.describe import Drawing
from podsim.hardware.sheet import all_gpus_sheet, sheet, sheet_names
from podsim.hardware.sheet_rows import Sheet
from podsim.options.output_options import Output
from podsim.options.question import option, overrides_option, question
from podsim.questions.registry import ask
from podsim.serving.engine_sheets import all_engines_sheet, engine_sheet
from podsim.serving.language_engines import language_engine_names
from podsim.training.job_inputs import split_overrides
from podsim.training.model_sheets import all_software_sheet, model_sheet, software_sheet
from podsim.training.software import software_names
from podsim.workload.catalog import load_model, model_names


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """Anything in the catalogs."""

    name: str | Path = option(
        MISSING,
        "A name of any catalog, `gpus`, `software`, a config.json, or a cluster's TOML file.",
        argument=True,
    )
    fabric: bool = option(
        False, "Draw servers and switches instead; NAME may be a topology XML, too.", flag="--fabric"
    )
    overrides: Mapping[str, str] | None = overrides_option(
        "gpu.memory=64GB, network.bandwidth=100Gb/s, model.layers=12"
    )


@dataclass(frozen=True, kw_only=True)
class ShowOutput(Output):
    """A sheet, or a drawing of the fabric."""

    plot: Path | None = option(
        None, "With --fabric: draw it to this file, too: FILE.svg.", suffixes=(".svg",), older="--svg"
    )


_UNCHANGED: Sequence[tuple[str, Callable[[], Iterable[str]], Callable[[], Sheet], Callable[[str], Sheet]]] = (
    ("gpus", tuple, all_gpus_sheet, sheet),
    ("software", software_names, all_software_sheet, software_sheet),
    ("engines", language_engine_names, all_engines_sheet, engine_sheet),
    ("networks", networks, all_networks_sheet, network_sheet),
)
"""catalogs whose entries no keys change: (name, names of entries, sheet of all, sheet of an entry)"""


def _check(output: ShowOutput, options: Mapping[str, Any]) -> None:
    """Raise PodsimError for forms that there are not."""
    if output.plot is not None and not options["fabric"]:
        raise PodsimError("--plot draws a fabric; give --fabric, too")
    if options["fabric"] and output.csv:
        raise PodsimError("--fabric --csv: a drawing is no table; --json gives its parts")


def _draw(answer: Sheet | Drawing, output: ShowOutput, options: Mapping[str, Any]) -> None:
    """Write the drawing, if a file is named."""
    if output.plot is not None and isinstance(answer, Drawing):
        call("report.fabric_svg:draw_file", answer, output.plot)


@question(
    ShowOptions,
    output=ShowOutput,
    check=_check,
    write=_draw,
)
def show(options: ShowOptions) -> Sheet | Drawing:
    """The sheet of anything in the catalogs: a GPU, a part, a system, a cluster, a model, a network, a software entry.

    `name` may also be "software" (of training), "engines" (of language models), "networks" (all captured ones), a
    config.json or a cluster file. Raises CatalogError for an unknown name, with the closest ones.
    """
    if options.fabric:
        drawing: Drawing = ask("fabric", str(options.name), overrides=options.overrides)
        return drawing
    name = str(options.name)
    for_model, for_hardware = split_overrides(options.overrides)
    for title, names, all_of_it, sheet_of in _UNCHANGED:
        if name == title or name in names():
            if options.overrides:
                raise CatalogError(f"{name}: {title} cannot be changed by keys")
            return all_of_it() if name == title else sheet_of(name)
    is_cluster = name.lower().endswith(".toml") or ":" in name or is_slice(name)
    if is_cluster or name.lower().partition("/")[0] in sheet_names():
        if for_model:
            raise CatalogError(f"{name} is no model: {', '.join(for_model)} cannot be set")
        page = sheet(name, for_hardware)
        return with_prediction(page, load_cluster(name, for_hardware)) if page.kind == "cluster" else page
    try:
        model = load_model(name, for_model)
    except ModelError as error:
        raise _unknown(name) if str(error).startswith("unknown model") else error from None
    if for_hardware:
        raise CatalogError(
            f"{name} is a model: {', '.join(for_hardware)} cannot be set; its keys start with model."
        )
    return model_sheet(model)


def _unknown(name: str) -> CatalogError:
    known = [*sheet_names(), *model_names(), *software_names(), *language_engine_names(), *networks()]
    return CatalogError(
        f"{unknown_name('name', name, known)}; `podsim models`, `podsim clusters` and `podsim show` gpus, software, "
        "engines or networks list names; a config.json or a cluster's TOML file work too"
    )
