"""Waits for exchanges by hand: contention 1/4, gathers of 2 s, reductions of 4 s, passes of 1 s and 3 s a layer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from podsim.training.layout import Groups, Passes, PassExchanges
from podsim.training.plan import Plan
from podsim.training.plan_values import SCHEDULE_CODES
from podsim.training.software import load_software
from podsim.training.waits import Waits, of_longest, pair_saving_seconds

SOFTWARE = replace(load_software("megatron-core"), contention=0.25, late_gather=0.5, regather=False)
GROUPS = {
    "reduce": 64.0, "gather": 16.0, "layer_gather": 2.0, "layer_reduce": 4.0, "reduce_layer_share": 1.0,
    "gather_layer_share": 0.75, "stage_layers": 8.0, "embedding": 5.0, "optimizer": 0.0,
}  # fmt: skip


def ways(plan: dict[str, Any], *, layer_forward: float = 1.0, parts: float = 1.0, **groups: float) -> Waits:
    """The waits of a plan; its embedding takes 1 s forward and 2 s backward, its sends 2 s."""
    one = np.ones(1)
    passes = Passes(
        stage_parts=one, layers=one, forward=np.array([[1.0]]), backward=np.array([[2.0]]), weight=one,
        layer_forward=layer_forward * one, layer_backward=3 * one, layer_closing=3 * one, exchanges=None,
    )  # fmt: skip
    layout: Any = SimpleNamespace(
        passes=passes,
        parts=parts * one,
        charge_seconds=0.5 * one,
        sends=SimpleNamespace(mean_seconds=2 * one),
    )
    held = Groups(**{name: value * one for name, value in (GROUPS | groups).items()})
    return Waits(plan=Plan(**plan).arrays(), software=SOFTWARE, layout=layout, groups=held)


def test_each_plan_has_the_value_of_its_longest_path() -> None:
    paths = np.array([[1.0, 5, 2], [3, 2, 2], [2, 9, 1]])
    values = np.array([[10.0, 20, 30], [0, 40, 50], [60, 70, 80]])
    assert of_longest(paths, values).tolist() == [0, 70, 30]


@pytest.mark.parametrize(("plan", "regather", "share"), [
    ({"pp": 4, "zero": 3, "global_batch": 8}, False, 1 / 8),
    ({"pp": 4, "zero": 3, "global_batch": 1}, False, 1.0),
    ({"pp": 4, "zero": 3, "global_batch": 8}, True, 1.0),
    ({"pp": 1, "zero": 3, "global_batch": 8}, False, 1.0),
    ({"pp": 4, "zero": 1, "global_batch": 8}, False, 1.0),
])  # fmt: skip
def test_a_pipeline_that_keeps_its_weights_pays_once_a_step(
    plan: dict[str, int], regather: bool, share: float
) -> None:
    waits = replace(ways(plan), software=replace(SOFTWARE, regather=regather))
    assert waits.paying_share.tolist() == [share]


@pytest.mark.parametrize(("zero", "overlapped", "hidden", "seconds"), [
    (3, False, 0, 8 * 2),
    (3, False, 1, (8 - 1) * 2),
    (3, True, 0, 2 * 2 + (8 - 2) * 1),  # exposed(2, 1) = 1
    (3, True, 1, (2 - 1) * 2 + (8 - 2 - 1) * 1),
    (2, True, 0, 0),
    (2, False, 0, 0),
])  # fmt: skip
def test_forward_waits_by_hand(zero: int, overlapped: bool, hidden: float, seconds: float) -> None:
    """Two passes through eight layers."""
    waits, more = ways({"zero": zero}), {"hidden": hidden} if hidden else {}
    assert waits.forward_seconds(np.array([2.0]), np.array([8.0]), overlapped, **more).tolist() == [seconds]


@pytest.mark.parametrize(("zero", "overlapped", "seconds"), [
    # one pass: reduce 4, ends exposed(1, 3) + exposed(4, 4), two between of exposed(5, 4), late gathers 3 x 1;
    # hidden: 4 + (exposed(4, 3) = 1) - (slowdown 1) + exposed(1, 3); embedding: 4 - exposed(4, 2)
    (3, True, 2 * (4 + 0.25 + 1 + 2 * 1.25 + 3) - (4 + 1 - 1 + 0.25) - (4 - 2)),
    (3, False, 2 * (3 * 2 + 4 * 4) - 4),
    # buckets of 64 / 8: 8 + 3 exposed(8, 3) a pass; hidden: 8 + 3 (5 - slowdown 1); embedding: 8 - exposed(8, 2)
    (2, True, 2 * (8 + 3 * 5) - (8 + 3 * (5 - 1)) - (8 - 6)),
    (2, False, 2 * 4 * 8 - 4 * 8),
    (1, True, 0),
])  # fmt: skip
def test_backward_waits_by_hand(zero: int, overlapped: bool, seconds: float) -> None:
    """Two passes through eight layers, one of them hidden and one through the embedding."""
    found = ways({"zero": zero}).backward_seconds(
        np.array([2.0]), np.array([8.0]), overlapped, embeddings=np.array([1.0]), hidden=1.0
    )
    assert found == pytest.approx(np.array([seconds]))


TURNS = {"pp": 2, "virtual_stages": 2, "global_batch": 4, "overlap_grad": True, "overlap_param": True}


@pytest.mark.parametrize(("plan", "sizes", "seconds"), [
    # end: reduce 64 - two passes of (4 x 3 + 0.5) - three layers of 3 - slowdown 1 = 29, above 6 + 3 x 5
    ({"zero": 0}, {}, 29),
    ({"zero": 0, "overlap_grad": False}, {}, 64),
    # start: 1 + (12 - 2 - 2) / 4, above 1 + 3 x 0.5; the first of two rounds reduces 64 behind 2 x 8 x 3, 16 exposed
    ({"zero": 2}, {"layer_forward": 10.0}, 3 + 29 + 16),
    ({"zero": 1}, {"layer_forward": 10.0}, 3 + 29),
    # weights before the last layer: 64 x 5 / 8 - two passes of 4.5 = 31, above 7 + 3 x 7
    ({"zero": 2}, {"gather": 64.0}, 31 + 29 + 16),
    ({"zero": 2, "overlap_param": False}, {"gather": 64.0}, 64 + 29 + 16),
    ({"zero": 3}, {}, 64),
    # all four micro-batches of a chunk pass before the next: 64 - 4 x 12.5 - 9 - 1 = 4, below 21
    ({"zero": 1, "schedule": "breadth-first"}, {"gather": 64.0}, 28 + 21),
    ({"zero": 1, "schedule": "1f1b"}, {"gather": 64.0}, 28 + 21),
])  # fmt: skip
def test_ends_of_chunks_that_take_turns_by_hand(
    plan: dict[str, Any], sizes: dict[str, float], seconds: float
) -> None:
    """Two parts of four layers; the tied embedding takes 5 s more."""
    code = SCHEDULE_CODES[plan.get("schedule", "interleaved")]
    waits = ways(TURNS | plan | {"schedule": code}, parts=2.0, **sizes)
    assert waits.end_seconds(np.ones(1)) == pytest.approx(np.array([seconds + 5.0]))


@pytest.mark.parametrize(("hidden", "pair"), [(0.0, 12.0), (5.0, 16.0)], ids=("computes", "exchanges"))
def test_a_pair_of_passes_saves_what_it_hides(hidden: float, pair: float) -> None:
    """One pair through two layers of 3 s and 6 s, of which exchanges are 1 s and 2 s; others hide behind products.

    The compute takes 2 (9 - 3) = 12 s, as does the backward pass alone; the exchanges take 2 (1 + 2 + hidden).
    """
    layers = np.array([[0.0], [2.0], [0.0]])
    column = np.array([[0.0], [1.0], [0.0]])
    exchanges = PassExchanges(
        seconds=np.stack([column, 2 * column]), hidden=hidden * np.stack([0.4 * column, 0.6 * column])
    )
    layout: Any = SimpleNamespace(
        paths=SimpleNamespace(
            paired_forward=layers[None], paired_backward=layers[None], pairs=np.ones((1, 1))
        ),
        passes=SimpleNamespace(forward=3 * column, backward=6 * column, exchanges=exchanges),
    )
    saved = pair_saving_seconds(layout, ways({"zero": 1}), overlapped=True)
    assert saved == pytest.approx(np.array([[18.0 - pair]]))
