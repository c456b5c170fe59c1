"""`podsim figure`: each bar has one setting, and its answer is that of the question it asks."""

from __future__ import annotations

import pytest

import podsim
from podsim.answers.served import Figure, FigureList
from podsim.errors import CatalogError


def _figure(number: int) -> Figure:
    made = podsim.figure(number)
    assert isinstance(made, Figure)
    return made


@pytest.mark.parametrize("number", [4, 5])
def test_a_training_figure_has_one_bar_for_each_machine(number: int) -> None:
    old, new = _figure(number).rows
    assert (old.relative, new.relative) == (1.0, pytest.approx(new.predicted / old.predicted))
    assert "gpus=8 batch=16 accumulate=512" in old.how
    assert "gpus=8 batch=64 accumulate=128" in new.how


def test_a_bar_is_what_the_command_of_its_setting_answers() -> None:
    """One step of 64 sequences a GPU by `podsim graph`; accumulation leaves out most updates, so it is faster."""
    graph = podsim.graph(
        "bert-large-128", on="dgx-a100-40gb", precision="tf32", fuse="chains", optimizer="lamb", batch=64
    )
    assert graph.data_parallel is not None
    assert 1 < _figure(4).rows[1].predicted / graph.data_parallel.samples_per_second < 1.1


def test_seven_slices_do_almost_seven_times_the_work_of_one() -> None:
    rates = {row.name: row.predicted for row in _figure(7).rows}
    assert 6.8 < rates["7 slices of an A100"] / rates["1 slice of an A100"] < 7
    assert rates["7 slices of an A100"] > rates["7 slices, dense"]


def test_peaks_are_cores_times_clocks_and_data_sheets() -> None:
    peaks = {row.name: row.predicted for row in _figure(12).rows}
    assert peaks["two Xeon 8280 at turbo"] == pytest.approx(57.344e12)
    assert peaks["DGX A100, 2:4 sparse"] == pytest.approx(9.984e15)
    (training,) = _figure(12).parts
    assert [row.printed_value for row in training.rows] == [308, 1823]


def test_the_list_names_every_figure() -> None:
    listed = podsim.figure()
    assert isinstance(listed, FigureList)
    assert [row.command for row in listed.rows][:4] == [f"podsim figure {number}" for number in (4, 5, 7, 12)]
    assert len(listed.rows) == 6
    with pytest.raises(CatalogError, match="4, 5, 7, 12"):
        podsim.figure(9)
