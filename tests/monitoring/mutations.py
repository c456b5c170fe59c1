"""Faults written into the telemetry of a day: any series of any part, at any time, by a hand that knows no symptom."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from podsim.monitoring.exposition import Series

Day = Mapping[str, Sequence[Series]]
KINDS = ("scale", "offset", "stuck", "spikes", "drift", "missing", "swapped")
Change = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""values at some moments of a window (0 to 1), by the values that are there"""


@dataclass(frozen=True)
class Mutation:
    """What was changed, and where."""

    kind: str
    metric: str
    parts: tuple[str, ...]
    """The parts of which one must be named."""
    since: float
    until: float
    size: float = 1.0


def part_of(series: Series) -> str:
    """The part of a series, as a diagnosis names it: its host and part, or its job."""
    labels = series.labels
    host = labels.get("hostname") or labels.get("instance", "").partition(":")[0] or labels.get("node", "")
    if "gpu" in labels:
        return f"{host} GPU {labels['gpu']}"
    if "device" in labels:
        return f"{host} {labels['device']}"
    if "node_name" in labels:
        return f"{labels['node_name']} job {labels['job_id']}"
    if "job_id" in labels:
        return f" job {labels['job_id']}"
    return f"{host} node" if host else " queue"


def copied(day: Day) -> dict[str, list[Series]]:
    """Another day with the same telemetry."""
    return {
        name: [Series(labels=dict(each.labels), times=[*each.times], values=[*each.values]) for each in group]
        for name, group in day.items()
    }


def change(
    day: Day, metric: str, which: Callable[[Series], bool], since: float, until: float, how: Change,
    counter: bool = False,
) -> int:  # fmt: skip
    """Change values of series in a window, of counters what they grow by; give the number of changed samples."""
    changed = 0
    for series in filter(which, day[metric]):
        times, values = np.array(series.times), np.array(series.values)
        if len(times) < 2:
            continue
        inside = (times >= since) & (times <= until)
        moments = (times[inside] - since) / max(until - since, 1.0)
        if counter:
            grown = np.diff(values, prepend=values[0])
            grown[inside] = np.maximum(how(grown[inside], moments), 0.0)
            new = values[0] + np.cumsum(grown)
        else:
            new = values.copy()
            new[inside] = how(values[inside], moments)
        changed += int((~np.isclose(new, values, rtol=1e-9, atol=0)).sum())
        series.values[:] = new.tolist()
    return changed


def drop(day: Day, metric: str, which: Callable[[Series], bool], since: float, until: float) -> int:
    """Take samples of a window away; give their number."""
    dropped = 0
    for series in filter(which, day[metric]):
        kept = [(time, value) for time, value in zip(series.times, series.values, strict=True)
                if not since <= time <= until]  # fmt: skip
        dropped += len(series.times) - len(kept)
        series.times[:], series.values[:] = [time for time, _ in kept], [value for _, value in kept]
    return dropped


def drawn(day: Day, rng: np.random.Generator, is_counter: Callable[[str], bool]) -> Mutation | None:
    """Change one series of a day, drawn at random, in place; None if nothing changed by it."""
    kind, metric = str(rng.choice(KINDS)), str(rng.choice(sorted(day)))
    parts = sorted({part_of(each) for each in day[metric] if len(each.times) > 20})
    if not parts:
        return None
    part = str(rng.choice(parts))
    mine = [each for each in day[metric] if part_of(each) == part]
    times = np.unique(np.concatenate([each.times for each in mine]))
    length = times[-1] - times[0]
    since = times[0] + rng.uniform(0.1, 0.6) * length
    until = min(since + rng.uniform(0.15, 0.4) * length, times[-1])
    usual = max(np.abs(np.diff(each.values)).max() if is_counter(metric) else np.abs(each.values).max()
                for group in [day[metric]] for each in group if len(each.values) > 1)  # fmt: skip
    usual = usual or 100.0
    factor = float(np.exp(rng.uniform(np.log(1.4), np.log(5.0)))) ** rng.choice([-1, 1])
    shift = float(rng.uniform(0.3, 2.0) * usual * rng.choice([-1, 1]))
    spiky = rng.random(1000) < 0.3
    how: dict[str, Change] = {
        "scale": lambda values, _: values * factor,
        "offset": lambda values, _: values + shift,
        "stuck": lambda values, _: np.full_like(values, 0.0 if is_counter(metric) else values[:1].sum()),
        "spikes": lambda values, _: np.where(spiky[: len(values)], values * factor + abs(shift), values),
        "drift": lambda values, moments: values * (1 + (factor - 1) * moments),
    }

    def is_mine(series: Series) -> bool:
        return part_of(series) == part

    names: tuple[str, ...] = (part,)
    if kind == "missing":
        count = drop(day, metric, is_mine, since, until)
    elif kind == "swapped":
        if len(parts) == 1:
            return None
        other = str(rng.choice([each for each in parts if each != part]))
        names, count = (part, other), _swap(day[metric], part, other, since, until)
    else:
        count = change(day, metric, is_mine, since, until, how[kind], is_counter(metric))
    return Mutation(kind, metric, names, since, until, factor) if count > 2 else None


def _swap(group: Sequence[Series], part: str, other: str, since: float, until: float) -> int:
    """Exchange the values of two parts where both have some; give the number of samples that changed by 3 %."""

    def samples(name: str) -> dict[float, tuple[Series, int]]:
        return {
            time: (each, at) for each in group if part_of(each) == name for at, time in enumerate(each.times)
        }

    mine, its = samples(part), samples(other)
    changed = 0
    for time in [each for each in mine if each in its and since <= each <= until]:
        (one, at), (two, there) = mine[time], its[time]
        changed += not np.isclose(one.values[at], two.values[there], rtol=0.03)
        one.values[at], two.values[there] = two.values[there], one.values[at]
    return changed


def names_part(node: str, part: str, wanted: Sequence[str]) -> bool:
    """Whether a finding names one of the parts, or the job, node or storage that it belongs to."""
    full = f"{node} {part}"
    return any(
        full == name or (part.startswith("job ") and re.search(rf"\b{part}$", name)) for name in wanted
    )
