"""Tables by their columns: what a cell says, and what a terminal of any width shows."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsim.report.columns import BAR, Column, Table, field_value, percent
from podsim.report.plain_data import to_csv
from podsim.report.screen import Paragraph, Report, Rows, bold, items, report_text, show


@dataclass(frozen=True, kw_only=True)
class Part:
    name: str
    seconds: float
    share: float | None
    note: str = ""


PARTS = [
    Part(name="matrix arithmetic", seconds=0.75, share=0.75, note="the kernels of linear layers"),
    Part(name="waits", seconds=0.25, share=None),
]
TABLE = Table(
    Column("part", "name"),
    Column("time", "seconds", "s"),
    Column("share", "", percent, missing="-"),
    Column("drawn", lambda part: part.share or 0.0, BAR),
    Column("extra", lambda part: part.seconds * 10, ":.3f", drop=1),
)


def test_cells_by_hand() -> None:
    assert TABLE.cells(PARTS[0]) == ("matrix arithmetic", "750 ms", "75.0 %", "▇" * 22, "7.500")
    assert TABLE.cells(PARTS[1])[2:4] == ("-", "")


def test_paths_lead_through_fields_keys_and_places() -> None:
    row = {"part": PARTS[0], "pairs": (("a", 1.5),), "none": None}
    assert field_value(row, "part.name") == "matrix arithmetic"
    assert field_value(row, "pairs.0.1") == 1.5
    assert field_value(row, "none.name") is None
    assert field_value(row, "missing") is None
    assert field_value(row, len) == 3
    with pytest.raises(AttributeError):
        field_value(row, "part.nmae")


def test_numbers_stand_to_the_right_and_bars_take_what_is_left() -> None:
    assert report_text([Rows(TABLE, PARTS)], 60).splitlines() == [
        "  part                 time   share  drawn         extra",
        "  matrix arithmetic  750 ms  75.0 %  ▇▇▇▇▇▇▇▇▇▇▇▇  7.500",
        "  waits              250 ms       -                2.500",
    ]


def test_columns_go_before_numbers_wrap() -> None:
    text = report_text([Rows(TABLE, PARTS)], 40)
    assert "extra" not in text
    assert "drawn" not in text
    assert "  matrix arithmetic  750 ms  75.0 %" in text


def test_the_last_column_wraps_beside_or_below() -> None:
    table = Table(Column("part", "name"), Column("what", "note", wrap=True), indent=0)
    assert report_text([Rows(table, PARTS[:1])], 40).splitlines() == [
        "part               what",
        "matrix arithmetic  the kernels of linear",
        "                   layers",
    ]
    assert report_text([Rows(table, PARTS[:1])], 30).splitlines()[1:] == [
        "matrix arithmetic",
        "    the kernels of linear layers",
    ]


def test_a_column_that_no_row_fills_goes_and_text_stands_between_rows() -> None:
    table = Table(Column("name"), Column("note", optional=True))
    report: Report = [Rows(table, [bold("First"), PARTS[1], Paragraph("more", indent="    ")])]
    assert report_text(report) == "  name\nFirst\n  waits\n    more\n"
    assert "note" in report_text([Rows(table, PARTS)])


def test_another_table_stands_in_where_one_is_too_wide() -> None:
    narrow = Rows(Table(Column("name")), PARTS)
    wide = Rows(Table(Column("x" * 50, "name")), PARTS, otherwise=narrow)
    assert report_text([wide], 60).startswith("  xxx")
    assert report_text([wide], 50).startswith("  name")


@given(st.integers(40, 120))
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    report = [Rows(TABLE, PARTS), *items("Assumptions", ["a word " * 40])]
    assert max(map(len, report_text(report, width).splitlines())) <= width


def test_markdown_takes_no_cell_for_a_column_or_a_tag() -> None:
    table = Table(Column("name"), Column("share", "", percent))
    row = Part(name="a | <b>", seconds=1.0, share=0.5)
    assert table.markdown([row]) == "| name | share |\n| --- | ---: |\n| a \\| &lt;b> | 50.0 % |\n"


def test_styles_are_for_terminals_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show([bold("Title")])
    assert capsys.readouterr().out == "Title\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    show([bold("Title")])
    assert capsys.readouterr().out == "\033[1mTitle\033[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    show([bold("Title")])
    assert capsys.readouterr().out == "Title\n"


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-cmd", "'-cmd"),
        ("-2+3+cmd|' /C x'!A0", "'-2+3+cmd|' /C x'!A0"),
        ("+2 % time", "+2 % time"),
        ("-1.5", "-1.5"),
        ("-", "-"),
        ("a=b", "a=b"),
    ],
)
def test_no_cell_of_csv_is_a_formula(text: str, cell: str) -> None:
    assert (
        to_csv([{"name": text, "list": [text], "number": -1.5}]) == f"name,list,number\n{cell},{cell},-1.5\n"
    )
