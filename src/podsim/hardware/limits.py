"""Quantities and counts read within limits: what no machine can be is refused, with the rule."""

from __future__ import annotations

from podsim.errors import UnitError
from podsim.units import format_quantity, parse_quantity

__all__ = ["LIMITS", "read_count", "read_quantity"]

LIMITS: dict[str, tuple[float, float]] = {
    "B": (1e5, 1e20),
    "B/s": (1e6, 1e17),
    "FLOP/s": (1e8, 1e20),
    "W": (1.0, 1e9),
    "Hz": (1e6, 1e11),
    "s": (0.0, 1.0),
    "1/s": (1.0, 1e12),
}
"""least and greatest value by SI unit: far beyond any part built, so that only slips are caught"""


def read_quantity(value: object, unit: str, *, what: str) -> float:
    """Number in SI of a quantity, as text with a unit or as a bare SI number.

    Raises UnitError for what is no quantity, is of another unit, or lies outside LIMITS.
    """
    number = _parse(value, unit, what)
    low, high = LIMITS[unit]
    if not low <= number <= high:
        raise UnitError(
            f"{what}: {format_quantity(number, unit)} is out of reach; expected"
            f" {format_quantity(low, unit)} to {format_quantity(high, unit)}"
        )
    return number


def read_count(value: object, *, what: str, low: int = 1, high: int = 1_000_000) -> int:
    """Whole number between low and high. Raises UnitError for anything else."""
    number = _parse(value, "", what)
    if not number.is_integer() or not low <= number <= high:
        raise UnitError(f"{what}: {number:g} will not do; expected a whole number from {low} to {high}")
    return int(number)


def _parse(value: object, unit: str, what: str) -> float:
    if not isinstance(value, (str, int, float)):
        raise UnitError(
            f"{what}: {type(value).__name__} is not a quantity; expected a number or text with a unit"
        )
    if isinstance(value, int) and abs(value) > 10**30:
        raise UnitError(f"{what}: a whole number of {value.bit_length()} bits is out of reach")
    return parse_quantity(value, unit, what=what)
