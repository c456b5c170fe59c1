"""What is unlike the rest: every exported series against its peers, its own past, and its prediction.

    peers   the median of the parts in the same role: of one job, or on nodes with as many GPUs in use
    past    the median of the same part in its role, or of its job
    none    no event is usual: a counter grows by `absolute` events an hour at most

metrics.csv says which of them a metric has. A value deviates if it differs from the median by more than `relative` of it,
by more than `absolute`, and by more than six robust standard deviations (nine median absolute deviations). It must
last for ten minutes, or come back three times. Limits: of two parts of one job, that which left its own past is ill.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from podsim.axes import Floats, Ints
from podsim.monitoring.metric_table import Metric
from podsim.monitoring.panels import Key, Panel
from podsim.monitoring.roles import Roles, median
from podsim.monitoring.symptoms import Metrics, Symptom, name_of
from podsim.packaged import packaged_toml

Truths = NDArray[np.bool_]
Answer = tuple[Symptom, Truths, Floats]
"""(a symptom, whether a part shows it at each time, the value)"""
Hit = tuple[tuple[str, Key], Answer]
"""((the kind of part, the part), its answer)"""
UNUSUAL = "unusual"
_DEVIATIONS = 9.0
_SHORT = 0.5
"""share. The share of a predicted activity below which a job does something else: predictions err by less."""
_LASTING, _STUCK, _HOUR = 600.0, 1800.0, 3600.0
_OFTEN, _LEAST, _RESTLESS = 3, 5, 0.9
"""The samples that deviate without lasting, those that a median of the past needs, and the share of them that changes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """The series of one metric, as they are compared."""

    metrics: Metrics
    metric: Metric
    panel: Panel
    roles: Roles

    @cached_property
    def relative(self) -> float:
        """The share that healthy parts may deviate by; of counters with that by which a server shifts the times."""
        relative = float(self.metric.relative)
        if self.metric.type == "counter" and np.isfinite(passed := self.metrics.growth(self.panel)[1]).any():
            short, usual, long = np.nanpercentile(passed, (10, 50, 90))
            relative += (long - short) / usual
        return relative

    def hits(self) -> Iterator[Hit]:
        """The parts that deviate, each with how it does."""
        if self.metric.peers == "none":
            than = "since it started" if self._is_single else "in an hour"
            yield from self._rows(self._events(), self.panel.values, than)
            return
        values, codes = self._values()
        high, past = (np.full(values.shape, np.nan) for _ in range(2))
        ill, changed, stuck = (np.zeros(values.shape, np.bool_) for _ in range(3))
        for rows, times, inside in self.roles.blocks(codes):
            here = np.ix_(rows, times)
            block = np.where(inside, values[here], np.nan)
            middle, spread, count = median(block)
            job = self.roles.job_of(self.metric, codes[here][inside][0])
            if len(rows) > 2:
                many = (count > 2) & inside
                ill[here] |= many & self._far(block, middle, spread)
                high[here] = np.where(inside, middle, high[here])
                moved, usual = self._moved(block - middle, np.abs(middle))
                changed[here] |= many & moved & (np.abs(block - middle) > np.abs(usual))
                past[here] = np.where(inside, usual + middle, past[here])
                stuck[here] |= many & self._stuck(block)
            else:
                moved, usual = self._moved(block, np.abs(block))
                alone = job is None or len(rows) == 1
                changed[here] |= inside & moved & (alone | self._far(block, middle, 0 * middle))
                past[here] = np.where(inside, usual, past[here])
            if job is not None or (self.metric.entity == "disk" and len(rows) > 1):
                yield from self._together(job, middle, times, values.shape[1])
        yield from self._rows(ill, values, "peers", high)
        yield from self._rows(changed & ~ill, values, "past", past)
        steady = self.metrics.lasts(stuck, values, _STUCK)
        steady &= steady.sum(axis=1, keepdims=True) > _LEAST
        yield from self._rows(steady, values, "while its peers' changes: stuck", lasting=_STUCK)

    def _values(self) -> tuple[Floats, Ints]:
        """The values, of counters their rates, and the roles in which they have them."""
        codes = self.roles.codes(self.metric, self.panel.keys)
        if self.metric.type != "counter":
            return self.panel.values, codes
        grown, passed = self.metrics.growth(self.panel)
        same = np.zeros(codes.shape, np.bool_)
        same[:, 1:] = codes[:, 1:] == codes[:, :-1]
        return np.where(same, grown / passed, np.nan), codes

    def _far(self, values: Floats, middle: Floats, spread: Floats) -> Truths:
        """Whether values are far from a median."""
        allowed = np.maximum(self.relative * np.abs(middle), float(self.metric.absolute))
        return np.asarray(np.abs(values - middle) > np.maximum(allowed, _DEVIATIONS * spread) * (1 + 1e-9))

    def _moved(self, values: Floats, scale: Floats) -> tuple[Truths, Floats]:
        """Whether each row is far from its own median, on some scale, and that median."""
        middle, spread, count = median(values.T)
        allowed = np.maximum(self.relative * scale, float(self.metric.absolute))
        allowed = np.maximum(allowed, _DEVIATIONS * spread[:, None]) * (1 + 1e-9)
        return (np.abs(values - middle[:, None]) > allowed) & (count >= _LEAST)[:, None], np.broadcast_to(
            middle[:, None], values.shape
        )

    def _stuck(self, block: Floats) -> Truths:
        """Whether each row stays exactly as it was while those of its peers change."""
        stuck = np.zeros(block.shape, np.bool_)
        if self.metric.type == "counter" or block.shape[1] <= _LEAST:
            return stuck
        step = np.diff(block, axis=1)
        stuck[:, 1:] = step == 0
        stuck[:, :-1] |= stuck[:, 1:]
        stuck &= (block != 0) & (block != 1)  # a share at its end
        known = step[np.isfinite(step)]
        return stuck & bool(len(known) and (known != 0).mean() > _RESTLESS)

    def _together(self, job: str | None, middle: Floats, times: Ints, length: int) -> Iterator[Hit]:
        """A job, or all drives, of which the median leaves its past or its prediction."""
        values = np.full(length, np.nan)
        values[times] = middle
        row = values[None, :]
        moved, usual = self._moved(row, np.abs(row))
        part = ("storage", ("", "storage")) if job is None else ("job", ("", job))
        yield from self._answers(part, moved, row, "past", usual)
        foreshown = self.metrics.panels.get(self.metric.predicted)
        if foreshown is not None and part[1] in foreshown.keys:
            said = foreshown.values[[foreshown.keys.index(part[1])]]
            yield from self._answers(part, row < _SHORT * said, row, "prediction", said)

    @property
    def _is_single(self) -> bool:
        """Whether there is one reading, of a counter that a sound part leaves at 0: it counts since the part started."""
        return len(self.metrics.seconds) == 1 and float(self.metric.absolute) == 0

    def _events(self) -> Truths:
        """Whether each counter grew by more in the hour before than may be, and than those of most others."""
        grown = np.nan_to_num(self.panel.values if self._is_single else self.metrics.growth(self.panel)[0])
        total, seconds = np.cumsum(grown, axis=1), self.metrics.seconds
        before = np.searchsorted(seconds, seconds - _HOUR, side="right") - 1
        recent = total - np.where(before >= 0, total[:, np.maximum(before, 0)], 0.0)
        usual = median(recent)[0] if len(recent) > 2 else 0.0
        return np.asarray((recent > float(self.metric.absolute)) & (recent > 20 * usual) & (grown > 0))

    def _rows(
        self, shows: Truths, values: Floats, than: str, reference: Floats | None = None,
        lasting: float = _LASTING,
    ) -> Iterator[Hit]:  # fmt: skip
        for row in np.flatnonzero(shows.any(axis=1)).tolist():
            part, at = (self.metric.part, self.panel.keys[row]), slice(row, row + 1)
            known = None if reference is None else reference[at]
            yield from self._answers(part, shows[at], values[at], than, known, lasting)

    def _answers(
        self, part: tuple[str, Key], shows: Truths, values: Floats, than: str, reference: Floats | None,
        lasting: float = _LASTING,
    ) -> Iterator[Hit]:  # fmt: skip
        """The answer of one part, if it lasts or comes back."""
        kept = self.metrics.lasts(shows, values, 0.0 if self.metric.peers == "none" else lasting)
        if shows.sum() >= _OFTEN:
            kept = kept | shows
        if not kept.any():
            return
        name = self.metric.help.partition(" (")[0].rstrip(".").removeprefix("The ")
        name = name[0].lower() + name[1:] if name[1:2].islower() else name
        says, shown = f"{than}: {name}", values
        if reference is not None:
            says = {"peers": f"of its peers' {name}", "past": f"of its {name} before"}.get(
                than, f"of the predicted {name}"
            )
            shown = values / reference
            if not np.isfinite(shown[kept]).any() or not np.abs(reference[kept]).max() > 0:
                says, shown = f"{says}, which is 0", values
        size = float(np.nanmedian(shown[kept]))
        names = [row for row in name_of(self.metric.name, part[0]) if size > row.above or size < row.below or
                 (row.above, row.below) == (np.inf, -np.inf)]  # fmt: skip
        symptom = Symptom(
            finding=names[0].finding if names else UNUSUAL, part=part[0], metric=self.metric.name, test=than, says=says,
            below=0.0 if size < 1 else -np.inf,
        )  # fmt: skip
        yield part, (symptom, kept[0], shown[0])


