"""A server's steps are fitted, and its requests simulated again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.acceptance.compare_serving import compare_serving
from podsim.acceptance.measured_steps import measured_cost, nonnegative_least_squares
from podsim.answers.served_real import MeasuredRequest, MeasuredServing
from podsim.errors import LabError
from podsim.serving.load.load_run import run_load
from podsim.serving.load.replica_pool import ReplicaKind, ReplicaPool
from podsim.serving.load.request_table import RequestTable
from podsim.serving.step_cost import CacheRoom


def _record(others: float = 0.0, url: str = "") -> MeasuredServing:
    """Steps by a known law, and the requests of a run on it."""
    rng = np.random.default_rng(2)
    decoding, context = rng.integers(0, 17, 2000).astype(float), rng.uniform(20, 150, 2000)
    prompts = rng.integers(0, 3, 2000).astype(float)
    new, past = prompts * rng.integers(8, 100, 2000), rng.integers(0, 50, 2000)
    pairs = new * (past + new / 2)
    seconds = (
        1e-3
        + (decoding > 0) * 1e-3
        + decoding * (2e-4 + context * 1e-6)
        + 1e-3 * prompts
        + 1e-4 * new
        + 1e-8 * pairs
    )
    seconds = seconds * rng.normal(1.0, 0.02, 2000)
    columns = {
        "step_seconds": seconds, "step_end": np.cumsum(seconds), "step_decoding": decoding, "step_context": context,
        "step_prompts": prompts, "step_new": new, "step_pairs": pairs,
    }  # fmt: skip
    made = MeasuredServing(
        server="a law", url=url, sequences=16, budget=128, saturation=60.0, shares=(0.6,), rates=(36.0,),
        others=(others,), calibration_others=0.0, step_run=(1,) * 2000, host="here", cores=2,
        software="", started="", rows=(),
        **{name: tuple(column.tolist()) for name, column in columns.items()},
    )  # fmt: skip
    table = RequestTable(
        arrival=np.cumsum(rng.exponential(1 / 36, 500)), input_tokens=rng.integers(16, 129, 500),
        output_tokens=rng.integers(4, 33, 500),
    )  # fmt: skip
    room = CacheRoom(block_tokens=16, blocks=10**6, token_bytes=1.0)
    kind = ReplicaKind(cost=measured_cost(made, 0), room=room, sequences=16, batch_tokens=128)
    run = run_load(table, ReplicaPool(kinds=(kind,)))
    rows = tuple(
        MeasuredRequest(
            run=0, sent=run.arrival[k], first=run.first[k], done=run.done[k], prompt=int(table.input_tokens[k]),
            tokens=int(run.made[k]),
        )
        for k in range(500)
    )  # fmt: skip
    return MeasuredServing(**{**vars(made), "rows": rows})


def test_the_law_of_a_step_is_found() -> None:
    cost = measured_cost(_record(), 0)
    for prompts, decoding, context in (
        ([], 4, 60.0),
        ([(40.0, 0.0)], 0, 0.0),
        ([(64.0, 0.0), (20.0, 30.0)], 12, 100.0),
    ):
        expected = 1e-3 + (decoding > 0) * 1e-3 + decoding * (2e-4 + context * 1e-6)
        expected += sum(1e-3 + 1e-4 * new + 1e-8 * new * (past + new / 2) for new, past in prompts)
        assert cost.seconds(prompts, decoding, context) == pytest.approx(expected, rel=0.05)


def test_the_cost_follows_the_machine_from_run_to_run() -> None:
    """Two runs, the second on a machine half as fast: its own loops say so, or its own steps do."""
    first = _record()
    names = ("step_decoding", "step_context", "step_prompts", "step_new", "step_pairs")
    twice = {name: getattr(first, name) * 3 for name in names}
    seconds = np.array(first.step_seconds)
    slower = np.concatenate([seconds, 2 * seconds, 2 * seconds])
    record = replace(
        first, rates=(36.0, 36.0), shares=(0.6, 0.6), others=(0.0, 0.0), **twice,
        step_seconds=tuple(slower), step_end=tuple(np.cumsum(slower)), step_run=(2,) * 2000 + (1,) * 2000 + (2,) * 2000,
    )  # fmt: skip
    before, after = measured_cost(first, 0), measured_cost(record, 1)
    assert after.seconds([(64.0, 0.0)], 8, 60.0) == pytest.approx(
        2 * before.seconds([(64.0, 0.0)], 8, 60.0), rel=0.02
    )
    drifted = replace(
        record, step_run=(2,) * 2000 + (0,) * 2000 + (1,) * 2000, step_end=tuple(range(6000)),
    )  # fmt: skip
    own = measured_cost(drifted, 0)
    assert own.seconds([], 8, 60.0) == pytest.approx(2 * before.seconds([], 8, 60.0), rel=0.02)


def test_recorded_requests_are_simulated_again() -> None:
    compared = compare_serving(_record(), "run.jsonl")
    assert compared.mean is not None
    assert compared.mean < 1e-9
    assert {row.figure for row in compared.rows} >= {"throughput", "end to end, p50", "end to end, p99"}
    assert compare_serving(_record(others=0.06), "run.jsonl").mean is None
    with pytest.raises(LabError, match="not known"):
        compare_serving(_record(url="http://localhost:8000"), "run.jsonl")


def test_least_squares_stay_above_zero() -> None:
    matrix = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert nonnegative_least_squares(matrix, np.array([3.0, 5.0, 7.0])) == pytest.approx([1.0, 2.0], abs=1e-6)
    assert nonnegative_least_squares(matrix, np.array([3.0, 2.0, 1.0]))[1] == 0.0
