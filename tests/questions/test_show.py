"""What `show`, `models` and `clusters` print: the figures of the data sheets, in 80 columns, and as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable

import pytest
from click.testing import Result

import podsim as library
from podsim.hardware.sheet import sheet_names

Run = Callable[..., Result]


def _figures(run: Run, name: str) -> dict[str, str]:
    sheet = json.loads(run("show", name, "--json").stdout)
    return {row["label"]: row["text"] for section in sheet["sections"] for row in section["rows"]}


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("AI (bf16, 2:4 sparse)", "5 PFLOP/s"),
        ("int8, 2:4 sparse", "10 POP/s"),
        ("NVLink per GPU, both directions", "600 GB/s"),
        ("NVLink of all GPUs, both directions", "4.8 TB/s"),
        ("network, both directions", "3.2 Tb/s"),
        ("GPU memory", "640 GB"),
        ("NVMe cache", "30 TB"),
        ("memory bandwidth per CPU", "204.8 GB/s"),
        ("power, maximum", "6.5 kW"),
    ],
)
def test_dgx_a100(podsim: Run, label: str, text: str) -> None:
    assert text in _figures(podsim, "dgx-a100")[label]


def test_dgx_a100_of_320_gb(podsim: Run) -> None:
    figures = _figures(podsim, "dgx-a100-40gb")
    assert "320 GB" in figures["GPU memory"]
    assert "15 TB" in figures["NVMe cache"]


@pytest.mark.parametrize(
    "name", ["dgx-a100", "selene", "a100", "gpt3-175b", "megatron-core", "software", "epyc-7742"]
)
def test_a_sheet_fits_a_terminal_and_names_its_sources(podsim: Run, name: str) -> None:
    text = podsim("show", name).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "Sources" in text
    assert "[1]" in text
    assert "…" not in text


def test_every_hardware_name_has_a_sheet(podsim: Run) -> None:
    for name in sheet_names():
        assert podsim("show", name).exit_code == 0, name


@pytest.mark.parametrize("verb", ["models", "clusters"])
def test_lists(podsim: Run, verb: str) -> None:
    assert max(map(len, podsim(verb).stdout.splitlines())) <= 80
    rows = json.loads(podsim(verb, "--json").stdout)["rows"]
    assert rows == getattr(library, verb)()
    table = list(csv.DictReader(io.StringIO(podsim(verb, "--csv").stdout)))
    assert [row["name"] for row in table] == [row["name"] for row in rows]
    for row in rows:
        assert podsim("show", row["name"]).exit_code == 0


def test_overrides_of_a_gpu_a_cluster_and_a_model(podsim: Run) -> None:
    assert _figures(podsim, "a100")["memory"] == "80 GB"
    changed = podsim("show", "a100", "--set", "gpu.memory=64GB", "--json").stdout
    assert '"text": "64 GB"' in changed
    assert "set by the user" in changed
    assert "100 Gb/s" in podsim("show", "selene", "--set", "network.bandwidth=100Gb/s").stdout
    assert "12" in podsim("show", "gpt2", "--set", "model.layers=12").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], ["nonsense", "podsim models"]),
        (["selen"], ["did you mean", "selene"]),
        (["gpt2", "--set", "gpu.memory=64GB"], ["gpt2 is a model", "model."]),
        (["a100", "--set", "model.layers=3"], ["a100 is no model", "layers"]),
        (["megatron-core", "--set", "gpu.memory=64GB"], ["cannot be changed"]),
        (["a100", "--set", "gpu.memory=64 parsecs"], ["memory", "64 parsecs"]),
        (["a100", "--set", "gpu.colour=red"], ["colour", "known"]),
        (["a100", "--set", "gpu.memory"], ["expected key=value"]),
        (["a100", "--set", "sms=3", "--set", "sms=4"], ["given twice"]),
        (["selene", "--json", "--csv"], ["choose one"]),
        (["missing.toml"], ["missing.toml", "no such file"]),
        (["selene:0"], ["selene", "0"]),
    ],
)
def test_wrong_names_and_overrides(podsim: Run, arguments: list[str], words: list[str]) -> None:
    result = podsim("show", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr) < 2000
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize("text", ["qwen", "Qwen3"])
def test_a_word_keeps_the_models_that_hold_it(text: str) -> None:
    names = [row["name"] for row in library.models(text)]
    assert "qwen3-8b" in names
    assert all("qwen" in str(name) for name in names)


def test_the_gpu_of_a_cluster_finds_it() -> None:
    assert "selene" in [row["name"] for row in library.clusters("a100")]


def test_a_word_that_nothing_holds_is_an_unknown_name() -> None:
    with pytest.raises(library.PodsimError, match="unknown name 'nothing-like-it'"):
        library.models("nothing-like-it")
