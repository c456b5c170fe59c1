"""Rules of engines' schedulers, worked out by hand: a decoding step takes 1 s, one with a chunk of a prompt 10 s."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsim.serving.load.load_run import ClosedLoop, LoadRun, run_load
from podsim.serving.load.replica_pool import SCHEDULERS, ReplicaKind, ReplicaPool
from podsim.serving.load.request_table import RequestTable
from podsim.serving.step_cost import CacheRoom, StepCost

_ENDS = np.array([0.0, 1e6])
_NONE = np.zeros((2, 2))
_COST = StepCost(
    step=1.0, request=0.0, tokens=_ENDS, tokens_seconds=np.zeros(2), mixed_seconds=np.full(2, 9.0), decode_requests=_ENDS,
    decode_context=_ENDS, decode_seconds=_NONE, prompt_new=_ENDS, prompt_past=_ENDS, prompt_seconds=_NONE,
)  # fmt: skip
_KIND = ReplicaKind(
    cost=_COST, room=CacheRoom(block_tokens=16, blocks=10_000, token_bytes=1.0), sequences=8, batch_tokens=101
)


def _run(kind: ReplicaKind, arrival: list[float], prompts: int = 100, outputs: int = 5) -> LoadRun:
    count = len(arrival)
    table = RequestTable(
        arrival=np.array(arrival), input_tokens=np.full(count, prompts), output_tokens=np.full(count, outputs)
    )
    return run_load(table, ReplicaPool(kinds=(kind,)))


def _times(run: LoadRun) -> tuple[list[float], list[float]]:
    return run.first.round(9).tolist(), run.done.round(9).tolist()


def test_vllm_decodes_beside_a_prompt() -> None:
    # the budget holds a prompt and a token; the second prompt shares its step with the first's second token
    assert _times(_run(_KIND, [0, 0])) == ([10, 20], [23, 24])


def test_sglang_lets_decoding_wait_for_all_prompts() -> None:
    assert _times(_run(replace(_KIND, scheduler=SCHEDULERS["sglang"]), [0, 0])) == ([10, 20], [24, 24])


def test_a_long_prompt_is_divided_by_the_budget_or_waits_in_one_piece() -> None:
    # 250 tokens are three chunks of at most 101; in one piece they are one step
    run = _run(_KIND, [0], prompts=250)
    assert (_times(run), run.steps) == (([30], [34]), 3 + 4)
    whole = replace(_KIND, scheduler=SCHEDULERS["trtllm"])
    assert _times(_run(whole, [0], prompts=250)) == ([10], [14])


def test_a_step_that_is_planned_ahead_sees_a_request_one_step_later() -> None:
    # it arrives in the decoding step from 10 to 11 s
    assert _run(_KIND, [0, 10.5]).first[1] == pytest.approx(21)
    assert _run(replace(_KIND, ahead=True), [0, 10.5]).first[1] == pytest.approx(22)


def test_an_idle_server_that_plans_ahead_takes_a_request_at_once() -> None:
    assert _run(replace(_KIND, ahead=True), [0, 50.0]).first[1] == pytest.approx(60)


def test_polling_takes_requests_each_third_decoding_step_and_after_a_prompt() -> None:
    # the prompt's step ends at 10 s: looked at 10, 13 and 16 s
    kind = replace(_KIND, poll=3)
    assert _run(kind, [0, 10.5], outputs=20).first[1] == pytest.approx(23)
    assert _run(kind, [0, 9.5], outputs=20).first[1] == pytest.approx(20)


def test_requests_are_held_until_there_are_enough_or_steps_have_passed() -> None:
    # held at 11, 12, 13 and 14 s, taken at 15; two are taken as soon as both are there
    kind = replace(_KIND, hold_steps=4, hold_requests=2, batch_tokens=1000)
    assert _run(kind, [0, 10.5], outputs=20).first[1] == pytest.approx(25)
    assert _run(kind, [0, 10.5, 12.5], outputs=20).first[1:] == pytest.approx([23, 23])


def test_drafts_are_accepted_by_their_depth() -> None:
    # the first draft always, the second never: two tokens a step after the first
    kind = replace(_KIND, cost=replace(_COST, decode_tokens=4), acceptance=(1.0, 0.0))
    assert _times(_run(kind, [0], outputs=9)) == ([10], [14])


@pytest.mark.parametrize("draft", [0, 2])
@pytest.mark.parametrize("name", ["vllm", "sglang", "trtllm"])
def test_steps_that_are_one_event_change_nothing(name: str, draft: int) -> None:
    draws = np.random.default_rng(1)
    table = RequestTable(
        arrival=np.zeros(60),
        input_tokens=draws.integers(50, 100, 60),
        output_tokens=draws.integers(20, 60, 60),
    )
    kind = replace(
        _KIND, scheduler=SCHEDULERS[name], poll=4, cost=replace(_COST, decode_tokens=draft + 1), acceptance=(1.0,),
        batch_tokens=150,
    )  # fmt: skip
    loop = ClosedLoop(clients=6, think=np.full(60, 0.25))
    each, merged = (
        run_load(table, ReplicaPool(kinds=(replace(kind, merge=merge),)), loop=loop) for merge in (0, 1)
    )
    assert merged.done == pytest.approx(each.done, rel=1e-9)
    assert merged.first == pytest.approx(each.first, rel=1e-9)
    assert merged.steps <= each.steps
