"""A measured server under a load, asked as it was measured: a row of canonical columns -> what podsim says of it.

Clients in a closed loop, all at once, ask for requests of one pool until all are answered. The whole run counts, with
its first burst, its ramp and its tail. The columns are those of docs/measured-rows.md; a blank one is the engine's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from podsim.axes import Floats
from podsim.errors import ClusterError, NoFitError, PodsimError, TableError
from podsim.hardware.catalog import load_gpu, load_system
from podsim.hardware.cluster import Cluster
from podsim.hardware.cluster_names import server_of
from podsim.hardware.parts import Gpu
from podsim.packaged import packaged_toml
from podsim.serving.language_engines import load_language_engine
from podsim.serving.language_setup import read_format
from podsim.serving.load.load_layout import ReplicaOptions, for_requests, replica_kind
from podsim.serving.load.load_run import ClosedLoop, LoadRun, run_load
from podsim.serving.load.replica_pool import ReplicaKind, ReplicaPool
from podsim.serving.load.request_table import RequestTable
from podsim.serving.serving_gpus import read_serving_cluster
from podsim.serving.serving_plan import ServingPlan
from podsim.workload.catalog import load_model
from podsim.workload.model import Model

Row = Mapping[str, str]
_WAVES = 10
"""requests of a client where the row does not say"""
_LEAST_WAVES, _MOST_TOKENS = 3, 3e6
"""waves that are simulated at least; tokens of answers above which steps are merged"""
_MERGED = 1 / 128
"""share of an answer whose decoding steps are one event, where several replicas answer"""
_MOST_WORK = 3e6
"""requests times clients above which waves are fewer than the run's"""
_DECODE = (
    "attention_tp",
    "attention_dp",
    "ep",
    "workers",
    "decode_gpus",
    "max_sequences",
    "max_batched_tokens",
)
_PREFILL = tuple(f"prefill_{name.removeprefix('decode_')}" for name in _DECODE)
_TIGHT, _SMALL = 0.98, 2048
"""share of memory, and tokens of a step, of a server that has hardly room beside its weights"""
_DRAFTS = {"mtp": 1, "eagle": 3}
"""kind of draft -> tokens that it proposes where the row does not say"""


@dataclass(frozen=True, kw_only=True)
class ServedLoad:
    """What podsim says of a row; arrays have an entry a request."""

    first_token: Floats
    """s. The times to the first token."""
    each_token: Floats
    """s. The times of each further token."""
    end_to_end: Floats
    """s. The times end to end."""
    seconds: float
    """s. The time from the first request to the last answer, of all waves."""
    input_tokens: float
    """count. The tokens of all prompts."""
    output_tokens: float
    """count. The tokens of all answers."""
    gpus: int
    decode_gpus: int

    @property
    def mean_gap(self) -> float:
        """s. The mean time between tokens."""
        return float(self.each_token.mean())


def serve_row(row: Row) -> ServedLoad:
    """The simulated run of a row. Raises PodsimError for one that cannot be served."""
    table, clients, waves = row_requests(row)
    kinds = row_kinds(row)
    front = kinds[0].front
    merge = max(round(float(table.output_tokens.sum()) / _MOST_TOKENS), 1)
    if sum(kind.replicas for kind in kinds) > 1:  # else the steps of others would cut each other's short
        merge = max(merge, round(float(table.output_tokens.mean()) * _MERGED))
    pool = ReplicaPool(kinds=tuple(replace(for_requests(kind, table), merge=merge) for kind in kinds))
    run = run_load(table, pool, loop=ClosedLoop(clients=clients, think=np.full(len(table), front)))
    if not run.answered.all():
        raise PodsimError("a request is longer than the cache of any replica")
    return served(run, front, clients, waves)


