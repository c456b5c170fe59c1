"""First tries of new users are answered, or end in at most five lines with a command to type that is answered."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from podsim.cli import app, mistakes

CONFIG = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 4, "hidden_size": 512,
    "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000,
    "max_position_embeddings": 131072, "tie_word_embeddings": False, "hidden_act": "silu",
}  # fmt: skip
ANSWERED = [
    "plan gpt2 --on h100 --gpus 8",
    "plan gpt2 --on dgx-h100 --gpus 16 --batch 4M --top 2",
    "plan openai-community/gpt2-xl --on gb200 --gpus 72 --limit tp=1",
    "plan 'GPT-2 XL' --on 8xH100 --limit tp=1",
    "plan model.json --on a100 --batch 1024 --sequence 8k --limit tp=1,2",
    "predict . --on 'NVIDIA H100 80GB HBM3' --gpus 8",
    "predict meta-llama/Llama-3.1-8B --on h100 --gpus 64 --tokens 1T --zero 2",
    "predict llama3.1-8b --on selene --gpus 512 --days 30 --zero 3",
    "plan gpt2 --on h100 --gpu 8 --tp 2 --limit zero=1",
    "plan gpt2 --gpu h100 --tp 1",
    "plan gpt2 --on h100 --nodes 2 --seq-len 1k --bs 256 --precision FP8 --dp 16",
    "plan gpt2 --on h100 --on a100 --gpus 8 --tp 1 --tokens 300B",
    "power h100",
    "help plan",
]
LED = {
    "plan gpt2": "--on is missing",
    "plan --on h100": "MODEL is missing",
    "plan gpt2 h100 8": "--on is missing",
    "plan gpt 2 --on h100": "unexpected argument",
    "plan gpt2 --on h10 --gpus 8": "did you mean h100",
    "plan gtp2 --on h100": "did you mean gpt2",
    "plan gpt4 --on h100 --gpus 1024 --tp 8": "did you mean gpt4-1.8t",
    "plan gpt2 --gpus 8xh100": "not a valid integer",
    "plan gpt2 --clster h100 --nmu-gpus 8": "no option --nmu-gpus; did you mean --gpus",
    "plan ./gpt2 --on h100": "the catalog has gpt2",
    "predict gpt2 --on 8xh100 --tp 8 --dp 2": "which has 8",
    "predict gpt2 --on h100 --set network=200Gb/s": "network.bandwidth",
    "estimate gpt2": "did you mean plan",
    "why gpt2 --on h100": "does not take gpt2",
    "compare h100 b200": "options begin with --",
    "how long does it take": "ask a question",
    "plan gpt2 --on h100 --gpus 12": "8 or 16 would work",
    "plan gpt2 --on h100:16": "16 GPUs or 16 servers",
    "plan gpt2 --on h100 --gpus 16x": "--gpus",
    "plan gpt2 --on h100 --batch 1k": "less than one sequence",
    "predict gpt2 --on h100 --tp 7": "tp=7",
    "predict gpt2 --on h100 --precission bf16": "did you mean --precision",
    "predict gpt2 --on selene --gpus 5000": "has 4480",
    "show gpt-4": "did you mean gpt4-1.8t",
    "predict gpt2": "give MODEL and --on CLUSTER",
    "pln gpt2 --on h100": "did you mean plan",
    "gpt2 --on h100": "a command comes first",
    "optimize gpt2 --on h100": "did you mean plan",
    "help pedict": "did you mean predict",
    "show dgx-h10": "did you mean",
    "models qwenn": "unknown name 'qwenn'",
    "queue": "which jobs?",
    "serve gpt2 --tp 2 --on h100": "2 GPUs",
    "serve gpt2 --tensor-parallel-size 4 --on dgx-h100 --replicas 4": "4 replicas",
    "collective --size 1MB --op all_reduce": "neither --on nor --topology",
    "gpu": "did you mean show gpus",
}
"""a command line, and words of its message"""


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Result]:
    """Run a command line in a folder with a config.json, on a terminal of 80 columns."""
    monkeypatch.setattr(mistakes, "message_room", lambda: (80, mistakes.MOST_LINES))
    monkeypatch.chdir(tmp_path)
    for name in ("config.json", "model.json"):
        Path(name).write_text(json.dumps(CONFIG))
    return lambda line: CliRunner().invoke(app, shlex.split(line), env={"COLUMNS": "80"})


@pytest.mark.parametrize("line", ANSWERED)
def test_a_natural_command_is_answered(terminal: Callable[[str], Result], line: str) -> None:
    result = terminal(line)
    assert result.exit_code == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80
    if line.startswith(("plan", "predict")):
        assert len(result.stdout.splitlines()) <= (15 if line.startswith("predict") else 28)


@pytest.mark.parametrize(("line", "words"), LED.items())
def test_any_other_leads_to_a_command_that_is_answered(
    terminal: Callable[[str], Result], line: str, words: str
) -> None:
    result = terminal(line)
    assert (result.exit_code, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert len(lines) <= 5
    assert max(map(len, lines)) <= 80
    assert words in " ".join(result.stderr.split())
    assert lines[-1].startswith("try: podsim ")
    again = terminal(lines[-1].removeprefix("try: podsim "))
    assert again.exit_code in (0, 1), again.stderr


def test_many_problems_take_five_lines(terminal: Callable[[str], Result]) -> None:
    result = terminal("predict gpt3-175b --on selene --gpus 512 --tp 7 --pp 5 --zero 9 --virtual-stages 3")
    assert len(result.stderr.splitlines()) <= 5
    assert "more problems" in result.stderr


def test_a_plan_is_spelt_as_the_command_that_predicts_it(terminal: Callable[[str], Result]) -> None:
    best = json.loads(terminal("plan llama-2-7b --on h100 --gpus 16 --batch 2M --json --top 1").stdout)
    ranked = best["ranked"][0]["prediction"]
    again = json.loads(terminal(ranked["command"].removeprefix("podsim ") + " --json").stdout)
    assert again["step_time"] == ranked["step_time"]
    assert again["plan"] == ranked["plan"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete(terminal: Callable[[str], Result], shell: str) -> None:
    assert "_PODSIM_COMPLETE" in terminal(f"completion {shell}").stdout


def test_a_number_of_thousands_of_digits_is_refused(terminal: Callable[[str], Result]) -> None:
    result = terminal(f"plan gpt2 --on h100 --gpus {'9' * 5000}")
    assert result.exit_code == 2
    assert "--gpus" in result.stderr


def test_a_word_of_hardware_that_is_no_entry_leads_to_no_other_entry(
    terminal: Callable[[str], Result],
) -> None:
    assert "try:" not in terminal("show nvlink").stderr


def test_a_server_that_is_too_small_leads_to_the_gpus_that_were_asked_for(
    terminal: Callable[[str], Result],
) -> None:
    assert "--on 2xh100 --tp 2" in terminal("serve gpt2 --on h100 --tp 2").stderr
    assert "(1 GPU) (1 GPU)" not in terminal("serve gpt2 --on h100 --rate 5").stdout
