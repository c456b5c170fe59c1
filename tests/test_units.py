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
        ("3 MiB", "B", 3 * 1024.0**2),
        ("2 TiB", "B", 2 * 1024.0**4),
        ("1 PiB", "B", 1024.0**5),
        ("7 ns", "s", 7e-9),
        ("2 PB", "B", 2e15),
        ("3 EFLOP", "FLOP", 3e18),
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
        (0.0, "s", "0 s"),
        (0.25, "B", "0.25 B"),
        (1e-12, "s", "0.001 ns"),
        (9.9996e-4, "s", "1 ms"),
    ],
)
def test_numbers_are_written_with_a_prefix(number: float, unit: str, text: str) -> None:
    assert format_quantity(number, unit) == text


@pytest.mark.parametrize(
    ("prefix", "factor"),
    [
        ("n", 1e-9), ("u", 1e-6), ("µ", 1e-6), ("m", 1e-3), ("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9),
        ("T", 1e12), ("P", 1e15), ("E", 1e18), ("Ki", 1024.0), ("Mi", 1024.0**2), ("Gi", 1024.0**3),
        ("Ti", 1024.0**4), ("Pi", 1024.0**5),
    ],
)  # fmt: skip
def test_prefixes_are_those_of_si_and_iec(prefix: str, factor: float) -> None:
    assert parse_quantity(f"1 {prefix}s", "s") == factor
    if prefix in ("n", "u", "µ", "m", "E"):  # may not stand alone: 1m is no size
        with pytest.raises(UnitError):
            parse_quantity(f"1{prefix}", "B")
    else:
        assert parse_quantity(f"1{prefix}", "B") == factor


@pytest.mark.parametrize(
    ("base", "unit", "factor"),
    [
        ("B", "B", 1.0), ("b", "B", 0.125), ("bit", "B", 0.125), ("B/s", "B/s", 1.0), ("b/s", "B/s", 0.125),
        ("bit/s", "B/s", 0.125), ("bps", "B/s", 0.125), ("Bps", "B/s", 1.0), ("s", "s", 1.0), ("min", "s", 60.0),
        ("h", "s", 3600.0), ("d", "s", 86400.0), ("FLOP", "FLOP", 1.0), ("FLOP/s", "FLOP/s", 1.0),
        ("FLOPS", "FLOP/s", 1.0), ("OPS", "FLOP/s", 1.0), ("OP/s", "FLOP/s", 1.0), ("W", "W", 1.0), ("Wh", "J", 3600.0),
        ("J", "J", 1.0), ("Hz", "Hz", 1.0), ("IOPS", "1/s", 1.0), ("", "", 1.0), ("", "B", 1.0),
    ],
)  # fmt: skip
def test_bases_are_those_of_si(base: str, unit: str, factor: float) -> None:
    assert parse_quantity(f"1 {base}", unit) == factor


def test_the_largest_number_is_1e30() -> None:
    assert parse_quantity(1e30, "s") == 1e30
    for value in (1.01e30, 9.99e299):
        with pytest.raises(UnitError, match="no size of anything"):
            parse_quantity(value, "s")
    for value in (1e300, -1.5e300):
        with pytest.raises(UnitError, match="is not finite"):
            parse_quantity(value, "s")


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        *(
            (2 * 10.0 ** (3 * power), "B", f"2 {prefix}B")
            for power, prefix in enumerate(("", "k", "M", "G", "T", "P", "E"))
        ),
        *(
            (2 * 10.0 ** (-3 * power), "s", f"2 {prefix}s")
            for power, prefix in enumerate(("", "m", "u", "n"))
        ),
        (1.23456e9, "B", "1.235 GB"),
        (0.02, "B", "0.02 B"),
        (2e-12, "s", "0.002 ns"),
        (999.94, "B", "999.9 B"),
        (1500.0, "s", "1500 s"),
        (-math.inf, "", "-inf"),
        (0.0, "", "0"),
    ],
)
def test_each_prefix_is_written(number: float, unit: str, text: str) -> None:
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


@pytest.mark.parametrize("text", ["1e-300", "1e300", "-1e31", "1e-320 GB/s", "9e29 GB"])
def test_magnitudes_beyond_every_machine_are_refused(text: str) -> None:
    unit = text.partition(" ")[2].replace("G", "")
    with pytest.raises(UnitError, match="1e-30 to 1e"):
        parse_quantity(text, unit, what="nics")
