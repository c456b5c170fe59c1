"""Runs whose replicas are not in step by all-reduces, beside the workers that podsim plays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from podsim.answers.saved_run import write_run
from podsim.answers.trained import ComparedTraining, MeasuredTraining, TrainedStep
from podsim.questions.operate.compare import compare

PLAN = {
    "tp": 1, "pp": 1, "dp": 4, "virtual_stages": 1, "micro_batch": 4, "global_batch": 16, "zero": 0, "precision": "fp32",
    "overlap_grad": False, "overlap_param": False, "recompute": "none", "sequence_parallel": False,
}  # fmt: skip
RUN = MeasuredTraining(
    model="gpt-tiny", changes={}, plan=PLAN, sequence=64, all_reduce="library", exchange="async", staleness=None,
    late={"2": 20, "3": 100, "4": 20}, data="synthetic", seed=0, rate=3e-3, ranks=4, backend="gloo", device="CPU",
    software="torch", hosts=("a",) * 4, cores=8, emulated=None, started="2026-01-01T00:00:00Z", resumed=(), cpu=0.9,
    others=0.0, rows=tuple(TrainedStep(step=step, loss=2.0, seconds=0.01) for step in range(40)),
)  # fmt: skip


def compared(tmp_path: Path, run: MeasuredTraining) -> ComparedTraining:
    write_run(tmp_path / "run.jsonl", run)
    answer = compare(tmp_path / "run.jsonl", on="dgx-a100")
    assert isinstance(answer, ComparedTraining)
    return answer


def test_staleness_is_that_of_played_workers(tmp_path: Path) -> None:
    plain = compared(tmp_path, RUN)
    assert plain.late_measured == pytest.approx(3.0)
    assert plain.late_predicted == pytest.approx(3.0, abs=0.2)  # the number of others
    assert plain.verdict == "comparable"
    slow = compared(tmp_path, replace(RUN, slow={"1": 3.0}))
    assert slow.predicted > 2.5 * plain.predicted
    bound = compared(tmp_path, replace(RUN, exchange="ssp", staleness=1, slow={"1": 3.0}, late={"1": 40}))
    assert bound.late_predicted is not None
    assert slow.late_predicted is not None
    assert bound.late_predicted < 0.7 * slow.late_predicted
    assert compared(tmp_path, replace(RUN, exchange="ps", late={"0": 40})).late_predicted == 0.0


def test_weights_every_few_steps(tmp_path: Path) -> None:
    often, rarely = (
        compared(tmp_path, replace(RUN, exchange="local", local_steps=steps, late={})) for steps in (2, 20)
    )
    assert often.late_predicted is None
    assert often.measured == pytest.approx(0.01)
    assert (
        rarely.predicted
        < often.predicted
        < compared(tmp_path, replace(RUN, exchange="bsp", late={})).predicted
    )
