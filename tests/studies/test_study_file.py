"""Studies as users write them: what their files mean, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsim.errors import PodsimError
from podsim.studies.study_file import read_study

COMMON = {"model": "gpt2", "on": "dgx-a100-80gb"}


def test_every_design_meets_every_combination_of_the_grid() -> None:
    study = read_study(
        {
            "common": {"model": "gpt2"},
            "grid": {"gpus": [4, 8], "set": {"network": {"bandwidth": ["100Gb/s", "200Gb/s"]}}},
            "design": [{"name": "old", "on": "dgx-a100-80gb"}, {"name": "new", "on": "dgx-h100"}],
        }
    )
    assert len(study.points) == 8
    assert study.points[0].settings == {
        "model": "gpt2", "gpus": 4, "set.network.bandwidth": "100Gb/s", "on": "dgx-a100-80gb",
    }  # fmt: skip
    assert {point.name for point in study.points} == {"old", "new"}


def test_the_question_follows_from_the_settings() -> None:
    questions = [
        read_study({"common": COMMON | more}).points[0].question for more in ({}, {"tp": 2}, {"days": 3})
    ]
    assert questions == ["plan", "predict", "fewest"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "model is missing"),
        ("[common]\nmodle = 'gpt2'\non = 'selene'", "modle"),
        ("[grid]\ngpus = 8", "give a list of values"),
        ("[grid]\ngpus = [8, 8]", "given twice"),
        ("days = -1", "number of days above 0"),
        ("question = 'guess'", "guess"),
        ("design = 3", "list of tables"),
        ("[common]\nmodel = {a = {b = 1}}", "model.a.b"),
        (
            "[grid]\ngpus = " + str(list(range(1, 600))) + "\ntp = " + str(list(range(600))),
            "a study has 1 to",
        ),
        ("[common]\n" + "a." * 3000 + "b = 1", "at most 4,000"),
        ("\0", "not TOML"),
        ("[" * 2000, "not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_rule(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(PodsimError, match=said) as error:
        read_study(path)
    assert len(str(error.value)) < 1000


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PodsimError, match="no such file"):
        read_study(tmp_path / "none.toml")


def test_a_layout_of_the_command_is_that_of_every_design_and_searches_the_rest() -> None:
    designs = [{"on": "h100", "gpus": 8}, {"on": "b200", "gpus": 8}]
    study = read_study({"common": {"model": "gpt2"}, "design": designs}, fixed={"tp": 2})
    assert [(point.question, point.settings["tp"]) for point in study.points] == [("plan", 2), ("plan", 2)]
    with pytest.raises(PodsimError, match="tp"):
        read_study({"question": "scale", "common": {"on": "h100", "days": 3}}, fixed={"tp": 2})
