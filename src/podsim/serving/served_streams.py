"""Measured servers in an open loop: requests at a rate, as inference-perf plays chats, and requests one by one.

A chat has a prefix that its group shares, and a question of its user; both are in the cache after the first time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from podsim.axes import Floats
from podsim.errors import PodsimError, TableError
from podsim.serving.load.load_layout import for_requests
from podsim.serving.load.load_run import run_load
from podsim.serving.load.replica_pool import ReplicaKind, ReplicaPool
from podsim.serving.load.request_table import RequestTable
from podsim.serving.served_loads import Row, ServedLoad, row_count, row_kinds, row_number, served

_SIMULATED = 3_000
"""requests of a stream that are simulated at most"""
_BLOCK = 16
"""count. The tokens of a block of a cache where the row does not say."""


def serve_rate(row: Row) -> ServedLoad:
    """The simulated run of a row at a rate. Raises PodsimError for one that cannot be served."""
    table = chat_requests(row)
    (kind,) = row_kinds(
        {**row, "mode": "aggregated", "attention_tp": row.get("tp", ""), "gpus": row.get("tp", "")}
    )
    kind = replace(kind, prefix_cache=True)
    if blocks := row_count(row, "cache_blocks", 0):
        kind = replace(
            kind, room=replace(kind.room, blocks=blocks, block_tokens=row_count(row, "block_tokens", _BLOCK))
        )
    return _run(kind, table)


def _run(kind: ReplicaKind, table: RequestTable) -> ServedLoad:
    run = run_load(table, ReplicaPool(kinds=(for_requests(kind, table),)))
    if not run.answered.all():
        raise PodsimError("a request is longer than the cache of any replica")
    return served(run, kind.front, 1, len(table))


def chat_requests(row: Row) -> RequestTable:
    """The requests of chats: Poisson arrivals, users in turn, each with a question that stays the same.

    Measured first tokens and steps are those of prompts that do not grow from turn to turn, and that are cached.
    """
    rate = row_number(row, "rate_per_s")
    count = int(min(max(rate * row_number(row, "seconds", 600.0), 1), _SIMULATED))
    block, question, answer = (
        row_count(row, name, default)
        for name, default in (("block_tokens", _BLOCK), ("question_tokens", None), ("output_tokens", None))
    )
    prefix, groups = row_count(row, "prefix_tokens", 0), row_count(row, "prefixes", 1)
    user = np.arange(count) % (groups * row_count(row, "users_of_a_prefix", 1))
    blocks = np.arange((prefix + question) // block)
    owner = np.where(blocks < prefix // block, user[:, None] % groups, groups + user[:, None])
    return RequestTable(
        arrival=np.cumsum(np.random.default_rng(0).exponential(1 / rate, count)),
        input_tokens=np.full(count, prefix + question), output_tokens=np.full(count, answer),
        prefix_ids=(owner * len(blocks) + blocks).ravel(), prefix_first=np.arange(count + 1) * len(blocks),
        prefix_tokens=block,
    )  # fmt: skip


def arrivals(rows: Sequence[Row]) -> Floats:
    """s. The arrivals of requests, the first at any time; TableError for a cell that is no number."""
    return np.array(
        [row_number(row, "arrival_s") if row.get("arrival_s", "").strip("0.") else 0.0 for row in rows]
    )


def serve_requests(rows: Sequence[Row]) -> ServedLoad:
    """The simulated run of requests that one server answered, each a row. Raises PodsimError for no such server."""
    first = rows[0]
    if first.get("reason"):
        raise TableError(first["reason"])
    arrival = arrivals(rows)
    order = np.argsort(arrival, kind="stable")
    prompts, answers = (
        np.array([row_count(row, column) for row in rows]) for column in ("input_tokens", "output_tokens")
    )
    table = RequestTable(
        arrival=arrival[order] - arrival.min(), input_tokens=prompts[order], output_tokens=answers[order]
    )
    groups = row_count(first, "dp", 1)
    gpus = str(row_count(first, "tp", 1) * groups)
    (kind,) = row_kinds({
        **first, "mode": "aggregated", "attention_tp": first.get("tp", ""), "attention_dp": str(groups), "gpus": gpus,
        "ep": gpus if first.get("experts") == "parallel" else "",
        "max_sequences": str(row_count(first, "max_sequences", 0) * groups or ""),
    })  # fmt: skip
    return _run(kind, table)
