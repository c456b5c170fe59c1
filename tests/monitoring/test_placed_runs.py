"""Where the runs of a queue stand on three nodes of four GPUs, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from podsim.answers.timeline import Lane, Timeline
from podsim.monitoring.day import node_bytes, placed_runs


def placed(
    *spans: tuple[int, float, float, int], away: tuple[Any, ...] = (), lanes: Any = None
) -> list[tuple[Any, ...]]:
    """(job, start, end, GPUs) of each run in the window from 10 to 110 s, of (node, start, end, number of GPUs)."""
    node, start, end, gpus = (np.array(column) for column in zip(*spans, strict=True))
    timeline = Timeline(
        lanes=lanes or tuple(Lane(process="machine", name=f"node {n}") for n in range(3)), names=("job",), kinds=("run",),
        lane=node, name=0 * node, kind=0 * node, start=start.astype(float), end=end.astype(float),
        arguments={"job": np.arange(len(node)), "gpus": gpus},
    )  # fmt: skip
    cluster: Any = SimpleNamespace(nodes=3, gpus_per_node=4)
    runs = placed_runs(
        timeline, cluster, start=10.0, length=100.0, forecasts=dict.fromkeys(range(20)), away=away
    )  # type: ignore[arg-type]
    return [(run.job, run.start, run.end, run.gpus.tolist(), run.nodes) for run in runs]


def test_a_run_stands_on_its_node_or_on_those_with_room() -> None:
    assert placed(
        (1, 0, 60, 4), (1, 20, 200, 2), (2, 30, 40, 4), (0, 50, 90, 6), (1, 70, 90, 4), (1, 5, 10, 4)
    ) == [
        ("0", 0.0, 50.0, [4, 5, 6, 7], 1),  # began before the window
        ("1", 10.0, 100.0, [8, 9], 1),  # node 1 is full: the next one after it
        ("2", 20.0, 30.0, [0, 1, 2, 3], 1),  # node 2 has too little room
        ("3", 40.0, 80.0, [0, 1, 2, 3, 10, 11], 2),
        ("4", 60.0, 80.0, [4, 5, 6, 7], 1),
    ]


def test_no_run_begins_on_a_node_that_is_away() -> None:
    away = SimpleNamespace(start=0.0, end=50.0, mask=lambda nodes: np.arange(nodes) == 1)
    assert [run[3] for run in placed((1, 20, 60, 4), (1, 50, 60, 4), away=(away,))] == [
        [8, 9, 10, 11],
        [4, 5, 6, 7],
    ]


def test_a_machine_of_one_lane() -> None:
    assert placed((0, 20, 30, 4), lanes=(Lane(process="machine", name="all GPUs"),))[0][3] == [0, 1, 2, 3]


@pytest.mark.parametrize(("nodes", "sent"), [(1, 0.0), (2, 100.0), (4, 150.0)])
def test_a_ring_over_nodes_sends_gradients_twice_but_for_its_own_part(nodes: int, sent: float) -> None:
    run: Any = SimpleNamespace(nodes=nodes, forecast=SimpleNamespace(gradients=100.0))
    assert node_bytes(run) == pytest.approx(sent)
