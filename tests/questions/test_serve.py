"""`podsim serve`: models on GPUs and slices, in every format; and every kind of wrong input."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Podsim = Callable[..., Result]


def test_bert_on_seven_slices(podsim: Podsim, tmp_path: Path) -> None:
    arguments = ["bert-large", "--on", "a100-40gb/7x1g.5gb", "--precision", "int8", "--latency", "50ms"]
    told = podsim("serve", *arguments, "--triton", tmp_path)
    assert told.exit_code == 0
    assert "on 7 x a100-sxm4-40gb/1g.5gb: int8, 128 tokens" in told.stdout
    assert "too late" in told.stdout
    assert "max_batch_size" in (tmp_path / "bert_large" / "config.pbtxt").read_text()
    rows = list(csv.DictReader(io.StringIO(podsim("serve", *arguments, "--csv").stdout)))
    assert [int(row["batch"]) for row in rows] == [1, 2, 4, 8, 16, 32, 64, 128]
    found = json.loads(podsim("serve", *arguments, "--json").stdout)
    assert found["instances"] == 7
    assert 2 * found["best"]["latency"] <= 0.05


@pytest.mark.parametrize(
    ("on", "instances"),
    [
        ("a100-40gb", 1),
        ("8xa100-40gb", 8),
        ("dgx-a100-40gb", 8),
        ("dgx-a100-40gb/7x1g", 56),
        ("2xa30/4x1g.6gb", 8),
    ],
)
def test_places(podsim: Podsim, on: str, instances: int) -> None:
    found = json.loads(podsim("serve", "bert-base", "--on", on, "--batch", "1,8", "--json").stdout)
    assert found["instances"] == instances


def test_generators_images_and_overrides(podsim: Podsim) -> None:
    told = podsim("serve", "llama-2-7b", "--on", "a100-80gb", "--tokens", "256", "--output", "64").stdout
    assert "each token" in told
    small = podsim(
        "serve", "llama-2-7b", "--on", "a100-80gb", "--set", "model.layers=4", "--set", "gpu.memory=10GB"
    )
    assert "10 GB hold" in small.stdout
    assert "more than the 512" in podsim("serve", "bert-base", "--on", "a100", "--tokens", "1024").stdout
    images = podsim("serve", "resnet-50", "--on", "t4", "--precision", "int8").stdout
    assert "224 x 224 pixels" in images
    assert "no kernel was measured on it" in images
    assert "4 to 8 % too low" in images.replace("\n", " ")
    assert (
        "2:4 sparse" in podsim("serve", "bert-base", "--on", "a100", "--sparse", "--precision", "int8").stdout
    )


@pytest.mark.parametrize("number", [7, 12])
def test_figures(podsim: Podsim, number: int) -> None:
    assert podsim("serve", "--figure", number).stdout == podsim("figure", number).stdout
    assert json.loads(podsim("serve", "--figure", number, "--json").stdout)["rows"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["llama-2-70b", "--on", "a100-80gb"],
            "a100-sxm4-80gb has 85.90 GB; 2 such GPUs or --precision int8",
        ),
        (["bert-large", "--on", "a100-40gb/1g", "--batch", "60000"], "room for a batch of"),
    ],
)
def test_what_does_not_fit_is_an_answer(podsim: Podsim, arguments: list[str], said: str) -> None:
    result = podsim("serve", *arguments)
    assert result.exit_code == 1
    assert said in result.stderr


def test_too_late_is_an_answer(podsim: Podsim) -> None:
    result = podsim("serve", "bert-large", "--on", "a100", "--latency", "1us")
    assert result.exit_code == 1
    assert "No batch answers within 1 us" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Predict a server:"),
        (["bert-large"], "serve needs a model and a GPU"),
        (["bert-huge", "--on", "a100"], "unknown model 'bert-huge'"),
        (["bert-large", "--on", "a1000"], "unknown GPU, system or cluster 'a1000'"),
        (["bert-large", "--on", "/"], "expected a GPU"),
        (["bert-large", "--on", "v100/1g"], "has no MIG"),
        (["bert-large", "--on", "a100-40gb/8x1g"], "a GPU holds 7 at most"),
        (["bert-large", "--on", "a100-40gb/3g,2g"], "serve each kind alone"),
        (["bert-large", "--on", "v100", "--precision", "int8"], "has no int8 arithmetic"),
        (["bert-large", "--on", "a100", "--precision", "int3"], "unknown precision 'int3'"),
        (["bert-large", "--on", "a100", "--precision", "fp32", "--sparse"], "no 2:4 sparse fp32 products"),
        (["bert-large", "--on", "a100", "--batch", "0,x"], "expected sizes from 1"),
        (["bert-large", "--on", "a100", "--tokens", "0"], "tokens=0"),
        (["bert-large", "--on", "a100", "--output", "5"], "produces no tokens"),
        (["resnet-50", "--on", "a100", "--output", "5"], "produces no tokens"),
        (["resnet-50", "--on", "a100", "--tokens", "100"], "that 32 divides"),
        (["resnet-50", "--on", "a100", "--set", "model.layers=3"], "cannot be set"),
        (["bert-large", "--on", "a100", "--latency", "4 GB"], "is in B"),
        (["bert-large", "--on", "a100", "--latency", "-1s"], "out of reach"),
        (["bert-large", "--on", "a100", "--engine", "onnx"], "unknown engine 'onnx'"),
        (["bert-large", "--on", "a100", "--latency", "1us", "--triton", "x"], "no batch is in time"),
        (["bert-large", "--on", "a100", "--triton", "/dev/null/x"], "cannot be written"),
        (["--figure", "9"], "made again are 4, 5, 7, 12"),
        (["bert-large", "--figure", "7"], "takes no model"),
        (["bert-large", "--on", "a100", "--json", "--csv"], "choose one"),
        (["bert-large", "--on", "a100", "--set", "gpu.speed=3"], "unknown key"),
    ],
)
def test_wrong_input(podsim: Podsim, arguments: list[str], said: str) -> None:
    result = podsim("serve", *arguments)
    assert result.exit_code == 2, result.stdout
    assert said in result.stderr
    assert "Traceback" not in result.stderr