def served(run: LoadRun, front: float, clients: int, waves: int) -> ServedLoad:
    """The figures of a run, whose steady state goes on for the waves that were not simulated."""
    kinds, table = run.pool.kinds, run.table
    seconds, share = float(run.done.max()), waves * clients / len(table)
    if share > 1:
        done = np.sort(run.done)
        begin, end = done[clients - 1], float(run.arrival.max())
        rate = max(np.searchsorted(done, end) - clients, 1) / max(end - begin, 1e-9)
        seconds += (waves * clients - len(table)) / rate
    return ServedLoad(
        first_token=run.first - run.arrival + front,
        each_token=(run.done - run.first) / np.maximum(table.output_tokens - 1, 1),
        end_to_end=run.done - run.arrival + front, seconds=seconds, input_tokens=share * float(table.input_tokens.sum()),
        output_tokens=share * float(table.output_tokens.sum()), gpus=run.pool.gpus,
        decode_gpus=sum(kind.replicas * kind.gpus for kind in kinds if kind.role != "prefill"),
    )  # fmt: skip


def row_requests(row: Row) -> tuple[RequestTable, int, int]:
    """(the requests that are simulated, the clients, the waves of the run): uniform lengths, or equal ones."""
    clients, waves = row_count(row, "concurrency"), row_count(row, "waves", _WAVES)
    shortest = min(row_number(row, "shortest", 1.0), 1.0)
    prompt, answer = row_count(row, "input_tokens"), row_count(row, "output_tokens")
    simulated = int(np.clip(_MOST_WORK / clients**2, _LEAST_WAVES, waves))
    draws, count = np.random.default_rng(0), clients * simulated
    tokens = [draws.integers(int(shortest * most), most + 1, count) for most in (prompt, answer)]
    table = RequestTable(arrival=np.zeros(count), input_tokens=tokens[0], output_tokens=tokens[1])
    return table, clients, waves


def row_kinds(row: Row) -> tuple[ReplicaKind, ...]:
    """The replicas of a row: of both parts of a request, or some that prefill and some that decode."""
    if row.get("mode") != "disaggregated":
        return (_kind(row, _DECODE, row_count(row, "gpus", 1)),)
    roles = (("prefill", _PREFILL, "prefill_gpus"), ("decode", _DECODE, "decode_gpus"))
    return tuple(replace(_kind(row, names, row_count(row, gpus)), role=role) for role, names, gpus in roles)


