"""Results in a number format, each from the result in a wider one and the published changes marked calibrate."""

from __future__ import annotations

from podsim.accuracy.score import Priced
from podsim.accuracy.tables import Row, Rows
from podsim.answers.number_formats import FormatAccuracy
from podsim.learning.format_accuracy import all_accuracy


def price_formats(rows: Rows) -> Priced:
    """Predicted results of rows of the kind "formats", in the row's own metric.

    value = baseline (1 -/+ median change) of the largest group of changes to the format: of the same phase and baseline,
    or of the same phase, or of any. The band is the change that nine of ten stay below, either way.
    """
    predictions, reasons, bands = {}, {}, {}
    for row in rows:
        group, baseline = _nearest(row), row.number("baseline")
        if reason := row.fields.get("reason"):
            reasons[row.id] = reason
        elif group is None or not baseline:
            reasons[row.id] = (
                "the result that it is against is not given"
                if group
                else f"no change to {row.text('format')} is published"
            )
        else:
            sign = 1.0 if row.text("is_lower_better") == "1" else -1.0
            predictions[row.id] = baseline * (1.0 + sign * group.median)
            bands[row.id] = (baseline * (1.0 - group.p90), baseline * (1.0 + group.p90))
    return Priced(predictions=predictions, reasons=reasons, bands=bands)


def _nearest(row: Row) -> FormatAccuracy | None:
    """The published changes that are most like those of a row."""
    groups = [group for group in all_accuracy("calibrate") if group.format == row.text("format")]
    phase, baseline = row.text("phase"), row.text("baseline_format")
    return max(
        groups,
        key=lambda group: (group.phase == phase, group.baseline == baseline, group.count),
        default=None,
    )
