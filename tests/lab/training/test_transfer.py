"""A small network fine-tuned, pruned, brought to int8, exported and served, with tiny sizes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podsim.errors import PodsimError
from podsim.lab.training.transfer import Stage, transfer_stages
from podsim.questions.operate import measure_transfer as question
from podsim.questions.operate.measure_transfer import measure_transfer

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
TINY = {"first_samples": 4096, "first_epochs": 4, "epochs": 20, "samples": 256, "requests": 100}
WEIGHTS = 9 * (16 + 16 * 32 + 32 * 32 + 32 * 64 + 64 * 64) + 640
BIASES = 16 + 32 + 32 + 64 + 64 + 10


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_the_whole_flow_with_tiny_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    stages: list[Stage] = []

    def kept_stages(*words: Any) -> Iterator[Stage]:
        for stage in transfer_stages(*words):
            stages.append(stage)
            yield stage

    monkeypatch.setattr(question, "transfer_stages", kept_stages)
    answer = measure_transfer(**TINY, to=tmp_path, progress=lambda done, parts, text="": said.append(text))
    rows = {row.stage: row for row in answer.rows}
    assert list(rows) == [
        "pre-trained", "from scratch", "fine-tuned", "pruned 2:4", "retrained", "int8", "exported", "served",
    ]  # fmt: skip
    assert [text.partition(":")[0] for text in said if text] == [*(name.partition(":")[0] for name in rows)]
    assert rows["fine-tuned"].accuracy > 0.2  # ten classes
    assert rows["from scratch"].bytes == 4 * (WEIGHTS + BIASES)
    kept = 9 * (16 * 32 + 32 * 32 + 32 * 64 + 64 * 64)  # the first layer and the head stay dense
    packed = kept // 2 * 4 + kept // 8  # half of the weights, and 2 bits for each of them
    assert (
        rows["pruned 2:4"].bytes
        == packed + 4 * (WEIGHTS - kept + BIASES)
        == rows["retrained"].predicted_bytes
    )
    assert rows["int8"].bytes == WEIGHTS + BIASES * (4 + 8 + 8)  # torch keeps scales and zeros in 8 bytes
    assert rows["int8"].predicted_bytes == WEIGHTS + BIASES * 8
    assert rows["exported"].accuracy == rows["int8"].accuracy
    assert rows["fine-tuned"].predicted_trained > 1.1 * rows["pre-trained"].trained  # type: ignore[operator]
    assert not answer.stopped
    model = torch.jit.load(str(tmp_path / "transferred" / "1" / "model.pt"))
    assert model(torch.zeros(2, 1, 16, 16)).shape == (2, 10)
    inner = [part.weight() for part in stages[5].network if hasattr(part, "stride") and part.in_channels > 1]
    fours = [each.int_repr().movedim(1, -1).reshape(-1, 4) for each in inner if each.ndim == 4]
    assert len(fours) == 4
    assert all(int((four != 0).sum(1).max()) == 2 for four in fours)
    config = (tmp_path / "transferred" / "config.pbtxt").read_text()
    assert 'platform: "pytorch_libtorch"' in config
    assert "dims: [ 1, 16, 16 ]" in config


def test_a_signal_keeps_the_steps_that_ended() -> None:
    sizes = {"first-samples": 512, "first-epochs": 1, "epochs": 1000}
    words = [f"--{name}={value}" for name, value in sizes.items()]
    with subprocess.Popen(
        [sys.executable, "-m", "podsim.cli", "measure", "transfer", *words, "--json"], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:
            if "pre-trained" in line:
                process.send_signal(signal.SIGTERM)
                break
        kept = json.loads(process.stdout.read())
    assert process.returncode == 130
    assert kept["stopped"]
    assert [row["stage"] for row in kept["rows"]] == ["pre-trained"]


def test_sizes_that_make_no_sense() -> None:
    with pytest.raises(PodsimError, match="epochs"):
        measure_transfer(epochs=1, frozen=9)
