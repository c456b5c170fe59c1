"""The packaged figures of power and prices, each with source and date, as podsim.fleet.power_schema describes them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from podsim.answers.answer import call
from podsim.packaged import once_read, packaged_toml

if TYPE_CHECKING:
    from podsim.fleet.power_schema import Figures, ListPrices, PriceEntry


def _checked(file: str, reader: str) -> Any:
    """A table of this folder after its check."""
    path = f"fleet/{file}"
    return once_read(
        (path, "fleet/power_schema.py"),
        lambda _: call(f"fleet.power_schema:{reader}", packaged_toml(path), file),
    )


@cache
def figures() -> Figures:
    """The packaged figures of power."""
    known: Figures = _checked("power.toml", "parse_figures")
    return known


@cache
def prices() -> dict[str, PriceEntry]:
    """The packaged prices by name."""
    known: dict[str, PriceEntry] = _checked("prices.toml", "parse_prices")
    return known


@cache
def list_prices() -> tuple[ListPrices, ...]:
    """The packaged tables of list prices."""
    known: dict[str, ListPrices] = _checked("list_prices.toml", "parse_list_prices")
    return tuple(known.values())
