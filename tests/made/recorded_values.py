"""Values that functions gave when they were recorded: a zipped JSON file of them, by the name of a case.

A change that means to move them runs `PODSIM_REFRESH=1 python -m pytest -n0` on the test file, and says so.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np


def check(file: Path, name: str, value: Any) -> None:
    """Assert that a value is the recorded one: the same texts, and numbers to one part in 10^9."""
    paths, values = zip(*leaves(value), strict=True)
    if os.environ.get("PODSIM_REFRESH"):
        kept = (_read(file) if file.exists() else {}) | {name: list(values)}
        file.write_bytes(gzip.compress(json.dumps(kept, sort_keys=True).encode(), mtime=0))
        _read.cache_clear()
    before = _read(file)[name]
    moved = [
        f"{path}: {now}, was {then}"
        for path, now, then in zip(paths, values, before, strict=False)
        if not _is_same(now, then)
    ]
    assert not moved, f"{name}: {len(moved)} values moved, first {moved[:5]}"
    assert len(values) == len(before), f"{name} has {len(values)} values, had {len(before)}"


def sums(values: Any) -> list[float]:
    """How many numbers are finite, their sum, and a sum in which each place weighs differently: little to keep."""
    flat = np.asarray(values, dtype=float).ravel()
    finite = np.isfinite(flat)
    known = np.where(finite, flat, 0.0)
    return [
        float(finite.sum()),
        float(known.sum()),
        float(known @ (1.5 + 0.5 * np.cos(np.arange(flat.size)))),
    ]


def _is_same(now: str | float, then: str | float) -> bool:
    if isinstance(now, str) or isinstance(then, str):
        return now == then
    return math.isclose(now, then, rel_tol=1e-9, abs_tol=1e-15) or (math.isnan(now) and math.isnan(then))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str | float]]:
    """Every number (as a float of twelve digits) and text of a value, by its path."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from leaves(part, f"{path}.{index}")
    elif isinstance(value, (bool, int, float, np.generic)) and not isinstance(value, str):
        yield path, float(f"{float(value):.12g}")
    else:
        yield path, str(value)


@cache
def _read(file: Path) -> dict[str, list[str | float]]:
    values: dict[str, list[str | float]] = json.loads(gzip.decompress(file.read_bytes()))
    return values
