"""`podsim show`, `podsim models`, `podsim clusters`: what there is, with every figure's source or derivation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from podsim.answers.answer import View, call
from podsim.errors import CatalogError, ModelError, PodsimError, unknown_name
from podsim.graphs.network_sheets import all_networks_sheet, network_sheet
from podsim.graphs.networks import networks
from podsim.hardware.cluster import cluster_names, load_cluster
from podsim.hardware.cluster_names import is_slice
from podsim.hardware.fabrics.describe import Drawing
from podsim.hardware.sheet import sheet, sheet_names
from podsim.hardware.sheet_rows import Row, Section, Sheet
from podsim.options.machine_options import ShowOptions
from podsim.options.output_options import ShowOutput
from podsim.options.question import NoOptions, question
from podsim.questions.asking import ask
from podsim.serving.engine_sheets import all_engines_sheet, engine_sheet
from podsim.serving.language_engines import language_engine_names
from podsim.training.job_inputs import split_overrides
from podsim.training.software import load_software, software_names
from podsim.units import format_quantity
from podsim.workload.catalog import load_model, model_names
from podsim.workload.model import Model


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
    if name == "software" or name in software_names():
        if options.overrides:
            raise CatalogError(f"{name}: software cannot be changed by keys")
        return _all_software() if name == "software" else _software(name)
    if name == "engines" or name in language_engine_names():
        if options.overrides:
            raise CatalogError(f"{name}: an engine cannot be changed by keys")
        return all_engines_sheet() if name == "engines" else engine_sheet(name)
    if name == "networks" or name in networks():
        if options.overrides:
            raise CatalogError(
                f"{name}: a captured network cannot be changed by keys; capture a module of your own"
            )
        return all_networks_sheet() if name == "networks" else network_sheet(name)
    is_cluster = name.lower().endswith(".toml") or ":" in name or is_slice(name)
    if is_cluster or name.lower().partition("/")[0] in sheet_names():
        if for_model:
            raise CatalogError(f"{name} is no model: {', '.join(for_model)} cannot be set")
        return sheet(name, for_hardware)
    try:
        model = load_model(name, for_model)
    except ModelError as error:
        raise _unknown(name) if str(error).startswith("unknown model") else error from None
    if for_hardware:
        raise CatalogError(
            f"{name} is a model: {', '.join(for_hardware)} cannot be set; its keys start with model."
        )
    return _model_sheet(model)


def _unknown(name: str) -> CatalogError:
    known = [*sheet_names(), *model_names(), *software_names(), *language_engine_names(), *networks()]
    return CatalogError(
        f"{unknown_name('name', name, known)}; `podsim models`, `podsim clusters`, `podsim show software`, "
        "`podsim show engines` and `podsim show networks` list names; a GPU (a100-sxm4-80gb), a config.json or a "
        "cluster's TOML file work too"
    )


@question(NoOptions, view=View(report="report.sheets:models_report"))
def models(options: NoOptions) -> list[dict[str, object]]:
    """Every model of the catalog: name, family, layers, hidden, parameters, sequence, source; then captured networks."""
    rows: list[dict[str, object]] = []
    for name in model_names():
        model = load_model(name)
        rows.append({
            "name": name, "family": model.family, "layers": model.layer_count, "hidden": model.hidden,
            "parameters": model.parameters, "active_parameters": model.active_parameters,
            "sequence": model.sequence, "source": model.source,
        })  # fmt: skip
    for network in networks().values():
        rows.append({
            "name": network.name, "family": "captured network", "layers": None, "hidden": None,
            "parameters": network.all_parameters, "active_parameters": network.all_parameters, "sequence": None,
            "source": network.source,
        })  # fmt: skip
    return rows


@question(NoOptions, view=View(report="report.sheets:clusters_report"))
def clusters(options: NoOptions) -> list[dict[str, object]]:
    """Every system and cluster of the catalog: name, GPU, GPUs, memory, network, source."""
    rows: list[dict[str, object]] = []
    for name in cluster_names():
        cluster = load_cluster(name)
        rows.append({
            "name": name, "gpu": cluster.gpu.name, "nodes": cluster.nodes, "gpus": cluster.gpus,
            "memory": cluster.gpu.memory * cluster.gpus, "nvlink": cluster.nvlink.bandwidth,
            "network": cluster.node_bandwidth, "fabric": cluster.fabric, "source": cluster.source,
        })  # fmt: skip
    return rows


def _model_sheet(model: Model) -> Sheet:
    flops = model.forward_flops()
    forward = sum(flops.values())
    size = [
        Row("parameters", float(model.parameters), "", f"{model.parameters:,}", "sum of the ops' weights", model.source),
        Row("active parameters", float(model.active_parameters), "", f"{model.active_parameters:,}",
            "experts counted top-k of all", ""),
        Row("layers", float(model.layer_count), "", str(model.layer_count), "", model.source),
        Row("hidden", float(model.hidden), "", str(model.hidden), "", model.source),
        Row("vocabulary", float(model.vocab), "", str(model.vocab), "", model.source),
        Row("sequence", float(model.sequence), "", f"{model.sequence} tokens", "", model.source),
    ]  # fmt: skip
    work = [
        Row(
            f"forward, {name}",
            value,
            "FLOP",
            format_quantity(value, "FLOP"),
            "per token, 2 per multiply-add",
            "",
        )
        for name, value in flops.items()
    ]
    work.append(Row("training", 3 * forward, "FLOP", format_quantity(3 * forward, "FLOP"),
                    "per token: forward once, backward twice", ""))  # fmt: skip
    sections = [Section("Size", tuple(size)), Section("Work", tuple(work)), *(_block(model))]
    return Sheet(model.name, "model", f"{model.name} ({model.family})", tuple(sections))


def _block(model: Model) -> list[Section]:
    sections = []
    for block in model.blocks:
        rows = []
        for op in block.ops:
            shape = (
                f"{op.k} -> {op.n}" if op.n else f"{op.heads} heads of {op.head_dim}" if op.heads else op.kind
            )
            count = op.weight + op.bias
            rows.append(Row(op.name, float(count), "", f"{count:,}", f"{shape}, split {op.split}", ""))
        sections.append(Section(f"{block.count} x {block.name} (parameters of each op)", tuple(rows)))
    return sections


def _all_software() -> Sheet:
    entries = [load_software(name) for name in software_names()]
    rows = tuple(
        Row(label=entry.name, value=None, unit="", text="", how=entry.title, source=entry.source)
        for entry in entries
    )
    return Sheet(
        name="software", kind="software", title="Frameworks and their versions",
        sections=(Section(title="Software", rows=rows),),
    )  # fmt: skip


_SECONDS = ("host_kernel", "host_collective", "host_send", "host_step", "host_broadcast")
_BYTES = ("gradient_bytes", "gradient_memory", "optimizer_traffic", "logit_bytes", "memory_floor", "reserved")


def _software(name: str) -> Sheet:
    from dataclasses import fields

    software = load_software(name)
    rows = []
    for field in fields(software):
        value = getattr(software, field.name)
        if field.name in ("name", "title", "source", "evidence"):
            continue
        unit = "s" if field.name in _SECONDS else "B" if field.name in _BYTES else ""
        number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        text = format_quantity(number, unit) if number is not None else _word(value)
        how = "per parameter" if unit == "B" and field.name.startswith(("gradient", "optimizer")) else ""
        rows.append(
            Row(label=field.name, value=number, unit=unit, text=text, how=how, source=software.source)
        )
    last = Row(
        label="evidence",
        value=None,
        unit="",
        text="",
        how=software.evidence or "none",
        source=software.source,
    )
    return Sheet(
        name=name, kind="software", title=f"{name}: {software.title}",
        sections=(Section(title="Constants", rows=(*rows, last)),),
    )  # fmt: skip


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        ", ".join(word.removeprefix("overlap_") for word in value) if isinstance(value, tuple) else str(value)
    )
