"""Sheets and lists of the catalogs as tables for a terminal. Sources are numbered, and named once at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podsim.hardware.sheet_rows import Row, Sheet
from podsim.report.table import Table, console, paragraph
from podsim.units import format_quantity

_ROOM = 30
"""columns that remarks should have where all sections are aligned alike"""


class _Sources:
    """Sources by number, in the order they are met."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def mark(self, source: str) -> str:
        return f"[{self.numbers.setdefault(source, len(self.numbers) + 1)}]" if source else ""

    def print(self) -> None:
        from rich.text import Text

        out = console()
        if self.numbers:
            out.print()
            out.print(Text("Sources", style="bold"))
        for source, number in self.numbers.items():
            for line in paragraph(source, out.width, indent=" " * 7, first=f"  [{number}]".ljust(7)):
                out.print(Text(line, style="dim"))


def print_sheet(sheet: Sheet) -> None:
    """Print a sheet: each figure, and how it is derived or where it comes from."""
    from rich.text import Text

    out, sources = console(), _Sources()
    for line in paragraph(sheet.title, out.width):
        out.print(Text(line, style="bold"))
    tables = {section.title: Table("lrw") for section in sheet.sections}
    for section in sheet.sections:
        for row in section.rows:
            tables[section.title].add(*_cells(row, sources))
    every = [table.widths() for table in tables.values()]
    alike = [max(sizes) for sizes in zip(*every, strict=True)] if every else []
    aligned = sum(alike[:2]) + 6 + _ROOM <= out.width
    for title, table in tables.items():
        out.print()
        out.print(Text(title, style="bold"))
        for columns, note in table.lines(out.width, alike if aligned else ()):
            out.print(Text(columns).append(note, style="dim"))
    sources.print()


def _cells(row: Row, sources: _Sources) -> tuple[str, str, str]:
    """Label, value, and remark: how it is derived, what the data sheet says, or the number of its source."""
    value, _, sheet = row.text.partition(" (data sheet: ")
    said = [row.how] if row.how else []
    if sheet:
        said.append(f"data sheet: {sheet.removesuffix(')')}")
    derived = row.source in ("derived", "")
    return (
        row.label,
        value,
        "; ".join(said) if derived else " ".join(["; ".join(said), sources.mark(row.source)]).strip(),
    )


def _print(table: Table, drop: Sequence[int] = ()) -> None:
    """Print a table; columns named in `drop` go, one after the other, where the terminal is too narrow."""
    from rich.text import Text

    out = console()
    for count in range(len(drop) + 1):
        shown = table.without(*drop[:count])
        if shown.fits(out.width):
            break
    for place, (columns, note) in enumerate(shown.lines(out.width)):
        out.print(Text(columns, style="bold" if place == 0 else "").append(note, style="dim"))


def print_models(models: Sequence[Mapping[str, Any]]) -> None:
    """Print the models of the catalog."""
    sources = _Sources()
    header = ("model", "family", "layers", "hidden", "parameters", "active", "sequence", "source")
    table = Table("llrrrrrl", header=header, indent=0)
    for m in models:
        table.add(
            m["name"], m["family"], str(m["layers"]), str(m["hidden"]), format_quantity(m["parameters"], ""),
            format_quantity(m["active_parameters"], "", digits=3), str(m["sequence"]), sources.mark(m["source"]),
        )  # fmt: skip
    _print(table, drop=(1, 5))
    sources.print()


def print_clusters(clusters: Sequence[Mapping[str, Any]]) -> None:
    """Print the systems and clusters of the catalog."""
    header = ("cluster", "GPU", "nodes", "GPUs", "NVLink", "network", "memory", "fabric")
    table = Table("llrrrrrl", header=header, indent=0)
    for c in clusters:
        table.add(
            c["name"], c["gpu"], str(c["nodes"]), str(c["gpus"]), f"{c['nvlink'] / 1e9:g}", f"{c['network'] / 1e9:g}",
            format_quantity(c["memory"], "B"), c["fabric"],
        )  # fmt: skip
    _print(table, drop=(7, 6))
    out = console()
    out.print()
    for line in paragraph(
        "NVLink of a GPU and network of a node in GB/s, one direction. NAME:64 is 64 nodes of a system, "
        "superpod-a100:2su two scalable units; `podsim show NAME` prints the whole sheet, sources included.",
        out.width,
    ):
        out.print(line)
