"""A data sheet as rows: each figure with its unit, how it came about and where from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from podsim.units import format_quantity


@dataclass(frozen=True)
class Row:
    """One figure."""

    label: str
    value: float | None
    """SI. The value; None for words."""
    unit: str
    """The SI unit of the value: B, B/s, FLOP/s, OP/s, FLOP/J, W, Hz, s, 1/s, or empty for a pure number."""
    text: str
    """The value as text, with a decimal prefix."""
    how: str
    """The arithmetic of a derived figure, or a remark on a given one."""
    source: str
    """The origins of a given figure; "derived" for others."""


@dataclass(frozen=True)
class Section:
    """Rows that belong together."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Sheet:
    """All that is known of a catalog entry or a cluster, and what follows from it."""

    name: str
    kind: str
    """The kind: gpu, nvswitch, nic, switch, pcie, cpu, ssd, system, cluster."""
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
    """A part that says where its figures come from."""

    @property
    def source(self) -> str:
        """Origins of its figures."""

    @property
    def notes(self) -> Mapping[str, str]:
        """Remarks by field."""


def text_of(value: float, unit: str, *, bits: bool = False) -> str:
    """A value in SI for a reader; rates of networks in bits."""
    if bits:
        return format_quantity(value * 8, "b" + unit.removeprefix("B"))
    if unit in ("", "1/s"):
        number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"
        return f"{number} {unit}".strip()
    return format_quantity(value, unit)


def given(part: Sourced, field: str, label: str, unit: str = "", *, key: str = "", bits: bool = False) -> Row:
    """A figure as the catalog gives it: a field of a part, or one key of a field that is a table."""
    held = getattr(part, field)
    value = float(held[key] if key else held)
    notes = (part.notes.get(f"{field}.{key}", ""), part.notes.get(field, ""))
    return Row(
        label=label,
        value=value,
        unit=unit,
        text=text_of(value, unit, bits=bits),
        how=next((note for note in notes if note), ""),
        source=part.source,
    )


def derived(
    label: str, value: float, unit: str, how: str, *, printed: float | None = None, bits: bool = False
) -> Row:
    """A figure that follows from others; `printed` is what the vendor's sheet says of it."""
    text = text_of(value, unit, bits=bits)
    if printed is not None:
        text += f" (data sheet: {text_of(printed, unit, bits=bits)})"
    return Row(label=label, value=value, unit=unit, text=text, how=how, source="derived")


def word(part: Sourced, label: str, text: str, *, field: str = "") -> Row:
    """A fact that is no number."""
    return Row(label=label, value=None, unit="", text=text, how=part.notes.get(field, ""), source=part.source)
