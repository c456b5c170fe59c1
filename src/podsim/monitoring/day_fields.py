"""The fields of metrics at times of a simulated day: of GPUs, ports, nodes, the queue and its jobs.

Power is idle power and, while SMs compute, the rest up to the limit; it falls with the square of the clock. Temperature
rises with power. GPUs differ by 2 K, and readings by 1 %. Limits: tensor-parallel and pipeline traffic is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from podsim.axes import Floats
from podsim.fleet.operations import Span
from podsim.fleet.power import make_node
from podsim.monitoring.day import Day, node_bytes
from podsim.monitoring.day_faults import port_owner

Values: TypeAlias = Any
"""An array of numbers or truth values, by time and GPU, port, node or job."""
_COOL, _WARM = 30.0, 36.0
"""K. The temperature of a GPU without power, above 0 °C, and what its full power adds."""
_READS, _READ_BYTES, _READ_SECONDS = 200.0, 131072.0, 0.001
"""The reads a second of a node with jobs, their size and their time."""
_TICKS = 1e7
"""1/s. The ticks in which waiting ports count, such as a device might choose."""
COUNTERS = (
    "energy", "pcie_replays", "power_violation", "thermal_violation", "sbe", "dbe", "uncorrectable_rows",
    "nvlink_total", "nvlink_crc", "nvlink_replays", "nvlink_recoveries", "port_bytes", "port_wait", "symbol_errors",
    "link_recoveries", "link_downs", "receive_errors", "marked_packets", "disk_reads", "disk_bytes", "disk_seconds",
)  # fmt: skip


class DayFields:
    """What the fields of a day need at any time: counters are integrated once."""

    def __init__(self, day: Day) -> None:
        """Integrate the counters over the segments of each GPU."""
        self.day = day
        power, segments = make_node(day.cluster), day.segments
        self.idle, self.limit = power.idle, power.limit
        self.forecasts = {
            name: np.array([getattr(run.forecast, name) for run in day.runs] + [0.0])
            for name in ("busy", "tensor", "engine", "dram", "mfu", "step", "memory")
        }
        self.load = self.forecasts["busy"][segments.run] * segments.speed * segments.effects["work"]
        self.watts = self.idle + (self.limit - self.idle) * self.load * segments.effects["clock"] ** 2
        self.rates = self._rates()
        length, self.before = segments.end - segments.start, {}
        first = np.searchsorted(segments.gpu, np.arange(day.cluster.gpus))
        for name, rate in self.rates.items():
            total = np.concatenate([[0.0], np.cumsum(rate * length)[:-1]])
            self.before[name] = total - total[first][segments.gpu]
        self.warmth = np.clip(np.random.default_rng(day.seed).standard_normal(day.cluster.gpus), -3, 3)
        self.width = 2 * day.length + 1
        self.keys = segments.gpu * self.width + segments.start

    def _rates(self) -> dict[str, Values]:
        """The rate of each counter in each segment, a second."""
        day, number, effects = self.day, self.day.segments.run, self.day.segments.effects
        works = (number >= 0) & (effects["work"] > 0)
        steps = works * day.segments.speed / np.where(works, self.forecasts["step"][number], 1.0)
        sent = (
            np.array([node_bytes(run) / max(day.cluster.nics, 1) for run in day.runs] + [0.0])[number] * steps
        )
        inside = [run.forecast.gradients * 2 * (1 - run.nodes / len(run.gpus)) for run in day.runs]
        disk = works * _READS / day.cluster.gpus_per_node
        return {name: np.zeros(len(number)) + effects.get(name, 0.0) for name in COUNTERS} | {
            "energy": 1000 * self.watts, "nvlink_total": 2e-6 * np.array([*inside, 0.0])[number] * steps,
            "port_bytes": sent, "port_wait": (sent > 0) * (1e-4 + effects["wait"]) * _TICKS,
            "marked_packets": (sent > 0) * effects["marked_packets"],
            "disk_reads": disk, "disk_bytes": disk * _READ_BYTES, "disk_seconds": disk * _READ_SECONDS * effects["disk"],
        }  # fmt: skip


class Moments:
    """Fields at some times: arrays by time and GPU, port, node or job."""

    def __init__(self, fields: DayFields, times: Floats) -> None:
        """Find the segment of each GPU at each time, in s of the day."""
        self.fields, self.day, self.times, self.cluster = fields, fields.day, times, fields.day.cluster
        now, gpus = np.clip(times, 0.0, self.day.length)[:, None], np.arange(self.cluster.gpus)
        self.at = np.searchsorted(fields.keys, gpus * fields.width + now, side="right") - 1
        self.since = now - self.day.segments.start[self.at]
        self.run, self.speed = self.day.segments.run[self.at], self.day.segments.speed[self.at]
        self.power = np.round(fields.watts[self.at] * self.noise(1.0), 3)

    def effect(self, name: str) -> Values:
        """An effect of faults, by time and GPU."""
        return self.day.segments.effects[name][self.at]

    def forecast(self, name: str) -> Values:
        """A figure of the forecast of each GPU's job; 0 for idle GPUs."""
        return self.fields.forecasts[name][self.run] * (self.effect("work") > 0)

    def counter(self, name: str) -> Values:
        """A counter, by time and GPU."""
        return np.floor(self.fields.before[name][self.at] + self.fields.rates[name][self.at] * self.since)

    def noise(self, salt: float, size: float = 0.01) -> Values:
        """Factors round 1 by time and GPU that look random and are always the same."""
        ticks = np.floor(self.times / 15.0)[:, None]
        wave = np.sin(np.arange(self.cluster.gpus) * 12.9898 + ticks * 78.233 + salt) * 43758.5453
        return 1 + size * (2 * (wave - np.floor(wave)) - 1)

    def share(self, values: Values, salt: float) -> Values:
        """A reading of a share."""
        return np.round(np.clip(values * self.noise(salt), 0, 1), 6)

    def ports(self, values: Values) -> Values:
        """Values of the GPUs behind the ports, by time, node and port in one row."""
        owners = np.array([port_owner(port, self.cluster) for port in range(self.cluster.nics)], np.int64)
        return values[
            :, (np.arange(self.cluster.nodes)[:, None] * self.cluster.gpus_per_node + owners).reshape(-1)
        ]

    def nodes(self, values: Values) -> Values:
        """Values by time, node and GPU."""
        return values.reshape(len(values), self.cluster.nodes, -1)

    def jobs(self, values: Values) -> Values:
        """Values of each run's first GPU, or of runs, by time and run; NaN where it does not run."""
        first = np.array([int(run.gpus[0]) for run in self.day.runs], np.int64)
        is_on = self.run[:, first] == np.arange(len(first))
        return np.where(is_on, values[:, first] if np.ndim(values) == 2 else values, np.nan)

    def queue(self, name: str) -> Values:
        """A counter of the queue's timeline, by time."""
        timeline = self.day.queue.timeline
        assert timeline is not None
        counter = next(each for each in timeline.counters if each.name == name)
        at = np.searchsorted(counter.time, self.times + self.day.offset, side="right")
        return np.concatenate([[0.0], counter.value])[at]

    def completed(self) -> Values:
        """The number of jobs that have ended, by time."""
        timeline = self.day.queue.timeline
        assert timeline is not None
        return np.searchsorted(
            np.sort(timeline.end[timeline.kind == 0]), self.times + self.day.offset, side="right"
        )

    @cached_property
    def is_silent(self) -> Values:
        """Whether nothing of a GPU is reported."""
        return self.effect("silent") > 0

    @cached_property
    def used(self) -> Values:
        """The number of GPUs of each node that jobs hold."""
        return self.nodes(self.run >= 0).sum(axis=2)

    def away(self, spans: Sequence[Span]) -> Values:
        """Whether each node is out of service by some spans of the queue's time."""
        now, away = self.times + self.day.offset, np.zeros((len(self.times), self.cluster.nodes), np.bool_)
        for span in spans:
            away |= ((now >= span.start) & (now < span.end))[:, None] & span.mask(self.cluster.nodes)
        return away

    def count_nodes(self, low: int, high: int) -> Values:
        """The number of nodes in service of which jobs hold some number of GPUs, by time."""
        down = self.nodes(self.is_silent).all(axis=2) | self.away((*self.day.drains, *self.day.maintenance))
        return ((self.used >= low) & (self.used <= high) & (~down | (self.used > 0))).sum(axis=1)

    def is_up(self) -> Values:
        """Whether each port is up: a flapping one is down for a share of each two minutes."""
        return (self.times[:, None] % 120.0) / 120.0 >= self.ports(self.effect("down"))


