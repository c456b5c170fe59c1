"""Results of a server that ran for real: its requests and steps, and the simulator's figures next to them."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.units import format_quantity


@dataclass(frozen=True, kw_only=True)
class MeasuredRequest:
    """One request, as its client saw it."""

    run: int
    sent: float
    """s. The time from the start of the run until it was sent."""
    first: float
    """s. The time of its first token."""
    done: float
    """s. The time of its last token."""
    prompt: int
    """The number of tokens of its prompt."""
    tokens: int
    """The number of tokens of its answer."""


@dataclass(frozen=True, kw_only=True)
class MeasuredServing(Answer, view=View(report="report.serving_lab_tables:measured_report", rows="rows")):
    """A server under several loads, and the run of its own in which the time of its steps was measured."""

    server: str
    """The server in words."""
    url: str
    """The URL of a server that podsim did not start; empty for its own."""
    sequences: int
    """The number of sequences at once; 0 for a server of others."""
    budget: int
    """The number of tokens of a step; 0 for a server of others."""
    saturation: float
    """1/s. The mean rate of answers to clients that keep all sequences busy; 0 where it was not measured."""
    shares: tuple[float, ...]
    """share. The rate of each run over that measured before it; 0 where it was not measured."""
    rates: tuple[float, ...]
    """1/s. The rate of arrivals of each run."""
    others: tuple[float, ...]
    """share. The part of the processors' time that other programs took in each run."""
    calibration_others: float
    """share. The same in the run that measured the steps."""
    step_end: tuple[float, ...]
    """s. The end of each step of all runs, by the clock of the machine."""
    step_run: tuple[int, ...]
    """The number of the run of each step; that of the calibration is the number of runs."""
    step_seconds: tuple[float, ...]
    """s. The time of each step."""
    step_decoding: tuple[float, ...]
    """count. The number of decoding sequences of each step."""
    step_context: tuple[float, ...]
    """count. The mean number of tokens in their caches."""
    step_prompts: tuple[float, ...]
    """count. The number of chunks of prompts of each step."""
    step_new: tuple[float, ...]
    """count. The number of tokens of these chunks."""
    step_pairs: tuple[float, ...]
    """count. The sum over chunks of new tokens x (tokens before + new / 2)."""
    host: str
    """The name of the machine."""
    cores: int
    """The number of processor cores."""
    software: str
    """The versions of the software."""
    started: str
    """The date and time in UTC, ISO 8601."""
    rows: tuple[MeasuredRequest, ...]
    """The requests of all runs."""
    stopped: bool = False
    """Whether a signal ended it before its last run."""


@dataclass(frozen=True, kw_only=True)
class ComparedServingRow:
    """One figure of one run."""

    run: int = shown(is_hidden=True)
    load: float = shown(format=":.0%")
    """share. The rate over that at which the server saturates."""
    rate: float = shown(is_hidden=True)
    """1/s. The rate of arrivals."""
    requests: int = shown(is_hidden=True)
    figure: str
    """The figure: throughput, or a percentile of a time."""
    unit: str = shown(is_hidden=True)
    """The unit of the figure."""
    measured: float = shown(of_row=lambda row: row.text(row.measured))
    """SI. The measured value."""
    simulated: float = shown(of_row=lambda row: row.text(row.simulated))
    """SI. The simulated value."""
    difference: float = shown(format=":+.1%")
    """share. The simulated value over the measured one, less 1."""
    others: float = shown("other programs")
    """share. The part of the processors' time that other programs took."""
    verdict: str = shown(hide_if="comparable")
    """Whether the row is comparable, or why not."""

    def text(self, value: float) -> str:
        """A value in the unit of the figure."""
        return format_quantity(value, self.unit.replace("1/s", "/s"))


@dataclass(frozen=True, kw_only=True)
class ComparedServing(Answer, view=View(rows="rows")):
    """A measured server and its simulation."""

    run: str
    """The name of the file."""
    server: str
    """The server in words."""
    cost: str
    """The source of the step's time in words."""
    rows: tuple[ComparedServingRow, ...]
    """The figures, run after run."""
    mean: float | None = shown(
        "mean error", missing="no run can be compared: at most 5 % of processors for other programs"
    )
    """share. The mean absolute difference of comparable rows; None where no row is."""
    largest: float | None = shown("largest error")
    """share. The largest of them."""
