"""Who is comparable with whom: the job of each GPU at each time, and the roles that follow for other parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints
from podsim.monitoring.metric_table import Metric
from podsim.monitoring.panels import Key, Panel

_VOTERS = 5
Block = tuple[Ints, Ints, NDArray[np.bool_]]
"""(the rows, the times, whether a row has the role at a time)"""


class Roles:
    """The roles of parts: numbers that are equal where parts do the same; -1 where nothing is known."""

    def __init__(self, known: Mapping[Metric, Panel], length: int) -> None:
        """Find the job of each GPU at each time, as most of its series name it."""
        every = [panel for metric, panel in known.items() if metric.entity == "gpu" and panel.keys]
        panels = every[:_VOTERS]
        self.names = sorted(
            {job for panel in panels for jobs in panel.groups.values() for job in jobs} | {""}
        )
        number = {name: code for code, name in enumerate(self.names)}
        self.gpus = sorted({key for panel in every for key in panel.keys})
        votes = np.zeros((max(len(panels), 1), len(self.gpus), length), np.int64)
        for vote, panel in zip(votes, panels, strict=False):
            for row, key in enumerate(self.gpus):
                if key in panel.groups:
                    vote[row] = [number[job] for job in panel.groups[key]]
        self.jobs: Ints = np.sort(votes, axis=0)[len(votes) // 2]
        models = {key: name for panel in every for key, name in panel.models.items()}
        kinds = {name: kind for kind, name in enumerate(sorted(set(models.values())))}
        self._kinds = np.array([kinds[models[key]] for key in self.gpus], np.int64) * len(self.names)
        self._rows = {key: row for row, key in enumerate(self.gpus)}
        self._hosts: dict[str, list[int]] = {}
        for row, (host, _) in enumerate(self.gpus):
            self._hosts.setdefault(host, []).append(row)
        self.by_gpu = {
            key: [self.names[code] for code in row]
            for key, row in zip(self.gpus, self.jobs.tolist(), strict=True)
        }
        self._blocks = dict[bytes, list[Block]]()

    def codes(self, metric: Metric, keys: Sequence[Key]) -> Ints:
        """The role of each row at each time."""
        length = self.jobs.shape[1]
        if metric.peers == "past":
            return np.broadcast_to(np.arange(len(keys))[:, None], (len(keys), length))
        if metric.entity == "gpu" and len(self.names) > 1:
            rows = [self._rows[key] for key in keys]
            jobs = self.jobs[rows]
            codes = {"busy": (jobs > 0).astype(np.int64), "all": 0 * jobs}.get(metric.peers, jobs)
            return np.asarray(codes + self._kinds[rows, None])
        if metric.peers == "all":
            return np.zeros((len(keys), length), np.int64)
        if len(self.names) == 1:
            return np.full((len(keys), length), -1)
        if metric.entity == "port":
            owned = [self.jobs[row] if row >= 0 else np.full(length, -1) for row in self._owners(keys)]
            return np.stack(owned)
        used = {host: (self.jobs[mine] > 0).sum(axis=0) for host, mine in self._hosts.items()}
        return np.stack([used.get(host, np.full(length, -1)) for host, _ in keys])

    def _owners(self, keys: Sequence[Key]) -> list[int]:
        """The GPU whose traffic each port carries, in order of their numbers; -1 for a host without GPUs."""
        ports: dict[str, list[int]] = {}
        for row, (host, _) in enumerate(keys):
            ports.setdefault(host, []).append(row)
        owners = [-1] * len(keys)
        for host, mine in ports.items():
            gpus = sorted(self._hosts.get(host, ()), key=lambda row: part_order(self.gpus[row]))
            for rank, row in enumerate(sorted(mine, key=lambda row: part_order(keys[row]))):
                owners[row] = gpus[rank * len(gpus) // len(mine)] if gpus else -1
        return owners

    def gpus_of(self, part: str, key: Key, ports: Sequence[Key]) -> list[Key]:
        """The GPUs that work with a part: itself, that of a port, those of a node, of a job or of the machine."""
        if part == "port" and key in ports:
            owner = self._owners(ports)[ports.index(key)]
            return [self.gpus[owner]] if owner >= 0 else []
        if part == "job":
            return [gpu for gpu, jobs in self.by_gpu.items() if key[1] in jobs]
        if part in ("gpu", "node", "disk"):
            return [gpu for gpu in self.gpus if gpu == key or (part != "gpu" and gpu[0] == key[0])]
        return self.gpus if part == "storage" else []

    def blocks(self, codes: Ints) -> Sequence[Block]:
        """The rows and times of each role."""
        name = codes.tobytes()
        if name not in self._blocks:
            self._blocks[name] = list(_blocks(codes))
        return self._blocks[name]

    def job_of(self, metric: Metric, code: int) -> str | None:
        """The job of a role of GPUs; None for other roles."""
        job = self.names[code % len(self.names)] if metric.entity == "gpu" and metric.peers == "job" else ""
        return job or None


def part_order(key: Key) -> tuple[str, list[int], str]:
    """Parts in order of their hosts and of all their numbers: mlx5_9 stands before mlx5_10."""
    return key[0], [int(digits) for digits in re.findall(r"\d+", key[1])], key[1]


def _blocks(codes: Ints) -> Iterator[Block]:
    for code in np.unique(codes[codes >= 0]).tolist():
        inside = codes == code
        rows, times = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
        yield rows, times, inside[np.ix_(rows, times)]


def median(values: Floats) -> tuple[Floats, Floats, Ints]:
    """The median of each column, its median absolute deviation, and the number of values; NaNs are left out."""
    count = np.isfinite(values).sum(axis=0)
    middle = _middle(values, count)
    return middle, _middle(np.abs(values - middle), count), count


def _middle(values: Floats, count: Ints) -> Floats:
    ordered, columns = np.sort(values, axis=0), np.arange(values.shape[1])
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, len(values) - 1)
    middle: Floats = (ordered[low, columns] + ordered[high, columns]) / 2
    return np.where(count > 0, middle, np.nan)