FIELDS: Mapping[str, Callable[[Moments], Values]] = {
    "sm_clock": lambda m: np.round(m.effect("clock") * m.cluster.gpu.clock / 1e6 * np.where(m.run >= 0, 1.0, 0.5)),
    "memory_clock": lambda m: np.round(m.cluster.gpu.memory_bandwidth / 1.25e9),
    "temperature": lambda m: np.round(np.maximum(
        _COOL + _WARM * m.power / m.fields.limit + 2 * m.fields.warmth, m.effect("temperature")
    )),
    "memory_temperature": lambda m: FIELDS["temperature"](m) + 6,
    "power": lambda m: m.power,
    "power_limit": lambda m: m.fields.limit,
    "pcie_generation": lambda m: m.cluster.gpu.pcie_generation,
    "pcie_width": lambda m: np.round(m.cluster.gpu.pcie_lanes * m.effect("width")),
    "utilisation": lambda m: np.round(100 * FIELDS["engine_active"](m)),
    "copy_utilisation": lambda m: np.round(100 * FIELDS["dram_active"](m)),
    "clock_reasons": lambda m: m.effect("clock_reasons") + (m.run < 0),
    "memory_used": lambda m: np.round(m.forecast("memory") / 2**20) + 4.0,
    "memory_free": lambda m: np.round(m.cluster.gpu.memory / 2**20) - FIELDS["memory_used"](m),
    "correctable_rows": lambda m: 0.0,
    "engine_active": lambda m: m.share(m.forecast("engine") * m.effect("host"), 2.0),
    "sm_active": lambda m: m.share(m.forecast("busy") * m.speed / m.effect("clock"), 3.0),
    "tensor_active": lambda m: m.share(m.forecast("tensor") * m.speed / m.effect("clock"), 4.0),
    "dram_active": lambda m: m.share(m.forecast("dram") * m.speed, 5.0),
    "pcie_rate": lambda m: np.round(m.fields.rates["port_bytes"][m.at]),
    "nvlink_rate": lambda m: np.round(m.fields.rates["nvlink_total"][m.at] * 5e5),
    "state": lambda m: 1 + 3 * m.is_up(),
    "physical_state": lambda m: 2 + 3 * m.is_up(),
    "rate": lambda m: np.round(m.cluster.network.bandwidth * m.ports(m.effect("link"))),
    "load": lambda m: np.round((0.5 + 2 * m.used) * m.nodes(m.noise(6.0))[:, :, 0], 2),
    "memory_total": lambda m: m.cluster.system.memory,
    "memory_available": lambda m: np.round(m.cluster.system.memory * (0.9 - 0.05 * m.used / m.cluster.gpus_per_node)),
    "node_gpus": lambda m: m.cluster.gpus_per_node,
    "node_gpus_used": lambda m: m.used,
    "jobs": lambda m: FIELDS["jobs_running"](m) + m.queue("jobs waiting"),
    "jobs_running": lambda m: np.isfinite(m.jobs(0.0)).sum(axis=1),
    "jobs_pending": lambda m: m.queue("jobs waiting"),
    "jobs_completed": lambda m: m.completed(),
    "gpus_used": lambda m: m.used.sum(axis=1),
    "gpus_idle": lambda m: m.cluster.gpus - m.used.sum(axis=1),
    "gpus_total": lambda m: m.cluster.gpus,
    "gpus_share": lambda m: m.used.sum(axis=1) / m.cluster.gpus,
    "nodes": lambda m: m.cluster.nodes,
    "nodes_full": lambda m: m.count_nodes(m.cluster.gpus_per_node, m.cluster.gpus_per_node),
    "nodes_mixed": lambda m: m.count_nodes(1, m.cluster.gpus_per_node - 1),
    "nodes_idle": lambda m: m.count_nodes(0, 0),
    "nodes_down": lambda m: m.nodes(m.is_silent).all(axis=2).sum(axis=1),
    "nodes_drained": lambda m: m.away(m.day.drains).sum(axis=1),
    "nodes_maintained": lambda m: m.away(m.day.maintenance).sum(axis=1),
    "goodput": lambda m: (m.speed * (m.forecast("engine") > 0)).sum(axis=1) / np.maximum(m.used.sum(axis=1), 1),
    "demand": lambda m: m.queue("GPUs waited for"),
    "replay_speed": lambda m: m.day.pace,
    "gpus": lambda m: m.jobs(np.array([len(run.gpus) for run in m.day.runs])),
    "node_count": lambda m: m.jobs(np.array([run.nodes for run in m.day.runs])),
    "mfu": lambda m: m.jobs(m.forecast("mfu") * m.speed * m.noise(7.0, 0.005)),
    "predicted_mfu": lambda m: m.jobs(m.fields.forecasts["mfu"][:-1]),
    "step": lambda m: m.jobs(m.fields.forecasts["step"][m.run] / m.speed * m.noise(7.0, 0.005)),
    "predicted_step": lambda m: m.jobs(m.fields.forecasts["step"][:-1]),
    "job_goodput": lambda m: m.jobs(m.speed),
}  # fmt: skip
"""fields that are neither counters nor effects of faults: numbers, or arrays by time, or by time and part"""


def field_values(moments: Moments, name: str, entity: str) -> Values:
    """A field as numbers by time and part, or as what has these by broadcasting."""
    if name in FIELDS:
        values = np.asarray(FIELDS[name](moments), np.float64)
        return values[:, None] if values.ndim == 1 else values
    values = moments.counter(name) if name in COUNTERS else moments.effect(name)
    if entity == "port":
        return moments.ports(values)
    return moments.nodes(values).sum(axis=2) if entity == "disk" else values
