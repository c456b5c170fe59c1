"""Every class of bad input: one screen on standard error, exit status 2, nothing half-written, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from podsim.hardware.cluster import load_cluster

Run = Callable[..., Result]
NODE = ("--on", "dgx-a100-80gb:1")
CONFIG: dict[str, Any] = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 4, "hidden_size": 512,
    "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000,
    "max_position_embeddings": 512, "tie_word_embeddings": False, "hidden_act": "silu",
}  # fmt: skip


def _refused(result: Result, *words: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr) < 3000
    assert "Traceback" not in result.stderr
    said = " ".join(result.stderr.split())
    for word in words:
        assert word in said


def _config(path: Path, **changes: object) -> Path:
    path.write_text(json.dumps({**CONFIG, **changes}))
    return path


def test_the_config_of_these_tests_is_good(podsim: Run, tmp_path: Path) -> None:
    path = _config(tmp_path / "config.json")
    assert podsim("predict", path, *NODE, "--batch", "8").exit_code == 0
    assert podsim("plan", tmp_path, *NODE, "--batch", "8", "--limit", "tp=1,2").exit_code == 0


@pytest.mark.parametrize("verb", ["predict", "plan", "show"])
def test_configs_that_are_no_configs(podsim: Run, tmp_path: Path, verb: str) -> None:
    whole = json.dumps(CONFIG)
    on = () if verb == "show" else NODE
    for name, content in {
        "truncated.json": whole[:100].encode(), "text.json": b"hello", "list.json": b"[1, 2]", "empty.json": b"",
        "binary.json": bytes(range(256)), "deep.json": b"[" * 100_000, "number.json": b"9" * 10_000,
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
        _refused(podsim(verb, tmp_path / name, *on), name)
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(100_000_000)
    _refused(podsim(verb, tmp_path / "huge.json", *on), "100000000 bytes are too many")
    _refused(podsim(verb, tmp_path / "absent.json", *on), "No such file")
    _refused(podsim(verb, f"{tmp_path}/", *on), "config.json")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": -512}, ["hidden_size=-512", "whole number"]),
        ({"num_hidden_layers": 10**12}, ["num_hidden_layers=1000000000000"]),
        ({"vocab_size": 1e400}, ["vocab_size"]),
        ({"num_attention_heads": 7, "num_key_value_heads": 7}, ["7", "512"]),
        ({"intermediate_size": None}, ["intermediate_size", "missing"]),
    ],
)
def test_absurd_configs(podsim: Run, tmp_path: Path, changes: dict[str, object], words: list[str]) -> None:
    _refused(podsim("predict", _config(tmp_path / "config.json", **changes), *NODE), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gpt3-175b", "--on", "selene", "--gpus", "64", "--tp", "7"], ["tp=7 does not divide heads=96"]),
        (["gpt3-175b", "--on", "selene", "--gpus", "9999"], ["9999", "4480"]),
        (["gpt3-175b", "--on", "selene", "--gpus", "0"], ["gpus=0"]),
        (["gpt3-175b", "--on", "selene", "--gpus", "12"], ["8 or 16 would work"]),
        (["gpt2", *NODE, "--batch", "0"], ["batch=0"]),
        (["gpt2", *NODE, "--batch", "99999999999"], ["batch=99999999999"]),
        (["gpt2", *NODE, "--batch", "7"], ["global_batch=7", "dp x micro_batch may be 1, 7"]),
        (["gpt2", *NODE, "--sequence", "0"], ["sequence=0"]),
        (["gpt2", *NODE, "--precision", "fp8"], ["precision='fp8'", "bf16"]),
        (["gpt2", *NODE, "--software", "spiral"], ["spiral", "`podsim show software` lists"]),
        (["gpt2", *NODE, "--schedule", "spiral"], ["spiral", "interleaved"]),
        (["gpt2", *NODE, "--recompute", "spiral"], ["spiral", "selective"]),
        (["gpt2", *NODE, "--detail", "spiral"], ["spiral", "ops"]),
        (["gpt2", "--on", "nowhere:3"], ["nowhere"]),
        (["gpt2", *NODE, "--set", "gpu.memory=-3 GB"], ["gpu.memory"]),
        (["gpt2", *NODE, "--tp", "two"], ["--tp"]),
        (["gpt2"], ["--on"]),
        (["gpt2", *NODE, "--colour"], ["--colour"]),
    ],
)
def test_predict(podsim: Run, arguments: list[str], words: list[str]) -> None:
    _refused(podsim("predict", *arguments), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gpt3-175b", "--on", "selene", "--gpus", "512", "--batch", "7", "--limit", "dp=8"], ["dp"]),
        (
            ["gpt2", *NODE, "--batch", "7", "--limit", "tp=1", "--limit", "pp=1", "--limit", "cp=1"],
            ["no plan on 8 GPUs", "batch"],
        ),
        (["gpt2", *NODE, "--limit", "tp=x"], ["tp may be whole numbers from 1 to 8"]),
        (["gpt2", *NODE, "--limit", "tp=0"], ["tp may be whole numbers from 1 to 8"]),
        (["gpt2", *NODE, "--limit", "tp=99999999999"], ["tp may be"]),
        (["gpt2", *NODE, "--limit", "zero=4"], ["zero may be whole numbers from 0 to 3"]),
        (["gpt2", *NODE, "--limit", "flash=2"], ["flash may be true, false"]),
        (["gpt2", *NODE, "--limit", "recompute=all"], ["recompute may be none, selective, full"]),
        (["gpt2", *NODE, "--limit", "colour=3"], ["colour", "micro_batch"]),
        (["gpt2", *NODE, "--limit", "tp"], ["expected key=value"]),
        (["gpt2", *NODE, "--top", "0"], ["top=0"]),
        (["gpt2", *NODE, "--objective", "beauty", "--top", "0"], ["time, memory", "top=0"]),
        (["gpt2", *NODE, "--detail", "all"], ["ops"]),
    ],
)
def test_plan(podsim: Run, arguments: list[str], words: list[str]) -> None:
    _refused(podsim("plan", *arguments), *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('inherits = "dgx-a100-80gb"\n', ["source"]),
        ('inherits = "dgx-a100-80gb"\nsource = "us"\ncolour = 3\n', ["colour"]),
        ('inherits = "dgx-a100-80gb"\nsource = "us"\nnodes = "many"\n', ["nodes"]),
        ('inherits = "nothing"\nsource = "us"\n', ["nothing"]),
        ("[[[", ["not TOML"]),
        ("", ["inherits"]),
    ],
)
def test_cluster_files(podsim: Run, tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "lab.toml"
    path.write_text(text)
    _refused(podsim("show", path), *words)
    _refused(podsim("predict", "gpt2", "--on", path), *words)


def test_a_good_cluster_file(podsim: Run, tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text('inherits = "dgx-a100-80gb"\nsource = "our lab"\nnodes = 2\n[gpu]\nmemory = "64 GB"\n')
    assert load_cluster(str(path)).gpu.memory == 64e9
    assert "set by the user" in podsim("show", path).stdout or podsim("show", path).exit_code == 0
    assert podsim("predict", "gpt2", "--on", path, "--batch", "64").exit_code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[[", ["not an experiment file"]),
        ('model = "gpt2"\n', ["on is missing"]),
        ('model = "gpt2"\non = 3\ncolour = "red"\ntop = true\n', ["on=", "colour", "top="]),
        ('model = "gpt2"\non = "dgx-a100-80gb:1"\n[limit]\ntp = ["x"]\n', ["limit tp=x"]),
        ('model = "gpt2"\non = "dgx-a100-80gb:1"\n[limit]\ntp = 3.5\n', ["limit tp"]),
        ('model = "gpt2"\non = "dgx-a100-80gb:1"\n[overrides]\n"gpu.memory" = 0\n', ["memory"]),
    ],
)
def test_experiment_files(podsim: Run, tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    _refused(podsim("replay", path), *words)


def test_no_experiment_file(podsim: Run, tmp_path: Path) -> None:
    _refused(podsim("replay", tmp_path / "absent.toml"), "no such file")
    _refused(podsim("replay", tmp_path), "no such file")
    with (tmp_path / "huge.toml").open("wb") as file:
        file.truncate(100_000_000)
    _refused(podsim("replay", tmp_path / "huge.toml"), "larger than 1 MiB")


def test_an_unwritable_directory_leaves_nothing(podsim: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "taken" / "plans.json").mkdir(parents=True)
    search = ("plan", "gpt2", *NODE, "--batch", "8", "--limit", "tp=1")
    _refused(podsim(*search, "--save", tmp_path / "file"), "file", "is no directory")
    _refused(podsim(*search, "--save", tmp_path / "file" / "below"), "is no directory")
    _refused(podsim(*search, "--save", "/proc/podsim"), "/proc")
    _refused(podsim(*search, "--save", tmp_path / "taken"), "plans.json")
    assert (tmp_path / "file").read_text() == "mine"
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["plans.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "taken"]


def test_a_failure_while_saving_leaves_nothing(
    podsim: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("podsim.whole_files._begin", full)
    result = podsim("plan", "gpt2", *NODE, "--batch", "8", "--limit", "tp=1", "--save", tmp_path / "out")
    _refused(result, "No space left on device")
    assert list((tmp_path / "out").iterdir()) == []


def test_values_of_the_wrong_kind_are_told_from_python() -> None:
    import podsim
    from podsim.errors import PodsimError

    with pytest.raises(PodsimError, match=r"overrides='gpu.memory=64GB': give a mapping"):
        podsim.plan("gpt2", on="dgx-a100", overrides="gpu.memory=64GB")  # type: ignore[arg-type]
    with pytest.raises(PodsimError, match="limit='tp=4': give a mapping"):
        podsim.plan("gpt2", on="dgx-a100", limit="tp=4")  # type: ignore[arg-type]
    (one,) = podsim.validate("korthikanti").comparisons
    assert one.table == "korthikanti"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("collective", "all-reduce", "--on", "dgx-a100:2", "--nics", "1e-300"), "nics"),
        (("scale", "loss", "llama-3.1-8b", "--tokens", "1e-320"), "tokens"),
        (("workers", "--workers", "16", "--to-loss", "1e400"), "to_loss=inf"),
        (("workers", "--workers", "16", "--to-loss", "nan"), "to_loss=nan"),
        (("checkpoint", "llama-3.1-8b", "--on", "h100", "--gpus", "64", "--store", "1e-300"), "store"),
    ],
)
def test_numbers_beyond_all_magnitudes_name_their_option(
    podsim: Run, words: tuple[str, ...], named: str
) -> None:
    """Else products of them overflow, and the answer holds inf."""
    _refused(podsim(*words), named)
