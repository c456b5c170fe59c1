"""`podsim advise` reads files as users have them, and proposes changes that a prediction of its own confirms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import podsim
from podsim.errors import PodsimError
from podsim.launching.titan import older_names

JOBS = Path(__file__).parent / "jobs"
FILES: dict[str, dict[str, Any]] = {
    "megatron-175b.sh": {"on": "selene"},
    "llama3.sh": {"on": "h200"},
    "job.sbatch": {"on": "dgx-a100:4"},
    "args.txt": {"on": "selene", "gpus": 64},
    "bridge.yaml": {"on": "dgx-h100:8", "model": "llama-3-8b", "gpus": 32},
    "nemo.yaml": {"on": "dgx-a100:4"},
    "titan-2024.toml": {"on": "h100", "gpus": 8},
    "titan.toml": {"on": "h100", "gpus": 128},
    "zero3-auto.json": {"on": "h100", "gpus": 16, "model": "llama-3-8b"},
    "zero2.json": {"on": "h100", "gpus": 64, "model": "llama-3-8b"},
}
"""files as users have them, and what each leaves unsaid"""


def _advise(name: str, **more: Any) -> Any:
    return podsim.advise(str(JOBS / f"advise-{name}"), **(FILES[name] | more))


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_without_retyping(name: str) -> None:
    advice = _advise(name)
    assert advice.low < advice.step_time < advice.high
    assert advice.memory > 1e9
    assert len(advice.changes) <= 3
    for change in advice.changes:
        assert change.memory < advice.memory_limit
        assert all(line[:2] in ("- ", "+ ") for line in change.diff)


def test_a_file_with_a_change_of_the_diff_takes_the_step_that_was_promised(tmp_path: Path) -> None:
    """The diff is applied to the text by hand, and the changed file is read again."""
    text = (JOBS / "advise-job.sbatch").read_text()
    change = next(c for c in _advise("job.sbatch").changes if c.subject.startswith("recompute"))
    for line in change.diff:
        assert line.startswith("- ")
        assert line[2:] in text
        text = text.replace(line[2:], "")
    (tmp_path / "changed.sbatch").write_text(text)
    changed = podsim.advise(str(tmp_path / "changed.sbatch"), **FILES["job.sbatch"])
    assert changed.step_time == pytest.approx(change.step_time, rel=1e-12)
    assert changed.memory == pytest.approx(change.memory, rel=1e-12)


def test_the_keys_of_an_old_torchtitan_file_are_known() -> None:
    names = older_names((JOBS / "advise-titan-2024.toml").read_text())
    assert names["training.local_batch_size"] == "training.batch_size"
    assert names["parallelism.pipeline_parallel_degree"] == "experimental.pipeline_parallel_degree"
    assert not older_names((JOBS / "advise-titan.toml").read_text())


def test_the_precision_and_the_gpus_of_an_old_nemo_file_are_read() -> None:
    advice = _advise("nemo.yaml")
    assert advice.gpus == 4 * 8
    assert not [text for text in advice.assumptions if "fp32" in text]
    assert not [key for key in advice.unread if "trainer.devices" in key or "trainer.num_nodes" in key]
    assert "- model.activations_checkpoint_granularity = full" in advice.changes[0].diff


def test_every_key_that_is_not_read_is_named() -> None:
    unread = " ".join(_advise("llama3.sh").unread)
    assert "--train-samples" in unread
    assert "--manual-gc" in unread


def test_a_batch_left_to_the_trainer_is_said_to_be_assumed() -> None:
    assert [text for text in _advise("zero3-auto.json").assumptions if "8 sequences" in text]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no such file"),
        ("", "empty"),
        ("hello world\n", "starts no training that is known"),
        (
            "--num-layers 8 --tensor-model-paralel-size 2 --micro-batch-size x --hidden-size 64",
            "micro-batch-size",
        ),
    ],
)
def test_what_cannot_be_read_is_said(text: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "job.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(PodsimError, match=words):
        podsim.advise(str(path), on="h100")


def test_a_file_without_a_cluster_asks_for_one() -> None:
    with pytest.raises(PodsimError, match="--on"):
        podsim.advise(str(JOBS / "advise-job.sbatch"))


def test_a_vllm_line_has_its_time_per_token_and_its_changes_as_flags(tmp_path: Path) -> None:
    path = tmp_path / "serve.sh"
    path.write_text(
        "#!/bin/bash\nexport HF_HOME=/data\n"
        "vllm serve meta-llama/Llama-3.1-70B-Instruct --tensor-parallel-size 8 --max-model-len 8192 --seed 1\n"
    )
    advice = podsim.advise(str(path), on="h100")
    served = podsim.serve("llama-3.1-70b", on="8xh100", engine="vllm", tp=8, batch="32")
    assert advice.step_time == served.rows[0].token
    assert "--seed 1" in advice.unread
    lines = [line for change in advice.changes for line in change.diff]
    assert [line for line in lines if line.startswith("+ --quantization")]
    assert not [line for line in lines if line.startswith("- --dtype")]


def test_the_short_name_of_a_degree_of_sglang_is_read(tmp_path: Path) -> None:
    path = tmp_path / "serve.sh"
    path.write_text("python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct --tp 2\n")
    assert podsim.advise(str(path), on="h100").gpus == 2


_COMPOSE = """services:
  llm:
    image: vllm/vllm-openai:v0.11.0
    command: {command}
    ports: ["8000:8000"]
