"""How often rows of a table are read, by Zipf's law, and what a cache of rows gains.

    probability        p(rank) = rank**-skew / sum of all
    distinct rows      sum of 1 - (1 - p)**lookups
    LRU (Che)          hit rate = sum of p (1 - e**(-p t)), where t is the age at which the cache is full:
                       sum of 1 - e**(-p t) = cached rows
    LFU                the most popular rows are cached: hit rate = their share of the lookups
    empty at first     lookups hit every row seen before, until the cache is full

Source: Che, Tung, Wang 2002, doi.org/10.1109/JSAC.2002.801752; Fricker, Robert, Roberts 2012, arxiv.org/abs/1202.3974.
Known error: 1 point against played LRU caches, exponents 0.8 to 1.2 (tests). Limits: lookups are independent, and the
popularity of rows does not change. An LFU cache that counts is taken to know the popular rows once it is full.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from podsim.axes import Floats
from podsim.errors import PodsimError

POLICIES = ("lru", "lfu")
_EXACT = 500
"""ranks that are summed one by one; those beyond are in groups of which each is two hundredths larger than the last"""
_GROWTH = 1.02


def hit_rate(
    rows: int,
    cached: float,
    skew: float,
    policy: str = "lru",
    *,
    lookups: float = math.inf,
    batch: float = 1.0,
) -> float:
    """The share of lookups that find their row among `cached` of `rows`, whose popularity has the exponent `skew`.

    `lookups` are those of a run that begins with an empty cache; infinite: a long run. With `batch` lookups at once, a
    row of which is fetched once, the share is that of the distinct rows of a batch. Raises PodsimError for bad numbers.
    """
    check_skew(rows, skew)
    if policy not in POLICIES:
        raise PodsimError(f"policy={policy!r} may be {' or '.join(POLICIES)}")
    if not (cached >= 0 and lookups > 0 and batch >= 1):
        raise PodsimError(
            f"cached={cached}, lookups={lookups}, batch={batch} must be at least 0, more than 0, at least 1"
        )
    count, popularity = zipf_groups(rows, skew)
    wanted = _seen(popularity, batch)  # the probability that a batch wants the row
    if policy == "lfu" and math.isinf(lookups):
        return _top_share(count, wanted, cached)
    requests = float(count @ wanted)
    batches = lookups / batch
    full = _fill_age(count, wanted, cached)
    if math.isinf(full) and math.isinf(batches):
        return 1.0
    if batches <= full:
        return _filling_hits(count, wanted, batches) / (batches * requests)
    steady = _steady_rate(count, wanted, cached, full, policy)
    if math.isinf(batches):
        return steady
    return (_filling_hits(count, wanted, full) / requests + (batches - full) * steady) / batches


@lru_cache(maxsize=1 << 16)
def distinct_rows(rows: int, lookups: float, skew: float) -> float:
    """The mean number of different rows among `lookups`. Raises PodsimError for bad numbers."""
    check_skew(rows, skew)
    count, popularity = zipf_groups(rows, skew)
    return float(count @ _seen(popularity, lookups))


@lru_cache(maxsize=1 << 16)
def hot_share(rows: int, hot: float, skew: float) -> float:
    """The share of lookups that fall on the `hot` most popular rows. Raises PodsimError for bad numbers."""
    check_skew(rows, skew)
    count, popularity = zipf_groups(rows, skew)
    return _top_share(count, popularity, hot)


def check_skew(rows: int, skew: float) -> None:
    """Raises PodsimError for rows or an exponent that no table has."""
    if not isinstance(rows, int | np.integer) or rows < 1:
        raise PodsimError(f"rows={rows!r}: a table has one row or more, a whole number")
    if not (isinstance(skew, int | float) and 0 <= skew <= 10):
        raise PodsimError(
            f"skew={skew!r} must be a number from 0 (rows are read evenly) to 10; published data has about 1"
        )


@lru_cache(maxsize=2048)
def zipf_groups(rows: int, skew: float) -> tuple[Floats, Floats]:
    """(rows of each group of ranks, probability of each of them that one lookup reads it), popular ones first."""
    steps = max(math.ceil(math.log(max(rows / _EXACT, 1.0)) / math.log(_GROWTH)), 0)
    beyond = np.geomspace(_EXACT, rows, steps + 1).round() if rows > _EXACT else np.zeros(0)
    edges = np.unique(np.concatenate((np.arange(min(rows, _EXACT) + 1.0), beyond)))
    count = np.diff(edges)
    low, high = edges[:-1] + 0.5, edges[1:] + 0.5
    exponent = 1.0 - skew
    integral = np.log(high / low) if abs(exponent) < 1e-9 else (high**exponent - low**exponent) / exponent
    weight = np.where(count > 1, integral / count, edges[1:] ** -skew)
    return count, weight / float(count @ weight)


def _seen(probability: Floats, times: float) -> Floats:
    """The probability that something of `probability` happened in `times` tries."""
    if math.isinf(times):
        return np.ones(len(probability))
    return np.asarray(-np.expm1(times * np.log1p(-np.minimum(probability, 1 - 1e-15))))


def _fill_age(count: Floats, wanted: Floats, cached: float) -> float:
    """The batches after which `cached` different rows were read; infinite if all rows fit."""
    if cached >= float(count.sum()):
        return math.inf
    if cached <= 0:
        return 0.0
    low, high = 0.0, 1.0
    while float(count @ _seen(wanted, high)) < cached and high < 1e300:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float(count @ _seen(wanted, middle)) < cached else (low, middle)
    return high


def _steady_rate(count: Floats, wanted: Floats, cached: float, age: float, policy: str) -> float:
    """The hit rate of a cache that has been full for long."""
    if policy == "lfu":
        return _top_share(count, wanted, cached)
    return float(count @ (wanted * _seen(wanted, age)) / (count @ wanted))


def _top_share(count: Floats, wanted: Floats, top: float) -> float:
    taken = np.clip(top - (np.cumsum(count) - count), 0.0, count)
    return float(taken @ wanted / (count @ wanted))


def _filling_hits(count: Floats, wanted: Floats, batches: float) -> float:
    """The rows of `batches` that an earlier batch read: all that were asked for, without the first time of each."""
    return float(batches * (count @ wanted) - count @ _seen(wanted, batches))
