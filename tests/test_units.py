"""Quantities as text: bits are not bytes, decimal prefixes are not binary ones, and kinds do not mix."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsim.errors import UnitError
from podsim.units import format_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("200 Gb/s", "B/s", 25e9),
        ("200 GB/s", "B/s", 200e9),
        ("200Gbit/s", "B/s", 25e9),
        ("200 Gbps", "B/s", 25e9),
        ("25 GBps", "B/s", 25e9),
        ("8 b/s", "B/s", 1.0),
        ("80 GB", "B", 80e9),
        ("80 Gb", "B", 10e9),
        ("80 Gbit", "B", 10e9),
        ("80 GiB", "B", 80 * 1024**3),
        ("8 Gib", "B", 1024**3),
        ("1 KiB", "B", 1024.0),
        ("1 kB", "B", 1000.0),
        ("16G", "B", 16e9),
        ("4Ki", "B", 4096.0),
        ("312 TFLOP/s", "FLOP/s", 312e12),
        ("624 TOPS", "FLOP/s", 624e12),
        ("5 us", "s", 5e-6),
        ("5 µs", "s", 5e-6),
        ("3 ms", "s", 3e-3),
        ("2 min", "s", 120.0),
        ("1.5 h", "s", 5400.0),
        ("2 d", "s", 172_800.0),
        ("400 W", "W", 400.0),
        ("1 kWh", "J", 3.6e6),
        ("1.41 GHz", "Hz", 1.41e9),
        ("50k IOPS", "1/s", None),
        ("50 kIOPS", "1/s", 50e3),
        ("1_000", "B", 1000.0),
        ("1e3", "", 1000.0),
        (25e9, "B/s", 25e9),
    ],
)
def test_text_is_read_as_si(text: str | float, unit: str, value: float | None) -> None:
    if value is None:
        with pytest.raises(UnitError, match="cannot read"):
            parse_quantity(text, unit)
    else:
        assert parse_quantity(text, unit) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        ("200 GB", "B/s", "is in B; expected a number, such as '200 Gb/s'"),
        ("200 Gb/s", "B", "is in B/s; expected a number, such as '80 GB'"),
        ("5 s", "", "is in s"),
        ("5 lightyears", "s", "cannot read"),
        ("m", "s", "cannot read"),
        ("5 m", "s", "cannot read"),
        ("", "s", "cannot read"),
        (True, "s", "True is not a quantity"),
        (math.nan, "s", "is not finite"),
        (1e308, "s", "is not finite"),
        ("1e400 s", "s", "is not finite"),
    ],
)
def test_another_kind_is_refused_with_an_example(value: str | float, unit: str, said: str) -> None:
    with pytest.raises(UnitError, match=f"bandwidth: .*{said}"):
        parse_quantity(value, unit, what="bandwidth")


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (25e9, "B/s", "25 GB/s"),
        (0.0, "B", "0 B"),
        (999.96, "B", "1 kB"),
        (1.5e-3, "s", "1.5 ms"),
        (90.0, "s", "90 s"),
        (-3e6, "W", "-3 MW"),
        (math.inf, "s", "inf s"),
    ],
)
def test_numbers_are_written_with_a_prefix(number: float, unit: str, text: str) -> None:
    assert format_quantity(number, unit) == text


@given(
    number=st.floats(1e-8, 1e20, allow_nan=False),
    unit=st.sampled_from(["B", "B/s", "FLOP/s", "s", "W", "Hz"]),
)
def test_what_is_written_is_read_back(number: float, unit: str) -> None:
    assert parse_quantity(format_quantity(number, unit, digits=17), unit) == pytest.approx(number, rel=1e-14)


@given(number=st.floats(1e-3, 1e6), prefix=st.sampled_from(["", "k", "M", "G", "T", "Ki", "Mi", "Gi"]))
def test_a_byte_is_eight_bits(number: float, prefix: str) -> None:
    for end in ("", "/s"):
        in_bits = parse_quantity(f"{number} {prefix}b{end}", f"B{end}")
        assert 8 * in_bits == pytest.approx(parse_quantity(f"{number} {prefix}B{end}", f"B{end}"), rel=1e-14)
