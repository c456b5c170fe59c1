"""What number formats cost in accuracy: changes of published models from one format to another.

format_pairs.csv holds the pairs; `reference/format_pairs.py` makes it. Nothing is fitted to them.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

import numpy as np

from podsim.answers.number_formats import FormatAccuracy
from podsim.answers.quantiles import quantile

_PAIRS = Path(__file__).with_name("format_pairs.csv")


@lru_cache(maxsize=2)
def all_accuracy(role: str = "") -> tuple[FormatAccuracy, ...]:
    """Changes by format, baseline, phase and source, the largest groups of a format first.

    role: only of rows of this role; "" of all. Those of fp8, mixed precision and the like stand under their operands'
    format.
    """
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    with _PAIRS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if role not in ("", row["role"]):
                continue
            value, baseline = float(row["value"]), float(row["baseline"])
            better = -1.0 if row["is_lower_better"] == "1" else 1.0
            source = row["source"].partition("@")[0]
            key = (row["format"], row["baseline_format"], row["phase"], source, row["licence"])
            groups[key].append(better * (baseline - value) / abs(baseline))
    return tuple(
        FormatAccuracy(
            format=name, baseline=baseline, phase=phase, count=len(changes), median=float(np.median(changes)),
            size=float(np.median(np.abs(changes))), p90=quantile(np.abs(changes), 0.9), source=source,
            licence=licence,
        )
        for (name, baseline, phase, source, licence), changes in sorted(groups.items(), key=lambda item: -len(item[1]))
    )  # fmt: skip
