"""Measured servers and their predictions, side by side."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View


@dataclass(frozen=True, kw_only=True)
class ComparedFigure:
    """One figure of a run, measured and predicted."""

    name: str
    """The name of the figure, such as ttft_p99 or output_rate."""
    words: str
    unit: str
    """The SI unit: s or 1/s."""
    measured: float
    """SI. The measured value."""
    predicted: float
    """SI. The predicted value."""

    @property
    def error(self) -> float:
        """share. The signed relative error, predicted over measured less 1."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One run of a benchmark, and its prediction."""

    id: str
    """The file, and the number of the run in it."""
    tool: str
    """The tool that measured it."""
    setup: str
    """The model, the GPUs and the layout that were predicted."""
    load: str
    """The load in words."""
    gpus: int
    """count. The GPUs of the prediction."""
    figures: tuple[ComparedFigure, ...] = ()
    """The figures that both have."""
    reason: str = ""
    """The reason why there is no prediction; empty where there is one."""


@dataclass(frozen=True, kw_only=True)
class ComparedServer(
    Answer, view=View(report="report.serving_lab_tables:compared_server_report", rows="rows")
):
    """The runs of a benchmark's file, and their predictions."""

    file: str
    runs: tuple[ComparedRun, ...]
    assumptions: tuple[str, ...] = ()
    """The assumptions where the file says nothing."""

    @property
    def rows(self) -> tuple[ComparedFigure, ...]:
        """The figures of all runs."""
        return tuple(figure for run in self.runs for figure in run.figures)

    @property
    def mean(self) -> float | None:
        """share. The mean absolute error of all figures; None without any."""
        errors = [abs(figure.error) for figure in self.rows]
        return sum(errors) / len(errors) if errors else None
