"""`podsim predict`: the command and the function agree; what does not fit, or is not legal, is said."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import podsim as library
from podsim.errors import PlanError, PodsimError
from podsim.report.plain_data import plain_value
from podsim.training.job_inputs import batch_of

Run = Callable[..., Result]
GPT3 = ("predict", "gpt3-175b", "--on", "selene", "--gpus", "512", "--tp", "8", "--pp", "8", "--batch", "512")
FITS = (*GPT3, "--recompute", "selective", "--sequence-parallel", "--zero", "1")


def _numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(item, f"{path}.{key}")
    else:
        yield path, value


def test_the_command_is_the_function(podsim: Run) -> None:
    printed = json.loads(podsim(*FITS, "--json").stdout)
    head = printed.pop("podsim")
    assert head["command"].startswith("podsim predict gpt3-175b")
    assert (head["units"]["step_time"], head["units"]["stages.kinds"]) == ("s", "B")
    made = library.predict(
        "gpt3-175b",
        on="selene",
        gpus=512,
        tp=8,
        pp=8,
        batch=512,
        recompute="selective",
        sequence_parallel=True,
        zero=1,
    )
    assert printed == plain_value(made)


def test_numbers_are_numbers_in_si(podsim: Run) -> None:
    printed = json.loads(podsim(*FITS, "--json").stdout)
    assert 1 < printed["step_time"] < 100
    assert 10e9 < printed["memory"] <= printed["memory_limit"]
    assert sum(printed["parts"].values()) == pytest.approx(printed["step_time"])
    assert printed["plan"]["tp"] == 8
    for path, value in _numbers({key: printed[key] for key in ("parts", "memory_kinds", "gains")}):
        assert isinstance(value, (int, float)), path
    (row,) = csv.DictReader(io.StringIO(podsim(*FITS, "--csv").stdout))
    assert float(row["step_time"]) == printed["step_time"]
    assert int(row["tp"]) == 8
    assert float(row["parts.compute"]) == printed["parts"]["compute"]


def test_a_plan_that_does_not_fit_is_exit_status_1(podsim: Run) -> None:
    result = podsim(*GPT3)
    assert result.exit_code == 1
    assert "DOES NOT FIT" in result.stdout
    assert podsim(*FITS).exit_code == 0


@pytest.mark.parametrize("width", [80, 100, 160])
def test_text_fits_and_numbers_never_wrap(podsim: Run, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console.Console.width", property(lambda self: width, lambda self, value: None))
    text = podsim(*FITS, "--detail", "ops").stdout
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert " a step: " in text
    assert "MFU" in text
    assert "HFU" in text
    assert "Bottleneck: " in text
    assert "Assumptions" in text
    (core,) = [line for line in text.splitlines() if "attention.core" in line]
    assert core.count(" us") + core.count(" ms") == 2


def test_detail_ops_sums_to_the_arithmetic_of_a_layer() -> None:
    one = library.predict("gpt-22b", on="dgx-a100-80gb:1", tp=8, batch=4, detail="ops", recompute="full")
    assert {op.block for op in one.ops} == {"embedding", "layer", "head"}
    assert all(0 < op.light <= 1.05 for op in one.ops if op.kind == "gemm")
    assert all(op.source and op.shape for op in one.ops)


def test_overrides_change_what_they_name() -> None:
    plain_one = library.predict("gpt-22b", on="dgx-a100-80gb:1", tp=8, batch=4)
    small = library.predict("gpt-22b", on="dgx-a100-80gb:1", tp=8, batch=4, overrides={"gpu.memory": "20 GB"})
    slow = library.predict(
        "gpt-22b", on="dgx-a100-80gb:1", tp=8, batch=4, overrides={"nvlink.bandwidth": "100 GB/s"}
    )
    short = library.predict("gpt-22b", on="dgx-a100-80gb:1", tp=8, batch=4, overrides={"model.layers": "24"})
    assert small.memory_limit == pytest.approx(0.9 * 20 * 2**30)  # less the head-room
    assert slow.parts["tp"] > 2 * plain_one.parts["tp"]
    assert 0.4 < short.step_time / plain_one.step_time < 0.6


def test_what_was_changed_is_told() -> None:
    changes = {"gpu": "h100", "nodes": "2", "model.layers": "24"}
    said = "changed: gpu = h100, nodes = 2, model.layers = 24"
    one = library.predict("gpt-22b", on="dgx-a100-80gb:4", tp=8, batch=8, overrides=changes)
    (best,) = library.plan(
        "gpt-22b", on="dgx-a100-80gb:4", batch=8, overrides=changes, limit={"tp": 8}, top=1
    ).ranked
    for prediction in (one, best.prediction):
        assert prediction.assumptions[0] == said
        assert prediction.cluster == "dgx-a100-80gb:2"
    plain_one = library.predict("gpt-22b", on="dgx-a100-80gb:4", tp=8, batch=8)
    assert not any("changed" in one for one in plain_one.assumptions)


def test_paths_are_paths_and_amounts_numbers(tmp_path: Path) -> None:
    config, cluster = tmp_path / "config.json", tmp_path / "lab.toml"
    config.write_text(
        '{"model_type": "gpt2", "n_layer": 4, "n_embd": 256, "n_head": 4, "vocab_size": 512, "n_positions": 128}'
    )
    cluster.write_text('inherits = "dgx-a100-80gb"\nsource = "us"\n')
    one = library.predict(config, on=cluster, batch=8, price=2.5)
    assert one == library.predict(str(config), on=str(cluster), batch=8, price="2.5")
    assert one.expense is not None
    found = library.plan(config, on=cluster, batch=8, limit={"tp": 1}, top=1, save=tmp_path / "kept")
    again = library.replay(tmp_path / "kept" / "experiment.toml")
    assert again.ranked == found.ranked
    assert library.show(config).title.startswith(tmp_path.name)


@pytest.mark.parametrize("degree", ["tp", "pp", "cp", "dp"])
@pytest.mark.parametrize("value", ["8", 2.0, [1, 2], True])
def test_degrees_are_whole_numbers(degree: str, value: object) -> None:
    with pytest.raises(PlanError, match=f"{degree}=.* is not a whole number"):
        library.predict("gpt2", on="dgx-a100-80gb", **{degree: value})


@pytest.mark.parametrize("value", [None, 3])
def test_a_cluster_is_a_name_or_a_path(value: object) -> None:
    with pytest.raises(PodsimError, match=f"cluster from {value}"):
        library.predict("gpt2", on=value)


@pytest.mark.parametrize(
    ("gpus", "sequence", "sequences"),
    [(512, 2048, 2048), (4480, 2048, 2240), (24, 8192, 384), (4480, 8192, 560), (8, 3000, 1024), (4472, 8192, 559),
     (1025, 8192, 512), (1, 2**27, 1)],
)  # fmt: skip
def test_the_default_batch_is_one_that_replicas_divide(gpus: int, sequence: int, sequences: int) -> None:
    assert batch_of(None, sequence, gpus) == (sequences, True)
    assert batch_of(7, sequence, gpus) == (7, False)


def test_a_model_is_planned_on_a_cluster_whose_gpus_are_no_power_of_two() -> None:
    found = library.plan("llama-3.1-8b", on="dgx-a100-80gb:3", limit={"micro_batch": 1, "tp": 1}, top=1)
    assert (found.batch, found.ranked[0].prediction.plan["dp"]) == (384, 24)


def test_all_violations_at_once(podsim: Run) -> None:
    result = podsim(
        "predict", "gpt3-175b", "--on", "selene", "--gpus", "512", "--tp", "5", "--zero", "7", "--ep", "3"
    )
    assert result.exit_code == 2
    assert "5 x 1 x 1 does not divide 512 GPUs" in result.stderr
    assert "tp=5 does not divide heads=96; tp may be 1, 2, 3, 4, 6, 8, 12" in result.stderr
    assert "zero may be 0, 1, 2, 3" in result.stderr
    assert "ep=3" in result.stderr
    with pytest.raises(PlanError) as error:
        library.predict("gpt3-175b", on="selene", gpus=512, tp=5, zero=7, ep=3)
    assert len(error.value.problems) >= 4


def test_a_change_is_compared_with_the_same_plan_without_it(podsim: Run) -> None:
    job = {"on": "h100", "gpus": 64, "tp": 2, "zero": 1}
    base = library.predict("llama-3.1-8b", **job)
    slow = library.predict("llama-3.1-8b", **job, overrides={"network.bandwidth": "50Gb/s"})
    assert base.unchanged_time is None
    assert slow.unchanged_time == pytest.approx(base.step_time)
    line = "predict llama-3.1-8b --on h100 --gpus 64 --tp 2 --zero 1 --set network.bandwidth=50Gb/s"
    change = slow.step_time / base.step_time - 1
    assert f"{change:.1%} slower than the {base.step_time:.4g} s" in podsim(*line.split()).stdout
