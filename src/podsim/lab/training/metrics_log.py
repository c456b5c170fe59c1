"""A training run's metrics as a file that grows by a line with each step, for dashboards and scripts that follow it."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path
from typing import Any

from podsim.answers.trained import MeasuredTraining
from podsim.lab.training.train_job import Training
from podsim.learning.batch_rules import warmed_rate


class MetricsLog:
    """Lines of steps, each written when every rank has done it."""

    def __init__(self, path: Path, job: Training) -> None:
        """Raises OSError where the file cannot be written."""
        self.job, self.heard = job, dict[int, dict[int, dict[str, Any]]]()
        self.path = path
        path.write_bytes(b"")
        self.is_csv = path.suffix.lower() == ".csv"
        self.is_begun = False

    def hear(self, rank: int, said: dict[str, Any]) -> None:
        """What a rank noted: a step that it has done."""
        if "done" not in said or rank >= self.job.ranks:
            return
        step = int(said["done"]) - 1
        ranks = self.heard.setdefault(step, {})
        ranks[rank] = said
        if len(ranks) == self.job.ranks:
            said_by = list(self.heard.pop(step).values())
            losses = [float(each["loss"]) for each in said_by if each["loss"] is not None]
            seconds = max(float(each["seconds"]) for each in said_by)
            self._write(step, sum(losses) / len(losses) if losses else None, seconds)

    def write_all(self, run: MeasuredTraining) -> None:
        """All steps of a run whose ranks others started: only its first rank has heard of them, at the end."""
        for row in run.rows:
            self._write(row.step, row.loss, row.seconds)

    def _write(self, step: int, loss: float | None, seconds: float) -> None:
        job = self.job
        samples = int(job.plan.global_batch) / max(seconds, 1e-9)
        row = {
            "step": step, "time": round(time.time(), 3), "loss": loss,
            "step_seconds": seconds, "samples_per_second": samples,
            "tokens_per_second": samples * (job.network.sequence if job.network else 0),
            "learning_rate": warmed_rate(job.rate, step, job.warmup),
        }  # fmt: skip
        with self.path.open("a", encoding="utf-8", newline="") as file:
            if self.is_csv:
                out = csv.DictWriter(file, list(row))
                if not self.is_begun:
                    out.writeheader()
                out.writerow(row)
            else:
                file.write(json.dumps(row) + "\n")
        self.is_begun = True