def silent_series(metrics: Metrics, known: Mapping[Metric, Panel]) -> Iterator[Hit]:
    """Series that are missing while most others of their part are there."""
    for entity in dict.fromkeys(metric.entity for metric in known):
        panels = {metric: panel for metric, panel in known.items() if metric.entity == entity}
        keys = sorted({key for panel in panels.values() for key in panel.keys})
        row = {key: number for number, key in enumerate(keys)}
        there = np.zeros((len(panels), len(keys), len(metrics.grid)), np.bool_)
        for here, panel in zip(there, panels.values(), strict=True):
            here[[row[key] for key in panel.keys]] = np.isfinite(panel.values)
        reports = there.mean(axis=0) >= 0.5
        for metric, here in zip(panels, there, strict=True):
            usual = here.any(axis=1) | (here.any(axis=1).mean() > 0.5)
            hits = metrics.lasts(reports & ~here & usual[:, None], np.where(reports, 1.0, np.nan), _LASTING)
            for number in np.flatnonzero(hits.any(axis=1)).tolist():
                symptom = Symptom(finding=UNUSUAL, part=metric.part, metric=metric.name, test="absent",
                                  says=f"{metric.name} is missing")  # fmt: skip
                yield (metric.part, keys[number]), (symptom, hits[number], np.where(here[number], 1.0, 0.0))


