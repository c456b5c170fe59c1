"""The simulated server: its steps cost what the law says, memory is conserved, and each part of it does its work."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from podsim.errors import PodsimError
from podsim.serving.load.load_run import ClosedLoop, LoadRun, run_load
from podsim.serving.load.replica_pool import SCHEDULERS, Autoscaling, ReplicaKind, ReplicaPool
from podsim.serving.load.request_streams import RequestStream, draw_requests
from podsim.serving.load.request_table import RequestTable
from podsim.serving.step_cost import CacheRoom, StepCost

_AXIS = np.array([0.0, 64.0, 4096.0])
_COST = StepCost(
    step=0.01, request=1e-4, tokens=_AXIS, tokens_seconds=np.array([0.0, 0.002, 0.1]), decode_requests=_AXIS,
    decode_context=_AXIS, decode_seconds=1e-8 * _AXIS[:, None] * _AXIS, prompt_new=_AXIS, prompt_past=_AXIS,
    prompt_seconds=1e-9 * _AXIS[:, None] * (_AXIS + _AXIS[:, None] / 2),
)  # fmt: skip
_ROOM = CacheRoom(block_tokens=16, blocks=4000, token_bytes=1e5)
_KIND = ReplicaKind(cost=_COST, room=_ROOM, sequences=64, batch_tokens=512)


def _run(kind: ReplicaKind = _KIND, stream: RequestStream | None = None, **pool: object) -> LoadRun:
    table = draw_requests(stream or RequestStream(requests=1000, rate=20.0))
    run = run_load(table, ReplicaPool(kinds=(kind,), **pool))  # type: ignore[arg-type]
    _conserved(run)
    return run


def _conserved(run: LoadRun) -> None:
    """Every request ended, in order, and every block was given back."""
    replicas = run.replicas
    assert not replicas["waiting"].any()
    assert not replicas["running"].any()
    assert not replicas["reserved"].any()
    answered = run.answered
    assert (run.made[answered] == run.table.output_tokens[answered]).all()
    times = [column[answered] for column in (run.arrival, run.admitted, run.first, run.done)]
    assert all((sooner <= later).all() for sooner, later in pairwise(times))
    assert (answered.astype(int) + run.given_up + run.refused == 1).all()
    if not len(run.table.prefix_ids):
        blocks = np.array([kind.room.blocks for kind in run.pool.kinds])[replicas["kind"]]
        assert (replicas["free"] == blocks).all()


def test_a_request_alone_takes_the_steps_of_the_law() -> None:
    table = RequestTable(arrival=np.zeros(1), input_tokens=np.array([700]), output_tokens=np.array([5]))
    run = run_load(table, ReplicaPool(kinds=(_KIND,)))
    first = _COST.seconds([(512, 0)], 0, 0) + _COST.seconds([(188, 512)], 0, 0)
    assert run.first[0] == pytest.approx(first, rel=1e-12)
    rest = sum(_COST.seconds([], 1, context) for context in range(700, 704))
    assert run.done[0] == pytest.approx(first + rest, rel=1e-12)


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("blocks", [4000, 200])
def test_every_scheduler_answers_all_and_gives_all_back(name: str, blocks: int) -> None:
    kind = replace(_KIND, scheduler=SCHEDULERS[name], room=replace(_ROOM, blocks=blocks), batch_tokens=2048)
    stream = RequestStream(
        requests=1000, rate=30.0, input_tokens="lognormal:300:0.7", output_tokens="exponential:60"
    )
    run = _run(kind, replace(stream, input_tokens="uniform:100:1000"))
    assert run.answered.all()
    assert run.replicas["most_blocks"].max() <= blocks
    if SCHEDULERS[name].reserve == 1.0:
        assert not run.preempted.any()
    elif blocks == 200:
        assert run.preempted.any()


def test_swapping_spares_the_prompts() -> None:
    tight = replace(_KIND, room=replace(_ROOM, blocks=200))
    stream = RequestStream(requests=500, rate=30.0, output_tokens="200")
    again, swapped = _run(tight, stream), _run(replace(tight, host_rate=20e9), stream)
    assert again.preempted.any()
    assert swapped.preempted.any()
    assert again.replicas["prompt_tokens"].sum() > swapped.replicas["prompt_tokens"].sum() == 500 * 512


def test_shared_prefixes_are_computed_once() -> None:
    stream = RequestStream(requests=1000, rate=20.0, shared_tokens=256, shared_groups=4)
    kept, lost = _run(stream=stream), _run(replace(_KIND, prefix_cache=False), stream)
    assert kept.cached.sum() > 0.95 * 256 * 1000
    assert not lost.cached.any()
    assert kept.first.sum() < lost.first.sum()
    small = _run(replace(_KIND, room=replace(_ROOM, blocks=150)), replace(stream, shared_groups=100))
    assert 0 < small.cached.sum() < 0.8 * kept.cached.sum()


def test_routing_by_prefix_finds_the_replica_that_has_it() -> None:
    stream = RequestStream(requests=2000, rate=60.0, shared_tokens=400, shared_groups=60)
    kind = replace(_KIND, replicas=4, room=replace(_ROOM, blocks=1200))
    aware, turns = _run(kind, stream, routing="prefix-aware"), _run(kind, stream, routing="round-robin")
    assert aware.cached.sum() > 1.2 * turns.cached.sum()


def test_a_disaggregated_answer_waits_for_its_cache() -> None:
    kinds = tuple(
        replace(_KIND, role=role, link_rate=1e9, link_latency=0.005) for role in ("prefill", "decode")
    )
    table = RequestTable(arrival=np.zeros(1), input_tokens=np.array([500]), output_tokens=np.array([3]))
    run = run_load(table, ReplicaPool(kinds=kinds))
    first = _COST.seconds([(500, 0)], 0, 0)
    moved = 500 * 1e5 / 1e9 + 0.005
    assert run.first[0] == pytest.approx(first)
    assert run.done[0] == pytest.approx(first + moved + sum(_COST.seconds([], 1, k) for k in (500, 501)))
    many = run_load(draw_requests(RequestStream(requests=1000, rate=10.0)), ReplicaPool(kinds=kinds))
    _conserved(many)
    assert many.answered.all()


def test_clients_give_up_and_leave_nothing_behind() -> None:
    run = _run(stream=RequestStream(requests=1000, rate=200.0, patience=5.0))
    assert 100 < run.given_up.sum() < 900
    waited = run.done - run.arrival
    assert waited[run.given_up].mean() < 5.0


def test_closed_loops_never_have_more_requests_than_clients() -> None:
    table = draw_requests(RequestStream(requests=500, rate=float("inf")))
    loop = ClosedLoop(clients=8, think=np.full(500, 0.1))
    run = run_load(table, ReplicaPool(kinds=(_KIND,)), loop=loop)
    events = np.concatenate(
        [np.column_stack([run.arrival, np.ones(500)]), np.column_stack([run.done, -np.ones(500)])]
    )
    events = events[np.lexsort((events[:, 1], events[:, 0]))]
    assert np.cumsum(events[:, 1]).max() == 8


def test_adapters_share_their_slots() -> None:
    stream = RequestStream(requests=500, rate=20.0, adapters=20)
    free, tight = _run(stream=stream), _run(replace(_KIND, adapters=2, adapter_seconds=0.01), stream)
    assert tight.replicas["full_adapters"].sum() > 0.1
    assert tight.done.sum() > free.done.sum()


def test_replicas_start_when_many_wait_and_stop_when_few_do() -> None:
    scaling = Autoscaling(least=1, target=8.0, interval=5.0, cooldown=30.0)
    kind = replace(_KIND, replicas=4, load_seconds=10.0)
    bursts = RequestStream(requests=5000, rate=8.0, arrivals="bursts:20s:100s")
    scaled, always = _run(kind, bursts, autoscaling=scaling), _run(kind, bursts)
    assert scaled.on_seconds.sum() < 0.7 * always.on_seconds.sum()
    assert (scaled.replicas["steps"] > 0).all()
    assert scaled.first.sum() > always.first.sum()


def test_stages_overlap_batches() -> None:
    stream = RequestStream(requests=2000, rate=float("inf"), output_tokens="64")
    alone, staged = (
        _run(stream=stream),
        _run(replace(_KIND, cost=replace(_COST, stages=4), sequences=64), stream),
    )
    assert staged.done.max() < 0.6 * alone.done.max()


def test_drafts_give_tokens_as_often_as_they_are_accepted() -> None:
    drafting = replace(_KIND, cost=replace(_COST, decode_tokens=4), acceptance=(0.6,))
    run = _run(drafting, RequestStream(requests=400, rate=1.0, output_tokens="500"))
    steps = (run.replicas["sequences"].sum() - 400) / 400
    assert 499 / steps == pytest.approx((1 - 0.6**4) / (1 - 0.6), rel=0.02)


def test_models_have_replicas_of_their_own() -> None:
    kinds = (_KIND, replace(_KIND, model=1, replicas=2))
    table = draw_requests(RequestStream(requests=1000, rate=20.0, shares=(0.3, 0.7)))
    run = run_load(table, ReplicaPool(kinds=kinds))
    asked = np.bincount(table.model, table.input_tokens)
    assert run.replicas["prompt_tokens"][0] == asked[0]
    assert run.replicas["prompt_tokens"][1:].sum() == asked[1]


def test_what_no_replica_holds_is_refused() -> None:
    run = _run(
        replace(_KIND, room=replace(_ROOM, blocks=50)),
        RequestStream(requests=100, rate=1.0, input_tokens="uniform:500:1500"),
    )
    assert (run.refused == (-(-(run.table.input_tokens + 128) // 16) > 50)).all()
    with pytest.raises(PodsimError, match="alone answer nothing"):
        ReplicaPool(kinds=(replace(_KIND, role="prefill"),))
    with pytest.raises(PodsimError, match="request 2: arrival"):
        RequestTable(
            arrival=np.array([1.0, 0.5]), input_tokens=np.ones(2, int), output_tokens=np.ones(2, int)
        )


def test_bursts_have_the_rate_that_is_asked_for() -> None:
    for arrivals in ("poisson", "even", "gamma:3", "bursts:1s:3s"):
        times = draw_requests(RequestStream(requests=50_000, rate=20.0, arrivals=arrivals)).arrival
        assert len(times) / times[-1] == pytest.approx(20.0, rel=0.1)
