"""Ways to serve in words, and as podsim's own command."""

from __future__ import annotations

from podsim.serving.best_search import Way
from podsim.serving.serving_plan import ServingPlan

TITLES = {"tensorrt-llm": "TensorRT-LLM", "vllm": "vLLM", "sglang": "SGLang"}


def engine_title(name: str) -> str:
    """The engine as its makers write it."""
    return TITLES.get(name, name)


def layout_words(plan: ServingPlan) -> str:
    """The layout of a replica: "tensor 4, pipeline 2, on 8 GPUs"."""
    parts = [
        f"{word} {degree}"
        for word, degree in (
            ("tensor", plan.tensor), ("pipeline", plan.pipeline), ("expert", plan.expert), ("context", plan.context),
            ("data-parallel attention", plan.data_attention),
        )
        if degree > 1
    ]  # fmt: skip
    return ", ".join(parts) or "one GPU"


def format_words(plan: ServingPlan) -> str:
    """The number formats: "fp8 weights, fp16 cache"."""
    return plan.precision if plan.precision == plan.cache else f"{plan.precision} weights, {plan.cache} cache"


def _replicas(plan: ServingPlan) -> str:
    return f"{plan.replicas} replica{'s' if plan.replicas > 1 else ''} ({layout_words(plan)})"


def way_words(way: Way) -> str:
    """A way in a sentence without its end."""
    plan, limits = (
        way.plan,
        f"at most {way.plan.max_batch} sequences and {way.plan.max_batched_tokens:,} tokens a step",
    )
    draft = f", {plan.draft_tokens} drafted tokens" if plan.draft_tokens else ""
    start = f"{engine_title(plan.engine)}, {format_words(plan)}"
    if way.prefill is None:
        return f"{start}: {_replicas(plan)}, {limits}{draft}"
    return f"{start}: {_replicas(way.prefill)} for prompts, {_replicas(plan)} for decoding, {limits}"


def short_words(plan: ServingPlan) -> str:
    """Engine, formats and degrees in few words, for tables."""
    cache = [f"kv-{plan.cache}"] if plan.cache != plan.precision else []
    draft = [f"draft{plan.draft_tokens}"] if plan.draft_tokens else []
    return " ".join([plan.engine, plan.precision, *cache, _degrees(plan), *draft])


def brief_words(way: Way) -> str:
    """A way in few words: "vllm fp16, 2 x tp4 | 1 x tp8, 64 at once"."""
    plan, pools = way.plan, [pool for pool in (way.prefill, way.plan) if pool is not None]
    words = " | ".join(f"{pool.replicas} x {_degrees(pool)}" for pool in pools)
    start = short_words(plan).replace(f" {_degrees(plan)}", "", 1)
    return f"{start}, {words}, {plan.max_batch} at once, {plan.max_batched_tokens:,} tokens"


def _degrees(plan: ServingPlan) -> str:
    degrees = (
        ("tp", plan.tensor), ("pp", plan.pipeline), ("ep", plan.expert), ("dp-attn", plan.data_attention),
    )  # fmt: skip
    return " ".join(f"{sign}{degree}" for sign, degree in degrees if degree > 1) or "tp1"
