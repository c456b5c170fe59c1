"""The law of caches against caches that are played."""

from collections import Counter, OrderedDict

import numpy as np
import pytest

from podsim.embeddings.hit_rates import distinct_rows, hit_rate, hot_share
from podsim.errors import PodsimError


def _lookups(rows: int, skew: float, number: int) -> list[int]:
    weight = np.arange(1, rows + 1.0) ** -skew
    return np.random.default_rng(1).choice(rows, number, p=weight / weight.sum()).tolist()


def _played(asked: list[int], cached: int, policy: str) -> float:
    """The hit rate of a cache of `cached` rows that begins empty; LFU remembers how often each row was asked for."""
    held: OrderedDict[int, None] = OrderedDict()
    often: Counter[int] = Counter()
    hits = 0
    for row in asked:
        often[row] += 1
        hits += row in held
        if row in held:
            held.move_to_end(row)
            continue
        if len(held) >= cached:
            victim = next(iter(held)) if policy == "lru" else min(held, key=often.__getitem__)
            if policy == "lfu" and often[victim] > often[row]:
                continue
            del held[victim]
        held[row] = None
    return hits / len(asked)


@pytest.mark.parametrize("skew", [0.8, 1.0, 1.2])
@pytest.mark.parametrize(("policy", "share"), [("lru", 0.02), ("lru", 0.2), ("lfu", 0.02)])
def test_cache_against_played_cache(skew: float, policy: str, share: float) -> None:
    rows, number = 5_000, 30_000
    asked, cached = _lookups(rows, skew, number), int(share * rows)
    law = hit_rate(rows, cached, skew, policy, lookups=number)
    assert law == pytest.approx(_played(asked, cached, policy), abs=0.03)


def test_distinct_and_hot_rows() -> None:
    asked = _lookups(100_000, 1.05, 50_000)
    assert distinct_rows(100_000, 50_000, 1.05) == pytest.approx(len(set(asked)), rel=0.01)
    assert hot_share(100_000, 500, 1.05) == pytest.approx(np.mean(np.array(asked) < 500), abs=0.01)


def test_groups_sum_as_single_ranks_do() -> None:
    rank = np.arange(1, 3_000_001.0)
    weight = rank**-0.9
    assert hot_share(3_000_000, 50_000, 0.9) == pytest.approx(weight[:50_000].sum() / weight.sum(), rel=1e-3)


def test_limits() -> None:
    assert hit_rate(1000, 1000, 1.0) == pytest.approx(1.0)
    assert hit_rate(1000, 0, 1.0) == 0.0
    assert hit_rate(10**9, 10**7, 0.0) == pytest.approx(0.01, rel=1e-3)
    batched = hit_rate(10_000, 1000, 1.0, batch=256)
    assert 0 < batched < hit_rate(10_000, 1000, 1.0), "repeats within a batch are no hits"


@pytest.mark.parametrize(("rows", "skew"), [(0, 1.0), (-5, 1.0), (10, float("nan")), (10, -1.0)])
def test_bad_numbers(rows: int, skew: float) -> None:
    with pytest.raises(PodsimError, match=r"rows=|skew="):
        hit_rate(rows, 5, skew)
