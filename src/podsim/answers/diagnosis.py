"""The ill parts of a machine that `podsim diagnose` names by its metrics. Plain values that name no formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown
from podsim.units import short_seconds


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%m-%d %H:%M")


def span_text(since: float | None, until: float | None) -> str:
    """A time in UTC, without the second date where it lasts less than a day; "now" for metrics without times."""
    if since is None or until is None:
        return "now"
    return f"{_moment(since)} to {_moment(until)[6 if until - since < 86400 else 0 :]}"


def first_names(names: Sequence[str]) -> str:
    """The first four names, and how many more there are."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What a finding does to the last job on its part, and with --cost what that costs."""

    job: str
    gpus: int
    """The number of GPUs of the job."""
    ranks: tuple[int, ...]
    """The ranks on the part, in order of node and GPU."""
    clock: float
    """share. The clock that the part has, relative to its peers."""
    link: float
    """share. The bandwidth that the port has, of what it should have."""
    speed: float | None
    """share. The least speed of the job at that time, relative to its prediction; None where that is unknown."""
    lost: float | None = None
    """share. The share of the job's time that the finding costs; None without --cost."""
    is_simulated: bool = False
    """Whether `lost` is of simulations with and without the finding; else the telemetry's, of all that slows the job."""
    daily: float | None = None
    """USD. The price of the GPU time that is lost in a day."""
    restart_pays: float | None = None
    """s. The rest of the job above which a restart on sound nodes costs less."""

    @property
    def words(self) -> str:
        """The cost, and whether to drain; "" without --cost."""
        if self.lost is None or self.daily is None:
            return ""
        how = "simulated with and without it" if self.is_simulated else "measured, with all that slows it"
        if not self.restart_pays:
            return f". Costs job {self.job} no time ({how}): drain it when the job ends"
        rest = short_seconds(self.restart_pays)
        return (
            f". Costs {self.lost:.1%} of job {self.job}'s time ({how}), {self.daily:,.0f} USD a day: drain it if the job"
            f" goes on for more than {rest}, else let it finish"
        )


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One part that is ill, or one job that is slower than predicted without such a part."""

    kind: str = shown("finding")
    """The kind: idle, straggling, throttled, failing, mis-cabled, slow link, congested, slow disk, slow job, application;
    unusual for what no symptom names."""
    node: str
    """The host; "" for a job."""
    part: str
    """The part: GPU 3, mlx5_0, nvme0n1, node, job 17, storage, queue, or the name of a leaf switch."""
    since: float | None = shown("time (UTC)", of_row=lambda finding: span_text(finding.since, finding.until))
    """s. The first time of the symptom since 1970; None where the metrics have no times."""
    until: float | None = shown(is_hidden=True)
    """s. The last time of the symptom since 1970."""
    jobs: tuple[str, ...] = shown(format=first_names)
    """The jobs that ran on the part at that time."""
    speed: float | None = shown("of predicted", ":.0%")
    """share. The speed of the slowest of these jobs relative to its prediction; None where that is unknown."""
    remedy: str = shown(is_hidden=True)
    """The remedy: what to do."""
    evidence: tuple[str, ...] = shown(
        of_row=lambda finding: (
            f"{'; '.join(finding.evidence)}. To do: {finding.remedy}{finding.effect.words if finding.effect else ''}"
        )
    )
    """The symptoms in words, with metric and value."""
    effect: Effect | None = shown(is_hidden=True)
    """The effect on the last job on the part; None where none is on it."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Answer, view=View(rows="findings")):
    """The ill parts of a machine, by its metrics."""

    source: str
    """The server or the file of the metrics."""
    since: float | None = shown("time (UTC)", of_row=lambda answer: span_text(answer.since, answer.until))
    """s. The first time of a sample since 1970; None where there are no times."""
    until: float | None = shown(is_hidden=True)
    """s. The last time of a sample since 1970."""
    gpus: int = shown("GPUs")
    ports: int
    nodes: int
    jobs: int = shown("jobs with predictions")
    findings: tuple[Finding, ...] = shown(missing="no part is ill")
    """The findings, the worst first."""
    unknown: tuple[str, ...] = shown(
        "not judged: missing", of_row=lambda answer: first_names(answer.unknown), default=()
    )
    """The metrics that are missing, so that their symptoms could not be judged."""
