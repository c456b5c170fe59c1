"""Speed of playing data-parallel workers over many steps.

python -m pytest benchmarks/test_workers.py --benchmark-only
"""

from __future__ import annotations

import pytest

import podsim

WHO = {"compute": 0.2, "gradients": 1e8, "bandwidth": 25e9, "jitter": 0.1, "exchange": "async"}


@pytest.mark.parametrize(("workers", "servers", "beside"), [(16, 4, False), (256, 1, False), (32, 32, True)])
def test_two_hundred_steps(benchmark, workers, servers, beside):
    """One server that 256 workers keep full: every push and pull changes the share of all others."""
    how = {**WHO, "workers": workers, "servers": servers, "beside": beside, "steps": 200}
    run = benchmark.pedantic(podsim.workers, kwargs=how, rounds=3, warmup_rounds=1)
    benchmark.extra_info["steps of all workers"] = run.steps * workers
