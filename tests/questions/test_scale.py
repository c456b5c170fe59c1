"""`podsim scale`: what its commands say, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

import podsim as library
from podsim.errors import PodsimError
from podsim.learning.loss_catalog import find_law
from podsim.workload.catalog import load_model
from podsim.workload.generated_shape import shape_near

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of finished runs, some of them undertrained, some tuned worse."""
    random, law = np.random.default_rng(5), find_law("besiroglu")
    path = tmp_path_factory.mktemp("scale") / "runs.csv"
    lines = ["params,tokens,loss,lr"]
    for size in (3e7, 1e8, 3e8, 1e9):
        for ratio in (2, 10, 20, 40, 160):
            loss = float(law.loss(size, ratio * size)) * np.exp(0.003 * random.standard_normal())
            for extra, rate in ((0, 1e-3), (0.1, 1e-2)):
                lines.append(f"{size:.0f},{ratio * size:.0f},{loss + extra:.4f},{rate}")
    path.write_text("\n".join(lines))
    return path


def test_a_fit_says_what_it_used(podsim: Run, runs: Path, tmp_path: Path) -> None:
    saved = tmp_path / "law.json"
    result = podsim("scale", "fit", runs, "--save", saved, "--bootstraps", "20")
    assert result.exit_code == 0, result.output
    assert "16 runs, 30M to 1B parameters" in result.output
    assert "8 of 40 runs have too few tokens a parameter (undertrained)" in result.output
    assert "16 of 40 runs repeat a size and length" in result.output
    asked = podsim("scale", "loss", "70B", "--tokens", "15T", "--law", saved, "--json")
    answer = json.loads(asked.stdout)
    assert answer["low"] < answer["loss"] < answer["high"]
    assert "extrapolated: 70 times above 1 G parameters" in answer["notes"][0]


def test_laws_without_embeddings_count_neither_table_nor_head() -> None:
    inner = 8_030_261_248 - 2 * 128_256 * 4096
    by_hand = ((6.4e13 / inner) ** (0.076 / 0.103) + 1.8e13 / 15e12) ** 0.103
    other = library.scale_loss("llama-3.1-8b", tokens="15T").others["kaplan"]
    own = library.scale_loss("llama-3.1-8b", tokens="15T", law="kaplan")
    assert other == pytest.approx(by_hand, rel=1e-4)
    assert own.loss == pytest.approx(by_hand, rel=1e-4)
    assert own.parameters == inner


def test_one_offset_needs_few_runs(podsim: Run, runs: Path) -> None:
    few = runs.with_name("few.csv")
    few.write_text("\n".join(runs.read_text().splitlines()[:6]))
    assert "--shape podsim" in podsim("scale", "fit", few).stderr
    result = podsim("scale", "fit", few, "--shape", "besiroglu", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["error"] < 0.01


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "nowhere.csv"), "cannot be read"),
        (("fit", "RUNS", "--ratio", "5"), "LOW:HIGH"),
        (("fit", "RUNS", "--ratio", "5000:"), "none of 40 runs"),
        (("fit", "RUNS", "--form", "cubic"), "coupled, additive, kaplan"),
        (("fit", "RUNS", "--only", "lr=7"), "no row has lr=7"),
        (("fit", "RUNS", "--params", "size"), "no column 'size'"),
        (("fit", "RUNS", "--save", "law.txt"), ".json"),
        (("loss", "llama-3.1-8b", "--tokens", "many"), "such as 15T"),
        (("loss", "llama-3.1-8b", "--tokens", "15T", "--law", "kaplen"), "kaplan"),
        (("loss", "llama-3.1-8b", "--tokens", "15T", "--law", "steplaw"), "states no law of the loss"),
        (("loss", "8B"), "--target"),
        (("loss", "8B", "--target", "1.5"), "falls to"),
        (("laws", "--flops", "1e22,x"), "such as"),
        (("best", "--on", "h100", "--gpus", "8", "--days", "0"), "days"),
        (("best", "--on", "h100", "--gpus", "8", "--days", "1", "--inference-tokens", "9000T"), "inference"),
    ],
)
def test_what_makes_no_sense_is_refused(podsim: Run, runs: Path, words: tuple[str, ...], said: str) -> None:
    result = podsim("scale", *[runs if word == "RUNS" else word for word in words])
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert len(result.stderr.splitlines()) <= 5


