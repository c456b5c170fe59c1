"""Cuts: every division of small graphs as the oracle; chains exactly; what holds for any."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import PlanError
from podsim.graphs.graph_answer import _is_pipeline, cut_graph
from podsim.graphs.graph_cost import graph_costs
from podsim.graphs.graph_cut import divide
from podsim.graphs.networks import load_network
from podsim.hardware.catalog import load_gpu
from podsim.training.software import load_software

Nets = tuple[np.ndarray, np.ndarray, np.ndarray]


def nets(edges: Sequence[tuple[int, int]], size: np.ndarray) -> Nets:
    readers: dict[int, list[int]] = {}
    for a, b in edges:
        readers.setdefault(a, []).append(b)
    rows = [[a, *sorted(readers[a])] for a in sorted(readers)]
    first = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    return (
        first,
        np.array([n for row in rows for n in row], dtype=np.int64),
        size[sorted(readers)].astype(float),
    )


def sent_bytes(part: np.ndarray, nets: Nets) -> float:
    """B sent between devices: the bytes of each net, once for every other device with a reader."""
    first, members, size = nets
    return float(
        sum(size[j] * (len(np.unique(part[members[first[j] : first[j + 1]]])) - 1) for j in range(len(size)))
    )


def least(work: np.ndarray, made: Nets, devices: int, limit: float) -> float:
    """Fewest bytes of all divisions within the limit."""
    parts = (np.array(p) for p in product(range(devices), repeat=len(work)))
    return min(sent_bytes(p, made) for p in parts if np.bincount(p, work, devices).max() <= limit)


def test_two_cliques_by_hand() -> None:
    """Two groups of ops that talk among themselves, one thin tensor in between."""
    edges = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)]
    size = np.array([10.0, 10, 1, 10, 10, 0])
    made = divide(np.ones(6), nets(edges, size), 2, tolerance=0.0)
    assert made.part.tolist() in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])
    assert made.sent.sum() == 1
    assert made.tensors == 1


def test_a_tensor_is_sent_once_to_each_device() -> None:
    star = nets([(0, 1), (0, 2), (0, 3), (0, 4)], np.array([3.0, 0, 0, 0, 0]))
    assert sent_bytes(np.array([0, 1, 1, 2, 0]), star) == 6
    assert sent_bytes(np.zeros(5, dtype=np.int64), star) == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 12), st.integers(2, 4), st.integers(0, 10**6))
def test_chains_are_cut_as_well_as_can_be(ops: int, devices: int, seed: int) -> None:
    """No division of a chain into runs within the limit sends less."""
    devices = min(devices, ops)
    random = np.random.default_rng(seed)
    work, size = random.integers(1, 10, ops).astype(float), random.integers(1, 100, ops).astype(float)
    chain = nets([(i, i + 1) for i in range(ops - 1)], size)
    made = divide(work, chain, devices)
    best = np.inf
    for count in range(devices):
        for borders in combinations(range(1, ops), count):
            part = np.zeros(ops, dtype=np.int64)
            for border in borders:
                part[border:] += 1
            if np.bincount(part, work, devices).max() <= made.limit:
                best = min(best, sent_bytes(part, chain))
    assert made.sent.sum() <= best + 1e-9


def test_small_graphs_against_every_division() -> None:
    """Of forty, nearly all are divided as well as can be; none sends less than the best."""
    random = np.random.default_rng(0)
    best = 0
    for _ in range(40):
        ops, devices = int(random.integers(4, 9)), int(random.integers(2, 4))
        edges = [
            (a, b) for b in range(1, ops) for a in range(b) if random.random() < (0.7 if a == b - 1 else 0.25)
        ]
        work = random.integers(1, 10, ops).astype(float)
        made_of = nets(edges, random.integers(1, 20, ops)) if edges else nets([(0, 1)], np.ones(ops))
        made = divide(work, made_of, devices, tolerance=0.2)
        oracle = least(work, made_of, devices, made.limit)
        assert made.sent.sum() >= oracle - 1e-9
        best += made.sent.sum() <= oracle + 1e-9
    assert best >= 36


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 60), st.integers(1, 6), st.floats(0, 1), st.integers(0, 10**6))
def test_what_holds_for_any_division(ops: int, devices: int, tolerance: float, seed: int) -> None:
    devices = min(devices, ops)
    random = np.random.default_rng(seed)
    edges = [(int(random.integers(b)), b) for b in range(1, ops)]
    work, size = random.random(ops) + 0.01, random.random(ops)
    made_of = nets(edges, size)
    made = divide(work, made_of, devices, tolerance=tolerance)
    assert made.part.min() >= 0
    assert made.part.max() < devices
    assert np.allclose(made.load, np.bincount(made.part, work, devices))
    assert made.load.max() <= made.limit
    assert made.limit <= max((1 + tolerance) * work.sum() / devices, work.sum() / devices + work.max()) * (
        1 + 1e-6
    )
    assert made.sent.sum() == pytest.approx(sent_bytes(made.part, made_of))
    assert np.array_equal(made.part, divide(work, made_of, devices, tolerance=tolerance).part)


@pytest.mark.parametrize(
    ("edges", "is_pipeline"),
    [
        ([], True), ([(0, 1), (1, 2), (0, 2)], True), ([(2, 0), (0, 1)], True), ([(0, 1), (1, 0)], False),
        ([(0, 1), (1, 2), (2, 0)], False), ([(0, 1), (2, 3), (3, 2)], False),
    ],
)  # fmt: skip
def test_devices_are_a_pipeline_if_no_tensor_comes_back(
    edges: list[tuple[int, int]], is_pipeline: bool
) -> None:
    assert _is_pipeline(set(edges)) == is_pipeline


def test_a_cut_adds_up_to_the_graph() -> None:
    graph, gpu = load_network("resnet50", 2), load_gpu("a100-sxm4-80gb")
    costs = graph_costs(graph, gpu, "fp16", load_software("megatron-core"))
    cut, division = cut_graph(graph, costs, 3, 0.1, "fp16")
    assert cut is not None
    assert division is not None
    assert sum(part.ops for part in cut.parts) == len(graph)
    assert sum(part.seconds for part in cut.parts) == pytest.approx((costs.forward + costs.backward).sum())
    assert sum(part.parameters for part in cut.parts) == graph.parameters.sum() == 25_557_032
    assert sum(part.kept for part in cut.parts) == pytest.approx(graph.kept.sum() / 2)  # 2 of 4 B
    assert sum(part.sent for part in cut.parts) == cut.bytes
    loads = [part.seconds for part in cut.parts]
    assert cut.balance == pytest.approx(3 * max(loads) / sum(loads))
    assert (cut.devices, cut.tolerance) == (3, 0.1)
    assert cut_graph(graph, costs, 1, 0.1, "fp16") == (None, None)


def test_wrong_numbers() -> None:
    one = nets([(0, 1)], np.ones(2))
    with pytest.raises(PlanError, match="devices=3: a graph of 2 ops"):
        divide(np.ones(2), one, 3)
    with pytest.raises(PlanError, match="tolerance=-1"):
        divide(np.ones(2), one, 2, tolerance=-1)
