"""Acceptance in charts: each check as a bar of what was expected, each curve over what runs along. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.answers.acceptance import Check, Curve
from podsim.report.chart_marks import COLOURS, MUTED, Axis, Bars, Chart, Mark, Rule, Series, Sheet
from podsim.report.columns import percent, quantity_text, size_text
from podsim.report.matplotlib_charts import draw
from podsim.report.plots import figure_image
from podsim.units import format_quantity

RED = COLOURS[1]
_WIDTH = 8.4
_MOST = 1.6
"""The share at which a bar is cut off."""


def checks_svg(checks: Sequence[Check]) -> bytes:
    """A bar for each check that has both figures: measured over expected, with what must be reached."""
    compared = [(check, check.share) for check in checks if check.share is not None]
    bars = Bars(
        [min(share, _MOST) for _, share in compared],
        colour=[0 if check.verdict == "ok" else 1 for check, _ in compared],
        texts=[_check_text(check, share) for check, share in compared],
        lines=[check.least for check, _ in compared],
    )
    along = Axis(
        "measured over expected; the short line is what must be reached", text="{:.0%}".format,
        ticks=(0.0, 0.5, 1.0, 1.5), low=0.0, high=1.4 * _MOST,
    )  # fmt: skip
    names = Axis(names=[check.name for check, _ in compared], is_reversed=True)
    sheet = Sheet(
        "", [Chart([Rule(1.0), bars], x=along, y=names)], size=(_WIDTH, 1.0 + 0.36 * max(len(compared), 1))
    )
    return figure_image(draw(sheet), "svg", is_transparent=True)


def _check_text(check: Check, share: float) -> str:
    measured, expected = (
        quantity_text(number or 0.0, check.unit) for number in (check.measured, check.expected)
    )
    return f"  {measured} of {expected}" + (f" ({percent(share)})" if share < 0.03 else "")


def curve_svg(curve: Curve) -> bytes:
    """A chart over sizes, ranks or epochs: measured, and expected where something predicts it."""
    along = [x for x, _ in curve.measured]
    measured, expected = [y for _, y in curve.measured], [y for _, y in curve.expected]
    marks: list[Mark] = [Series(along, measured, "measured" if expected else "", 0, mark="o", width=2.2)]
    if expected:
        marks.insert(
            0, Series([x for x, _ in curve.expected], expected, "expected", MUTED, "--", "o", size=4)
        )
    highest = max(measured)
    if curve.over_unit or max(expected, default=0.0) > 3 * highest:
        scale, low, high = "log", None, None
    else:
        scale, low, high = "linear", 0.0, 1.1 * max(highest, *expected, highest)
    chart = Chart(
        marks,
        x=Axis(
            curve.over,
            "log2" if curve.over_unit else "linear",
            lambda x: _text(x, curve.over_unit),
            ticks=along,
        ),
        y=Axis("", scale, lambda y: quantity_text(y, curve.unit), low=low, high=high),
    )
    return figure_image(draw(Sheet("", [chart], size=(_WIDTH / 2, 2.9))), "svg", is_transparent=True)


def _text(number: float, unit: str) -> str:
    if unit == "B":
        return size_text(number)
    return format_quantity(number, unit) if unit else f"{number:g}"