def test_laws_disagree_as_published() -> None:
    rows = {row.law: row for row in library.scale_laws(flops="5.76e23").rows}
    assert rows["hoffmann"].parameters == pytest.approx(32e9, rel=0.1)
    assert rows["kaplan"].parameters > 5 * rows["hoffmann"].parameters
    assert rows["steplaw"].against is None
    assert rows["steplaw"].rate is not None


def test_the_best_network_learns_more_than_others() -> None:
    answer = library.scale_best(on="h100", gpus=8, days=1)
    assert answer.loss <= 1.002 * min(point.loss for point in answer.curve if point.days == 1)
    assert answer.prediction.fits
    assert answer.seconds == pytest.approx(86400, rel=0.02)
    assert [point.loss for point in answer.front] == sorted(
        (point.loss for point in answer.front), reverse=True
    )
    longer = library.scale_best(on="h100", gpus=8, days=1, inference_tokens="100G")
    assert longer.parameters < answer.parameters
    assert longer.seconds < answer.seconds


def test_generated_shapes_have_their_size() -> None:
    for wanted in (2e7, 3e8, 5e9, 2.4e10, 1.1e11, 6e11):
        shape = shape_near(wanted)
        network = load_model(shape.model, dict(shape.overrides))
        assert network.parameters == pytest.approx(wanted, rel=0.1), shape
        if shape.overrides:  # the catalog has no such network
            assert network.parameters == pytest.approx(shape.parameters, rel=1e-3), shape
            assert 15 <= shape.hidden / shape.layers <= 200
    with pytest.raises(PodsimError, match="shapes have"):
        shape_near(1e3)


def test_pictures_are_drawn(podsim: Run, runs: Path, tmp_path: Path) -> None:
    for words in (
        ("loss", "8B", "--tokens", "1T"),
        ("laws",),
        ("fit", runs, "--bootstraps", "0", "--form", "coupled"),
    ):
        result = podsim("scale", *words, "--plot", tmp_path / "plot.svg", "--html", tmp_path / "page.html")
        assert result.exit_code == 0, result.output
        assert b"<svg" in (tmp_path / "plot.svg").read_bytes()
        assert "<svg" in (tmp_path / "page.html").read_text()


@pytest.mark.torch
def test_a_ladder_foretells_its_largest_network(podsim: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    words = ("scale", "ladder", tmp_path / "runs", "--widths", "16,32,48,64", "--steps", "20", "--batch", "4")
    result = podsim(*words, "--sequence", "32", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert [row["use"] for row in answer["rows"]] == ["fitted"] * 15 + ["foretold"] * 5
    assert answer["held_out"]["error"] < 0.1
    law = tmp_path / "runs" / "law.json"
    assert law.stat().st_mtime < (tmp_path / "runs" / "width-64.jsonl").stat().st_mtime
    for row in answer["rows"][15:]:
        before = library.scale_loss(f"{row['parameters']:.0f}", tokens=row["tokens"], law=str(law))
        assert (before.loss, before.low) == pytest.approx((row["predicted"], row["low"]), rel=1e-4)
    again = podsim(*words, "--sequence", "32", "--json", "--plot", tmp_path / "ladder.svg")
    assert json.loads(again.stdout)["rows"] == answer["rows"], "finished runs are read again"


def test_a_ladder_needs_four_widths(podsim: Run, tmp_path: Path) -> None:
    for widths, said in (
        ("16,32,48", "four or more"),
        ("16,20,32", "multiple of 16"),
        ("a", "expected numbers"),
    ):
        result = podsim("scale", "ladder", tmp_path, "--widths", widths)
        assert result.exit_code == 2
        assert said in result.stderr


def test_a_study_compares_what_machines_learn() -> None:
    grid = {"on": ["h100", "dgx-a100-80gb:1"], "gpus": [8]}
    result = library.study(
        {"question": "scale", "common": {"days": 1}, "grid": grid}, executor="serial", store="none"
    )
    losses = [row.loss for row in result.rows]
    assert None not in losses
    assert losses[0] < losses[1], "an H100 learns more in a day than an A100"


def test_a_target_is_met_by_the_tokens_that_it_takes() -> None:
    answer = library.scale_loss("1B", target=2.4)
    assert answer.loss == pytest.approx(2.4, rel=1e-6)
