"""What a chain of jobs says: pre-training, fine-tuning and preference training, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.shown import Shown


@dataclass(frozen=True, kw_only=True)
class ChainedJob(Shown):
    """One job of a chain, and when it runs; figures are None where there is no answer."""

    name: str
    """The name of the job."""
    train: str
    """The trained part: full, lora:16, dpo."""
    status: str
    """The status: fits, does not fit, or no answer."""
    reason: str
    """The reason why there is no answer, or no fit."""
    model: str
    """The name of the model."""
    gpus: int | None
    """The number of GPUs of the job."""
    tokens: float | None
    """count. The tokens that the job trains."""
    step_time: float | None
    """s. The time of one optimizer step."""
    memory: float | None
    """B. The memory of the fullest stage."""
    start: float | None
    """s. The start of the job, after the start of the chain."""
    end: float | None
    """s. The end of the job, with failures, after the start of the chain."""
    cost: float | None
    """USD. The money of the job with failures, at the low end of the price."""


@dataclass(frozen=True, kw_only=True)
class JobChain(Shown):
    """Jobs that follow each other, in the order of their file."""

    title: str
    """The title of the chain."""
    rows: tuple[ChainedJob, ...]
    """The jobs."""
    seconds: float | None
    """s. The duration of the whole chain; None if a job has no answer."""
    cost: float | None
    """USD. The money of the whole chain; None if a job has none."""

    @property
    def fits(self) -> bool:
        """Whether every job fits."""
        return all(row.status == "fits" for row in self.rows)
