"""`podsim diagnose`: the ill parts, and what shows it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from podsim.answers.diagnosis import Diagnosis, Finding
from podsim.report.columns import Column, Table
from podsim.report.screen import Block, Rows


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%m-%d %H:%M")


def _time_text(finding: Finding) -> str:
    if finding.since is None or finding.until is None:
        return "now"
    return f"{_moment(finding.since)} to {_moment(finding.until)[6 if finding.until - finding.since < 86400 else 0 :]}"


def _jobs_text(finding: Finding) -> str:
    shown = ", ".join(finding.jobs[:4]) or "-"
    return f"{shown} and {len(finding.jobs) - 4} more" if len(finding.jobs) > 4 else shown


FINDINGS = Table(
    indent=0,
    columns=(
        Column("finding", "kind", mark=lambda _: "verdict bad"),
        Column("node", lambda finding: finding.node or "-"),
        Column("part"),
        Column("time (UTC)", _time_text),
        Column("job", _jobs_text),
        Column("of predicted", "speed", lambda share: f"{100 * share:.0f} %", missing="-", align="r"),
        Column("evidence", lambda finding: "; ".join(finding.evidence), mark="why", wrap=True),
    ),
)


def diagnosis_report(diagnosis: Diagnosis) -> Iterator[Block]:
    """The findings, the worst first, and what could not be judged."""
    span = ""
    if diagnosis.since is not None and diagnosis.until is not None:
        span = f", {_moment(diagnosis.since)} to {_moment(diagnosis.until)} UTC"
    yield (
        f"{diagnosis.source}: {diagnosis.gpus:,} GPUs, {diagnosis.ports:,} ports, {diagnosis.nodes:,} nodes,"
        f" {diagnosis.jobs:,} jobs with predictions{span}"
    )
    if diagnosis.findings:
        yield from ("", Rows(FINDINGS, diagnosis.findings))
    count = len(diagnosis.findings)
    yield from ("", f"{count} finding{'' if count == 1 else 's'}." if count else "No part is ill.")
    if diagnosis.unknown:
        names = ", ".join(diagnosis.unknown[:4]) + (" …" if len(diagnosis.unknown) > 4 else "")
        yield f"Not judged, as {len(diagnosis.unknown)} metrics are missing: {names}"
