"""The law of convergence: known curves, published points one batch left out, and the benchmarks' rounds."""

from __future__ import annotations

import numpy as np
import pytest

from podsim.errors import PodsimError
from podsim.learning.benchmarks import (
    benchmarks,
    benchmarks_of,
    convergence_law,
    convergence_rows,
    find_benchmark,
    points_of,
    target_seconds,
)
from podsim.learning.convergence_law import ConvergenceLaw, ReferencePoint

LARGE = ("bert", "resnet", "retinanet", "maskrcnn", "rnnt", "llama31_8b", "gnn", "stable_diffusion", "flux1")
"""The benchmarks with four batches and more that follow a smooth law."""


def law_of(batches: list[float], first: float = 1000.0, critical: float = 512.0) -> ConvergenceLaw:
    points = [
        ReferencePoint(batch=b, samples=first * (1 + b / critical), scatter=0.01, seeds=10) for b in batches
    ]
    return ConvergenceLaw(points=tuple(points))


def test_exact_points_give_the_law_they_came_from() -> None:
    law = law_of([64, 128, 256, 512, 1024])
    assert law.critical_batch == pytest.approx(512, rel=0.15)
    assert law([32, 768]).samples == pytest.approx([1000 * (1 + 32 / 512), 2500], rel=0.02)


def test_far_above_the_critical_batch_steps_no_longer_fall() -> None:
    law = law_of([64, 128, 256, 512, 1024])
    steps = law([1e5, 1e6]).samples / np.array([1e5, 1e6])
    assert steps[1] == pytest.approx(steps[0], rel=0.03)


def test_one_point_is_carried_by_the_prior() -> None:
    law = ConvergenceLaw(points=(ReferencePoint(batch=256, samples=1e6, seeds=10),))
    answer = law([16, 256, 4096])
    assert answer.samples[0] < 1e6 < answer.samples[2]
    assert answer.samples[1] == pytest.approx(1e6, rel=0.02)
    assert answer.high[2] / answer.low[2] > answer.high[1] / answer.low[1]


def test_a_target_is_seen_at_an_evaluation() -> None:
    points = tuple(
        ReferencePoint(batch=b, samples=s, scatter=0.0, seeds=20)
        for b, s in ((64, 400), (128, 400), (256, 500))
    )
    law = ConvergenceLaw(points=points, quantum=100)
    assert law([64]).samples[0] == pytest.approx(400, rel=0.05)


@pytest.mark.parametrize("batch", [0, -1, float("nan")])
def test_a_batch_without_samples_is_refused(batch: float) -> None:
    with pytest.raises(PodsimError, match="a batch"):
        law_of([64, 128])([batch])
    with pytest.raises(PodsimError, match="points"):
        ConvergenceLaw(points=())


def errors_of(name: str, *, largest: bool = False) -> np.ndarray:
    """Relative errors of the batches of a benchmark (or its largest), each from all others."""
    benchmark = find_benchmark(name)
    rows = [row.point for row in convergence_rows() if row.benchmark == name]
    points = sorted(points_of(rows, benchmark.rounds[1]), key=lambda point: point.batch)
    left_out = points[-1:] if largest else points
    return np.array([
        ConvergenceLaw(
            points=tuple(point for point in points if point is not out), quantum=benchmark.quantum, round="reference"
        )([out.batch]).samples[0] / out.samples - 1
        for out in left_out
    ])  # fmt: skip


def test_published_batches_left_out() -> None:
    means = [np.abs(errors_of(name)).mean() for name in LARGE]
    assert np.median(means) <= 0.04
    assert np.mean(means) <= 0.06
    assert np.median([abs(errors_of(name, largest=True)[0]) for name in LARGE]) <= 0.045


def test_points_hold_until_a_later_one_replaces_them() -> None:
    rows = [row.point for row in convergence_rows() if row.benchmark == "bert"]
    first, last = (
        {point.batch: point.samples for point in points_of(rows, round)} for round in ("v1.0", "v5.0")
    )
    assert first[448] == pytest.approx(2_625_459)
    assert last[448] == pytest.approx(2_410_630)
    assert last[256] == first[256]


def test_every_benchmark_has_points() -> None:
    for benchmark in benchmarks().values():
        assert convergence_law(benchmark, benchmark.rounds[1])([1000.0]).samples[0] > 0


def test_rounds_name_their_benchmarks() -> None:
    assert {each.name for each in benchmarks_of("v0.7")} == {
        "resnet", "ssd", "maskrcnn", "gnmt", "transformer", "bert", "dlrm", "minigo"
    }  # fmt: skip
    assert find_benchmark("ssd", "v4.1").name == "retinanet"
    assert find_benchmark("Llama-3.1-8B").name == "llama31_8b"
    with pytest.raises(PodsimError, match="was in v0"):
        find_benchmark("gnmt", "v5.0")
    with pytest.raises(PodsimError, match="round of MLPerf"):
        benchmarks_of("seven")


def test_time_to_a_target_adds_up() -> None:
    resnet = find_benchmark("resnet")
    time = target_seconds(resnet, 40 * resnet.epoch, 20_000.0)
    assert time.evaluations == 10
    assert time.total == pytest.approx(15 + 40 * resnet.epoch / 20_000 + 10 * 50_000 / 20_000)