"""


@pytest.mark.parametrize(
    "text",
    [
        "docker run --gpus all -p 8000:8000 --ipc=host \\\n  vllm/vllm-openai:latest \\\n"
        "  --model Qwen/Qwen3-8B --tensor-parallel-size 2 --max-num-seq 64\n",
        _COMPOSE.format(command="--model Qwen/Qwen3-8B --tensor-parallel-size 2 --max-num-seq 64"),
        _COMPOSE.format(
            command='["--model", "Qwen/Qwen3-8B", "--tensor-parallel-size=2", "--max-num-seq", "64"]'
        ),
        _COMPOSE.format(command="vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --max-num-seq 64"),
    ],
)
def test_a_server_in_a_container_is_read_and_its_misspelt_option_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text(text)
    advice = podsim.advise(str(path), on="2xh100")
    assert (advice.model, advice.gpus, advice.tool) == ("qwen3-8b", 2, "vllm")
    assert advice.unread == ("--max-num-seq 64 (did you mean --max-num-seqs?)",)


@pytest.mark.parametrize(
    ("name", "text", "model", "tool"),
    [
        (
            "serve.sh",
            "python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B\n",
            "qwen3-8b",
            "vllm",
        ),
        ("serve.sh", "trtllm-serve serve Qwen/Qwen3-8B --tp_size 2\n", "qwen3-8b", "tensorrt-llm"),
        (
            "pod.yaml",
            'apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - command: ["/bin/sh", "-c"]\n'
            '    args: ["vllm serve Qwen/Qwen3-8B"]\n',
            "qwen3-8b",
            "vllm",
        ),
        (
            "train.yml",
            "base_config: base.yml\nmodel_name: llama3.1-8b\nper_device_batch_size: 1\n"
            "ici_fsdp_parallelism: 8\nmax_target_length: 4096\n",
            "llama-3.1-8b",
            "maxtext",
        ),
    ],
)
def test_the_model_and_the_program_are_read_as_they_are_named(
    tmp_path: Path, name: str, text: str, model: str, tool: str
) -> None:
    (tmp_path / name).write_text(text)
    advice = podsim.advise(str(tmp_path / name), on="h100", gpus=8 if tool == "maxtext" else None)
    assert (advice.model, advice.tool) == (model, tool)


def test_adapters_of_a_file_take_the_memory_of_adapters(tmp_path: Path) -> None:
    """The 70 billion weights are kept in about half a byte; their gradients and moments would not fit."""
    (tmp_path / "q.yml").write_text(
        "base_model: meta-llama/Llama-3.1-70B\nadapter: qlora\nlora_r: 16\nload_in_4bit: true\nsequence_len: 2048\n"
        "micro_batch_size: 1\ngradient_accumulation_steps: 4\nbf16: auto\ngradient_checkpointing: true\n"
        "flash_attention: true\ndatasets: []\n"
    )
    advice = podsim.advise(str(tmp_path / "q.yml"), on="h100", gpus=8)
    assert 70.55e9 * 0.5 < advice.memory < 77e9
    assert advice.fits
