"""Clicks in the shape of Criteo's: numbers, rows of each table by its skew, and whether each was clicked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from podsim.embeddings.hit_rates import zipf_groups
from podsim.embeddings.tables import TableSet

_NUMBERS = 13


class Clicks(NamedTuple):
    """Some impressions."""

    numbers: npt.NDArray[np.float32]
    """The numerical features of each sample."""
    rows: tuple[npt.NDArray[np.int64], ...]
    """For each table, the rows that each sample looks up; row 0 is the most popular."""
    clicked: npt.NDArray[np.float32]
    """Whether each sample was clicked, 0 or 1, which its first numbers and rows foretell in part."""


def make_clicks(tables: TableSet, samples: int, seed: int = 0) -> Clicks:
    """Impressions for a set of tables, whose poolings are rounded up to whole rows; equal seeds give equal clicks."""
    random = np.random.default_rng(seed)
    numbers = np.log1p(random.lognormal(1.0, 1.5, (samples, _NUMBERS))).astype(np.float32)
    rows = tuple(
        zipf_rows(table.rows, table.skew, samples * int(np.ceil(table.pooling)), random).reshape(samples, -1)
        for table in tables.tables
    )
    logit = numbers[:, 0] - numbers[:, 1] + (rows[0][:, 0] % 2) - 1.5
    return Clicks(numbers, rows, (random.random(samples) < 1.0 / (1.0 + np.exp(-logit))).astype(np.float32))


def zipf_rows(rows: int, skew: float, lookups: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Rows that lookups read, by Zipf's law; row 0 is the most popular."""
    count, popularity = zipf_groups(rows, skew)
    group = random.choice(len(count), lookups, p=count * popularity)
    return np.asarray((np.cumsum(count) - count)[group] + random.random(lookups) * count[group], np.int64)
