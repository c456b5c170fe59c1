"""Rules that a plan of serving must keep, and the plan with the fewest GPUs that holds a model and its sequences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from podsim.errors import NoFitError, PlanError, raise_all
from podsim.hardware.catalog import short_name
from podsim.hardware.cluster import Cluster
from podsim.serving.language_engines import load_language_engine
from podsim.serving.language_layers import is_attention, text_layers
from podsim.serving.replica_memory import fixed_bytes, sequence_bytes, token_bytes, usable_bytes, weight_bytes
from podsim.serving.serving_plan import CACHE_FORMATS, WEIGHT_FORMATS, ServingPlan
from podsim.serving.step_cost import cache_room
from podsim.workload.model import Model

_MOST_GPUS = 4096


def check_plan(model: Model, cluster: Cluster, plan: ServingPlan) -> None:
    """Raise PlanError with all that makes the plan impossible for the model on the cluster."""
    problems = [*_limit_problems(plan), *_division_problems(model, plan)]
    needed = plan.gpus * plan.replicas
    is_larger_enough = not problems and cluster.gpu.fraction == 1
    if needed > cluster.gpus:
        copies = f"{plan.replicas} replicas of {plan.gpus} GPUs" if plan.replicas > 1 else f"{plan.gpus} GPUs"
        problems.append(
            f"{copies} (tp={plan.tensor} x pp={plan.pipeline} x cp={plan.context}) are more than the {cluster.gpus} of"
            f" {cluster.name}"
        )
    if plan.gpus > 1 and cluster.gpu.fraction < 1:
        problems.append(
            f"{cluster.gpu.name}: instances do not reach each other's memory; a model stays in one"
        )
    if problems:
        degrees = [d for d in tensor_degrees(model, cluster.gpus) if d <= plan.tensor]
        error = PlanError(problems)
        if is_larger_enough:
            raise error.offer(on=f"{needed}x{short_name('gpu', cluster.gpu.name)}")
        raise error.offer(tp=degrees[-1]) if plan.tensor > 1 and degrees else error


def _division_problems(model: Model, plan: ServingPlan) -> Iterator[str]:
    if plan.data_attention < 1 or plan.tensor % plan.data_attention:
        yield f"attention_dp={plan.data_attention} must divide tp={plan.tensor}"
        return
    heads = _head_counts(model)
    if wrong := [count for count in heads if count % plan.attention_degree]:
        degrees = [d for d in range(1, wrong[0] + 1) if not any(count % d for count in heads)]
        yield (
            f"tp={plan.tensor}: {wrong[0]} heads cannot be divided over {plan.attention_degree} GPUs;"
            f" {', '.join(map(str, degrees))} can"
        )
    experts = {block.experts for block in model.layers if block.experts}
    if plan.expert > 1 and not experts:
        yield f"ep={plan.expert}: {model.name} has no experts"
    elif plan.layer_degree % plan.expert or any(count % plan.expert for count in experts):
        yield f"ep={plan.expert} must divide tp x cp = {plan.layer_degree} and the {max(experts, default=0)} experts"
    if plan.pipeline > model.layer_count:
        yield f"pp={plan.pipeline}: {model.name} has {model.layer_count} layers"


def _head_counts(model: Model) -> list[int]:
    """The numbers of heads of the attention that every token passes, each once."""
    ops = [op for block in text_layers(model) for op in block.ops]
    return sorted({op.heads for op in ops if op.kind == "attention" and is_attention(op)})


def check_limits(plan: ServingPlan) -> None:
    """Raise PlanError with every field that is out of its range or is no number format."""
    raise_all(list(_limit_problems(plan)), PlanError)


def _limit_problems(plan: ServingPlan) -> Iterator[str]:
    if plan.precision not in WEIGHT_FORMATS:
        yield f"precision={plan.precision[:40]!r}: engines of language models run {', '.join(WEIGHT_FORMATS)}"
    if plan.cache not in CACHE_FORMATS:
        yield f"kv={plan.cache[:40]!r}: keys and values are kept in {', '.join(CACHE_FORMATS)}"
    limits = {
        "prefix": (plan.prefix_share, 0.0, 0.999), "acceptance": (plan.acceptance, 0.0, 1.0),
        "memory_share": (plan.memory_share, 0.0, 1.0), "speculate": (plan.draft_tokens, 0, 64),
        "block_tokens": (plan.block_tokens, 0, 4096), "max_batch": (plan.max_batch, 0, 65536),
        "max_batched_tokens": (plan.max_batched_tokens, 0, 2**22), "replicas": (plan.replicas, 1, 100_000),
        "cp": (plan.context, 1, 4096), "tp": (plan.tensor, 1, 4096), "pp": (plan.pipeline, 1, 4096),
        "ep": (plan.expert, 1, 4096),
    }  # fmt: skip
    for name, (value, low, high) in limits.items():
        if not low <= value <= high:
            yield f"{name}={value:g} must be from {low:g} to {high:g}"


def tensor_degrees(model: Model, most: int) -> tuple[int, ...]:
    """Degrees up to `most` that divide all heads of the model, ascending."""
    heads = _head_counts(model)
    return tuple(d for d in range(1, most + 1) if d & (d - 1) == 0 and not any(count % d for count in heads))


def divisions(model: Model, cluster: Cluster, most: int) -> Iterator[tuple[int, int]]:
    """(tensor, pipeline) degrees of growing numbers of GPUs: tensor parallelism in a node, stages over nodes."""
    per = cluster.gpus_per_node if cluster.gpu.fraction == 1 else 1
    most = most if cluster.gpu.fraction == 1 else 1
    counts = [1 << at for at in range(13) if 1 << at <= min(most, per)]
    counts += [nodes * per for nodes in range(2, most // per + 1)] if per in counts else [per] * (most >= per)
    for gpus in counts:
        tensor = max((d for d in tensor_degrees(model, min(gpus, per)) if gpus % d == 0), default=1)
        if gpus // tensor <= model.layer_count:
            yield tensor, gpus // tensor


def fewest_gpus(
    model: Model, cluster: Cluster, plan: ServingPlan, tokens: int, sequences: int
) -> ServingPlan:
    """The plan divided over the fewest GPUs that hold `sequences` of so many tokens; else over those that hold one.

    Raises NoFitError, with what would hold the model, where the cluster cannot.
    """
    holding = None
    for tensor, pipeline in divisions(model, cluster, cluster.gpus // plan.context):
        divided = replace(plan, tensor=tensor, pipeline=pipeline)
        try:
            room = cache_room(model, cluster, divided, longest=tokens).sequences(tokens)
        except NoFitError:
            continue
        if room >= sequences:
            return divided
        if room:
            holding = divided
    if plan.context > cluster.gpus:
        raise PlanError([f"cp={plan.context}: {cluster.name} has {cluster.gpus} GPUs"])
    if holding is None:
        error = NoFitError([too_large(model, cluster, plan, tokens)])
        narrow = _narrow_format(model, cluster, plan)
        raise error.offer(precision=narrow) if narrow else error
    return holding


def too_large(model: Model, cluster: Cluster, plan: ServingPlan, tokens: int) -> str:
    """Why no division over the cluster holds one sequence, by how much, and what would."""
    engine = load_language_engine(plan.engine, cluster.gpu)
    limits = (plan.max_batched_tokens or engine.max_batched_tokens, plan.max_batch or engine.max_batch)
    widest = max(divisions(model, cluster, cluster.gpus), key=lambda pair: pair[0] * pair[1])
    divided = replace(plan, tensor=widest[0], pipeline=widest[1])
    need = fixed_bytes(model, divided, engine, *limits)
    need += token_bytes(model, divided, tokens) * tokens + sequence_bytes(model, divided, tokens)
    has = usable_bytes(cluster.gpu)
    where = f"on each of {divided.gpus} GPUs" if divided.gpus > 1 else "on one GPU"
    text = (
        f"{model.name} needs {need / 1e9:.2f} GB {where} (weights"
        f" {weight_bytes(model, divided) / 1e9:.2f} GB) for one sequence; {cluster.gpu.name} has {has / 1e9:.2f} GB"
    )
    return f"{text}; {_what_holds(model, cluster, plan)}"


def _what_holds(model: Model, cluster: Cluster, plan: ServingPlan) -> str:
    """The number of such GPUs, or the format of weights, with which one sequence fits."""
    options = []
    engine = load_language_engine(plan.engine, cluster.gpu)
    share = plan.memory_share or engine.memory_share
    if cluster.gpu.fraction == 1:
        weights = weight_bytes(model, replace(plan, tensor=1, pipeline=1))
        count = cluster.gpus
        while count < _MOST_GPUS and weights / count + 3e9 > usable_bytes(cluster.gpu) * share:
            count *= 2
        if count > cluster.gpus:
            options.append(f"{count} such GPUs")
    if narrow := _narrow_format(model, cluster, plan):
        options.append(f"--precision {narrow}")
    return f"{' or '.join(options) or 'a GPU with more memory'} would hold it"


def _narrow_format(model: Model, cluster: Cluster, plan: ServingPlan) -> str:
    """The widest format of weights with which one sequence fits; "" if none is known."""
    divided = cluster.gpus if cluster.gpu.fraction == 1 else 1
    engine = load_language_engine(plan.engine, cluster.gpu)
    share = plan.memory_share or engine.memory_share
    for precision in ("fp8", "int8", "int4_wo"):
        narrow = weight_bytes(model, replace(plan, precision=precision)) / divided
        is_run = plan.precision in ("fp16", "bf16") and (
            precision == "int4_wo" or precision in cluster.gpu.peaks
        )
        if is_run and narrow + 3e9 < usable_bytes(cluster.gpu) * share:
            return precision
    return ""
