"""Replicas of a language model for the simulator, from its plan, its cluster and what else the user says."""

from __future__ import annotations

from dataclasses import dataclass, replace

from podsim.hardware.cluster import Cluster
from podsim.hardware.nvlink import slot_link
from podsim.serving.language_engines import engine_family, load_language_engine
from podsim.serving.load.replica_pool import SCHEDULERS, ReplicaKind
from podsim.serving.load.request_table import RequestTable
from podsim.serving.replica_memory import weight_bytes
from podsim.serving.serving_plan import ServingPlan
from podsim.serving.step_cost import cache_room, step_cost
from podsim.workload.model import Model

_SCHEDULERS = {"tensorrt-llm": "trtllm", "vllm": "vllm", "sglang": "sglang"}
"""engine -> its scheduler"""
_START = 20.0
"""s. The start of an engine whose weights are there: CUDA context, graphs (an assumption)."""
_DRIVES = 2e9
"""B/s. The rate at which a node without known drives reads weights (an assumption)."""


@dataclass(frozen=True, kw_only=True)
class ReplicaOptions:
    """What a plan does not say of its replicas."""

    scheduler: str = ""
    """One of SCHEDULERS; empty: the engine's."""
    chunked: bool | None = None
    """Whether prompts may be divided; None: as the engine does."""
    swap: bool = False
    """Whether preempted sequences are swapped to the host."""
    prefix_cache: bool = True
    adapter_slots: int = 0
    adapter_rank: int = 16
    load_rate: float = 0.0
    """B/s. The rate at which a node reads weights; 0: its drives'."""


def replica_kind(
    model: Model,
    cluster: Cluster,
    plan: ServingPlan,
    options: ReplicaOptions,
    *,
    number: int = 0,
) -> ReplicaKind:
    """The replicas of a plan. Raises NoFitError where a replica holds no sequence."""
    engine = load_language_engine(plan.engine, cluster.gpu)
    name = options.scheduler or scheduler_name(plan, options.chunked)
    cost, room = step_cost(model, cluster, plan), cache_room(model, cluster, plan)
    weights = weight_bytes(model, plan)
    host = slot_link(cluster.system, copied=True).bandwidth * plan.gpus
    adapter = plan.gpus * weights * 2 * options.adapter_rank / model.hidden
    rate, latency = link_between(cluster, plan)
    tokens = plan.max_batched_tokens or engine.max_batched_tokens
    return ReplicaKind(
        cost=cost, room=room, scheduler=SCHEDULERS[name], replicas=plan.replicas, gpus=plan.gpus, model=number,
        sequences=plan.max_batch or engine.max_batch, batch_tokens=tokens, acceptance=plan.draft_acceptances,
        prefix_cache=options.prefix_cache, host_rate=host if options.swap else 0.0, adapters=options.adapter_slots,
        adapter_seconds=adapter / host, link_rate=rate, link_latency=latency,
        load_seconds=load_seconds(cluster, plan, weights, options.load_rate),
        front=engine.front, ahead=engine.plans_ahead,
    )  # fmt: skip


def scheduler_name(plan: ServingPlan, chunked: bool | None) -> str:
    """The scheduler of a plan's engine; TensorRT-LLM divides prompts only if that is asked for."""
    name = _SCHEDULERS[engine_family(plan.engine)]
    other: dict[tuple[str, bool | None], str] = {
        ("vllm", False): "prefill-first",
        ("trtllm", True): "trtllm-chunked",
    }
    return other.get((name, chunked), name)


def for_requests(kind: ReplicaKind, table: RequestTable) -> ReplicaKind:
    """Replicas that can take every prompt in one step, where none is divided."""
    if kind.scheduler.chunked:
        return kind
    longest = int((table.input_tokens + table.output_tokens).max())
    return replace(kind, batch_tokens=max(kind.batch_tokens, longest))


def link_between(cluster: Cluster, plan: ServingPlan) -> tuple[float, float]:
    """(B/s, s) of a transfer from one replica to another: all GPUs of a replica send at once.

    In a node they send over NVLink, or PCI Express; between nodes each uses its share of the adapters.
    """
    per = cluster.gpus_per_node
    if plan.gpus * plan.replicas <= per or cluster.nodes == 1:
        return plan.gpus * cluster.nvlink.bandwidth, cluster.nvlink.latency
    nics = cluster.nics * cluster.network.bandwidth * plan.gpus / per
    return nics, cluster.network.latency


def load_seconds(cluster: Cluster, plan: ServingPlan, gpu_weights: float, rate: float) -> float:
    """s. The start of a replica: its nodes read the weights from storage, then the engine starts."""
    drives = cluster.system.ssd.read_bandwidth * cluster.system.ssds if cluster.system.ssd else 0.0
    nodes = -(-plan.gpus // cluster.gpus_per_node)
    return gpu_weights * plan.gpus / ((rate or drives or _DRIVES) * nodes) + _START
