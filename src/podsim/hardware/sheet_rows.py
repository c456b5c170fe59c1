"""The rows of a data sheet: each figure with its unit, derivation and source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from podsim.answers.answer import Answer, View
from podsim.units import format_quantity


@dataclass(frozen=True)
class Row:
    """One figure."""

    label: str
    value: float | None
    """SI. The figure; None for a fact in words."""
    unit: str
    """The SI unit of the value: B, B/s, FLOP/s, OP/s, FLOP/J, W, Hz, s, 1/s; empty for a pure number."""
    text: str
    """The value as printed, with a decimal prefix."""
    how: str
    """The arithmetic of a derived figure, or a remark on a given one."""
    source: str
    """The source of a given figure; "derived" for others."""


@dataclass(frozen=True)
class Section:
    """A titled group of rows."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Sheet(Answer, view=View(report="report.sheets:sheet_report")):
    """The given and derived figures of a catalog entry or a cluster."""

    name: str
    kind: str
    """The kind of entry: gpu, nvswitch, nic, switch, pcie, cpu, ssd, system, cluster."""
    title: str
    sections: tuple[Section, ...]

    def row(self, label: str) -> Row:
        """The first row with that label. Raises KeyError if there is none."""
        for section in self.sections:
            for row in section.rows:
                if row.label == label:
                    return row
        raise KeyError(label)


class Sourced(Protocol):
    """A part with the source of its figures."""

    @property
    def source(self) -> str:
        """The source of its figures."""

    @property
    def notes(self) -> Mapping[str, str]:
        """The remarks by field."""


def quantity_text(value: float, unit: str, *, bits: bool = False) -> str:
    """The text of a value in SI; network rates are in bits."""
    if bits:
        return format_quantity(value * 8, "b" + unit.removeprefix("B"))
    if unit in ("", "1/s"):
        number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
        return f"{number} {unit}".strip()
    return format_quantity(value, unit)


def given_row(
    part: Sourced, field: str, label: str, unit: str = "", *, key: str = "", bits: bool = False
) -> Row:
    """The row of a given figure: a field of a part, or one key of a table of a part."""
    held = getattr(part, field)
    value = float(held[key] if key else held)
    notes = (part.notes.get(f"{field}.{key}", ""), part.notes.get(field, ""))
    return Row(
        label=label,
        value=value,
        unit=unit,
        text=quantity_text(value, unit, bits=bits),
        how=next((note for note in notes if note), ""),
        source=part.source,
    )


def derived_row(
    label: str, value: float, unit: str, how: str, *, printed: float | None = None, bits: bool = False
) -> Row:
    """The row of a derived figure; `printed` is the figure of the vendor's data sheet."""
    text = quantity_text(value, unit, bits=bits)
    if printed is not None:
        text += f" (data sheet: {quantity_text(printed, unit, bits=bits)})"
    return Row(label=label, value=value, unit=unit, text=text, how=how, source="derived")


def product_row(
    label: str, count: int, value: float, unit: str, *, then: str = "", factor: int = 1,
    printed: float | None = None, bits: bool = False,
) -> Row:  # fmt: skip
    """The row of so many times a figure; `then` says what follows in the arithmetic, and `factor` is its number."""
    how = f"{count} x {quantity_text(value, unit, bits=bits)}{then}"
    return derived_row(label, count * value * factor, unit, how, printed=printed, bits=bits)


def ratio_row(
    label: str, unit: str, above: tuple[float, str], below: tuple[float, str], *, then: str = ""
) -> Row:
    """The row of a figure over another, each with its unit; `then` says what follows in the arithmetic."""
    how = f"{quantity_text(*above)} / {quantity_text(*below)}{then}"
    return derived_row(label, above[0] / below[0], unit, how)


def word_row(part: Sourced, label: str, text: str, *, field: str = "") -> Row:
    """The row of a fact in words."""
    return Row(label=label, value=None, unit="", text=text, how=part.notes.get(field, ""), source=part.source)
