"""Sheets and lists of the catalogs as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from podsim.units import format_quantity

if TYPE_CHECKING:
    from podsim.hardware.sheet import Sheet

__all__ = ["print_clusters", "print_models", "print_sheet"]


def print_sheet(sheet: Sheet) -> None:
    """Print a sheet: each figure, and how it is derived or where it comes from."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(f"{sheet.title}  ({sheet.kind} {sheet.name})", style="bold"))
    for section in sheet.sections:
        table = Table(title=Text(section.title, style="bold"), title_justify="left", box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(style="dim", overflow="fold")
        for row in section.rows:
            table.add_row(Text(row.label), Text(row.text), Text(row.how or row.source))
        console.print(table)


def _print_rows(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name, justify in columns:
        table.add_column(name, justify=justify, overflow="fold", no_wrap=justify == "right")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


def print_models(models: Sequence[Mapping[str, Any]]) -> None:
    """Print the models of the catalog."""
    columns = [("model", "left"), ("family", "left"), ("layers", "right"), ("hidden", "right"),
               ("parameters", "right"), ("active", "right"), ("sequence", "right"), ("source", "left")]  # fmt: skip
    rows = [
        [m["name"], m["family"], str(m["layers"]), str(m["hidden"]), f"{m['parameters']:,}",
         format_quantity(m["active_parameters"], "", digits=3), str(m["sequence"]), m["source"]]
        for m in models
    ]  # fmt: skip
    _print_rows(columns, rows)


def print_clusters(clusters: Sequence[Mapping[str, Any]]) -> None:
    """Print the systems and clusters of the catalog."""
    columns = [("cluster", "left"), ("GPU", "left"), ("nodes", "right"), ("GPUs", "right"), ("GPU memory", "right"),
               ("NVLink", "right"), ("network of a node", "right"), ("fabric", "left")]  # fmt: skip
    rows = [
        [c["name"], c["gpu"], str(c["nodes"]), str(c["gpus"]), format_quantity(c["memory"], "B"),
         format_quantity(c["nvlink"], "B/s"), format_quantity(c["network"], "B/s"), c["fabric"]]
        for c in clusters
    ]  # fmt: skip
    _print_rows(columns, rows)
