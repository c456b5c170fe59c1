"""The diagnosis of a machine from its metrics: ill parts by their symptoms, and slow jobs without such a part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from podsim.answers.diagnosis import Diagnosis, Effect, Finding
from podsim.axes import Floats
from podsim.monitoring.causes import Ill, joined
from podsim.monitoring.exposition import Series
from podsim.monitoring.metric_table import ENTITIES, Metric, metrics_of
from podsim.monitoring.panels import Key, Panel, grid_of, make_panel
from podsim.monitoring.peer_scores import UNUSUAL, Answer, Hit, Truths, compare_all
from podsim.monitoring.roles import Roles, part_order
from podsim.monitoring.symptoms import TESTS, Metrics, Symptom, symptoms
from podsim.packaged import packaged_toml

_JOBS = ("podsim_job_mfu_ratio", "podsim_job_predicted_mfu_ratio")
_PACE = "podsim_replay_speed"
_CLOCK, _RATE = "DCGM_FI_DEV_SM_CLOCK", "node_infiniband_rate_bytes_per_second"
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
    "application",
    UNUSUAL,
)


def metric_names() -> set[str]:
    """The metrics that a diagnosis reads."""
    return {metric.name for metric in metrics_of(*ENTITIES)} | _symptom_metrics()


def _symptom_metrics() -> set[str]:
    """The metrics of which the table of symptoms speaks."""
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
    known = {
        metric: make_panel(series[metric.name], metric.part, grid)
        for metric in metrics_of(*ENTITIES) if metric.name in series
    }  # fmt: skip
    metrics = Metrics({metric.name: panel for metric, panel in known.items()}, grid, pace or 1.0, expected)
    speeds = _job_speeds(metrics)
    findings = _findings(metrics, known, speeds)
    findings.sort(key=lambda each: (_ORDER.index(each.kind), each.node, each.part))
    keys: dict[str, set[Key]] = {metric.part: set() for metric in metrics_of(*ENTITIES)}
    for metric, panel in known.items():
        keys[metric.part] |= set(panel.keys)
    return Diagnosis(
        source=source, since=_at(grid, 0), until=_at(grid, -1), gpus=len(keys["gpu"]), ports=len(keys["port"]),
        nodes=len({host for part in ("gpu", "port", "disk") for host, _ in keys[part]}), jobs=len(keys["job"]),
        findings=tuple(findings), unknown=tuple(sorted(_symptom_metrics() - set(series) - {_PACE})),
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


def _findings(metrics: Metrics, known: Mapping[Metric, Panel], speeds: Mapping[str, Floats]) -> list[Finding]:
    """The ill parts: the first symptom names the illness, and what no symptom names is unusual."""
    hits: dict[tuple[str, Key], list[Answer]] = {}
    for symptom in symptoms():
        panel = metrics.panels.get(symptom.metric)
        if panel is None or not panel.keys or symptom.test not in TESTS:
            continue
        shows, values = TESTS[symptom.test](metrics, panel, symptom)
        shows = metrics.lasts(shows, values, symptom.lasting)
        for row in np.flatnonzero(shows.any(axis=1)).tolist():
            hits.setdefault((symptom.part, panel.keys[row]), []).append((symptom, shows[row], values[row]))
    roles = Roles(known, len(metrics.grid))
    jobs = roles.by_gpu
    for part, answer in (*_slow_jobs(metrics, speeds, jobs), *compare_all(metrics, known, roles)):
        hits.setdefault(part, []).append(answer)
    rank = {(row.metric, row.finding): number for number, row in reversed([*enumerate(symptoms())])}
    for shown in hits.values():
        shown.sort(key=lambda answer: rank.get((answer[0].metric, answer[0].finding), len(rank)))
    panels = {metric.part: [p for m, p in known.items() if m.part == metric.part] for metric in known}
    ills = joined(
        [(*at, illness) for at, shown in hits.items() for illness in _illnesses(shown)], roles, panels
    )
    ports = next((panel.keys for metric, panel in known.items() if metric.entity == "port"), ())
    every = [
        replace(_finding(metrics, *ill, jobs, speeds), effect=_effect(ill, roles, ports, speeds))
        for ill in ills
    ]
    named = {metric.name: metric for metric in known}
    pairs = zip(ills, every, strict=True)
    return [
        finding for ill, finding in pairs if not any(_explains(cause, finding, ill, named) for cause in every)
    ]


def _illnesses(shown: Sequence[Answer]) -> list[list[Answer]]:
    """The symptoms of one part by illness: one that is there for most of its time with an earlier one belongs to it."""
    groups: list[list[Answer]] = []
    for each in shown:
        cause = next((
            group for group in groups
            if group[0][0].finding == each[0].finding
            or (np.logical_or.reduce([shows for _, shows, _ in group]) & each[1]).sum() * 2 > each[1].sum()
        ), None)  # fmt: skip
        if cause is None:
            groups.append([each])
        else:
            cause.append(each)
    return groups


def _finding(
    metrics: Metrics, part: str, key: Key, shown: Sequence[Answer],
    jobs: Mapping[Key, Sequence[str]], speeds: Mapping[str, Floats],
) -> Finding:  # fmt: skip
    """What is said of one part."""
    times = np.flatnonzero(np.logical_or.reduce([each for _, each, _ in shown]))
    here = [names for other, names in jobs.items() if (part == "storage" or other[0] == key[0])
            and (part != "gpu" or other == key)]  # fmt: skip
    hurt = {names[max(time - 1, 0)] for names in here for time in times.tolist()} - {""}
    if part == "node" and (panel := metrics.panels.get("slurm_node_job")):
        hurt |= {
            job for (host, job), row in zip(panel.keys, panel.values, strict=True)
            if host == key[0] and np.isfinite(row[times]).any()
        }  # fmt: skip
    if part in ("job", "job_node"):
        hurt = {key[1]}
    slow = [
        float(np.nanmin(speeds[job][times]))
        for job in hurt
        if job in speeds and np.isfinite(speeds[job][times]).any()
    ]
    names = {"gpu": f"GPU {key[1]}", "node": "node", "job": f"job {key[1]}", "job_node": f"job {key[1]}"}
    since, until = (float(metrics.grid[times[at]]) for at in (0, -1))
    first: dict[str, Answer] = {}
    for answer in shown:
        first.setdefault(answer[0].metric, answer)
    has_times = len(metrics.grid) > 1 or metrics.grid[0] > 0
    return Finding(
        kind=shown[0][0].finding, node=key[0], part=names.get(part, key[1]),
        jobs=tuple(sorted(hurt, key=lambda job: (len(job), job))), since=since if has_times else None,
        until=until if has_times else None, speed=min(slow, default=None),
        evidence=tuple(_evidence(*each) for each in first.values()),
        remedy=packaged_toml("monitoring/symptoms.toml")["remedy"][shown[0][0].finding], effect=None,
    )  # fmt: skip


def _effect(ill: Ill, roles: Roles, ports: Sequence[Key], speeds: Mapping[str, Floats]) -> Effect | None:
    """What an ill part does to the last job that its GPUs run while it is ill."""
    part, key, shown = ill
    shows = np.logical_or.reduce([each for _, each, _ in shown])
    gpus = roles.gpus_of(part, key, ports)
    runs = [(time, jobs[time]) for time in np.flatnonzero(shows).tolist()
            for gpu in gpus if (jobs := roles.by_gpu[gpu])[time]]  # fmt: skip
    if not runs:
        return None
    last, job = runs[-1]
    members = sorted((gpu for gpu, jobs in roles.by_gpu.items() if jobs[last] == job), key=part_order)
    low = {
        symptom.metric: float(np.median(shares)) for symptom, here, values in shown
        if len(shares := values[here & (values > 0) & (values < 1)])
    }  # fmt: skip
    pace = speeds[job][shows & np.isfinite(speeds[job])] if job in speeds else np.zeros(0)
    return Effect(
        job=job, gpus=len(members), ranks=tuple(members.index(gpu) for gpu in gpus if gpu in members),
        clock=low.get(_CLOCK, 1.0), link=low.get(_RATE, 1.0), speed=float(pace.min()) if len(pace) else None,
    )  # fmt: skip


def _evidence(symptom: Symptom, shows: Truths, values: Floats) -> str:
    """A symptom in words, with its worst value."""
    if symptom.test in ("absent", "minority"):
        return symptom.says
    there = values[shows & np.isfinite(values)]
    worst = there.min() if symptom.below > -np.inf else there.max()
    value = f"{int(worst):#x}" if symptom.bits else f"{worst:.3g}"
    words = (symptom.says, value) if symptom.test == "xid" else (value, symptom.says)
    return f"{' '.join(words)} ({symptom.metric})"


def _slow_jobs(
    metrics: Metrics, speeds: Mapping[str, Floats], jobs: Mapping[Key, Sequence[str]]
) -> Iterator[Hit]:
    """Jobs that are slower than predicted; a job of one GPU names it."""
    for job, speed in speeds.items():
        shows = metrics.lasts((speed < _SLOW)[None, :], speed[None, :], _LASTING)[0]
        members = [key for key, names in jobs.items() if job in names]
        if shows.any():
            symptom = Symptom(
                finding="straggling" if len(members) == 1 else "slow job", part="job", metric=_JOBS[0], test="level",
                says="of its predicted speed", below=_SLOW,
            )  # fmt: skip
            part = ("gpu", members[0]) if len(members) == 1 else ("job", ("", job))
            yield part, (symptom, shows, speed)


def _explains(cause: Finding, finding: Finding, ill: Ill, known: Mapping[str, Metric]) -> bool:
    """Whether a finding may be the reason of another: of a job that changed, or of the load of other parts."""
    part, metric = ill[0], ill[2][0][0].metric
    is_vague = part != "job" and cause.kind == UNUSUAL == finding.kind
    if cause is finding or cause.part.startswith("job ") or is_vague:
        return False
    shares, apart = bool(set(cause.jobs) & set(finding.jobs)), (cause.since or 0) > (finding.until or 0)
    if part == "job":
        return shares
    if part == "queue":
        return cause.part == "node"
    if part in ("port", "disk", "node") and finding.kind == UNUSUAL and known[metric].peers == "job":
        return cause.node == finding.node and cause.part.startswith("GPU") and not apart
    return shares and metric == _JOBS[0] and cause.part == "storage" and not apart
