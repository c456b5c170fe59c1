"""What each step of transfer learning gave, and what podsim said before: plain values that name no formula."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown


@dataclass(frozen=True, kw_only=True)
class TransferRow:
    """One step; None where nothing was measured, or podsim predicts nothing."""

    stage: str = shown("after")
    accuracy: float = shown(format=":.2%")
    """share. The images in the right class, none of them trained on."""
    predicted_accuracy: float | None = shown("predicted", ":.2%", drop=3)
    """share. The accuracy as published changes foretell it from the step before."""
    bytes: float = shown(format=":,.0f")
    """B. The size of the weights; of the file once they are exported."""
    predicted_bytes: float | None = shown("predicted", ":,.0f")
    """B. The size by the shapes and the layout."""
    trained: float | None = shown("trained/s", ":,.0f", drop=2)
    """1/s. The images of training, in a second of one core."""
    predicted_trained: float | None = shown("predicted", ":,.0f", drop=1)
    """1/s. The same, by the work of the passes."""
    answered: float = shown("answered/s", ":,.0f")
    """1/s. The images of forward passes in a second of one core; of the last step, answers of the server."""
    predicted_answered: float | None = shown("predicted", ":,.0f")
    """1/s. The same, from the step before."""


@dataclass(frozen=True, kw_only=True)
class Transferred(Answer, view=View(rows="rows", figure="report.plot_training:transfer_figure")):
    """A small network trained for other classes, pruned, brought to int8, exported and served."""

    samples: int = shown("samples of the task")
    repository: str = shown("Triton repository", hide_if="")
    """The folder of the model repository; empty if it was not kept."""
    rows: tuple[TransferRow, ...]
    stopped: bool = shown(
        "stopped", default=False, hide_if=False, remark="these are the steps that had ended"
    )
    """Whether a signal ended it before its last step."""
