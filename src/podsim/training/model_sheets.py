"""Sheets of models and of training software: each figure with its source or derivation."""

from __future__ import annotations

from dataclasses import fields

from podsim.hardware.sheet_rows import Row, Section, Sheet
from podsim.report.field_notes import field_notes
from podsim.training.software import Software, load_software, software_names
from podsim.units import format_quantity
from podsim.workload.model import Model


def model_sheet(model: Model) -> Sheet:
    """The sheet of a language model: its size, its work for a token, and its blocks."""
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


def all_software_sheet() -> Sheet:
    """The sheet of all software: the title and source of each."""
    entries = [load_software(name) for name in software_names()]
    rows = tuple(
        Row(label=entry.name, value=None, unit="", text="", how=entry.title, source=entry.source)
        for entry in entries
    )
    return Sheet(
        name="software", kind="software", title="Frameworks and their versions",
        sections=(Section(title="Software", rows=rows),),
    )  # fmt: skip


def software_sheet(name: str) -> Sheet:
    """The sheet of a software entry: its constants."""
    software, notes, rows = load_software(name), field_notes(Software), []
    for field in fields(software):
        value = getattr(software, field.name)
        if field.name in ("name", "title", "source", "evidence"):
            continue
        unit, meaning = notes.get(field.name, ("", ""))
        unit = unit if unit in ("s", "B") else ""
        number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        text = format_quantity(number, unit) if number is not None else _word(value)
        how = "per parameter" if "bytes per parameter" in meaning else ""
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
