"""Units: text with a unit in input and output, SI floats inside (s, B, B/s, FLOP, FLOP/s, W, Hz, J).

"200 Gb/s" is 25e9 (bytes per second), "80 GB" is 80e9, "80 GiB" is 85.9e9. A bare number is SI already.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from podsim.errors import PodsimError, UnitError

_PREFIX = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "P": 1e15, "E": 1e18, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip
# base unit as written -> (SI unit of the result, factor)
_BASE = {
    "B": ("B", 1.0), "b": ("B", 0.125), "bit": ("B", 0.125),
    "B/s": ("B/s", 1.0), "b/s": ("B/s", 0.125), "bit/s": ("B/s", 0.125), "bps": ("B/s", 0.125), "Bps": ("B/s", 1.0),
    "s": ("s", 1.0), "min": ("s", 60.0), "h": ("s", 3600.0), "d": ("s", 86400.0),
    "FLOP": ("FLOP", 1.0), "FLOP/s": ("FLOP/s", 1.0), "FLOPS": ("FLOP/s", 1.0), "OPS": ("FLOP/s", 1.0),
    "OP/s": ("FLOP/s", 1.0), "W": ("W", 1.0), "Wh": ("J", 3600.0), "J": ("J", 1.0), "Hz": ("Hz", 1.0),
    "IOPS": ("1/s", 1.0), "": ("", 1.0), "%": ("", 0.01), "x": ("", 1.0),
}  # fmt: skip
LEAST, MOST = 1e-30, 1e30
"""the magnitudes that a number may have, apart from 0: beyond them products and quotients overflow"""
_LONGEST = 400
"""characters of a quantity"""
_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)\s*$")
_MAGNITUDES = {"K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}


def _split_unit(text: str) -> tuple[float, str] | None:
    """(prefix factor, base unit) of a unit as written; None if it is no unit."""
    if text in ("min", "d", "h"):  # not milli-inches
        return 1.0, text
    for width in (2, 1, 0):
        prefix, base = text[:width], text[width:]
        if prefix in _PREFIX and base in _BASE and (base or not prefix or unit_free_prefix(prefix)):
            return _PREFIX[prefix], base
    return None


def unit_free_prefix(prefix: str) -> bool:
    """Whether a prefix may stand alone: 16G and 4Ki are sizes, "m" alone is not."""
    return prefix in ("k", "K", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi")


def parse_quantity(value: str | int | float, unit: str = "", *, what: str = "value") -> float:
    """Number in SI of a quantity given as text or as a bare (SI) number.

    `unit` is the SI unit wanted ("B/s", "B", "FLOP/s", "s", "W", "Hz", "1/s", "" for a pure number); a quantity
    of another kind raises UnitError, as do NaN, infinity, text that is no quantity, and magnitudes beyond LEAST and MOST.
    """
    if isinstance(value, bool):
        raise UnitError(f"{what}: {value} is not a quantity; expected a number{_wanted(unit)}")
    if isinstance(value, (int, float)):
        number, base = (float(value) if abs(value) < 1e300 else math.inf), unit
    else:
        match = _NUMBER.match(value) if len(value) <= _LONGEST else None
        parts = _split_unit(match[2]) if match else None
        if match is None or parts is None:
            raise UnitError(f"{what}: cannot read {value[:60]!r}; expected a number{_wanted(unit)}")
        si, factor = _BASE[parts[1]]
        number, base = float(match[1]) * parts[0] * factor, si or unit
    if base != unit:
        raise UnitError(f"{what}: {value!r} is in {base or 'no unit'}; expected a number{_wanted(unit)}")
    if not math.isfinite(number):
        raise UnitError(f"{what}: {value!r} is not finite; expected a number{_wanted(unit)}")
    if not has_magnitude(number):
        raise UnitError(
            f"{what}: {value!r} is no size of anything; it must be 0, or from {LEAST:g} to {MOST:g}"
        )
    return number


def has_magnitude(number: float) -> bool:
    """Whether a number is 0, or of a size that laws can take."""
    return number == 0 or LEAST <= abs(number) <= MOST


def _wanted(unit: str) -> str:
    example = {
        "B": "80 GB",
        "B/s": "200 Gb/s",
        "FLOP/s": "312 TFLOP/s",
        "s": "5 us",
        "W": "400 W",
        "Hz": "1.41 GHz",
    }
    return f", such as {example[unit]!r}" if unit in example else ""


_STEPS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


def format_quantity(number: float, unit: str, *, digits: int = 4) -> str:
    """Text of an SI number with a decimal prefix: (25e9, "B/s") gives "25 GB/s"."""
    if number == 0 or not math.isfinite(number):
        return f"{number:g} {unit}".strip()
    size = abs(number)
    steps = _SMALL if unit == "s" else _STEPS
    factor, prefix = next((step for step in steps if size >= step[0] * 0.99995), steps[-1])
    return f"{number / factor:.{digits}g} {prefix}{unit}".strip()


def read_duration(text: str, what: str) -> float:
    """s of a duration, as 90s, 5min or 8h; 5m is Prometheus's 5 minutes."""
    return parse_quantity(f"{text}in" if re.fullmatch(r"\d+m", text.strip()) else text, "s", what=what)


def read_moment(text: str, what: str) -> float:
    """s since 1970 of a date or a moment; UTC if it names no zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PodsimError(
            f"{what}={text[:40]!r}: expected a date, as 2026-01-31 or 2026-01-31T08:00"
        ) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def duration(seconds: float) -> str:
    """Seconds in a readable unit: 11124 as "3.09 h", 40 as "40 s", 5e6 as "57.9 d"."""
    if not math.isfinite(seconds):
        return "no end"
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 1.995 * size:
            count = seconds / size
            return f"{count:,.3g} {unit}" if count < 1000 else f"{count:,.0f} {unit}"
    return short_seconds(seconds)


def short_seconds(seconds: float) -> str:
    """Seconds with three digits: 0.0123456 as "12.3 ms"."""
    return format_quantity(seconds, "s", digits=3)


def parse_count(value: str | float, what: str) -> float:
    """A number of tokens, parameters or FLOPs: 15T, 8B, 1e22. Raises PodsimError for anything else."""
    text = str(value).strip().replace(",", "").replace("_", "")
    try:
        number = (
            float(text[:-1]) * _MAGNITUDES[text[-1].upper()]
            if text[-1:].upper() in _MAGNITUDES
            else float(text)
        )
    except ValueError:
        number = 0.0
    if not LEAST <= number < 1e40:
        raise PodsimError(f"{what}={str(value)[:40]!r}: expected a number above 0, such as 15T, 8B or 1e22")
    return number
