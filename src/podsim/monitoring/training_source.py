"""A training run of the lab as metric families: each step at its own time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from podsim.answers.trained import MeasuredTraining
from podsim.axes import Floats
from podsim.monitoring.exposition import Family, label_text
from podsim.monitoring.metric_table import metrics_of


@dataclass(frozen=True, kw_only=True)
class TrainingSource:
    """A run, and what was predicted of its step."""

    name: str
    run: MeasuredTraining
    predicted: float | None
    """s. The predicted time of a step; None where links are unknown."""
    begin: float
    """s. The time since 1970 at which it begins."""

    @property
    def ends(self) -> Floats:
        """s. The end of each step since 1970."""
        return self.begin + np.cumsum([row.seconds for row in self.run.rows])

    @property
    def length(self) -> float:
        """s. The duration of all steps."""
        return float(sum(row.seconds for row in self.run.rows))

    def families(self, times: Floats) -> Iterator[Family]:
        """The last step at some times, in s since 1970; nothing before the first."""
        rows = self.run.rows
        last = np.searchsorted(self.ends, times + 1e-6, side="right") - 1
        seconds = np.array([row.seconds for row in rows])
        values = {
            "step": np.array([float(row.step) for row in rows]), "seconds": seconds,
            "loss": np.array([row.loss for row in rows]), "ranks": np.full(len(rows), float(self.run.ranks)),
            "samples": float(self.run.plan["global_batch"]) / np.maximum(seconds, 1e-9),
        }  # fmt: skip
        if self.predicted is not None:
            values["predicted"] = np.full(len(rows), self.predicted)
        for metric in metrics_of("training"):
            if metric.field in values:
                yield Family(
                    name=metric.name, type=metric.type, help=metric.help, values=values[metric.field][last][:, None],
                    labels=[label_text({"run": self.name, "model": self.run.model})],
                    series=np.where(last >= 0, 0, -1)[:, None],
                )  # fmt: skip


def begin_of(run: MeasuredTraining) -> float:
    """s since 1970 of a run's start."""
    return datetime.fromisoformat(run.started.replace("Z", "+00:00")).timestamp()
