"""Speed of pipeline schedules at 64 ranks and 2,048 micro-batches: build, check, play, high water, CSV."""

from __future__ import annotations

import pytest

from podsim.schedules.check import check_schedule
from podsim.schedules.entries import build
from podsim.schedules.held import held
from podsim.schedules.player import simulate_table, unit_seconds
from podsim.schedules.torch_csv import read_csv, to_csv

SIZE = (64, 2048)
CHUNKS = {"1f1b": 1, "interleaved": 4, "zb-v": 2, "dualpipe": 1}


@pytest.mark.parametrize("name", CHUNKS)
def test_build(benchmark, name: str) -> None:
    table = benchmark(build, name, SIZE[0], CHUNKS[name], SIZE[1])
    benchmark.extra_info["actions"] = len(table)


@pytest.mark.parametrize("name", CHUNKS)
def test_check(benchmark, name: str) -> None:
    table = build(name, SIZE[0], CHUNKS[name], SIZE[1])
    benchmark(check_schedule, table)


@pytest.mark.parametrize("name", CHUNKS)
def test_play(benchmark, name: str) -> None:
    """Actions a second are in the extra columns."""
    table = build(name, SIZE[0], CHUNKS[name], SIZE[1])
    seconds = unit_seconds(table)
    simulate_table(table, seconds)
    benchmark(simulate_table, table, seconds, 0.1)
    benchmark.extra_info["actions_per_second"] = round(len(table) / benchmark.stats.stats.min)


def test_held(benchmark) -> None:
    benchmark(held, build("zb-v", SIZE[0], 2, SIZE[1]))


def test_csv_there_and_back(benchmark) -> None:
    table = build("1f1b", *SIZE[:1], 1, SIZE[1])
    assert len(benchmark(lambda: read_csv(to_csv(table)))) == len(table)
