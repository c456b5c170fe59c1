"""Speed of MIG layouts and of serving: enumeration, one GPU solved exactly, a fleet, a sweep of batches."""

from __future__ import annotations

from typing import Any

import podsim
from podsim.hardware.mig.best import Wish, _solve, best_fleet
from podsim.hardware.mig.layouts import layouts, maximal
from podsim.hardware.mig.profiles import slicings

A100 = slicings()["a100-40gb"]
MIX = [Wish(name="a", count=2, memory=8e9, fixed=0.4), Wish(name="b", count=2, fixed=0.9)]


def test_all_layouts_of_all_profiles(benchmark: Any) -> None:
    def fresh() -> int:
        layouts.cache_clear()
        maximal.cache_clear()
        return len(maximal(A100, every=True))

    assert benchmark(fresh) == 239


def test_best_layout_of_four_jobs(benchmark: Any) -> None:
    def fresh() -> float:
        _solve.cache_clear()
        (one,) = best_fleet(A100, 1, MIX)
        assert one is not None
        return one.value

    assert benchmark(fresh) > 2


def test_a_fleet_of_4480_gpus(benchmark: Any) -> None:
    jobs = ["users:20000x1g", "train:800xgpu", "z:1000x12GB@0.4", "q:500x8GB@0.9"]
    assert benchmark(lambda: podsim.mig_plan("selene", jobs=jobs).devices) == 22_300


def test_bert_on_seven_slices(benchmark: Any) -> None:
    benchmark(lambda: podsim.serve("bert-large", on="a100-40gb/7x1g.5gb", precision="int8", latency="50 ms"))
