"""The rules a plan must keep, once: as a filter over a million plans, and as messages for one.

A rule is (name, violated, message). `violated` broadcasts over plans; `message` words it for one plan, with the
value and what would be allowed.

What a framework may lack is no rule: a search leaves such values out unless they are asked for by name, but a plan that
uses one is predicted with a warning, as the question "what would it have brought?" is a fair one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import Any

import numpy as np

from podsim.axes import Bools
from podsim.hardware.cluster import Cluster
from podsim.hardware.parts import PRECISIONS
from podsim.records import dataclass
from podsim.schedules.entries import SCHEDULES
from podsim.training.plan_values import ARRAY_FIELDS, SCHEDULE_CODES, PlanValues, Recompute, beside, has_any
from podsim.training.software import load_software, reduces_by_round, software_names
from podsim.workload.model import Model


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the rules need to know of a model and a cluster."""

    heads: int
    kv_heads: int
    hidden: int
    ffn: int
    layers: int
    experts: int
    causal: bool
    gpus: int
    capability: float
    has_fused_attention: bool
    precisions: tuple[str, ...]
    length: int
    streams: bool
    """Whether weights stream through the chip, which holds no layer for long."""


_TRAINED = ("fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "nvfp4")
"""number formats that networks are trained in; GPUs have others for inference and for simulation"""


@lru_cache(maxsize=256)
def facts(model: Model, cluster: Cluster, length: int) -> Facts:
    """Facts of a model at a sequence length, on a cluster."""
    ops = [op for block in model.layers for op in block.ops]
    cores = [op for op in ops if op.kind == "attention"]
    rows = [op.k for op in ops if op.kind == "gemm" and op.split == "row" and op.name.startswith("mlp")]
    return Facts(
        heads=int(np.gcd.reduce([op.heads for op in cores])) if cores else 0,
        kv_heads=min((op.kv_heads or op.heads for op in cores), default=0),
        hidden=model.hidden,
        ffn=int(np.gcd.reduce(rows)) if rows else 0,
        layers=model.layer_count,
        experts=max((block.experts for block in model.layers), default=0),
        causal=any(op.causal for op in cores),
        gpus=cluster.gpus,
        capability=cluster.gpu.compute_capability,
        has_fused_attention=cluster.gpu.has_fused_attention,
        precisions=tuple(name for name in _TRAINED if PRECISIONS[name].is_native(cluster.gpu)),
        length=length,
        streams=cluster.gpu.streams_weights,
    )


def _divisors(number: int, limit: int = 1 << 16) -> str:
    divisors = [d for d in range(1, min(number, limit) + 1) if number % d == 0]
    shown = ", ".join(str(d) for d in divisors[:12])
    return shown + (", …" if len(divisors) > 12 else "")


def _mod(a: Any, b: Any) -> Any:
    """a % b, where b may be broken (zero or negative): another rule reports that."""
    if isinstance(a, int) and isinstance(b, int):
        return a % max(b, 1)
    return np.asarray(a) % np.maximum(b, 1)


Rule = tuple[str, Callable[[PlanValues, Facts], Any], Callable[[PlanValues, Facts], str]]

_DEGREES = ("tp", "pp", "virtual_stages", "dp", "cp", "ep", "micro_batch", "global_batch")


def _not_positive(plan: PlanValues, f: Facts) -> Any:
    return reduce(or_, (getattr(plan, name) < 1 for name in _DEGREES))


def _say_not_positive(plan: PlanValues, f: Facts) -> str:
    wrong = [f"{name}={getattr(plan, name)}" for name in _DEGREES if getattr(plan, name) < 1]
    return f"{', '.join(wrong)}: degrees and batches are whole numbers from 1"


def _kv_uneven(plan: PlanValues, f: Facts) -> Any:
    return (_mod(f.kv_heads, plan.tp) != 0) & (_mod(plan.tp, f.kv_heads or 1) != 0)


def _say_batch(plan: PlanValues, f: Facts) -> str:
    shown = _divisors(int(plan.global_batch))
    return (
        f"global_batch={plan.global_batch} is not a multiple of dp x micro_batch = {plan.dp} x {plan.micro_batch}; "
        f"dp x micro_batch may be {shown}"
    )


_ENTRIES = {int(SCHEDULE_CODES[name]): entry for name, entry in SCHEDULES.items()}
_ENDLESS = np.array([not _ENTRIES[code].flush for code in sorted(_ENTRIES)])


def _size_broken(of: str) -> Callable[[PlanValues, Facts], Any]:
    """Where a schedule's own rules about one of its sizes are broken."""

    def broken(plan: PlanValues, f: Facts) -> Any:
        schedule, m = np.asarray(plan.schedule), _micro_batches(plan)
        broken_plans: Any = np.False_
        for code in plan.schedule_codes:
            rules = [rule for rule in _ENTRIES[code].rules if rule.of == of]
            wrong = [rule.broken(plan.pp, plan.virtual_stages, m) for rule in rules]
            broken_plans = broken_plans | ((schedule == code) & reduce(np.logical_or, wrong, np.False_))
        return broken_plans

    return broken


def _say_size(of: str) -> Callable[[PlanValues, Facts], str]:
    def say(plan: PlanValues, f: Facts) -> str:
        entry = SCHEDULES[str(plan.describe()["schedule"])]
        p, v, m = int(plan.pp), int(plan.virtual_stages), int(_micro_batches(plan))
        return "; ".join(entry.say(r, p, v, m) for r in entry.rules if r.of == of and bool(r.broken(p, v, m)))

    return say


def _micro_batches(plan: PlanValues) -> Any:
    return np.asarray(plan.global_batch) // np.maximum(plan.dp * np.asarray(plan.micro_batch), 1)


@lru_cache(maxsize=1)
def _folding() -> tuple[str, ...]:
    return tuple(name for name in software_names() if load_software(name).folds_experts)


def _folds(plan: PlanValues) -> bool:
    return plan.software in _folding()


RULES: tuple[Rule, ...] = (
    ("positive", _not_positive, _say_not_positive),
    (
        "gpus",
        lambda p, f: p.gpus > f.gpus,
        lambda p, f: f"tp x pp x dp x cp = {p.gpus} GPUs, but the cluster has {f.gpus}",
    ),
    (
        "streamed weights",
        lambda p, f: f.streams & (reduce(np.maximum, (p.tp, p.pp, p.cp, p.ep)) > 1),
        lambda p, f: (
            f"tp={p.tp}, pp={p.pp}, cp={p.cp}, ep={p.ep}: weights stream layer by layer through each whole wafer, "
            "so tp, pp, cp and ep are 1; dp may be anything"
        ),
    ),
    (
        "heads",
        lambda p, f: (_mod(f.heads, p.tp) != 0) & (f.heads > 0),
        lambda p, f: f"tp={p.tp} does not divide heads={f.heads}; tp may be {_divisors(f.heads)}",
    ),
    (
        "kv heads",
        _kv_uneven,
        lambda p, f: (
            f"tp={p.tp} neither divides nor is a multiple of kv_heads={f.kv_heads}; "
            f"tp may be {_divisors(f.kv_heads)} or a multiple of {f.kv_heads}"
        ),
    ),
    (
        "mlp width",
        lambda p, f: (_mod(f.ffn, p.tp) != 0) & (f.ffn > 0),
        lambda p, f: f"tp={p.tp} does not divide the MLP width {f.ffn}; tp may be {_divisors(f.ffn)}",
    ),
    (
        "layers",
        # embedding and head may be parts of their own, where their rank has other parts, too
        lambda p, f: p.pp * p.virtual_stages > f.layers + 2 * (p.virtual_stages > 1),
        lambda p, f: (
            f"pp x virtual_stages = {p.pp} x {p.virtual_stages} is more than layers={f.layers}; at most "
            + (f"{f.layers}" if p.virtual_stages == 1 else f"{f.layers + 2}, the ends alone")
        ),
    ),
    ("virtual stages", _size_broken("virtual stages"), _say_size("virtual stages")),
    ("schedule's pipeline", _size_broken("pipeline"), _say_size("pipeline")),
    ("schedule's batches", _size_broken("batches"), _say_size("batches")),
    (
        "asynchronous zero",
        lambda p, f: _ENDLESS[p.schedule] & (p.zero > 1),
        lambda p, f: (
            f"schedule={p.describe()['schedule']} with zero={p.zero}: it keeps versions of whole weights; "
            "zero may be 0, 1"
        ),
    ),
    ("batch", lambda p, f: _mod(p.global_batch, p.dp * p.micro_batch) != 0, _say_batch),
    (
        "context",
        lambda p, f: _mod(f.length, p.cp * (1 + f.causal * (p.cp > 1))) != 0,
        lambda p, f: (
            f"cp={p.cp} does not divide a sequence of {f.length} tokens into equal "
            f"{'causally balanced halves (2 x cp parts)' if f.causal else 'parts'}; cp may be "
            f"{_divisors(f.length // 2 if f.causal else f.length)}"
        ),
    ),
    (
        "sequence parallel",
        lambda p, f: (p.sequence_parallel != 0) & (p.tp < 2),
        lambda p, f: (
            f"sequence_parallel with tp={p.tp}; it divides over the TP group, so tp must be 2 or more"
        ),
    ),
    (
        "sequence split",
        lambda p, f: (p.sequence_parallel != 0) & (_mod(f.length, p.tp * p.cp) != 0),
        lambda p, f: (
            f"tp x cp = {p.tp} x {p.cp} does not divide a sequence of {f.length} tokens, "
            f"which sequence parallelism needs; tp x cp may be {_divisors(f.length)}"
        ),
    ),
    (
        "experts",
        lambda p, f: (p.ep > 1) & (_mod(max(f.experts, 1), p.ep) != 0),
        lambda p, f: (
            f"ep={p.ep} does not divide experts={f.experts}; ep may be {_divisors(f.experts)}"
            if f.experts
            else f"ep={p.ep}, but the model has no experts; ep may be 1"
        ),
    ),
    (
        "expert groups",
        lambda p, f: (
            _mod(np.asarray(p.tp, dtype=float) * p.dp * p.cp, p.expert_ranks * np.asarray(p.ep, dtype=float))
            != 0
        ),
        lambda p, f: (
            f"ep={p.ep} does not divide dp x cp = {p.dp} x {p.cp}; expert groups are slices of these ranks"
            if p.expert_ranks == p.tp
            else f"expert_tp x ep = {p.expert_tp} x {p.ep} does not divide tp x cp x dp = {p.tp} x {p.cp} x {p.dp}; "
            "expert groups are slices of these ranks"
        ),
    ),
    (
        "folded experts",
        lambda p, f: (p.expert_ranks != p.tp) & ((not _folds(p)) | (_mod(p.tp, p.expert_ranks) != 0)),
        lambda p, f: (
            f"expert_tp={p.expert_tp} does not divide tp={p.tp}; expert_tp may be {_divisors(int(p.tp))}"
            if _folds(p)
            else f"expert_tp={p.expert_tp} with tp={p.tp}: software={p.software} divides experts as the rest, so "
            f"expert_tp may be {p.tp}; those that fold them are {', '.join(_folding())}"
        ),
    ),
    (
        "folded tokens",
        lambda p, f: (p.expert_ranks != p.tp) & (p.sequence_parallel == 0),
        lambda p, f: (
            f"expert_tp={p.expert_tp} with tp={p.tp} and no sequence_parallel: the TP group would send the same tokens "
            f"{p.tp} times; add sequence_parallel, or set expert_tp={p.tp}"
        ),
    ),
    (
        "zero",
        lambda p, f: (p.zero < 0) | (p.zero > 3),
        lambda p, f: f"zero={p.zero}; zero may be 0, 1, 2, 3",
    ),
    (
        "zero 2 pipeline",
        lambda p, f: (
            (p.exchange_level < p.zero) & ((p.virtual_stages == 1) | (not reduces_by_round(p.software)))
        ),
        lambda p, f: (
            f"zero=2 with pp={p.pp} on {p.software}: a stage keeps the gradients of all its micro-batches until the "
            "last; use zero 0, 1 or 3 with a pipeline"
        ),
    ),
    (
        "shard",
        lambda p, f: (p.shard < 0) | ((p.shard > 0) & ((_mod(p.dp * p.cp, p.shard) != 0) | (p.zero == 0))),
        lambda p, f: (
            f"shard={p.shard} with zero={p.zero}; it needs zero of 1 or more and must divide "
            f"dp x cp = {p.dp} x {p.cp}: {_divisors(int(p.dp * p.cp))} (or 0, all of them)"
        ),
    ),
    (
        "recompute layers",
        lambda p, f: (
            (p.recompute_layers < 0)
            | ((p.recompute_layers > 0) & (p.recompute != Recompute.FULL))
            | (p.recompute_layers > -(-f.layers // np.maximum(p.pp, 1)))
        ),
        lambda p, f: (
            f"recompute_layers={p.recompute_layers} with recompute={p.describe()['recompute']} and "
            f"{-(-f.layers // max(int(p.pp), 1))} layers a stage; it counts layers of a stage under recompute=full"
        ),
    ),
    (
        "flash",
        lambda p, f: (p.flash != 0) & (not f.has_fused_attention),
        lambda p, f: f"flash attention needs compute capability 7.5 or newer, this GPU has {f.capability}",
    ),
)


_LARGEST = 1 << 15
"""the largest number of a plan of which four multiply in 64 bits"""


def violations(plan: PlanValues, f: Facts) -> dict[str, Bools]:
    """For each rule, which plans break it (broadcast)."""
    return {name: np.asarray(violated(plan, f), dtype=bool) for name, violated, _ in RULES}


def problems(plan: PlanValues, model: Model, cluster: Cluster) -> list[str]:
    """Every rule a scalar plan breaks, worded."""
    unreadable = _unreadable(plan, model)
    if unreadable:
        return unreadable
    f = facts(model, cluster, plan.length(model))
    return [*_broken_rules(plan, f), *_text_problems(plan, f)]


def problems_of_each(plans: Sequence[PlanValues], model: Model, cluster: Cluster) -> list[list[str]]:
    """The problems of scalar plans that differ in numbers and flags alone, all held to a rule at once."""
    if any(_unreadable(plan, model) or _largest(plan) > _LARGEST for plan in plans):
        return [problems(plan, model, cluster) for plan in plans]
    f = facts(model, cluster, plans[0].length(model))
    broken = violations(beside(plans), f)
    words, said = _text_problems(plans[0], f), [(say, broken[name]) for name, _, say in RULES]
    columns = [(say, np.broadcast_to(wrong, len(plans)).tolist()) for say, wrong in said if wrong.any()]
    return [[*(say(plan, f) for say, wrong in columns if wrong[at]), *words] for at, plan in enumerate(plans)]


def _largest(plan: PlanValues) -> int:
    return max(abs(int(getattr(plan, name))) for name in ARRAY_FIELDS)


def _unreadable(plan: PlanValues, model: Model) -> list[str]:
    """What keeps a scalar plan from being held to the rules."""
    wrong = [n for n in ARRAY_FIELDS if not _is_whole(v := getattr(plan, n)) and np.ndim(v) == 0]
    if wrong:
        return [f"{name}={getattr(plan, name)!r} is not a whole number" for name in wrong]
    length = plan.length(model)
    if not isinstance(length, int) or not 1 <= length <= 1 << 30:
        return [f"sequence={length!r}: a sequence has 1 to {1 << 30} tokens"]
    return []


@lru_cache(maxsize=4096)
def _broken_rules(plan: PlanValues, f: Facts) -> tuple[str, ...]:
    return tuple(say(plan, f) for _, violated, say in RULES if has_any(violated(plan, f)))


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer, np.bool_)) and abs(int(value)) < 1 << 40


def _text_problems(plan: PlanValues, f: Facts) -> list[str]:
    unknown = []
    if plan.precision not in f.precisions:
        unknown.append(f"precision={plan.precision!r}: this GPU trains in {', '.join(f.precisions)}")
    if plan.optimizer_precision not in ("fp32", "bf16", "fp16", "fp8"):
        unknown.append(f"optimizer_precision={plan.optimizer_precision!r} may be fp32, bf16, fp16, fp8")
    if plan.software not in software_names():
        unknown.append(f"software={plan.software!r} may be {', '.join(software_names())}")
    capacity, imbalance = float(plan.capacity_factor), float(plan.imbalance)
    if (capacity or imbalance) and not f.experts:
        unknown.append("capacity_factor and imbalance are of experts, and the model has none; leave them 0")
    elif not (capacity == 0 or 0 < capacity <= f.experts):
        unknown.append(
            f"capacity_factor={capacity:g}: 0 for no limit, or above 0 to {f.experts} (all tokens), as 1.25"
        )
    elif not (imbalance == 0 or 1 <= imbalance <= f.experts):
        unknown.append(
            f"imbalance={imbalance:g}: 0 for the software's, or 1 (even) to {f.experts} (one expert has all)"
        )
    return unknown
