"""An acceptance compared with earlier ones of the same machine: what has become slower, what has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from podsim.acceptance.inventory_checks import part_of
from podsim.acceptance.thresholds import THRESHOLDS, Figure, check
from podsim.answers.acceptance import Check, Part
from podsim.errors import LabError
from podsim.foreign_files import finite, read_json, read_text
from podsim.version import check_release

_MOST = 16 << 20


def read_earlier(path: Path) -> Mapping[str, Any]:
    """What `podsim verify --json` printed. Raises LabError for another file."""
    data = read_json(
        read_text(path, most=_MOST, error=LabError), name=f"--earlier {path.name}", error=LabError
    )
    rows = [data.get(name) if isinstance(data, dict) else None for name in ("checks", "parts")]
    if not all(isinstance(row, list) and all(isinstance(each, dict) for each in row) for row in rows):
        raise LabError(f"--earlier {path.name}: not what podsim verify --json prints")
    check_release(data.get("podsim"), name=f"--earlier {path.name}", error=LabError)
    return dict(data)


def trend_checks(checks: Sequence[Check], earlier: Sequence[Mapping[str, Any]]) -> Iterator[Check]:
    """Each measured figure against the median of earlier ones."""
    for now in checks:
        values = [
            value for run in earlier for row in run["checks"]
            if (row.get("name"), row.get("unit")) == (now.name, now.unit)
            and (value := finite(row.get("measured")) or 0.0) > 0
        ]  # fmt: skip
        if values and now.measured is not None:
            figure = Figure(group="trend", name=f"{now.name}, over time", unit=now.unit, how=now.how,
                            basis=f"the median of {len(values)} earlier run(s)")  # fmt: skip
            yield check(figure, THRESHOLDS["trend"], measured=now.measured, expected=median(values))


def trend_parts(parts: Sequence[Part], last: Mapping[str, Any]) -> Iterator[Part]:
    """The parts that are not as they were in the last earlier run, and those that only it can judge."""
    before = {str(row.get("name")): str(row.get("found")) for row in last["parts"]}
    for part in parts:
        if part.name in before and (part.found != before[part.name] or part.name.startswith("PCR")):
            is_same = part.found == before[part.name]
            yield part_of(f"{part.name}, as before", before[part.name], part.found, is_same, part.source)