def unequal_counts(metrics: Metrics) -> Iterator[Hit]:
    """Counts of a queue that contradict each other: relations.toml has those that are equal."""

    def total(names: Sequence[str]) -> Floats:
        return sum((metrics.panels[name].values.sum(axis=0) for name in names), np.zeros(len(metrics.grid)))

    for relation in packaged_toml("monitoring/relations.toml")["relation"]:
        left, right = relation["left"], relation["right"]
        if all(name in metrics.panels for side in relation.values() for name in side):
            wrong = total(left) - total(right)
            shows = np.abs(wrong) > total(relation.get("slack", ())) + 0.5
            kept = metrics.lasts(shows[None, :], wrong[None, :], _LASTING)[0] | (
                shows & (shows.sum() >= _OFTEN)
            )
            says = f"{' + '.join(left)} against {' + '.join(right)}: more by"
            symptom = Symptom(finding=UNUSUAL, part="queue", metric=left[0], test="sum", says=says)
            if kept.any():
                yield ("queue", ("", "queue")), (symptom, kept, wrong)


def compare_all(metrics: Metrics, known: Mapping[Metric, Panel], roles: Roles) -> Iterator[Hit]:
    """All deviations of all metrics."""
    for metric, panel in known.items():
        if metric.peers and panel.keys:
            yield from Comparison(metrics=metrics, metric=metric, panel=panel, roles=roles).hits()
    if len(metrics.grid) > 1:
        yield from silent_series(metrics, known)
        yield from unequal_counts(metrics)
