"""The spans of a training run, by hand: its bubble, its timeline, its log of metrics."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from podsim.answers.trained import MeasuredTraining, TrainedStep
from podsim.errors import TimelineError
from podsim.lab.training.metrics_log import MetricsLog
from podsim.lab.training.setup import training_run
from podsim.options.measure_options import TrainOptions
from podsim.timeline.trained_timeline import trained_timeline

SPANS = (
    (0, "forward 0", 0.0, 1.0), (0, "backward 0", 4.0, 6.0), (0, "optimizer", 6.0, 7.0),
    (1, "forward 0", 1.0, 2.0), (1, "backward 0", 2.0, 4.0), (1, "optimizer", 4.0, 5.0),
    (0, "forward 0", 7.0, 8.0), (0, "backward 0", 11.0, 13.0), (0, "optimizer", 13.0, 14.0),
    (1, "forward 0", 8.0, 9.0), (1, "backward 0", 9.0, 11.0), (1, "optimizer", 11.0, 12.0),
)  # fmt: skip
RUN = MeasuredTraining(
    model="gpt-tiny", changes={}, plan={"tp": 1, "pp": 2, "dp": 1, "global_batch": 8}, sequence=64, all_reduce="library",
    exchange="bsp", staleness=None, late={}, data="synthetic", seed=0, rate=3e-3, ranks=2, backend="gloo", device="CPU",
    software="torch", hosts=("a",) * 2, cores=8, emulated=None, started="", resumed=(), cpu=0.1, others=0.0,
    rows=(TrainedStep(step=0, loss=2.0, seconds=7.0),), span_rank=tuple(span[0] for span in SPANS),
    span_name=tuple(span[1] for span in SPANS), span_start=tuple(span[2] for span in SPANS),
    span_end=tuple(span[3] for span in SPANS),
)  # fmt: skip


def test_a_pipeline_of_two_waits_as_long_as_it_works() -> None:
    assert RUN.bubble == pytest.approx(1.0), "two steps, 6 s each on two ranks, which work 3 s"
    assert replace(RUN, plan={**RUN.plan, "pp": 1}).bubble is None
    timeline = trained_timeline(RUN)
    assert [lane.process for lane in timeline.lanes] == ["stage 0", "stage 1"]
    assert dict(zip(timeline.kinds, timeline.busy().tolist(), strict=True)) == {
        "forward": 4.0, "backward": 8.0, "optimizer": 4.0
    }  # fmt: skip
    assert set(timeline.arguments["micro_batch"].tolist()) == {0, -1}
    with pytest.raises(TimelineError, match="kept no spans"):
        trained_timeline(replace(RUN, span_rank=(), span_name=(), span_start=(), span_end=()))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_line_when_every_rank_has_done_a_step(tmp_path: Path, suffix: str) -> None:
    job = training_run(TrainOptions(dp=2, batch=8, warmup=4), 2)
    log = MetricsLog(tmp_path / f"run{suffix}", job)
    log.hear(0, {"doing": "step 0", "done": 1, "loss": 2.0, "seconds": 0.5})
    assert (tmp_path / f"run{suffix}").read_text() == ""
    log.hear(1, {"doing": "step 0", "done": 1, "loss": 4.0, "seconds": 0.25})
    text = (tmp_path / f"run{suffix}").read_text()
    row = next(csv.DictReader(text.splitlines())) if suffix == ".csv" else json.loads(text)
    assert [float(row[name]) for name in ("step", "loss", "step_seconds", "samples_per_second")] == [
        0,
        3.0,
        0.5,
        16.0,
    ]
    assert float(row["tokens_per_second"]) == 16 * 64
    assert float(row["learning_rate"]) == pytest.approx(job.rate / 4)
    assert int(job.plan.micro_batch) == 1, "as in predict"
