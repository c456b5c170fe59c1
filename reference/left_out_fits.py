"""What measured runs leave over by constants of software that were fitted without them; scripts/record.py packages it.

Two groups are left out in turn: the rows of one model (of one number of GPUs, or of one length, where an entry of the
software catalog was fitted to one model), and all rows of one source. An entry keeps the constants that it inherits
where fewer than two of its rows remain. An entry that inherits nothing has those of the GPU family's default, which
itself has what it says of other GPUs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, TypeAlias

import numpy as np

from podsim.accuracy.bands import LeftOut, Residual, run_columns, run_distances
from podsim.accuracy.calibrate_software import fit_software, on_systems
from podsim.accuracy.measured_runs import TrainingRun
from podsim.accuracy.price_llm import make_batches, row_seconds, training_runs
from podsim.hardware.parts import Gpu
from podsim.training.software import default_software, load_software, part_of, software_entries

_FOLDS = 5
"""the most groups of models of one entry"""
_FEWEST = 2
"""the fewest rows that constants are fitted to"""
Part: TypeAlias = "tuple[str, str]"
"""An entry of the software catalog, and which of its tables, "" for the entry itself."""
Group: TypeAlias = "tuple[list[int], list[int]]"
"""The positions of rows that are predicted, and of those that no fit has seen."""


@dataclass(frozen=True, eq=False)
class LeftOutFits:
    """Fits of software to the rows of the training tables, without some of them."""

    rows: Sequence[Mapping[str, str]]

    @cached_property
    def fitted(self) -> Mapping[Part, frozenset[str]]:
        """The ids of the rows that each table of the catalog is fitted to."""
        ids: dict[Part, set[str]] = defaultdict(set)
        for position, run in training_runs(self.rows)[0]:
            row = self.rows[position]
            if row["role"] == "calibrate" and row.get("step_time_s") and not run.chosen:
                ids[part_of_run(run)].add(row["id"])
        return {part: frozenset(members) for part, members in ids.items()}

    @cache  # noqa: B019 - one object, for the length of a script
    def _fit(self, part: Part, left: frozenset[str]) -> dict[str, float]:
        name = ".".join(filter(None, part))
        rows = [row for row in self.rows if row["id"] in left]
        return fit_software(rows, name, _constants(part)).values

    def values_without(self, name: str, gpu: Gpu, precision: str, ids: frozenset[str]) -> dict[str, float]:
        """The constants of an entry on a GPU that are others without these rows; of a system as "SYSTEM.NAME"."""
        entry = software_entries()[name]
        part = (name, part_of(name, gpu, precision))
        parent = entry.get("inherits", "")
        values = self.values_without(parent, gpu, precision, ids) if parent else {}
        own = entry | entry.get(part[1], {})
        fitted = self.fitted.get(part, frozenset())
        if not fitted & ids:
            return {key: value for key, value in values.items() if key not in own}
        if len(fitted - ids) >= _FEWEST and _constants(part):
            return values | self._fit(part, fitted - ids)
        default = parent or default_software(gpu)
        base = load_software(name) if default == name else load_software(default, gpu, precision)
        kept = {key: getattr(base, key) for key in _constants(part) if "." not in key}
        return kept | {key: value for key, value in values.items() if key in kept or key not in own}

    def log_ratios(
        self, runs: Sequence[tuple[Mapping[str, str], TrainingRun]], ids: frozenset[str]
    ) -> list[float]:
        """The logarithms of measured / predicted time of rows, by constants fitted without `ids`."""
        out = np.empty(len(runs))
        for batch in make_batches([run for _, run in runs]):
            gpu, plan = batch.cluster.gpu, batch.plan
            values = self.values_without(plan.software, gpu, plan.precision, ids)
            own: dict[str, Any] = {key: value for key, value in values.items() if "." not in key}
            software = replace(load_software(plan.software, gpu, plan.precision), **own)
            alone = replace(batch, index=np.arange(batch.index.size))
            seconds = row_seconds(on_systems([alone], values), software)
            measured = [float(runs[at][0]["step_time_s"]) for at in batch.index.tolist()]
            out[batch.index] = np.log(np.array(measured) / seconds)
        return [float(value) for value in out]


def _constants(part: Part) -> list[str]:
    """The names of the constants of a table of the catalog that are fitted."""
    entry = software_entries()[part[0]]
    table: Mapping[str, Any] = entry[part[1]] if part[1] else entry
    return list(table.get("fitted", ()))


def part_of_run(run: TrainingRun) -> Part:
    """The table of the catalog that holds for a run."""
    return run.plan.software, part_of(run.plan.software, run.cluster.gpu, run.plan.precision)


def measure_left_out(
    rows: Sequence[Mapping[str, str]],
    runs: Sequence[tuple[Mapping[str, str], TrainingRun]],
    residuals: Sequence[Residual],
) -> tuple[Residual, ...]:
    """The residuals of the runs, with what they leave over without their model and without their source."""
    fits = LeftOutFits(rows)
    parts = [part_of_run(run) for _, run in runs]
    of_source = [(group, group) for group in _groups([row.source for row in residuals])]
    without_model = _left_out(fits, runs, residuals, _model_groups(residuals, parts))
    without_source = _left_out(fits, runs, residuals, of_source)
    return tuple(
        row._replace(without_model=without_model[at], without_source=without_source[at])
        for at, row in enumerate(residuals)
    )


def _groups(keys: Sequence[object]) -> list[list[int]]:
    """The positions of each key."""
    groups: dict[object, list[int]] = defaultdict(list)
    for at, key in enumerate(keys):
        groups[key].append(at)
    return list(groups.values())


def _model_groups(residuals: Sequence[Residual], parts: Sequence[Part]) -> list[Group]:
    """The rows of an entry with one model, at most five groups an entry, without all rows of it; else with one size."""
    sizes = np.array([row.sizes for row in residuals])
    out = []
    for members in _groups(parts):
        column = next((at for at in range(sizes.shape[1]) if np.ptp(sizes[members, at]) > 0), 0)
        alike = range(len(residuals)) if column == 0 else members
        folds = np.unique(sizes[members, column], return_inverse=True)[1] % _FOLDS
        for fold in np.unique(folds):
            group = [at for at, own in zip(members, folds, strict=True) if own == fold]
            held = set(sizes[group, column])
            out.append((group, [at for at in alike if sizes[at, column] in held]))
    return out


def _left_out(
    fits: LeftOutFits,
    runs: Sequence[tuple[Mapping[str, str], TrainingRun]],
    residuals: Sequence[Residual],
    groups: Sequence[Group],
) -> dict[int, LeftOut]:
    """What each row of the groups leaves over by fits without their rows, and its distance to the runs fitted then."""
    out: dict[int, LeftOut] = {}
    for group, left_out in groups:
        without = set(left_out)
        ids = frozenset(residuals[at].id for at in left_out)
        ratios = fits.log_ratios([runs[at] for at in group], ids)
        others = [row for at, row in enumerate(residuals) if row.role == "calibrate" and at not in without]
        columns, software = run_columns(others), {(row.software, row.features.architecture) for row in others}
        for at, ratio in zip(group, ratios, strict=True):
            row = residuals[at]
            distance = float(run_distances(row.features, row.sizes, columns).min())
            is_known = (row.software, row.features.architecture) in software
            out[at] = LeftOut(log_ratio=ratio, distance=distance, is_known=is_known)
    return out