def _kind(row: Row, names: tuple[str, ...], gpus: int) -> ReplicaKind:
    """The replicas of one role, whose columns have these names."""
    columns = dict(zip(_DECODE, names, strict=True))
    degrees = {name: row_count(row, columns[name], 1) for name in ("attention_tp", "attention_dp", "ep")}
    experts = row_count(row, "experts_tp", 1) * degrees["ep"] if names == _DECODE else 1
    tensor = max(degrees["attention_tp"] * degrees["attention_dp"], experts)
    pipeline = row_count(row, "pp", 1) if names == _DECODE else 1
    draft = row_count(row, "draft_tokens", _DRAFTS.get(row.get("draft", ""), 0)) if names == _DECODE else 0
    given = {
        "precision": row.get("experts_precision") or row.get("precision", ""), "engine": row["engine"],
        "release": row.get("engine_version", ""), "cache": row.get("kv_cache", ""), "kept": _kept(row),
        "tensor": tensor, "attention_dp": tensor // degrees["attention_tp"], "ep": degrees["ep"], "pp": pipeline,
        "replicas": row_count(row, columns["workers"], max(gpus // (tensor * pipeline), 1)), "draft": draft,
        "max_batch": row_count(row, columns["max_sequences"], 0),
        "max_batched_tokens": row_count(row, columns["max_batched_tokens"], 0),
        "memory_share": min(row_number(row, "memory_share", 0.0), 1.0), "graphs": row_count(row, "graph_tokens", 0),
        "poll": row_count(row, "poll", 1) if names == _DECODE else 1,
        "hold_steps": row_count(row, "hold_steps", 0) if names == _DECODE else 0,
        "hold_requests": row_count(row, "hold_requests", 0), "scheduler": row.get("scheduler", ""),
    }  # fmt: skip
    return _cached_kind(row["model"], row["gpu"], max(gpus, tensor * pipeline), tuple(given.items()))


def _kept(row: Row) -> tuple[str, ...]:
    """The ops that keep 16 bits: those that the row names, or all but experts where only those have another format."""
    if row.get("kept"):
        return tuple(row["kept"].split())
    return ("",) if row.get("experts_precision", "") not in ("", row.get("precision", "")) else ()


@lru_cache(maxsize=4096)
def _cached_kind(model_name: str, gpu: str, gpus: int, items: tuple[tuple[str, Any], ...]) -> ReplicaKind:
    model, cluster = load_model(model_name), cluster_of(gpu, gpus)
    return make_kind(model, cluster, dict(items))


def make_kind(model: Model, cluster: Cluster, given: Mapping[str, Any]) -> ReplicaKind:
    """The replicas of a row's cells. Raises PodsimError for what no engine runs, NoFitError for too little memory."""
    engine = load_language_engine(release_of(str(given["engine"]), str(given["release"])), cluster.gpu)
    precision = gpu_format(str(given["precision"]), cluster.gpu)
    groups = int(given["attention_dp"]) if engine.limits_groups else 1
    plan = ServingPlan(
        engine=engine.name, precision=precision, kept=given["kept"],
        cache=read_format(str(given["cache"])) or ("fp8" if precision in engine.cache_follows else "bf16"),
        tensor=given["tensor"], data_attention=given["attention_dp"], expert=given["ep"], pipeline=given["pp"],
        replicas=given["replicas"], max_batch=given["max_batch"], graph_tokens=given["graphs"],
        max_batched_tokens=groups * (given["max_batched_tokens"] or engine.max_batched_tokens),
        draft_tokens=given["draft"], memory_share=given["memory_share"], acceptances=acceptances_of(model.name),
    )  # fmt: skip
    options = ReplicaOptions(prefix_cache=False, scheduler=str(given["scheduler"]))
    try:
        kind = replica_kind(model, cluster, plan, options)
    except NoFitError:  # the server ran: with the least beside its weights
        kind = replica_kind(
            model, cluster, replace(plan, memory_share=_TIGHT, max_batched_tokens=_SMALL), options
        )
    held = given["hold_requests"] or _groups_served(plan.data_attention)
    return replace(kind, poll=given["poll"], hold_steps=given["hold_steps"], hold_requests=held)


def acceptances_of(model: str) -> tuple[float, ...]:
    """share. How likely a token that a model's own layer drafts is accepted, by depth."""
    curves = packaged_toml("serving/draft_acceptance.toml")
    return tuple(curves.get(model, curves["other"]))


def _groups_served(groups: int) -> int:
    """count. The requests after which, on average, each of some groups has one (the coupon collector's problem)."""
    return round(groups * sum(1 / left for left in range(1, groups + 1)))


def release_of(engine: str, release: str) -> str:
    """The name by which an engine of a release is loaded."""
    return f"{engine} {release}" if release[:1].isdigit() else engine


def gpu_format(text: str, gpu: Gpu) -> str:
    """The format of weights as a GPU's kernels run it: mxfp4 with inputs in mxfp8 where the GPU has fp4, else 16 bits."""
    precision = read_format(text) or "bf16"
    if precision == "mxfp4":
        return "w4a8_mxfp4_mxfp8" if "fp4" in gpu.peaks else "w4a16_mxfp4"
    return precision


@lru_cache(maxsize=256)
def cluster_of(gpu: str, gpus: int) -> Cluster:
    """Nodes with at least as many of a GPU as are asked for; the last may be partly used."""
    try:
        return read_serving_cluster(f"{gpus}x{gpu}", None)
    except ClusterError:
        per = load_system(server_of(load_gpu(gpu).name)).gpus
        return read_serving_cluster(f"{-(-gpus // per) * per}x{gpu}", None)


def row_count(row: Row, column: str, default: int | None = None) -> int:
    """A whole number from 1 (0 where that is the default); the default where blank, TableError for another cell."""
    cell = row.get(column, "")
    if not cell and default is not None:
        return default
    if not (cell.isdecimal() and len(cell) < 9 and (int(cell) or default == 0)):
        raise TableError(f"{column}={cell[:40]!r} is not a whole number from 1")
    return int(cell)


def row_number(row: Row, column: str, default: float | None = None) -> float:
    """A number above 0; the default where blank, TableError for another cell."""
    cell = row.get(column, "")
    if not cell and default is not None:
        return default
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise TableError(f"{column}={cell[:40]!r} is no number above 0")
    return value
