"""The fewest GPUs that train a model in some days: numbers of GPUs doubled, then bisected."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

from podsim.answers.study import FITS, NO_ANSWER, TOO_SLOW, StudyRow
from podsim.errors import PodsimError
from podsim.hardware.cluster import load_cluster
from podsim.options.plan_options import SearchOptions
from podsim.options.question import options_of
from podsim.studies.study_rows import Ask, options_of_settings, study_row
from podsim.training.job_inputs import split_overrides

Test: TypeAlias = Callable[[int], bool]


_DAY = 86400.0


_MOST_GPUS = 16_384
"""GPUs tried of a system whose number of nodes is left open"""


_SLACK = 0.06
"""share of GPUs below a bisection's answer that are tried one by one: time need not fall with every GPU"""


def settings_of(options: SearchOptions) -> dict[str, Any]:
    """The settings of a design that a search's options give."""
    given = {
        name: getattr(options, name) for name in options_of(type(options)) if name not in ("top", "save")
    }
    settings = {key: value for key, value in given.items() if value not in (None, "", ())}
    for table, name in (("set", "overrides"), ("limit", "limit")):
        settings |= {f"{table}.{key}": value for key, value in (settings.pop(name, None) or {}).items()}
    return settings


def gpus_that_fit(options: SearchOptions, ask: Ask) -> int:
    """The fewest GPUs on which a plan fits the memory, found by trying; 0 if none does."""
    settings = settings_of(replace(options, gpus=None))
    fits = cache(lambda count: study_row("plan", {**settings, "gpus": count}, ask).status == FITS)
    return _least([count for count in _counts(settings) if count > (options.gpus or 0)], fits, fits)


def fewest_row(settings: Mapping[str, Any], ask: Ask) -> StudyRow:
    """The row of the fewest GPUs within `days`; its status says why there is none.

    Numbers of GPUs double until one is enough, bisection follows, and then every number a little below is tried, as
    time does not fall with every GPU: degrees must divide batch, heads and layers.
    """
    limit = float(settings["days"]) * _DAY
    rest = {key: value for key, value in settings.items() if key not in ("days", "gpus")}
    tried: dict[int, StudyRow] = {}

    def is_enough(count: int) -> bool:
        if count not in tried:
            tried[count] = study_row("plan", {**rest, "gpus": count}, ask)
        seconds = tried[count].training
        return seconds is not None and seconds <= limit

    try:
        counts = _counts(settings)
        least = _least(counts, is_enough, lambda count: tried[count].training is not None)
    except PodsimError as error:
        return StudyRow(name="", question="fewest", settings=settings, status=NO_ANSWER, reason=str(error))
    best = tried[least] if least else _fastest(tried, settings["days"])
    times = {str(count): tried[count].training for count in sorted(tried)}
    return replace(best, question="fewest", settings=settings, tried=times)


def _least(counts: Sequence[int], is_enough: Test, has_plan: Test) -> int:
    """The least number of GPUs that is enough; 0 if none is."""
    low, high = 0, 0
    for count in _doubling(counts):
        if is_enough(count):
            high = count
            break
        low = count
    if not high:
        return 0
    between = [count for count in counts if low < count < high]
    while between:
        middle = len(between) // 2
        upper = itertools.dropwhile(lambda count: not (is_enough(count) or has_plan(count)), between[middle:])
        count = next(upper, 0)
        if not count or is_enough(count):
            high = count or high
            between = between[:middle]
        else:
            between = between[between.index(count) + 1 :]
    below = (count for count in counts if high * (1 - _SLACK) <= count < high)
    return next(filter(is_enough, below), high)


def _doubling(counts: Sequence[int]) -> Iterator[int]:
    """Numbers of which each is at least twice the one before, and the last."""
    last = 0
    for count in counts:
        if count >= 2 * last or count == counts[-1]:
            yield count
            last = count


def _counts(settings: Mapping[str, Any]) -> list[int]:
    """The numbers of GPUs that a job may get: equal parts of a node or of trays, then whole nodes."""
    _, for_cluster = split_overrides(options_of_settings(settings).get("overrides"))
    cluster = load_cluster(settings["on"], for_cluster)
    per, tray = cluster.gpus_per_node, cluster.gpus_per_node // cluster.system.trays
    most = int(settings.get("gpus") or (cluster.gpus if cluster.nodes > 1 else _MOST_GPUS))
    inside = [count for count in range(1, per) if (tray % count if count < tray else count % tray) == 0]
    return [count for count in (*inside, *range(per, most + 1, per)) if count <= most]


def _fastest(tried: Mapping[int, StudyRow], days: float) -> StudyRow:
    """The row of the fastest plan, where none is fast enough; else why there is none."""
    rows = [row for row in tried.values() if row.training is not None]
    if not rows:
        return tried[max(tried)]
    row = min(rows, key=lambda row: row.training or 0.0)
    reason = (
        f"up to {max(tried):,} GPUs do not train it in {days:g} days; the fastest, {row.gpus:,}, needs "
        f"{(row.training or 0.0) / _DAY:,.1f}"
    )
    return replace(row, status=TOO_SLOW, reason=reason)
