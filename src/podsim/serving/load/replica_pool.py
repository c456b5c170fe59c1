"""Replicas of an engine as the simulator needs them: what a step costs, the memory, the scheduler, and the pool."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.errors import PodsimError
from podsim.serving.step_cost import CacheRoom, StepCost


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """How an engine fills its steps."""

    chunked: bool
    """Whether a prompt may be divided over steps."""
    mixed: bool
    """Whether prompts share steps with decoding sequences; if not, steps of prompts come first."""
    reserve: float
    """share. The part of an answer for which memory is kept at admission: 1 means that none is ever preempted."""
    together: bool = False
    """Whether requests only join an empty replica (static batches)."""
    source: str


SCHEDULERS = {
    "vllm": Scheduler(
        chunked=True, mixed=True, reserve=0.0,
        source="vLLM V1: running requests first, chunks of prompts fill the token budget (v1/core/sched/scheduler.py)",
    ),
    "prefill-first": Scheduler(
        chunked=False, mixed=False, reserve=0.0,
        source="vLLM V0 without chunked prefill: steps of prompts come first (core/scheduler.py)",
    ),
    "trtllm": Scheduler(
        chunked=False, mixed=True, reserve=1.0,
        source="TensorRT-LLM: in-flight batching, GUARANTEED_NO_EVICT, prompts in one piece",
    ),
    "trtllm-chunked": Scheduler(
        chunked=True, mixed=True, reserve=1.0,
        source="TensorRT-LLM: in-flight batching, GUARANTEED_NO_EVICT, --enable_chunked_prefill"
    ),
    "sglang": Scheduler(
        chunked=True, mixed=False, reserve=0.7,
        source="SGLang: prefill first, new-token ratio 0.7, no mixed chunks (managers/schedule_policy.py)",
    ),
    "sglang-mixed": Scheduler(
        chunked=True, mixed=True, reserve=0.7,
        source="SGLang: --enable-mixed-chunk, prompts and decoding sequences share a step",
    ),
    "static": Scheduler(
        chunked=False, mixed=False, reserve=1.0, together=True,
        source="static batches: one is answered before the next begins"
    ),
}  # fmt: skip
"""name -> how steps are filled"""


@dataclass(frozen=True, kw_only=True)
class ReplicaKind:
    """Equal replicas of one engine."""

    cost: StepCost
    room: CacheRoom
    scheduler: Scheduler = SCHEDULERS["vllm"]
    replicas: int = 1
    gpus: int = 1
    """The GPUs of a replica."""
    model: int = 0
    """The number of the model that it serves."""
    role: str = "both"
    """The part of a request that it computes: both, prefill or decode."""
    sequences: int = 256
    """The most requests at once."""
    batch_tokens: int = 8192
    """The most tokens of a step."""
    acceptance: tuple[float, ...] = (0.7,)
    """share. The probability that a drafted token is accepted if all before it are, by depth; the last goes on."""
    front: float = 0.0
    """s. The time of a request outside the scheduler: HTTP, tokenizer, the way back of its first token."""
    poll: int = 1
    """count. The decoding steps between two looks at new requests (SGLang's scheduler-recv-interval)."""
    ahead: bool = False
    """Whether a step is planned while the one before it runs: a new request waits one step more."""
    hold_steps: int = 0
    """count. The decoding steps for which a new request waits for others, so that all groups prefill together."""
    hold_requests: int = 1
    """count. The new requests that wait no longer."""
    merge: int = 0
    """count. The least decoding steps that are one event of the simulation; 0: each step is one of its own."""
    prefix_cache: bool = True
    """Whether prefixes are kept for others."""
    host_rate: float = 0.0
    """B/s. The rate at which preempted sequences are swapped to the host; 0: they are computed again."""
    adapters: int = 0
    """The adapters (LoRA) that are in memory at once; 0: all."""
    adapter_seconds: float = 0.0
    """s. The time to load an adapter."""
    link_rate: float = float("inf")
    """B/s. The rate of a transfer of a cache to this replica."""
    link_latency: float = 0.0
    """s. The latency of such a transfer."""
    load_seconds: float = 0.0
    """s. The time from the start of a replica until its weights are loaded."""


@dataclass(frozen=True, kw_only=True)
class Autoscaling:
    """When replicas are started and stopped, as the autoscalers of Kubernetes do it."""

    least: int = 1
    """The least replicas of each model."""
    target: float = 32.0
    """The open requests of a replica that is aimed at."""
    interval: float = 15.0
    """s. The time between looks at the load (the default of Kubernetes' HorizontalPodAutoscaler)."""
    cooldown: float = 300.0
    """s. The time that a replica must be superfluous before it is stopped (its default, too)."""


@dataclass(frozen=True, kw_only=True)
class ReplicaPool:
    """Replicas, and how requests get to them."""

    kinds: tuple[ReplicaKind, ...]
    routing: str = "round-robin"
    """One of ROUTINGS of podsim.serving.load.server_state."""
    autoscaling: Autoscaling | None = None

    def __post_init__(self) -> None:
        """Raise PodsimError for a pool that cannot answer."""
        roles = {(kind.model, kind.role) for kind in self.kinds}
        for model in {kind.model for kind in self.kinds}:
            has = {role for each, role in roles if each == model}
            if "both" not in has and has != {"prefill", "decode"}:
                raise PodsimError(f"model {model}: replicas that {', '.join(has)} alone answer nothing")
        if self.autoscaling and any(kind.role != "both" for kind in self.kinds):
            raise PodsimError(
                "autoscaling: replicas that prefill or decode alone are not started and stopped"
            )

    @property
    def gpus(self) -> int:
        """The GPUs of all replicas."""
        return sum(kind.replicas * kind.gpus for kind in self.kinds)

    @property
    def models(self) -> int:
        """The number of models."""
        return max(kind.model for kind in self.kinds) + 1
