"""The files that start a plan, and the content of such files: plain values that name no formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.prediction import Prediction


@dataclass(frozen=True, kw_only=True)
class Recipe(Answer, view=View(report="report.launches:launch_report")):
    """What one runs."""

    tool: str
    """The program that reads it."""
    file: str
    """The name for the text."""
    text: str
    """The command, script or file itself."""
    plan: Mapping[str, object]
    notes: tuple[str, ...] = ()
    """The omissions, and what to check before it is run."""


@dataclass(frozen=True, kw_only=True)
class PlanRead(Answer, view=View(report="report.launches:launch_report")):
    """What a launch file or command says."""

    tool: str
    """The program that reads it."""
    gpus: int
    """The number of ranks that it starts."""
    plan: Mapping[str, object]
    shape: Mapping[str, object]
    """The fields of the model that it gives (podsim.workload.specification); empty if it names no shapes."""
    ignored: tuple[str, ...]
    """The options that no law depends on."""
    assumptions: tuple[str, ...]
    """The assumptions where the file is silent."""
    train: str = "full"
    """The part of the model that is trained: full, lora:RANK or qlora:RANK."""
    prediction: Prediction | None = None
    """The prediction; None: no cluster was named."""
