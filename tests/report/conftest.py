"""Comparisons made by hand, with their scores written out: reports read scores and compute none."""

from __future__ import annotations

import pytest

from podsim.answers.comparison import ClassScore, ComparedRow, Comparison, Score


def compared(
    id: str, role: str, predicted: float, measured: float, group: str, note: str = ""
) -> ComparedRow:
    return ComparedRow(
        id=id, role=role, table="steps", predicted=predicted, measured=measured, group=group, note=note
    )


@pytest.fixture
def steps() -> Comparison:
    """Step times, both roles, a row left out, and text that is no markup."""
    classes = (
        ClassScore(name="recompute=full", rows=2, mae=0.06, bias=0.04, worst_id="A-3", worst_error=0.10),
        ClassScore(name="recompute=none", rows=1, mae=0.02, bias=-0.02, worst_id="A-2", worst_error=-0.02),
    )
    test = Score(
        role="test", rows=3, mae=0.0467, median=0.02, bias=0.02, p95=0.092, worst_id="A-3", worst_error=0.1,
        classes=classes, sweeps=1, tau=1 / 3, regret=1.125, worst_regret=1.125, skill=0.62,
        skill_basis="calibrate rows",
    )  # fmt: skip
    calibrate = Score(
        role="calibrate",
        rows=1,
        mae=0.05,
        median=0.05,
        bias=-0.05,
        p95=0.05,
        worst_id="A-1",
        worst_error=-0.05,
    )
    return Comparison(
        table="steps",
        title="Steps of <one> paper, [bold]Table 1[/bold]",
        what="seconds per step",
        rows=(
            compared("A-1", "calibrate", 0.95, 1.0, "recompute=full"),
            compared("A-2", "test", 0.0196, 0.02, "recompute=none", "no overlap | assumed"),
            compared("A-3", "test", 110.0, 100.0, "recompute=full"),
            compared("A-4", "test", 10.2, 10.0, "recompute=full"),
        ),
        not_expressed=(("A-5", "ZeRO-3 & <offload> is not modelled"),),
        sources=("A paper & its <appendix>",),
        scores=(test, calibrate),
    )


@pytest.fixture
def rates() -> Comparison:
    """Rates, calibrate rows only, not scored by class."""
    score = Score(
        role="calibrate", rows=2, mae=0.05, median=0.05, bias=0.0, p95=0.05, worst_id="B-1", worst_error=0.05
    )
    rows = (
        ComparedRow(id="B-1", role="calibrate", table="rates", predicted=1050.0, measured=1000.0),
        ComparedRow(id="B-2", role="calibrate", table="rates", predicted=1.9e6, measured=2e6),
    )
    return Comparison(
        table="rates", title="Rates", what="samples/s", rows=rows, sources=("A log",), scores=(score,)
    )


@pytest.fixture
def nothing() -> Comparison:
    """A table of which nothing could be expressed."""
    missing = tuple((f"C-{number}", "mixture of experts is not modelled") for number in range(6))
    return Comparison(table="moe", title="Experts", what="seconds per step", rows=(), not_expressed=missing)
