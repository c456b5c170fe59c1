"""Numbers of many kinds kept in one gzip'd JSON, each group of them as three sums that no single change leaves alone."""

from __future__ import annotations

import gzip
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

GOLDEN = Path(__file__).parents[1] / "golden"


def sums(values: Any) -> list[float]:
    """How many numbers are finite, their sum, and a sum in which each place weighs differently."""
    flat = np.asarray(values, dtype=float).ravel()
    finite = np.isfinite(flat)
    known = np.where(finite, flat, 0.0)
    weights = 1.5 + 0.5 * np.cos(np.arange(flat.size))
    return [float(finite.sum()), float(f"{known.sum():.12g}"), float(f"{known @ weights:.12g}")]


@cache
def recorded(name: str) -> dict[str, Any]:
    """What is kept in a file of `tests/golden`, by its keys."""
    file = GOLDEN / f"{name}.json.gz"
    return dict(json.loads(gzip.decompress(file.read_bytes()))) if file.exists() else {}


def assert_recorded(name: str, key: str, value: dict[str, list[float]]) -> None:
    """Hold numbers against those that are kept; with PODSIM_REFRESH=1 keep them."""
    known = recorded(name)
    if os.environ.get("PODSIM_REFRESH"):
        known[key] = value
        text = json.dumps(known, separators=(",", ":"))
        (GOLDEN / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    assert list(value) == list(known[key])
    for part, numbers in value.items():
        assert numbers == pytest.approx(known[key][part], rel=1e-9, abs=1e-18), part
