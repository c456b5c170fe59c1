"""Requests through a pool of replicas, one by one; the event loop and the steps are in C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from podsim.axes import Floats, Ints
from podsim.errors import PodsimError
from podsim.native import c_struct
from podsim.serving.load.replica_pool import ReplicaKind, ReplicaPool
from podsim.serving.load.request_table import RequestTable
from podsim.serving.load.server_state import (
    ADAPTER,
    ALL_DONE,
    ANSWERED,
    BINS,
    DEPTHS,
    EVENT,
    FINISHED,
    FLIGHTS,
    GIVEN_UP,
    GROUPS,
    KIND,
    NUMBERS,
    OFF,
    PAUSE,
    READY,
    REFUSED,
    REPLICA,
    REQUEST,
    ROLES,
    ROUTINGS,
    STEPS,
    TIMES,
    UNIT,
    Pool,
    Requests,
    State,
    advance,
)

Progress = Callable[[int, int], None]
"""is called with (requests that have ended, all)"""
_PAUSE = 100_000
"""steps between looks at the keyboard"""
_MOST_UNITS = 200_000_000


@dataclass(frozen=True, kw_only=True)
class ClosedLoop:
    """Clients of which each waits for its answer, thinks, and asks again."""

    clients: int
    think: Floats
    """s. The time for which a client thinks before each request."""


@dataclass(frozen=True, kw_only=True)
class LoadRun:
    """What happened to each request, and what the replicas did."""

    table: RequestTable
    arrival: Floats
    """s. The arrivals; in a closed loop those that came about."""
    admitted: Floats
    """s. The start of each request's first step."""
    first: Floats
    """s. The time of the first token."""
    done: Floats
    """s. The end."""
    made: Ints
    """The tokens of each answer."""
    cached: Ints
    """The tokens of each prompt that were in the prefix cache."""
    preempted: Ints
    """The number of times that each request was preempted."""
    answered: Any
    """Whether each request was answered."""
    given_up: Any
    """Whether each request's client gave up."""
    refused: Any
    """Whether no replica could ever hold the request."""
    gaps: Ints
    """The number of times between tokens, by group of requests (in their order) and bin (`gap_edges`)."""
    replicas: Any
    """The records of REPLICA."""
    pool: ReplicaPool
    steps: int
    """The number of steps of all replicas."""
    on_seconds: Floats
    """s. The time that each replica was loaded or loading."""


