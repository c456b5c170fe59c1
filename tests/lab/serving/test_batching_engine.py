"""The engine that really runs schedules as the simulator does, and its server and generator speak to each other."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from podsim.lab.serving.batching_engine import BatchingEngine, EngineRequest
from podsim.lab.serving.load_generator import Server, fetch_steps, send_requests
from podsim.lab.serving.stream_server import StreamServer
from podsim.serving.load.load_run import run_load
from podsim.serving.load.replica_pool import ReplicaKind, ReplicaPool
from podsim.serving.load.request_table import RequestTable
from podsim.serving.step_cost import CacheRoom, StepCost

_ENDS, _FLAT = np.array([0.0, 4096.0]), np.array([[0.0, 0.0], [4.096, 4.096]])
_COST = StepCost(
    step=0.003, request=0.0, tokens=np.array([0.0, 1.0]), tokens_seconds=np.zeros(2), decode_requests=_ENDS,
    decode_context=_ENDS, decode_seconds=_FLAT, prompt_new=_ENDS, prompt_past=_ENDS, prompt_seconds=_FLAT / 10,
)  # fmt: skip


class _Counting:
    """A network whose tokens count up."""

    def chunk(self, slot: int, tokens: Sequence[int], past: int) -> int:
        return past + len(tokens)

    def decode(self, slots: Sequence[int], tokens: Sequence[int], pasts: Sequence[int]) -> list[int]:
        return [past + 1 for past in pasts]


def _requests(count: int) -> RequestTable:
    rng = np.random.default_rng(5)
    return RequestTable(
        arrival=np.cumsum(rng.exponential(0.02, count)), input_tokens=rng.integers(1, 150, count),
        output_tokens=rng.integers(1, 20, count),
    )  # fmt: skip


def test_the_engine_schedules_as_the_simulator() -> None:
    table = _requests(300)
    engine, clock, coming = BatchingEngine(_Counting(), sequences=6, budget=64), 0.0, 0
    done = np.zeros(len(table))
    while coming < len(table) or engine.is_busy:
        if not engine.is_busy:
            clock = max(clock, float(table.arrival[coming]))
        while coming < len(table) and table.arrival[coming] <= clock:
            prompt, output = int(table.input_tokens[coming]), int(table.output_tokens[coming])
            engine.waiting.append(EngineRequest(number=coming, prompt=[0] * prompt, output=output))
            coming += 1
        step = engine.step()
        clock += _COST.step + 0.001 * step.decoding + 0.0001 * step.new
        for number, _, is_last in step.tokens:
            done[number] = clock if is_last else done[number]
    room = CacheRoom(block_tokens=16, blocks=10**6, token_bytes=1.0)
    kind = ReplicaKind(cost=_COST, room=room, sequences=6, batch_tokens=64)
    np.testing.assert_allclose(run_load(table, ReplicaPool(kinds=(kind,))).done, done, rtol=1e-9)


def test_answers_stream_over_http() -> None:
    server = StreamServer(BatchingEngine(_Counting(), sequences=2, budget=8), longest=64, vocab=100)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    where = Server(host="127.0.0.1", port=server.port)
    rows, _ = send_requests(where, [[1] * 20, [2] * 3, [3] * 9, [4]], [5, 7, 1, 2], clients=3)
    assert [row.tokens for row in rows] == [5, 7, 1, 2]
    assert all(row.sent <= row.first <= row.done and not row.error for row in rows)
    refused, _ = send_requests(where, [[1] * 63], [5], times=[0.0])
    assert "400" in refused[0].error
    steps = np.array(fetch_steps(where))
    thread.join(5.0)
    assert not thread.is_alive()
    assert steps[:, 5].sum() == 20 + 3 + 9 + 1
    assert steps[:, 2].sum() == 4 + 6 + 0 + 1
    assert steps[:, 2].max() <= 2
    assert (steps[:, 5] + steps[:, 2]).max() <= 8
