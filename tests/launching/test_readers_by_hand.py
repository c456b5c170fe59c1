"""What single options and keys mean, and by what looks a file is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from podsim.errors import PodsimError
from podsim.launching.bridge import _field, _trainer_gpus, _yaml_paths
from podsim.launching.experiment_file import check_directory, save_plans
from podsim.launching.flags import Flags
from podsim.launching.megatron import _read_recompute
from podsim.launching.megatron_model import _read_latent
from podsim.launching.megatron_other import _uneven
from podsim.launching.tools import DEFAULT, guess
from podsim.training.plan_values import Recompute


def flags(**options: str) -> Flags:
    return Flags(given={name.replace("_", "-"): text.split() for name, text in options.items()}, problems=[])


@pytest.mark.parametrize(
    ("options", "chunks", "read", "problems"),
    [
        ({}, 1, (Recompute.NONE, 0), 0),
        ({"recompute_activations": ""}, 1, (Recompute.SELECTIVE, 0), 0),
        ({"recompute_granularity": "selective"}, 1, (Recompute.SELECTIVE, 0), 0),
        ({"checkpoint_activations": ""}, 1, (Recompute.FULL, 0), 0),
        ({"recompute_granularity": "full", "recompute_method": "uniform"}, 2, (Recompute.FULL, 0), 0),
        ({"recompute_granularity": "full", "recompute_method": "block"}, 2, (Recompute.FULL, 2), 0),
        (
            {"recompute_granularity": "full", "recompute_method": "block", "recompute_num_layers": "3"}, 2,
            (Recompute.FULL, 6), 0,
        ),
        ({"recompute_granularity": "full"}, 1, (Recompute.FULL, 0), 1),
        ({"recompute_method": "block"}, 1, (Recompute.NONE, 0), 1),
        ({"recompute_granularity": "selective", "checkpoint_activations": ""}, 1, (Recompute.FULL, 0), 1),
        (
            {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_activations": ""}, 1,
            (Recompute.FULL, 0), 1,
        ),
    ],
)  # fmt: skip
def test_recomputation(
    options: dict[str, str], chunks: int, read: tuple[Recompute, int], problems: int
) -> None:
    given = flags(**options)
    assert _read_recompute(given, chunks) == read
    assert len(given.problems) == problems


def test_latent_attention_has_megatrons_defaults() -> None:
    assert _read_latent(flags(q_lora_rank="8")) == {}
    assert _read_latent(flags(multi_latent_attention="", kv_lora_rank="512", v_head_dim="64")) == {
        "q_rank": 0, "kv_rank": 512, "nope_dim": 128, "rope_dim": 64, "value_dim": 64
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, ""),
        ({"decoder_first_pipeline_num_layers": "4"}, ""),  # 4 and 3 x 4 of 16, as a plan has them
        ({"decoder_first_pipeline_num_layers": "1"}, "layers of the stages 1 5 5 5: a plan divides"),
        ({"num_layers_in_first_pipeline_stage": "2"}, "do not divide over pp=4"),
        (
            {"decoder_first_pipeline_num_layers": "5", "decoder_last_pipeline_num_layers": "3"},
            "stages 5 4 4 3",
        ),
        ({"account_for_embedding_in_pipeline_split": ""}, "do not divide over pp=4"),
    ],
)
def test_uneven_stages(options: dict[str, str], problem: str) -> None:
    given = flags(**options)
    _uneven(given, 4, 1, 16)
    assert (problem in given.problems[0]) if problem else not given.problems


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (
            "model:\n  optim:\n    name: distributed_fused_adam\n",
            {"optimizer.use_distributed_optimizer": True},
        ),
        ("model:\n  optim:\n    name: adam\n", {"optimizer.use_distributed_optimizer": None}),
        ("model:\n  activation: fast-swiglu\n", {"model.gated_linear_unit": True}),
        ("trainer:\n  precision: bf16-mixed\n", {"mixed_precision": "bf16_mixed", "trainer.precision": None}),
        ("trainer:\n  precision: 16\n", {"mixed_precision": "fp16_mixed"}),
        ("trainer:\n  precision: 32\n", {"mixed_precision": None}),
        (
            "model:\n  recompute_granularity: selective\n  recompute_method: uniform\n",
            {"model.recompute_method": None, "model.recompute_granularity": "selective"},
        ),
        (
            "model:\n  recompute_granularity: full\n  recompute_method: uniform\n",
            {"model.recompute_method": "uniform"},
        ),
    ],
)
def test_older_names_of_a_recipe(text: str, paths: dict[str, Any]) -> None:
    found = _yaml_paths(text)
    assert {path: found.get(path) for path in paths} == paths


def test_gpus_and_words_of_a_recipe() -> None:
    assert _trainer_gpus({"trainer.num_nodes": 3, "trainer.devices": 8}) == 24
    for nodes, devices in ((3, -1), ("3", 8), (None, 8), (0, 8)):
        assert _trainer_gpus({"trainer.num_nodes": nodes, "trainer.devices": devices}) is None
    assert [_field(word, "number") for word in ("3", "0.5", "1e-4")] == [3, 0.5, 1e-4]
    assert [_field(word, "list") for word in ("[0,1,1]", "4")] == [[0, 1, 1], 4]


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ('{"zero_optimization": {}}', "deepspeed"), ('"""A recipe."""\n', DEFAULT), ('"train_batch": 4', "deepspeed"),
        ("#!/bin/bash\n#SBATCH --nodes 2\npython x.py", "slurm"), ('kind: "PyTorchJob"', "kubernetes"),
        ("from megatron.bridge.training import x", "nemo"), ("import\n", DEFAULT), ("[parallelism]\n", "torchtitan"),
        ("torchrun x", "torchrun"), ("", DEFAULT),
    ],
)  # fmt: skip
def test_a_tool_by_the_looks_of_its_file(text: str, tool: str) -> None:
    assert guess(text) == tool


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "plans.csv").mkdir()
    with pytest.raises(PodsimError, match="is no directory; give a directory that can be written"):
        check_directory(tmp_path / "file" / "inner")
    with pytest.raises(PodsimError, match=r"plans\.csv in it is a directory"):
        check_directory(tmp_path)
    with pytest.raises(PodsimError, match="--save"):
        save_plans(None, tmp_path, [])  # type: ignore[arg-type]
    check_directory(tmp_path / "new" / "inner")
    assert not (tmp_path / "new").exists()
