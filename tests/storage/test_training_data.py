"""How many samples a run reads by MLPerf Storage's rule, by hand."""

from types import SimpleNamespace
from typing import Any

import pytest

from podsim.storage.input_pipeline import data_bytes, samples_of


def setting(record: float, **more: Any) -> Any:
    """Two nodes of 8 accelerators and 1 GB, whose steps take 7 samples each."""
    known = {"samples": 0, "accelerators": 8, "nodes": 2, "step": SimpleNamespace(batch=7)}
    system = SimpleNamespace(memory=1e9)
    workload = SimpleNamespace(samples=0, record=record)
    return SimpleNamespace(cluster=SimpleNamespace(system=system), workload=workload, **known | more)


@pytest.mark.parametrize(
    ("record", "samples"),
    [
        (1e6, 500 * 7 * 16),
        (1e5, 5 * 2e9 / 1e5),
    ],  # 500 steps of all accelerators; five times the hosts' memory
)
def test_as_many_steps_and_as_much_memory_as_the_rule_says(record: float, samples: float) -> None:
    assert samples_of(setting(record)) == samples
    assert data_bytes(setting(record, samples=3)) == 3 * record
