"""Speed of writing and drawing timelines: a million spans on 256 lanes.

python -m pytest benchmarks/test_timeline.py --benchmark-only
"""

from __future__ import annotations

import resource

import numpy as np
import pytest

from podsim.answers.timeline import Lane, Timeline
from podsim.timeline import read_timeline, write_timeline
from podsim.timeline.kineto import read_kineto

SPANS, LANES = 1_000_000, 250


@pytest.fixture(scope="module")
def million():
    random = np.random.default_rng(0)
    gaps, lengths = random.exponential(1e-5, (2, LANES, SPANS // LANES))
    end = np.cumsum(gaps + lengths, axis=1)
    return Timeline(
        lanes=tuple(Lane(process=f"rank {k // 2}", name=("compute", "tp")[k % 2]) for k in range(LANES)),
        names=tuple(f"op {k}" for k in range(500)), kinds=("forward", "backward", "tp", "dp", "pp", "optimizer"),
        lane=np.repeat(np.arange(LANES), SPANS // LANES), name=random.integers(0, 500, SPANS),
        kind=random.integers(0, 6, SPANS), start=(end - lengths).ravel(), end=end.ravel(),
        arguments={"micro_batch": random.integers(0, 64, SPANS)},
    )  # fmt: skip


@pytest.mark.parametrize("kind", [".pftrace", ".json", ".json.gz", ".png", ".html"])
def test_write(benchmark, million, kind, tmp_path):
    path = tmp_path / f"t{kind}"
    benchmark.pedantic(write_timeline, (million, path), rounds=3, warmup_rounds=1)
    benchmark.extra_info["size (B)"] = path.stat().st_size
    benchmark.extra_info["peak (B)"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("kind", [".pftrace", ".json"])
def test_read(benchmark, million, kind, tmp_path):
    path = tmp_path / f"t{kind}"
    write_timeline(million, path)
    found = benchmark.pedantic(read_timeline, (path,), rounds=1)
    assert len(found) == SPANS


def test_read_a_profile(benchmark, million, tmp_path):
    """A million kernels; a step of a large model has some 10,000."""
    path = tmp_path / "t.json"
    write_timeline(million, path)
    path.write_text(path.read_text("utf-8").replace('"cat":"forward"', '"cat":"kernel"'), "utf-8")
    found = benchmark.pedantic(read_kineto, (path,), rounds=1)
    assert found.warnings
