"""The ways of serving: a readable number of options each, the answers of `podsim.serve`, and the old spelling."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import podsim
from podsim.errors import PodsimError
from podsim.options.output_options import PlotOutput
from podsim.options.question import options_of
from podsim.options.serving_options import ServeOptions

WAYS = ("serve_batches", "serve_load", "serve_best", "serve_streams")
LOAD = {"model": "gpt2", "on": "h100", "rate": "20/s", "requests": 300}


def _told(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "podsim.cli", *words, "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=True)


@pytest.mark.parametrize("name", WAYS)
def test_a_way_of_serving_has_at_most_forty_options_of_serve(name: str) -> None:
    own = options_of(getattr(podsim, name).manner.group)
    assert len(own) + len(options_of(PlotOutput)) <= 40
    assert own.keys() <= options_of(ServeOptions).keys()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("serve_batches", {"model": "gpt2", "on": "h100", "batch": "1,8", "tokens": 100, "output": 20}),
        ("serve_load", LOAD),
        ("serve_best", LOAD | {"ttft": "1s"}),
        ("serve_streams", {"model": "resnet-50", "on": "a100", "scenario": "offline"}),
    ],
)
def test_a_way_of_serving_answers_as_serve_does(name: str, options: dict[str, Any]) -> None:
    answer, same = getattr(podsim, name)(**options), podsim.serve(**options)
    assert getattr(answer, "ways", answer) == getattr(same, "ways", same)  # a search says how long it took


def test_what_has_no_flag_is_an_override() -> None:
    seed = podsim.serve_load(**LOAD, overrides={"serve.seed": "3", "serve.stream": "no"})
    assert seed == podsim.serve(**LOAD, seed=3, stream=False)
    assert seed != podsim.serve_load(**LOAD)
    for wrong in ({"serve.sed": "3"}, {"serve.seed": "three"}, {"serve.stream": "perhaps"}):
        with pytest.raises(PodsimError, match=r"serve\.|option of serve"):
            podsim.serve_load(**LOAD, overrides=wrong)


def test_a_way_without_what_it_needs_says_so() -> None:
    with pytest.raises(PodsimError, match="--rate 20/s"):
        podsim.serve_load("gpt2", on="h100")
    with pytest.raises(PodsimError, match="--ttft 500ms"):
        podsim.serve_best("gpt2", on="h100", rate="20/s")


def test_the_old_spelling_leads_and_names_the_new_one() -> None:
    words = ["gpt2", "--on", "h100", "--rate", "20/s", "--requests", "300"]
    old, new = _told("serve", *words, "--seed", "3"), _told("serve", "load", *words, "--set", "serve.seed=3")
    assert "podsim serve load" in old.stderr
    assert "podsim serve load" not in new.stderr
    answers = [json.loads(told.stdout) for told in (old, new)]
    for answer in answers:
        del answer["podsim"]
    assert answers[0] == answers[1]
