"""What `podsim diagnose` finds in the metrics of a machine. Plain values that name no formula."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.answers.answer import Answer, View


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One part that is ill, or one job that is slower than predicted without such a part."""

    kind: str
    """The kind: idle, straggling, throttled, failing, mis-cabled, slow link, congested, slow disk, slow job."""
    node: str
    """The host; "" for a job."""
    part: str
    """The part: GPU 3, mlx5_0, nvme0n1, node, or job 17."""
    since: float | None
    """s. The first time of the symptom since 1970; None where the metrics have no times."""
    until: float | None
    """s. The last time of the symptom since 1970."""
    jobs: tuple[str, ...]
    """The jobs that ran on the part at that time."""
    speed: float | None
    """share. The speed of the slowest of these jobs relative to its prediction; None where that is unknown."""
    evidence: tuple[str, ...]
    """The symptoms in words, with metric and value."""


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Answer, view=View(report="report.diagnosis_tables:diagnosis_report", rows="findings")):
    """The ill parts of a machine, by its metrics."""

    source: str
    """The server or the file of the metrics."""
    since: float | None
    """s. The first time of a sample since 1970; None where there are no times."""
    until: float | None
    """s. The last time of a sample since 1970."""
    gpus: int
    ports: int
    nodes: int
    jobs: int
    findings: tuple[Finding, ...]
    """The findings, the worst first."""
    unknown: tuple[str, ...] = ()
    """The metrics that are missing, so that their symptoms could not be judged."""
