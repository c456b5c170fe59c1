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
    plan, limits = way.plan, f"at most {way.plan.max_batch} sequences and {way.plan.max_batched_tokens:,} tokens a step"
    draft = f", {plan.draft_tokens} drafted tokens" if plan.draft_tokens else ""
    start = f"{engine_title(plan.engine)}, {format_words(plan)}"
    if way.prefill is None:
        return f"{start}: {_replicas(plan)}, {limits}{draft}"
    return f"{start}: {_replicas(way.prefill)} for prompts, {_replicas(plan)} for decoding, {limits}"


def short_words(plan: ServingPlan) -> str:
    """Engine, formats and layout in few words, for tables."""
    degrees = [
        f"{sign}{degree}"
        for sign, degree in (("tp", plan.tensor), ("pp", plan.pipeline), ("ep", plan.expert), ("dp-attn", plan.data_attention))
        if degree > 1
    ]  # fmt: skip
    draft = [f"draft{plan.draft_tokens}"] if plan.draft_tokens else []
    return " ".join([plan.engine, plan.precision, *(["kv-" + plan.cache] if plan.cache != plan.precision else []), *(degrees or ["tp1"]), *draft])  # fmt: skip
