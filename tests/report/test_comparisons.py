"""Text for a terminal, and docs/accuracy.md, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsim.answers.comparison import Comparison
from podsim.report import accuracy_page, published_errors, render
from podsim.report.columns import percent, quantity_text, ratio, signed_percent

GOLDEN = Path(__file__).parent / "golden"


def test_render_is_the_golden_text(steps: Comparison, rates: Comparison, nothing: Comparison) -> None:
    assert render([steps, rates, nothing]) == (GOLDEN / "render.txt").read_text("utf-8")


def test_accuracy_page_is_the_golden_text(steps: Comparison, rates: Comparison, nothing: Comparison) -> None:
    assert accuracy_page([steps, rates, nothing]) == (GOLDEN / "accuracy.md").read_text("utf-8")


def test_render_keeps_the_worst_rows_within_a_limit(steps: Comparison) -> None:
    text = render([steps], limit=2)
    rows = text[text.index("the 2 largest errors of 4 rows") :]
    assert rows.index("A-3") < rows.index("A-1")
    assert "A-2" not in rows
    assert "A-2" in render([steps], limit=None)


def test_render_without_comparisons() -> None:
    assert "Predicted against measured" in render([])


def test_accuracy_never_puts_both_roles_in_one_table(steps: Comparison, rates: Comparison) -> None:
    text = accuracy_page([steps, rates])
    test, calibrate = text.index("(`test`)\n"), text.index("(`calibrate`)\n")
    assert test < text.index("| 4.7 % |") < calibrate < text.index("(`rates`, samples/s)")
    assert "(`calibrate`)\n" not in accuracy_page([steps.only("test")])


def test_other_tools_have_an_origin_and_a_note_each() -> None:
    figures = published_errors()
    assert [f.text for f in figures if f.tool == "Calculon"] == ["3.65 %", "15 %", "39 %"]
    assert [f.text for f in figures if f.tool == "ASTRA-sim"] == ["17 to 57 %"]
    assert [f.text for f in figures if f.tool == "llm-analysis"] == ["9.1 to 48.1 %"]
    assert {f.tool for f in figures if f.error is None} == {"SimuMax"}
    assert all(f.note and f.on for f in figures)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (percent(0.0425), "4.2 %"),
        (percent(None), "-"),
        (signed_percent(-0.5), "-50.0 %"),
        (signed_percent(None), "-"),
        (ratio(1.0312), "1.03"),
        (ratio(None), "-"),
        (quantity_text(0.0203, "s"), "20.3 ms"),
        (quantity_text(1234.4, "1/s"), "1,234 /s"),
        (quantity_text(12345.0, "1/s"), "12.35 k/s"),
        (quantity_text(2.5, "1/s"), "2.5 /s"),
        (quantity_text(142e12, "FLOP/s"), "142 TFLOP/s"),
        (quantity_text(55e9, "B"), "55 GB"),
    ],
)
def test_figures(text: str, expected: str) -> None:
    assert text == expected
