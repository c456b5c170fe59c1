"""Storage: every link of a hundred thousand clients, and an input pipeline over a hundred epochs."""

from __future__ import annotations

from typing import Any

import podsim


def test_fio_to_100_000_clients(benchmark: Any) -> None:
    podsim.storage_fio("weka-ra:4")
    run = benchmark(lambda: podsim.storage_fio("weka-ra:100000"))
    assert run.rows[-1].clients == 100_000


def test_input_pipeline(benchmark: Any) -> None:
    run = benchmark(lambda: podsim.storage_input("resnet50", on="weka-ra:4"))
    assert run.training is not None
