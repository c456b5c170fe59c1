"""What a study says: a row of figures for each design, in SI."""

from __future__ import annotations

from collections.abc import Mapping

from podsim.answers.answer import Answer, View
from podsim.records import dataclass, field

FITS = "fits"
NO_FIT = "does not fit"
TOO_SLOW = "too slow"
NO_ANSWER = "no answer"


@dataclass(frozen=True, kw_only=True)
class StudyRow(Answer, view=View(report="report.study_tables:row_report")):
    """One design and its answer; figures are None where there is none."""

    name: str
    """The name of the design."""
    question: str
    """The question: plan, predict, fewest, scale, or target."""
    settings: Mapping[str, object]
    """The settings of the design, as they were given."""
    status: str
    """The status: fits, does not fit, too slow, or no answer."""
    reason: str = ""
    """The reason why there is no answer, or no fit."""
    model: str = ""
    cluster: str = ""
    gpus: int | None = None
    """The number of GPUs of the job."""
    plan: Mapping[str, object] = field(default_factory=dict)
    """The plan's fields by name."""
    step_time: float | None = None
    """s. The time of one optimizer step."""
    band_low: float | None = None
    """share. The lower end of the error band, relative to the step time."""
    band_high: float | None = None
    """share. The upper end of the error band."""
    measured: int | None = None
    """count. The measured runs behind the error band; 0: none resembles the design."""
    tokens_per_second: float | None = None
    """1/s. The rate of tokens of the whole job."""
    mfu: float | None = None
    """share. The model FLOPs utilisation with attention counted in full."""
    memory: float | None = None
    """B. The memory of the fullest stage."""
    memory_limit: float | None = None
    """B. The memory of a GPU."""
    tokens: float | None = None
    """count. The tokens to train."""
    training: float | None = None
    """s. The mean duration of the run with checkpoints, failures and restarts."""
    work: float | None = None
    """s. The duration of the run without failures."""
    cost: float | None = None
    """USD. The money of the run with failures, at the low end of the price."""
    cost_high: float | None = None
    """USD. The same at the high end of the price."""
    price: str = ""
    """The price per GPU-hour, in words."""
    energy: float | None = None
    """J. The energy of the run at the meter of the site, with failures."""
    carbon: float | None = None
    """kg. The carbon dioxide of that energy."""
    power: float | None = None
    """W. The mean power of the machine."""
    loss: float | None = None
    """nat. The loss that the network reaches, for the question of the best one."""
    bottleneck: str = ""
    """The bottleneck of the step."""
    start: float | None = None
    """s. The start of the job after that of the first, in a sequential study."""
    end: float | None = None
    """s. The end of the job, with failures, after the start of the first, in a sequential study."""
    tried: Mapping[str, float | None] = field(default_factory=dict)
    """s. The duration of the run by the number of GPUs tried, for the question of the fewest; None: no plan."""


@dataclass(frozen=True, kw_only=True)
class StudyResult(
    Answer,
    view=View(
        report="report.study_tables:study_report",
        rows="report.study_tables:flat_rows",
        figure="report.plot_study:study_figure",
        charts="report.plot_study:titled_charts",
    ),
):
    """The rows of a study, in the order of its file, and how they were computed."""

    title: str
    rows: tuple[StudyRow, ...]
    varied: tuple[str, ...]
    """The settings in which designs differ."""
    common: Mapping[str, object]
    """The settings that all designs share."""
    computed: int
    """The number of answers computed now."""
    reused: int
    """The number of answers read from the store."""
    seconds: float
    """s. The duration of the study."""
    complete: bool
    """Whether every design has its row; False if it was interrupted."""
    store: str = ""
    """The file of the answers; empty for none."""
    is_sequential: bool = False
    """Whether each design is a job that starts when the one before it has ended."""
    duration: float | None = None
    """s. The duration of all jobs of a sequential study, with failures; None if a job has no answer."""
    cost: float | None = None
    """USD. The money of all jobs of a sequential study; None if a job has none."""

    @property
    def fits(self) -> bool:
        """Whether a design fits; of a sequential study, whether every job does."""
        return (all if self.is_sequential else any)(row.status == FITS for row in self.rows)
