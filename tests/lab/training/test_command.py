"""`podsim train`, `podsim measure ddp` and their comparisons, as a user types them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from podsim.acceptance.compare_ddp import step_seconds
from podsim.answers.lab import Emulated
from podsim.answers.saved_run import read_run, write_run
from podsim.answers.trained import MeasuredDdp, MeasuredPass, MeasuredTraining
from podsim.errors import LabError
from podsim.lab.training.batches import batches_of
from podsim.lab.training.gpt import gpt, pieces
from podsim.questions.learn.train import train
from podsim.questions.operate.compare import compare
from podsim.workload.catalog import load_model, load_specification
from podsim.workload.specification import resolve

QUICK = ("--sequence", 8, "--set", "model.layers=2", "--backend", "gloo", "--batch", 4)
LINKS = Emulated(
    cluster="dgx-a100:2", scale=1e-4, servers=2, local=2, inside=5e7, between=2.5e7, nics=1, inside_burst=131072.0,
    between_burst=131072.0,
)  # fmt: skip
DDP = MeasuredDdp(
    layers=4, size=2e6, forward=0.01, backward=0.1, overlap=True, all_reduce="library", ranks=4, local=2, backend="gloo",
    software="torch", hosts=("here",) * 4, cores=2, emulated=LINKS, message=1e-4,
    started="2026-01-01T00:00:00+00:00",
    cpu=0.1, others=0.01, rows=(MeasuredPass(step=0, seconds=1.0),),
)  # fmt: skip


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_a_run_is_printed_saved_drawn_and_compared(podsim: Callable[..., Result], tmp_path: Path) -> None:
    one, two, image = tmp_path / "one.jsonl", tmp_path / "two.jsonl", tmp_path / "loss.svg"
    first = podsim("train", *QUICK, "--steps", 4, "--save", one)
    assert first.exit_code == 0, first.output
    assert "samples/s" in first.stdout
    assert "token/s" in first.stdout
    given = (*QUICK, "--dp", 2, "--steps", 4, "--against", one, "--save", two, "--plot", image)
    second = podsim("train", *given)
    assert second.exit_code == 0, second.output
    assert "losses of 4 steps are within" in second.stdout
    assert image.read_bytes().count(b"dp 2") == 1
    found = read_run(two)
    assert isinstance(found, MeasuredTraining)
    assert [row.step for row in found.rows] == [0, 1, 2, 3]
    beside = podsim("compare", two, "--on", "dgx-a100", "--json")
    told = json.loads(beside.stdout)
    assert told["measured"] == found.step_time
    assert told["predicted"] > 0
    assert beside.exit_code == (0 if told["verdict"] == "comparable" else 1)
    assert podsim("compare", two).exit_code == 2
    rows = list(csv.DictReader(io.StringIO(podsim("train", *QUICK, "--steps", 2, "--csv").stdout)))
    assert [row["step"] for row in rows] == ["0", "1"]


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_text_and_images(tmp_path: Path) -> None:
    """A file of two letters in turn is learnt at once; so are two colours."""
    (tmp_path / "text").write_text("ab" * 500)
    read = train(
        "gpt-tiny",
        data=str(tmp_path / "text"),
        sequence=8,
        overrides={"model.layers": "2"},
        steps=30,
        rate=0.01,
    )
    assert read is not None
    assert read.rows[0].loss > 5.0
    assert read.rows[-1].loss < 0.5
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed: pip install podsim[lab]")
    for name, colour in (("dark", 20), ("light", 230)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(3):
            picture = np.full((20, 30, 3), colour + number, np.uint8)
            pillow.fromarray(picture).save(tmp_path / "images" / name / f"{number}.png")
    seen = train("resnet-8", data=str(tmp_path / "images"), image=8, batch=8, steps=20, dp=2)
    assert seen is not None
    assert seen.rows[-1].loss < 0.2
    (tmp_path / "images" / "dark" / "0.png").write_text("none")
    with pytest.raises(LabError, match=r"0.png: no image"):
        train("resnet-8", data=str(tmp_path / "images"), image=8, batch=8, steps=20)


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_the_network_is_the_one_that_is_predicted() -> None:
    """As many weights as its Model counts, whole and in pieces."""
    for changes in (
        {},
        {"kv_heads": "2", "gated": "true", "norm": "rmsnorm", "position": "rope", "mlp_bias": "false"},
    ):
        spec = resolve(load_specification("gpt-tiny", changes))
        for cut in ((8,), (3, 3, 2)):
            counts = [
                sum(one.numel() for one in gpt(spec, piece, seed=0).parameters()) for piece in pieces(cut)
            ]
            assert sum(counts) == load_model("gpt-tiny", changes).parameters


@pytest.mark.parametrize(("data", "images"), [("synthetic", False), ("synthetic", True)])
def test_a_batch_follows_from_seed_and_step(data: str, images: bool) -> None:
    given = {"vocabulary": 50, "length": 7, "side": 12, "classes": 4, "images": images}
    one, same, other = (batches_of(data, seed=seed, **given) for seed in (3, 3, 4))  # type: ignore[arg-type]
    for first, second in zip(one.batch(5, 6), same.batch(5, 6), strict=True):
        assert (first == second).all()
    assert not (one.batch(5, 6)[0] == one.batch(6, 6)[0]).all()
    assert not (one.batch(5, 6)[0] == other.batch(5, 6)[0]).all()
    assert len(one.batch(0, 6)[0]) == 6


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["resnet-8", "--data", "nowhere"], "no folder; images lie in"),
        (["--data", "."], "a GPT reads a text file"),
        (["--plot", "loss.pdf"], ".png"),
        (["--plot", "nowhere/loss.png"], "there is no folder nowhere"),
        # 405,853,388,800 parameters of 16 B; and in two replicas of 8 B, with 8 B divided
        (["llama-3-405b"], "take 6.494 TB, and this machine has"),
        (["llama-3-405b", "--dp", "2", "--zero", "1"], "take 9.74 TB"),
        (["llama-3-405b", "--dp", "2", "--zero", "3"], "take 6.494 TB"),
        (["--against", "nowhere.jsonl"], "cannot be read"),
        (["--slow", "x=2"], "a worker is a number"),
        (["nope"], "unknown model 'nope'"),
    ],
)
def test_misuse(podsim: Callable[..., Result], arguments: list[str], said: str) -> None:
    done = podsim("train", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ranks", "1"], "nobody to add gradients up with"),
        (["--size", "4KB"], "--size 4000"),
        (["--layers", "0", "--forward", "2h"], "--layers 0; it must be 1 to 1000; --forward 7200"),
        (["--all-reduce", "in-network"], "switch"),
    ],
)
def test_misuse_of_ddp(podsim: Callable[..., Result], arguments: list[str], said: str) -> None:
    done = podsim("measure", "ddp", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_a_step_with_and_without_overlap() -> None:
    assert step_seconds(4, 1.0, 2.0, 0.5) == (4 + 8 + 0.5, 4 * 3.5)  # only the last bucket is seen
    assert step_seconds(4, 1.0, 2.0, 5.0) == (
        4 + 2 + 20,
        4 * 8.0,
    )  # links are never idle after the first layer
    assert step_seconds(1, 1.0, 2.0, 5.0) == (8.0, 8.0)  # nothing to hide behind


@pytest.mark.parametrize("overlap", [True, False])
def test_the_nearer_prediction_is_told(podsim: Callable[..., Result], tmp_path: Path, overlap: bool) -> None:
    path = tmp_path / "ddp.jsonl"
    write_run(path, DDP)
    both = json.loads(podsim("compare", path, "--json").stdout)
    assert both["overlapped"] < 0.8 * both["apart"]
    wanted = both["overlapped" if overlap else "apart"]
    write_run(path, replace(DDP, overlap=overlap, rows=(MeasuredPass(step=0, seconds=1.02 * wanted),)))
    done = podsim("compare", path)
    assert done.exit_code == 0
    assert f"nearer to {'overlap' if overlap else 'no overlap'}; comparable" in done.stdout
    told = json.loads(podsim("compare", path, "--json").stdout)
    assert told["told"] is True
    assert told["difference"] == pytest.approx(1 / 1.02 - 1)
    write_run(path, replace(DDP, others=0.3))
    assert podsim("compare", path).exit_code == 1
    with pytest.raises(LabError, match="shaped links"):
        compare(path, on="dgx-a100")


@pytest.mark.torch
@pytest.mark.usefixtures("torch", "spaces")
@pytest.mark.parametrize("way", ["--overlap", "--no-overlap"])
def test_ddp_on_emulated_links(tmp_path: Path, way: str, podsim: Callable[..., Result]) -> None:
    path = tmp_path / "ddp.jsonl"
    done = podsim(
        "emulate", "dgx-a100:2", "--set", "gpus_per_node=2", "--set", "nics=1", "--scale", "1/2000", "--", "podsim",
        "measure", "ddp", "--layers", 3, "--size", "1.2MB", "--steps", 2, "--all-reduce", "ring", way, "--save", path,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(podsim("compare", path, "--json").stdout)
    assert told["overlap"] is (way == "--overlap")
    assert 0 < told["bucket"] < told["overlapped"] < told["apart"]
    assert told["measured"] > 3 * 0.03
