"""Sheets and lists of the catalogs. Sources are numbered, and named once at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podsim.hardware.sheet_rows import Row, Sheet
from podsim.report.columns import FACTS, Column, Table
from podsim.report.screen import Block, Paragraph, Rows, bold
from podsim.units import format_quantity


class _Sources:
    """Numbered sources, in the order of their first use."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def mark(self, source: str) -> str:
        return f"[{self.numbers.setdefault(source, len(self.numbers) + 1)}]" if source else ""

    def report(self) -> Iterator[Block]:
        if self.numbers:
            yield from ("", bold("Sources"))
        for source, number in self.numbers.items():
            yield Paragraph(source, "dim", indent=" " * 7, first=f"  [{number}]".ljust(7))


def sheet_report(sheet: Sheet) -> Iterator[Block]:
    """A sheet: each figure, and its derivation or source."""
    sources = _Sources()
    rows: list[Any] = []
    for section in sheet.sections:
        rows += ["", bold(section.title), *(_cells(row, sources) for row in section.rows)]
    yield from (bold(sheet.title), Rows(FACTS, rows))
    yield from sources.report()


def _cells(row: Row, sources: _Sources) -> tuple[str, str, str]:
    """Label, value, and remark: how it is derived, what the data sheet says, or the number of its source."""
    figure, _, sheet = row.text.partition(" (data sheet: ")
    remarks = [row.how] if row.how else []
    if sheet:
        remarks.append(f"data sheet: {sheet.removesuffix(')')}")
    remark = "; ".join(remarks)
    if row.source not in ("derived", ""):
        remark = f"{remark} {sources.mark(row.source)}".strip()
    return row.label, figure, remark


def models_report(models: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """The models of the catalog."""
    sources = _Sources()
    columns = (
        Column("model", "name"),
        Column("family", drop=1),
        Column("layers", "", ":d"),
        Column("hidden", "", ":d"),
        Column("parameters", "", lambda count: format_quantity(count, "")),
        Column("active", "active_parameters", lambda count: format_quantity(count, "", digits=3), drop=2),
        Column("sequence", "", ":d"),
        Column("source"),
    )
    rows = [{**model, "source": sources.mark(model["source"])} for model in models]
    yield Rows(Table(*columns, indent=0), rows)
    yield from sources.report()


def clusters_report(clusters: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """The systems and clusters of the catalog."""
    columns = (
        Column("cluster", "name"),
        Column("GPU", "gpu"),
        Column("nodes", "", ":d"),
        Column("GPUs", "gpus", ":d"),
        Column("NVLink", "nvlink", lambda rate: f"{rate / 1e9:g}"),
        Column("network", "network", lambda rate: f"{rate / 1e9:g}"),
        Column("memory", "", "B", drop=2),
        Column("fabric", drop=1),
    )
    yield from (Rows(Table(*columns, indent=0), clusters), "")
    yield (
        "NVLink of a GPU and network of a node in GB/s, one direction. NAME:64 is 64 nodes of a system, "
        "superpod-a100:2su two scalable units; `podsim show NAME` prints the whole sheet, sources included."
    )
