"""The ill parts of a machine that `podsim diagnose` names by its metrics. Plain values that name no formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from podsim.answers.answer import Answer, View
from podsim.answers.fields import shown


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
        of_row=lambda finding: f"{'; '.join(finding.evidence)}. To do: {finding.remedy}"
    )
    """The symptoms in words, with metric and value."""


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
