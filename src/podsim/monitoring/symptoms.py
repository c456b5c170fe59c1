"""Symptoms in metrics: which parts show one, when, and with what value. The table is symptoms.toml."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from podsim.axes import Floats
from podsim.monitoring.metric_table import xids
from podsim.monitoring.panels import Panel
from podsim.packaged import packaged_toml

Hits = tuple[NDArray[np.bool_], Floats]
"""(whether each part has the symptom at each time, the value that shows it)"""
_HOUR = 3600.0


class Symptom(BaseModel):
    """One row of the table."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    finding: str
    part: str
    metric: str
    test: str
    says: str = ""
    above: float = np.inf
    below: float = -np.inf
    times: float = 0.0
    bits: int = 0
    over: str = ""
    share: str = ""
    severity: str = ""
    lasting: float = 0.0
    in_job: bool = False


@cache
def symptoms() -> tuple[Symptom, ...]:
    """The table."""
    return tuple(Symptom(**row) for row in packaged_toml("monitoring/symptoms.toml")["symptom"])


@cache
def name_of(metric: str, part: str) -> Sequence[Symptom]:
    """The rows that name deviations of a metric of some part."""
    return tuple(row for row in symptoms() if (row.metric, row.part, row.test) == (metric, part, "unlike"))


class Metrics:
    """The panels of a machine, and what its parts should be. Its methods are the tests of the table."""

    def __init__(
        self, panels: Mapping[str, Panel], grid: Floats, pace: float, expected: Mapping[str, float]
    ) -> None:
        """Keep them; `expected` has shares' references by name, where the machine is known."""
        self.panels, self.expected = panels, expected
        self.grid = np.zeros(1) if np.isnan(grid[0]) else grid
        self.seconds = self.grid * pace

    def level(self, panel: Panel, symptom: Symptom) -> Hits:
        """A gauge outside its bounds, as a share of what the machine has or of the median."""
        values = panel.values
        if symptom.bits:
            values = (np.nan_to_num(values).astype(np.int64) & symptom.bits).astype(np.float64)
        if symptom.share:
            values = values / (self.expected.get(symptom.share) or float(np.nanmedian(values)))
        return _outside(values, symptom, panel.works if symptom.in_job else True)

    def mean(self, panel: Panel, symptom: Symptom) -> Hits:
        """The growth of one counter for each growth of another."""
        other = self.panels.get(symptom.over)
        if other is None or other.keys != panel.keys:
            return np.zeros(panel.values.shape, np.bool_), panel.values
        values = self.growth(panel)[0] / self.growth(other)[0]
        known = np.where(np.isfinite(values).any(axis=0), values, 0.0)
        usual = np.nanpercentile(known, 50, axis=0, method="lower") if len(values) > 1 else 0.0
        return _outside(values, symptom, values > symptom.times * usual)

    def xid(self, panel: Panel, symptom: Symptom) -> Hits:
        """A last XID of some severity; codes that the table lacks count as failing."""
        codes = np.nan_to_num(panel.values).astype(np.int64)
        known = [
            code
            for code in np.unique(codes).tolist()
            if xids().get(code, ("failing",))[0] == symptom.severity
        ]
        hits = np.isin(codes, known)
        fresh = hits & (np.diff(codes, axis=1, prepend=0) != 0)  # a code stays for good: it tells of one hour
        since = np.maximum.accumulate(np.where(fresh, self.seconds, -np.inf), axis=1)
        return hits & (self.seconds - since <= _HOUR), panel.values

    def absent(self, panel: Panel, symptom: Symptom) -> Hits:
        """A part that was there and reports no more, while others do."""
        is_there = np.isfinite(panel.values)
        seen = np.logical_or.accumulate(is_there, axis=1)
        return seen & ~is_there & is_there.any(axis=0), np.where(is_there, 1.0, 0.0)

    def minority(self, panel: Panel, symptom: Symptom) -> Hits:
        """A port at a switch whose ports are mostly of another device."""
        hits = np.zeros(panel.values.shape, np.bool_)
        known: dict[tuple[str, ...], list[bool]] = {}
        for time in range(panel.values.shape[1]):
            peers = tuple(panel.groups[key][time] for key in panel.keys)
            if peers not in known:
                known[peers] = _odd_ports([key[1] for key in panel.keys], peers)
            hits[:, time] = known[peers]
        return hits & np.isfinite(panel.values), panel.values

    def lasts(self, hits: NDArray[np.bool_], values: Floats, seconds: float) -> NDArray[np.bool_]:
        """The hits that go on for some time, from sample to sample, or as long as the samples."""
        kept = np.zeros(hits.shape, np.bool_)
        for row in np.flatnonzero(hits.any(axis=1)).tolist():
            at = np.flatnonzero(np.isfinite(values[row]))
            edges = np.flatnonzero(np.diff(np.concatenate([[False], hits[row, at], [False]]).astype(np.int8)))
            for first, end in edges.reshape(-1, 2).tolist():
                lasts = self.seconds[at[end - 1]] - self.seconds[at[first]]
                kept[row, at[first:end]] = lasts >= seconds or end - first == len(at)
        return kept

    def growth(self, panel: Panel) -> tuple[Floats, Floats]:
        """What a counter grew by since its sample before, and the seconds since then; after a reset, what it has."""
        grown, passed = np.full((2, *panel.values.shape), np.nan)
        for row, out, gaps in zip(panel.values, grown, passed, strict=True):
            at = np.flatnonzero(np.isfinite(row))
            step = np.diff(row[at])
            out[at[1:]] = np.where(step >= 0, step, row[at[1:]])
            gaps[at[1:]] = np.diff(self.seconds[at])
        return grown, passed


TESTS: Mapping[str, Callable[[Metrics, Panel, Symptom], Hits]] = {
    name: getattr(Metrics, name) for name in ("level", "mean", "xid", "absent", "minority")
}


def _outside(values: Floats, symptom: Symptom, where: NDArray[np.bool_] | bool = True) -> Hits:
    """Where values are above or below the bounds."""
    return ((values > symptom.above) | (values < symptom.below)) & where, values


def _odd_ports(devices: Sequence[str], peers: Sequence[str]) -> list[bool]:
    """Whether each port is at a switch where most ports are of one other device."""
    ports: dict[str, Counter[str]] = {}
    for device, peer in zip(devices, peers, strict=True):
        ports.setdefault(peer, Counter())[device] += 1
    usual = {peer: count.most_common(1)[0] for peer, count in ports.items()}
    return [
        bool(peer) and usual[peer][1] > ports[peer].total() / 2 and usual[peer][0] != device
        for device, peer in zip(devices, peers, strict=True)
    ]
