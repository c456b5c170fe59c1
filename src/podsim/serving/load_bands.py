"""Bands of figures of servers under a load, from what podsim leaves over where a model or a GPU is left out."""

from __future__ import annotations

from podsim.packaged import packaged_toml
from podsim.serving.served_loads import Row


def band_of(row: Row, measure: str) -> tuple[float | None, float | None]:
    """The ends of the 80 % band of a figure over its prediction; None, None for a figure without residuals."""
    draft = "draft" if row.get("draft") else "plain"
    bands = packaged_toml("serving/load_bands.toml").get(measure, {})
    low, high = bands.get(f"{row.get('mode') or 'aggregated'}-{draft}", (None, None))
    return low, high
