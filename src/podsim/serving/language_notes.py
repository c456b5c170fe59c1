"""The assumptions and warnings of a served language model."""

from __future__ import annotations

from podsim.kernels.constants import kernel_constants
from podsim.serving.language_engines import older_releases
from podsim.serving.language_layers import plan_layers
from podsim.serving.language_setup import LanguageSetup
from podsim.serving.serving_plan import ServingPlan
from podsim.serving.step_laws import SKEW, is_measured
from podsim.workload.model import Model


def plan_words(plan: ServingPlan) -> str:
    """The division and the formats of a plan, in short: "tp=4, 2 replicas"."""
    degrees = {
        "tp": plan.tensor, "pp": plan.pipeline, "ep": plan.expert, "cp": plan.context,
        "attention_dp": plan.data_attention,
    }  # fmt: skip
    words = [f"{name}={value}" for name, value in degrees.items() if value > 1]
    if plan.draft_tokens:
        words.append(f"{plan.draft_tokens} drafted tokens ({plan.draft or 'a layer of the model'})")
    return ", ".join(words) or "one GPU"


def language_assumptions(setup: LanguageSetup, neighbours: float) -> tuple[str, ...]:
    """The assumptions of a prediction, one sentence each."""
    plan, engine = setup.plan, setup.engine
    notes = [f"{engine.title}: {engine.evidence}"]
    notes.append(
        f"{setup.tokens} tokens of prompt, {setup.output} produced by every sequence of a batch together (no continuous"
        f" batching: --rate); keys and values in {plan.cache}"
    )
    if plan.prefix_share:
        notes.append(f"the cache holds {plan.prefix_share:.0%} of each prompt's tokens")
    if plan.draft_tokens:
        notes.append(
            f"a drafted token is accepted with probability {plan.acceptance:g}: a step gives"
            f" {plan.accepted_tokens:.2f} tokens; what that does to answers is not modelled"
        )
    if setup.model.has_experts:
        notes.append(
            f"tokens spread over experts by a power law of exponent {SKEW:g}; the busiest GPU counts"
        )
    return (*notes, *batch_notes(neighbours))


def batch_notes(neighbours: float) -> list[str]:
    """What is assumed of static batches of any network; neighbours: the share that busy ones on the GPU cost."""
    waiting = "a request in time may wait for one whole batch before its own"
    busy = f"busy neighbours on the GPU cost {neighbours:.1%} (MLPerf Inference 1.1: 0.6 to 2.4 % with six)"
    return [waiting, busy] if neighbours else [waiting]


def length_doubts(model: Model, length: int) -> list[str]:
    """A doubt where a sequence is longer than those that the network was trained with."""
    if length <= model.sequence:
        return []
    return [f"{length:,} tokens are more than the {model.sequence:,} the network was trained with"]


def _older_notes(setup: LanguageSetup) -> list[str]:
    """The older releases of the engine whose decoding differs for this model and cache."""
    cores = [
        core
        for core in plan_layers(setup.model, setup.plan).cores
        if core.heads > core.kv_heads and not core.rank
    ]
    now = [setup.engine.shares_keys(setup.plan.cache, core.head_dim) for core in cores]
    return [
        f"heads of a group share one walk over the keys; in releases before {before} (published tables of 2023) each"
        f" walked alone: --engine {older.name}"
        for before, older in older_releases(setup.engine.name, setup.cluster.gpu)
        if now != [older.shares_keys(setup.plan.cache, core.head_dim) for core in cores]
    ]


def language_warnings(setup: LanguageSetup) -> tuple[str, ...]:
    """The reasons to trust a prediction less, one sentence each."""
    notes, gpu = list(setup.model.doubts), setup.cluster.gpu
    notes += length_doubts(setup.model, setup.tokens + setup.output)
    constants = kernel_constants(gpu)
    if constants.extrapolated:
        notes.append(
            f"{gpu.name}: no product was measured on it; shares of peak are those of {constants.base}"
        )
    if not is_measured(gpu):
        notes.append(f"{gpu.name}: no engine's attention was measured on {gpu.architecture}")
    notes += _older_notes(setup)
    if setup.plan.cache == "int8":
        notes.append("keys and values in int8 take the time of fp8 ones: no such kernel was measured")
    return tuple(notes)