def run_load(
    table: RequestTable,
    pool: ReplicaPool,
    *,
    loop: ClosedLoop | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> LoadRun:
    """Serve all requests, which arrive by their table, or in a closed loop.

    Ctrl-C raises KeyboardInterrupt between two lots of steps. Raises PodsimError for tables that this pool cannot serve.
    """
    requests, units, unit_tokens = _requests(table, pool, loop)
    wired = _pool(pool, table, units, unit_tokens, seed)
    state = _state(requests, wired, pool)
    arguments = c_struct(requests), c_struct(wired), c_struct(state)
    reason = PAUSE
    while reason == PAUSE:
        reason = advance(*arguments, _PAUSE)
        if progress is not None:
            progress(int(state.number[FINISHED]), len(table))
    assert reason == ALL_DONE, "requests are left that no event can serve"
    return _run(table, pool, state)


def _requests(table: RequestTable, pool: ReplicaPool, loop: ClosedLoop | None) -> tuple[Requests, int, int]:
    """(columns for C, number of different units of prefixes, tokens of a unit)."""
    count = len(table)
    if len(table.model) and int(table.model.max()) >= pool.models:
        raise PodsimError(f"requests ask for model {int(table.model.max())}; the pool has {pool.models}")
    prefix, first, units, unit_tokens = _units(table, pool)
    zeros = np.zeros(count, np.int64)
    requests = Requests(
        arrival=np.ascontiguousarray(loop.think if loop else table.arrival, np.float64),
        input=np.ascontiguousarray(table.input_tokens, np.int64),
        output=np.ascontiguousarray(table.output_tokens, np.int64), model=table.model if len(table.model) else zeros,
        adapter=table.adapter if len(table.adapter) else zeros - 1,
        patience=table.patience if len(table.patience) else np.full(count, np.inf), prefix=prefix, prefix_first=first,
        rows=count, clients=loop.clients if loop else 0,
    )  # fmt: skip
    return requests, units, unit_tokens


def _units(table: RequestTable, pool: ReplicaPool) -> tuple[Ints, Ints, int, int]:
    """(units of all prompts from 0, position of each request's first, number of different ones, tokens of a unit).

    A unit is a block of the trace's prefixes, or as many as make one block of the cache.
    """
    nothing = np.zeros(1, np.int64), np.zeros(len(table) + 1, np.int64), 0, 1
    if not len(table.prefix_ids) or not any(kind.prefix_cache for kind in pool.kinds):
        return nothing
    block = max(kind.room.block_tokens for kind in pool.kinds)
    each = -(-block // table.prefix_tokens)
    counts = np.diff(table.prefix_first)
    start = np.repeat(table.prefix_first[:-1], counts)
    is_last = (np.arange(len(table.prefix_ids)) - start) % each == each - 1
    ids, units = np.unique(table.prefix_ids[is_last], return_inverse=True)
    if not len(ids):
        return nothing
    replicas = sum(kind.replicas for kind in pool.kinds)
    if len(ids) * replicas > _MOST_UNITS:
        raise PodsimError(
            f"{len(ids):,} different blocks of prefixes on {replicas} replicas: at most {_MOST_UNITS:,} in all; take "
            "fewer requests, or no prefix cache"
        )
    first = np.concatenate([[0], np.cumsum(counts // each)])
    return units.astype(np.int64), first.astype(np.int64), len(ids), table.prefix_tokens * each


def _pool(pool: ReplicaPool, table: RequestTable, units: int, unit_tokens: int, seed: int) -> Pool:
    """The pool as C takes it."""
    kinds, tables, at = np.zeros(len(pool.kinds), KIND), [], 0
    for record, kind in zip(kinds, pool.kinds, strict=True):
        flat = _tables(kind)
        _fill_kind(record, kind, at)
        tables.append(flat)
        at += len(flat)
    scaling = pool.autoscaling
    return Pool(
        kind=kinds, table=np.concatenate(tables), replicas=sum(kind.replicas for kind in pool.kinds),
        models=pool.models, units=units, unit_tokens=unit_tokens, slots=max(kind.sequences for kind in pool.kinds),
        adapter_slots=max(kind.adapters for kind in pool.kinds), adapters=int(table.adapter.max(initial=-1)) + 1,
        routing=ROUTINGS.index(pool.routing), least=scaling.least if scaling else 0,
        interval=scaling.interval if scaling else 0.0, target=scaling.target if scaling else 1.0,
        cooldown=scaling.cooldown if scaling else 0.0, seed=seed,
    )  # fmt: skip


def _tables(kind: ReplicaKind) -> Floats:
    """The axes and seconds of a kind, in the order that server_times.c reads."""
    cost = kind.cost
    parts = (
        cost.tokens, cost.tokens_seconds, cost.prompted_seconds, cost.decode_requests, cost.decode_context,
        cost.decode_seconds, cost.prompt_new, cost.prompt_past, cost.prompt_seconds,
    )  # fmt: skip
    return np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])


def _fill_kind(record: Any, kind: ReplicaKind, at: int) -> None:
    """Write a kind into its record."""
    cost, room, scheduler = kind.cost, kind.room, kind.scheduler
    values: dict[str, float] = {
        name: getattr(kind, name)
        for name in ("model", "sequences", "batch_tokens", "poll", "ahead", "merge", "hold_steps",
                     "hold_requests", "host_rate", "adapters", "adapter_seconds", "link_rate",
                     "link_latency", "load_seconds")
    }  # fmt: skip
    values |= {name: getattr(scheduler, name) for name in ("chunked", "mixed", "together", "reserve")}
    values |= {name: getattr(room, name) for name in ("block_tokens", "blocks", "token_bytes", "state_bytes")}
    values |= {
        "role": ROLES.index(kind.role), "stages": cost.stages, "step": cost.step, "request": cost.request,
        "tokens": len(cost.tokens), "decode_requests": len(cost.decode_requests), "table": at,
        "decode_contexts": len(cost.decode_context), "prompt_news": len(cost.prompt_new),
        "prompt_pasts": len(cost.prompt_past), "state_blocks": room.state_blocks, "draft": cost.decode_tokens - 1,
        "caching": kind.prefix_cache,
    }  # fmt: skip
    for name, value in values.items():
        record[name] = value
    record["acceptance"] = (*kind.acceptance, *kind.acceptance[-1:] * DEPTHS)[:DEPTHS]


def _state(requests: Requests, wired: Pool, pool: ReplicaPool) -> State:
    """The state before the first request."""
    count, replicas = requests.rows, wired.replicas
    before, replica = np.zeros((), REQUEST), np.zeros(replicas, REPLICA)
    for name in ("admitted", "first", "done", "source", "replica", "flight", "next", "prior"):
        before[name] = -1
    kinds = np.repeat(np.arange(len(pool.kinds)), [kind.replicas for kind in pool.kinds])
    replica["kind"], replica["free"] = kinds, wired.kind["blocks"][kinds]
    for name in ("head", "tail", "oldest", "newest"):
        replica[name] = -1
    replica["status"] = READY
    if pool.autoscaling:
        for model in range(pool.models):
            replica["status"][
                np.flatnonzero(wired.kind["model"][kinds] == model)[pool.autoscaling.least :]
            ] = OFF
    unit, adapter = (
        np.zeros(max(replicas * wired.units, 1), UNIT),
        np.zeros(max(replicas * wired.adapter_slots, 1), ADAPTER),
    )
    unit["users"], adapter["number"] = -1, -1
    events = 2 * count + replicas * (FLIGHTS + 4) + 64
    return State(
        request=np.full(count, before), replica=replica, unit=unit, adapter=adapter,
        asked=np.zeros(replicas * (wired.adapters + 1), np.int32), event=np.zeros(events, EVENT),
        running=np.zeros(replicas * wired.slots, np.int64), dirty=np.zeros(replicas, np.int64),
        line=np.full(2 * wired.models, -1, np.int64), gaps=np.zeros(GROUPS * BINS, np.int64),
        number=np.zeros(NUMBERS, np.int64), time=np.zeros(TIMES),
    )  # fmt: skip


def _run(table: RequestTable, pool: ReplicaPool, state: State) -> LoadRun:
    """What happened, as columns."""
    request, replicas = state.request, state.replica
    end = float(request["done"].max())
    still_on = np.where(replicas["status"] != OFF, end - replicas["on_since"], 0.0)
    return LoadRun(
        table=table, arrival=request["arrived"], admitted=request["admitted"], first=request["first"],
        done=request["done"],
        made=request["made"], cached=request["cached"], preempted=request["preempted"],
        answered=request["status"] == ANSWERED, given_up=request["status"] == GIVEN_UP,
        refused=request["status"] == REFUSED, gaps=state.gaps.reshape(GROUPS, BINS), replicas=replicas, pool=pool,
        steps=int(state.number[STEPS]), on_seconds=replicas["on"] + still_on,
    )  # fmt: skip
