"""Series of metrics as arrays: one row for each GPU, port, disk or job, one column for each time.

Series of one part that follow each other, as those of one GPU in one job after the other, are one row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats
from podsim.errors import PodsimError
from podsim.monitoring.exposition import Series

Key = tuple[str, str]
"""The host and the part of a row; of a job "" and its number."""
_HOSTS = ("hostname", "Hostname", "exported_hostname", "node", "exported_instance", "instance", "node_name")
_PARTS: Mapping[str, Sequence[str]] = {
    "gpu": ("gpu", "GPU_I_ID"),
    "port": ("device",),
    "disk": ("device",),
    "job": ("job_id",),
    "node": (),
    "job_node": ("job_id",),
}
_MOST = 20_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """One metric."""

    keys: tuple[Key, ...]
    values: Floats
    """The values by part and time; NaN where there is none."""
    groups: Mapping[Key, Sequence[str]]
    """The job of each GPU by time, or the switch of each port; "" for none."""
    models: Mapping[Key, str]
    """The model of each GPU."""

    @property
    def works(self) -> NDArray[np.bool_]:
        """Whether each GPU runs a job at each time."""
        works = [[bool(job) for job in self.groups[key]] for key in self.keys]
        return np.array(works, np.bool_).reshape(self.values.shape)


def grid_of(series: Mapping[str, Sequence[Series]]) -> Floats:
    """The times of all samples, in s since 1970; one NaN where they have none. Raises PodsimError for too many."""
    every: Floats = np.unique(np.concatenate([each.times for group in series.values() for each in group]))
    every = every[np.isfinite(every)]
    if not len(every):
        return np.array([np.nan])
    if len(every) > _MOST:
        raise PodsimError(f"{len(every):,} times; {_MOST:,} are read at most. Give a shorter dump")
    return every


def make_panel(series: Sequence[Series], part: str, grid: Floats) -> Panel:
    """The rows of a metric of some kind of part."""
    rows: dict[Key, Floats] = {}
    groups: dict[Key, list[str]] = {}
    models: dict[Key, str] = {}
    for each in sorted(series, key=lambda known: known.times[0] if known.times else 0.0):
        key = key_of(each.labels, part)
        if key is None:
            continue
        row = rows.setdefault(key, np.full(len(grid), np.nan))
        at = np.zeros(1, np.int64) if np.isnan(grid[0]) else np.searchsorted(grid, each.times)
        row[at] = each.values[-1:] if np.isnan(grid[0]) else each.values
        models[key] = each.labels.get("modelName", "")
        named = groups.setdefault(key, [""] * len(grid))
        group = each.labels.get("hpc_job") or each.labels.get("peer", "")
        for position in at.tolist():
            named[position] = group
    keys = tuple(sorted(rows))
    values = np.stack([rows[key] for key in keys]) if keys else np.zeros((0, len(grid)))
    return Panel(keys=keys, values=values, groups=groups, models=models)


def key_of(labels: Mapping[str, str], part: str) -> Key | None:
    """The host and part that labels name; None for series of something else, as of one NVLink."""
    if labels.get("nvlink"):
        return None
    if part == "queue":
        return "", "queue"
    parts = [labels[name] for name in _PARTS[part] if labels.get(name)]
    if _PARTS[part] and not parts:
        return None
    if part == "job":
        return "", parts[0]
    host = next((labels[name] for name in _HOSTS if labels.get(name)), "this host")
    return re.sub(r":\d+$", "", host), "/".join(parts)
