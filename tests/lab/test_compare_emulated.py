"""Training on emulated links next to what its own links give, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from podsim.answers.lab import Emulated
from podsim.answers.saved_run import write_run
from podsim.answers.trained import ComparedTraining, MeasuredTraining, TrainedStep
from podsim.errors import LabError
from podsim.questions.operate.compare import compare

RATE, PAYLOAD, FLOAT = 1e6, 8948 / 9014, 4
LINKS = Emulated(
    cluster="lab", scale=0.001, servers=4, local=1, inside=RATE, between=RATE, nics=1, inside_burst=1.0, between_burst=1.0
)  # fmt: skip
PLAN: dict[str, Any] = {
    "tp": 1, "pp": 1, "dp": 1, "virtual_stages": 1, "micro_batch": 2, "global_batch": 16, "zero": 0,
    "schedule": "1f1b", "recompute": "none", "sequence_parallel": False, "overlap_grad": False,
}  # fmt: skip
TOKENS, HIDDEN, VOCAB, LAYERS = 64, 64, 256, 8
"""of gpt-tiny"""


def _run(emulated: Emulated = LINKS, **plan: Any) -> MeasuredTraining:
    return MeasuredTraining(
        model="gpt-tiny", changes={"model.tied": "false"}, plan=PLAN | plan, sequence=TOKENS, all_reduce="library",
        exchange="bsp", staleness=None, late={}, data="synthetic", seed=0, rate=3e-3, ranks=4, backend="gloo",
        device="CPU", software="torch", hosts=("a",) * 4, cores=8, emulated=emulated, started="", resumed=(), cpu=0.1,
        others=0.0, rows=tuple(TrainedStep(step=step, loss=2.0, seconds=1.0) for step in range(4)),
        processor={"forward": 1e-6, "backward": 1e-6},
    )  # fmt: skip


def _predicted(tmp_path: Path, run: MeasuredTraining) -> float:
    write_run(tmp_path / "run.jsonl", run)
    answer = compare(tmp_path / "run.jsonl")
    assert isinstance(answer, ComparedTraining)
    assert answer.parts["compute"] < 0.001 < answer.parts["links"]
    return answer.predicted * RATE * PAYLOAD


def test_a_pipeline_sends_each_micro_batch_there_and_back(tmp_path: Path) -> None:
    sample = TOKENS * HIDDEN * FLOAT
    alone = _predicted(tmp_path, _run(pp=4, micro_batch=16))
    assert alone == pytest.approx(6 * 16 * sample, rel=1e-3), "three links there, three back"
    eight = _predicted(tmp_path, _run(pp=4))
    assert (8 + 5) * 2 * sample < eight < 0.5 * 8 * 6 * 2 * sample, (
        "they follow each other, four at a time at most"
    )


def test_tensor_ranks_exchange_activations_of_each_layer(tmp_path: Path) -> None:
    activations, positions = 16 * TOKENS * HIDDEN * FLOAT, TOKENS * HIDDEN * FLOAT
    logits = 16 * TOKENS * VOCAB * FLOAT
    ring = 2 * 3 / 4
    forward = ring * ((1 + 2 * LAYERS) * activations + positions) + logits * 3 / 4
    backward = ring * (1 + 2 * LAYERS) * activations
    assert _predicted(tmp_path, _run(tp=4, micro_batch=16)) == pytest.approx(forward + backward, rel=0.01)
    twice = _predicted(tmp_path, _run(tp=4, micro_batch=16, recompute="full"))
    assert twice == pytest.approx(forward + backward + ring * 2 * LAYERS * activations, rel=0.01)


def test_replicas_add_up_all_gradients(tmp_path: Path) -> None:
    run = _run(dp=4, micro_batch=4)
    layer = 12 * HIDDEN**2 + 13 * HIDDEN
    parameters = LAYERS * layer + (2 * VOCAB + TOKENS) * HIDDEN + 2 * HIDDEN
    ring = 2 * 3 / 4 * parameters * FLOAT
    assert _predicted(tmp_path, run) == pytest.approx(ring, rel=0.1)
    fast = replace(LINKS, between=10 * RATE)
    assert _predicted(tmp_path, replace(run, emulated=fast)) == pytest.approx(ring / 10, rel=0.1)


def test_what_is_not_played_is_said(tmp_path: Path) -> None:
    for run, text in (
        (_run(dp=4, zero=1), "zero=1 on emulated links"),
        (replace(_run(dp=4), processor={}), "says nothing of its processor time"),
        (replace(_run(dp=4), emulated=replace(LINKS, servers=5)), "all of them must take part"),
    ):
        write_run(tmp_path / "run.jsonl", run)
        with pytest.raises(LabError, match=text):
            compare(tmp_path / "run.jsonl")
    write_run(tmp_path / "run.jsonl", _run(dp=4))
    with pytest.raises(LabError, match="says which links it ran on"):
        compare(tmp_path / "run.jsonl", on="dgx-a100")
