"""The diagnosis of a machine from its metrics: ill parts by their symptoms, and slow jobs without such a part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from podsim.answers.diagnosis import Diagnosis, Finding
from podsim.axes import Floats
from podsim.monitoring.exposition import Series
from podsim.monitoring.panels import Key, grid_of, make_panel
from podsim.monitoring.symptoms import TESTS, Metrics, Symptom, symptoms

_JOBS = ("podsim_job_mfu_ratio", "podsim_job_predicted_mfu_ratio")
_PACE = "podsim_replay_speed"
_SLOW = 0.9
"""share. The speed below which a job is slower than its prediction; predictions err by less."""
_LASTING = 600.0
_ORDER = (
    "failing",
    "mis-cabled",
    "throttled",
    "straggling",
    "idle",
    "slow link",
    "congested",
    "slow disk",
    "slow job",
)
Moments = NDArray[np.bool_]
Answer = tuple[Symptom, Moments, Floats]
"""(a symptom, whether a part shows it at each time, the value)"""


def metric_names() -> set[str]:
    """The metrics that a diagnosis reads."""
    return {name for each in symptoms() for name in (each.metric, each.over) if name} | {*_JOBS, _PACE}


@np.errstate(invalid="ignore", divide="ignore")
def judge(
    series: Mapping[str, Sequence[Series]], source: str, expected: Mapping[str, float], *, live: bool
) -> Diagnosis:
    """The diagnosis of series; `live` ones have the clock of their server, which a replay outruns."""
    grid = grid_of(series)
    pace = (
        max((each.values[-1] for each in series.get(_PACE, ()) if each.values), default=1.0) if live else 1.0
    )
    parts = {name: each.part for each in symptoms() for name in (each.metric, each.over)} | dict.fromkeys(
        _JOBS, "job"
    )
    panels = {name: make_panel(series[name], part, grid) for name, part in parts.items() if name in series}
    metrics = Metrics(panels, grid, pace or 1.0, expected)
    speeds = _job_speeds(metrics)
    by_part = _findings(metrics, speeds)
    findings = [*by_part, *_slow_jobs(metrics, speeds, by_part)]
    findings.sort(key=lambda each: (_ORDER.index(each.kind), each.node, each.part))
    keys: dict[str, set[Key]] = {part: set() for part in parts.values()}
    for name, panel in panels.items():
        keys[parts[name]] |= set(panel.keys)
    return Diagnosis(
        source=source, since=_at(grid, 0), until=_at(grid, -1), gpus=len(keys["gpu"]), ports=len(keys["port"]),
        nodes=len({host for part in ("gpu", "port", "disk") for host, _ in keys[part]}), jobs=len(keys["job"]),
        findings=tuple(findings), unknown=tuple(sorted(metric_names() - set(series) - {_PACE})),
    )  # fmt: skip


def _at(grid: Floats, position: int) -> float | None:
    return None if np.isnan(grid[0]) else float(grid[position])


def _job_speeds(metrics: Metrics) -> dict[str, Floats]:
    """The speed of each job relative to its prediction, by time."""
    actual, predicted = (metrics.panels.get(name) for name in _JOBS)
    if actual is None or predicted is None:
        return {}
    rows = {key[1]: row for key, row in zip(predicted.keys, predicted.values, strict=True)}
    return {
        key[1]: row / rows[key[1]]
        for key, row in zip(actual.keys, actual.values, strict=True)
        if key[1] in rows
    }


def _findings(metrics: Metrics, speeds: Mapping[str, Floats]) -> list[Finding]:
    """The ill parts: the first symptom names the illness."""
    hits: dict[tuple[str, Key], list[Answer]] = {}
    for symptom in symptoms():
        panel = metrics.panels.get(symptom.metric)
        if panel is None or not panel.keys:
            continue
        shows, values = TESTS[symptom.test](metrics, panel, symptom)
        shows = metrics.lasts(shows, values, symptom.lasting)
        for row in np.flatnonzero(shows.any(axis=1)).tolist():
            hits.setdefault((symptom.part, panel.keys[row]), []).append((symptom, shows[row], values[row]))
    for host in _dead_nodes(metrics, hits):
        for part, key in [each for each in hits if each[0] == "gpu" and each[1][0] == host]:
            gone = [each for each in hits[part, key] if each[0].test == "absent"]
            hits[part, key] = [each for each in hits[part, key] if each[0].test != "absent"]
            hits["node", (host, "")] = gone
    jobs = _jobs_by_host(metrics)
    return [
        _finding(metrics, part, key, illness, jobs, speeds)
        for (part, key), shown in hits.items()
        for illness in _illnesses(shown)
    ]


def _illnesses(shown: Sequence[Answer]) -> list[list[Answer]]:
    """The symptoms of one part by illness: one that is there for most of its time with an earlier one belongs to it."""
    groups: list[list[Answer]] = []
    for each in shown:
        cause = next((
            group for group in groups
            if group[0][0].finding == each[0].finding or (group[0][1] & each[1]).sum() * 2 > each[1].sum()
        ), None)  # fmt: skip
        if cause is None:
            groups.append([each])
        else:
            cause.append(each)
    return groups


def _dead_nodes(metrics: Metrics, hits: Mapping[tuple[str, Key], Sequence[Answer]]) -> set[str]:
    """The hosts whose GPUs all vanished."""
    panel = metrics.panels.get("DCGM_FI_DEV_GPU_TEMP")
    if panel is None:
        return set()
    hosts: dict[str, list[bool]] = {}
    for key in panel.keys:
        gone = any(symptom.test == "absent" for symptom, _, _ in hits.get(("gpu", key), ()))
        hosts.setdefault(key[0], []).append(gone)
    return {host for host, gone in hosts.items() if len(gone) > 1 and all(gone)}


def _jobs_by_host(metrics: Metrics) -> dict[Key, Sequence[str]]:
    """The job of each GPU by time, as the series of its metrics name it."""
    panels = [panel for name, panel in metrics.panels.items() if name.startswith("DCGM")]
    return {key: jobs for panel in panels for key, jobs in panel.groups.items()}


def _finding(
    metrics: Metrics, part: str, key: Key, shown: Sequence[Answer],
    jobs: Mapping[Key, Sequence[str]], speeds: Mapping[str, Floats],
) -> Finding:  # fmt: skip
    """What is said of one part."""
    times = np.flatnonzero(np.logical_or.reduce([each for _, each, _ in shown]))
    here = [names for other, names in jobs.items() if other[0] == key[0] and (part != "gpu" or other == key)]
    hurt = {names[max(time - 1, 0)] for names in here for time in times.tolist()} - {""}
    slow = [
        float(np.nanmin(speeds[job][times]))
        for job in hurt
        if job in speeds and np.isfinite(speeds[job][times]).any()
    ]
    names = {"gpu": f"GPU {key[1]}", "node": "node"}
    since, until = (float(metrics.grid[times[at]]) for at in (0, -1))
    has_times = len(metrics.grid) > 1 or metrics.grid[0] > 0
    return Finding(
        kind=shown[0][0].finding, node=key[0], part=names.get(part, key[1]),
        jobs=tuple(sorted(hurt, key=lambda job: (len(job), job))), since=since if has_times else None,
        until=until if has_times else None, speed=min(slow, default=None),
        evidence=tuple(_evidence(*each) for each in shown),
    )  # fmt: skip


def _evidence(symptom: Symptom, shows: Moments, values: Floats) -> str:
    """A symptom in words, with its worst value."""
    if symptom.test in ("absent", "minority"):
        return symptom.says
    there = values[shows & np.isfinite(values)]
    worst = there.min() if symptom.below > -np.inf else there.max()
    value = f"{int(worst):#x}" if symptom.bits else f"{worst:.3g}"
    words = (symptom.says, value) if symptom.test == "xid" else (value, symptom.says)
    return f"{' '.join(words)} ({symptom.metric})"


def _slow_jobs(metrics: Metrics, speeds: Mapping[str, Floats], findings: Sequence[Finding]) -> list[Finding]:
    """Jobs that are slower than predicted while none of their parts is ill; a job of one GPU names it."""
    jobs = _jobs_by_host(metrics)
    slow = []
    for job, speed in speeds.items():
        shows = metrics.lasts((speed < _SLOW)[None, :], speed[None, :], _LASTING)[0]
        members = [key for key, names in jobs.items() if job in names]
        if not shows.any() or any(_explains(metrics, each, job, members, shows) for each in findings):
            continue
        symptom = Symptom(
            finding="straggling" if len(members) == 1 else "slow job", part="job", metric=_JOBS[0], test="level",
            says="of its predicted speed", below=_SLOW,
        )  # fmt: skip
        key, part = (members[0], "gpu") if len(members) == 1 else (("", f"job {job}"), "job")
        slow.append(_finding(metrics, part, key, [(symptom, shows, speed)], jobs, speeds))
    return slow


def _explains(metrics: Metrics, finding: Finding, job: str, members: Sequence[Key], shows: Moments) -> bool:
    """Whether a finding on a job's parts, while it is slow, may be the reason; of a job of one GPU only that GPU."""
    if job not in finding.jobs or (
        len(members) == 1 and (finding.node, finding.part) != (members[0][0], f"GPU {members[0][1]}")
    ):
        return False
    if finding.since is None or finding.until is None:
        return True
    times = metrics.grid[shows]
    return bool(finding.since <= times[-1] and times[0] <= finding.until)
