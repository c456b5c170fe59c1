"""How error bands hold where nothing was measured: each source is left out of the fit and of the bands in turn."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

import numpy as np
from numpy.typing import ArrayLike

from podsim.accuracy.bands import FittedRuns, Residual, left_out_band
from podsim.answers.comparison import ROLES, BandCoverage
from podsim.axes import Floats

CONSTANT = (-0.12, 0.23)
"""share. The one band for every run that bands are compared with: the ends that hold four of five runs of new sources."""
_OUTSIDE = 0.2
"""share of the runs that an 80 % band leaves out"""


def interval_scores(low: ArrayLike, high: ArrayLike, actual: Floats) -> Floats:
    """share. Width, and 2 / 0.2 of each miss: the score that the true 80 % band makes least (Gneiting, Raftery 2007)."""
    bottom, top = np.asarray(low), np.asarray(high)
    missed = np.maximum(bottom - actual, 0.0) + np.maximum(actual - top, 0.0)
    return np.asarray(top - bottom + 2 / _OUTSIDE * missed)


def band_coverage(rows: Sequence[Residual]) -> tuple[BandCoverage, ...]:
    """What bands hold of each source and role, without the source in any fit or band; then the means over sources.

    Rows of both roles are predicted by constants fitted to other sources, as those of a new source would be.
    """
    out: list[BandCoverage] = []
    for source in dict.fromkeys(row.source for row in rows):
        fitted = FittedRuns([row for row in rows if row.source != source])
        for role in ROLES:
            if own := [row for row in rows if (row.source, row.role) == (source, role)]:
                out.append(_coverage(own, fitted))
    means = [_mean(lines) for role in ROLES if (lines := [line for line in out if line.role == role])]
    return (*out, *means)


def _coverage(rows: Sequence[Residual], fitted: FittedRuns) -> BandCoverage:
    """What bands from the fitted runs hold of rows of one source and role."""
    bands = [left_out_band(row.features, row.software, row.without_source.distance, fitted) for row in rows]
    low, high = np.array([(band.low, band.high) for band in bands]).T
    actual = np.expm1([row.without_source.log_ratio for row in rows])
    return BandCoverage(
        source=rows[0].source, role=rows[0].role, rows=len(rows),
        coverage=float(np.mean((low <= actual) & (actual <= high))), width=float(np.median(high - low)),
        score=float(interval_scores(low, high, actual).mean()),
        constant_score=float(interval_scores(CONSTANT[0], CONSTANT[1], actual).mean()),
    )  # fmt: skip


def _mean(lines: Sequence[BandCoverage]) -> BandCoverage:
    """The mean of sources of one role, each with the same weight; of widths the median."""
    return BandCoverage(
        source=f"mean of {len(lines)}", role=lines[0].role, rows=sum(line.rows for line in lines),
        coverage=mean(line.coverage for line in lines), width=median(line.width for line in lines),
        score=mean(line.score for line in lines), constant_score=mean(line.constant_score for line in lines),
    )  # fmt: skip


def coverage_text(lines: Sequence[BandCoverage]) -> str:
    """The lines as a table in Markdown."""
    head = (
        "## Error bands, by source left out\n\nEach source is left out of the fits and of the bands in turn. Widths and "
        "interval scores are in points of the predicted time: the\nscore is the width, and ten times each miss. The last "
        f"column has one band for all, {CONSTANT[0]:+.0%} to {CONSTANT[1]:+.0%}.\n\n"
        "| source | role | rows | inside the 80 % band | median width | interval score | of one band |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n"
    )
    return head + "".join(
        f"| {line.source} | {line.role} | {line.rows} | {line.coverage:.0%} | {100 * line.width:.1f} | "
        f"{100 * line.score:.1f} | {100 * line.constant_score:.1f} |\n"
        for line in lines
    )
