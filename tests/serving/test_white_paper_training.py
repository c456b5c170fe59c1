"""Figures 4, 5 and 12 of the white paper: TF32 on A100 against FP32 on V100."""

from __future__ import annotations

import pytest

import podsim
from podsim.answers.served import Figure, FigureList
from podsim.errors import CatalogError
from podsim.serving.white_paper import FIGURES


@pytest.mark.parametrize(("number", "printed"), [(4, 5.0), (5, 6.0)])
def test_tf32_is_as_many_times_as_fast_as_printed(number: int, printed: float) -> None:
    figure = podsim.figure(number)
    assert isinstance(figure, Figure)
    ratios = [row.relative for row in figure.rows]
    assert min(ratios) < printed < max(ratios)
    assert max(ratios) < 1.1 * printed
    assert [row.printed for row in figure.rows].count(printed) == 1


def test_figure_12_has_training_beside_peaks() -> None:
    figure = podsim.figure(12)
    assert isinstance(figure, Figure)
    (training,) = figure.parts
    rates = [row.predicted for row in training.rows]
    assert min(rates) < 1823 < max(rates)
    assert max(row.relative for row in training.rows) == pytest.approx(5.92, rel=0.1)
    assert any("308" in line for line in (*training.reproduced, *training.not_reproduced))


def test_large_batches_gain_most() -> None:
    figure = podsim.figure(4)
    assert isinstance(figure, Figure)
    short = [row.relative for row in figure.rows if row.name.startswith("128")]
    assert short == sorted(short)


def test_the_list_names_every_figure() -> None:
    listed = podsim.figure()
    assert isinstance(listed, FigureList)
    commands = {row.command for row in listed.rows}
    assert {f"podsim figure {number}" for number in FIGURES} <= commands
    with pytest.raises(CatalogError, match="4, 5, 7, 12"):
        podsim.figure(9)
