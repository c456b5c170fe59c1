"""Laws that every legal plan keeps: a name, why it is a theorem, and which plans of a scene break it.

Checks of `LAWS` cost all plans of a scene together. "Never more" and "never less" are up to rounding. Each exception was
met as a broken law first, and has its cause in a named approximation; a tolerance everywhere would hide mistakes. E.g.
NCCL picks by its own tables, so a faster link may bring a slower algorithm. In simulations nothing is claimed to be
monotone: under max-min sharing a faster link can slow another flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from random_plans import Scene, legal, model_of

from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster, load_cluster
from podsim.hardware.parts import PRECISIONS
from podsim.training.batch import StepCost, layout_of, prepare, step_cost
from podsim.training.layers import syncs_of, tp_bytes
from podsim.training.memory import KINDS, torch_layout
from podsim.training.plan import Plan
from podsim.training.plan_values import Grid, Schedule
from podsim.training.predict import predict_plan
from podsim.training.step import SPLIT
from podsim.workload.model import Model

ROUNDING = 1e-9
Rows = np.ndarray


@dataclass(frozen=True, kw_only=True)
class Law:
    """A law of plans."""

    name: str
    why: str
    """Why it is a theorem of the closed form."""
    broken: Callable[[Scene], Rows]
    """Which plans of a scene break it."""


def _less(small: Rows, large: Rows) -> Rows:
    """Where what may not exceed does."""
    return ~(small <= large * (1 + ROUNDING) + 1e-15)


def _none(scene: Scene) -> Rows:
    return np.zeros(scene.plans.size, dtype=bool)


# one evaluation


def _not_finite(scene: Scene) -> Rows:
    cost = scene.cost
    values = np.concatenate([cost.seconds[None], cost.parts, cost.memory[None], cost.kinds])
    floor = -ROUNDING * np.concatenate(
        [cost.seconds[None]] * (1 + len(SPLIT)) + [cost.memory[None]] * (1 + len(KINDS))
    )
    return ~np.isfinite(values).all(axis=0) | (values < floor).any(axis=0) | (cost.seconds <= 0)


def _parts_differ(scene: Scene) -> Rows:
    cost = scene.cost
    seconds = np.abs(cost.parts.sum(axis=0) - cost.seconds) > ROUNDING * cost.seconds
    return seconds | (np.abs(cost.kinds.sum(axis=0) - cost.memory) > ROUNDING * cost.memory)


def _flops(scene: Scene) -> float:
    """FLOPs that a sequence takes at least: masked scores are not computed, nor dropped tokens."""
    model, length, room = scene.model, scene.plans.length(scene.model), scene.plans.capacity_factor
    kept = min(1.0, room) if room else 1.0
    forward = 0.0
    for block in model.blocks:
        flops = model.block_flops(
            replace(block, ops=tuple(op for op in block.ops if not op.expert)), length, causal_half=True
        )
        routed = model.block_flops(replace(block, ops=tuple(op for op in block.ops if op.expert)), length)
        forward += sum(flops.values()) + kept * sum(routed.values())
    return (3.0 if model.training == "full" else 1.0) * forward * length


def _beats_peak(scene: Scene) -> Rows:
    plans, gpu = scene.plans, scene.cluster.gpu
    peak = gpu.peaks[PRECISIONS[plans.precision].matmul] * plans.gpus
    return _less(_flops(scene) * plans.global_batch / peak, scene.cost.seconds)


def _layer_weights(scene: Scene) -> Rows:
    """Parameters of dense layers on the mean rank."""
    dense = sum(
        op.weight * block.count for block in scene.model.layers for op in block.ops
        if op.kind == "gemm" and not op.expert and op.split in ("column", "row")
    )  # fmt: skip
    return dense / (scene.plans.tp * scene.plans.pp)


def _beats_memory(scene: Scene) -> Rows:
    """Optimizer states are read and written, and weights read in both passes of every micro-batch, but for the cache."""
    plans, gpu = scene.plans, scene.cluster.gpu
    element = (
        0.5
        if "qlora" in scene.train or plans.precision == "nvfp4"
        else 1.0
        if PRECISIONS[plans.precision].is_cast
        else 2.0
    )
    passes = 2.0 if scene.model.training == "full" else 1.0
    weights = np.maximum(_layer_weights(scene) * element - gpu.l2, 0.0) * passes * plans.micro_batches
    states = scene.cost.kinds[KINDS.index("optimizer")] * 2
    return _less((weights + states) / gpu.memory_bandwidth, scene.cost.seconds)


def _link_bytes(scene: Scene) -> Iterator[tuple[str, Rows, Rows, Rows]]:
    """(what, B that a rank must send in a step, ranks of the group, its members on a node)."""
    plans, model, software = scene.plans, scene.model, scene.software
    if model.training != "full":
        return
    grid = Grid(gpus_per_node=scene.cluster.gpus_per_node, plan=plans)
    syncs = sum(sum(syncs_of(model, block)) * block.count for block in model.layers)
    yield "tp", tp_bytes(model, plans) * syncs / plans.pp * plans.micro_batches, plans.tp, grid.tp
    ranks = plans.dp * plans.cp
    yield "dp", _layer_weights(scene) * software.gradient_bytes, ranks, grid.data(ranks)


def _beats_links(scene: Scene) -> Rows:
    """What a group adds up leaves each rank at least (n - 1) / n times, and each node, with reduction in switches too."""
    cluster, broken = scene.cluster, _none(scene)
    for _, size, ranks, members in _link_bytes(scene):
        inside = np.where(ranks > 1, size * (ranks - 1) / ranks, 0.0)
        near = inside / cluster.nvlink.bandwidth if cluster.nvlink.bandwidth else np.zeros_like(inside)
        broken |= _less(np.where(ranks == members, near, 0.0), scene.cost.seconds)
        if cluster.nics:
            nodes = np.maximum(ranks / members, 1.0)
            groups = np.minimum(scene.plans.gpus, cluster.gpus_per_node) / members
            out = size * groups * (nodes - 1) / nodes
            broken |= _less(np.where(nodes > 1, out / cluster.node_bandwidth, 0.0), scene.cost.seconds)
    return broken


def _differs_alone(scene: Scene) -> Rows:
    """Where a prediction of the plan alone has another time or memory; a few of a scene's plans."""
    broken, cost = _none(scene), scene.cost
    for row in range(0, scene.plans.size, max(scene.plans.size // 5, 1)):
        alone = predict_plan(scene.model, scene.cluster, scene.plans.take(row))
        told, asked = (cost.seconds[row], cost.memory[row]), (alone.step_time, alone.memory)
        broken[row] = not np.allclose(told, asked, rtol=ROUNDING, atol=0)
    return broken


# more of a resource


def _resources(scene: Scene) -> dict[str, dict[str, Any]]:
    """Overrides that give more of one resource, by its name."""
    base = load_cluster(scene.on, scene.overrides)
    gpu, factor = base.gpu, (1.05, 1.5, 2.0, 4.0)[sum(scene.name.encode()) % 4]
    more: dict[str, dict[str, Any]] = {
        "memory bandwidth": {"gpu.memory_bandwidth": gpu.memory_bandwidth * factor},
        "FLOPS": {f"gpu.peaks.{name}": peak * factor for name, peak in gpu.peaks.items()},
        "memory": {"gpu.memory": gpu.memory * factor},
        "bandwidth inside": {"nvlink.bandwidth": base.nvlink.bandwidth * factor},
        "latency inside": {"nvlink.latency": base.nvlink.latency / factor},
    }
    if base.nics:
        more |= {
            "network": {"network.bandwidth": base.network.bandwidth * factor},
            "network latency": {"network.latency": base.network.latency / factor},
            "adapters": {"nics": min(2 * base.nics, 1000)} if base.nics < 1000 else {},
        }
    return {name: given for name, given in more.items() if all(given.values())}


def _has_choice(scene: Scene) -> Rows:
    """Where NCCL picks by its own tables, which are not by what is fastest."""
    return np.full(scene.plans.size, "collectives.algo" not in scene.overrides)


def _slower_with(resource: str) -> Callable[[Scene], Rows]:
    def broken(scene: Scene) -> Rows:
        given = _resources(scene).get(resource)
        if given is None:
            return _none(scene)
        try:
            cluster = load_cluster(scene.on, {**scene.overrides, **given}, scene.gpus)
        except PodsimError:  # no such part is sold
            return _none(scene)
        cost, before = step_cost(scene.model, cluster, scene.plans), scene.cost.seconds
        slower = ~(cost.seconds <= (before + _no_longer_hidden(scene, cluster)) * (1 + ROUNDING))
        return slower & ~_has_choice(scene) if resource in _LINKS else slower

    return broken


def _no_longer_hidden(scene: Scene, cluster: Cluster) -> Rows:
    """s by which passes side by side may take longer along a path on a cluster whose kernels are faster.

    An exchange hides behind kernels of its own pass, which become shorter. What is left of it may find nothing else to
    hide behind, and the host does not launch faster either (docs/laws/step.md).
    """
    paired = scene.plans.paired
    if not paired.any():
        return np.zeros(scene.plans.size)
    now, then = (
        layout_of(prepare(scene.model, some, scene.plans), slice(None)) for some in (scene.cluster, cluster)
    )
    assert now.passes.exchanges is not None
    assert then.passes.exchanges is not None
    forward, backward = np.maximum(then.passes.exchanges.seconds - now.passes.exchanges.seconds, 0.0)
    longer = (now.paths.forward * forward + now.paths.backward * backward).sum(axis=1).max(axis=0)
    return np.where(paired, longer, 0.0)


_LINKS = ("bandwidth inside", "latency inside", "network", "network latency", "adapters")


# more work, and memory


@dataclass(frozen=True, kw_only=True)
class _Changed:
    """Plans with something changed, where they are legal."""

    cost: StepCost
    rows: Rows
    """The rows of a scene's plans where they are."""
    working: Rows
    """B more that a layer running backward holds beyond what it keeps, in PyTorch's runtime.

    Ring attention has buffers of its own, and what an MLP frees grows with it. So this may grow while all else falls, or
    fall while all else grows, and memory with it by no more (docs/laws/memory.md).
    """


def _cost_of(scene: Scene, plans: Plan | None = None, **spec: Any) -> _Changed | None:
    """What plans cost with fields of the model changed; None if none is legal."""
    try:
        model = model_of(replace(scene.spec, **spec), scene.train) if spec else scene.model
    except PodsimError:
        return None
    plans = plans or scene.plans
    if "sequence" in spec:
        plans = plans.having({"sequence": spec["sequence"]})
    rows = np.flatnonzero(legal(model, scene.cluster, plans))
    if not rows.size:
        return None
    plans = plans.take(rows).wide()
    more = _working_bytes(model, scene, plans) - _working_bytes(
        scene.model, scene, scene.plans.take(rows).wide()
    )
    return _Changed(cost=step_cost(model, scene.cluster, plans), rows=rows, working=more)


def _working_bytes(model: Model, scene: Scene, plans: Plan) -> Rows:
    if scene.software.runtime != "torch":
        return np.zeros(plans.size)
    tables, every = prepare(model, scene.cluster, plans), slice(None)
    layout = torch_layout(
        plans, *(table.of(every) for table in (tables.stages, tables.weights, tables.activations))
    )
    return np.asarray(layout.working_bytes)


def _pairs_of(plans: Plan) -> Rows:
    """Micro-batches that every schedule may have more of."""
    return 2 * plans.pp * plans.dp * plans.micro_batch


_WORK: dict[str, Callable[[Scene], _Changed | None]] = {
    "layers": lambda s: _cost_of(s, layers=2 * s.spec.layers),
    "sequence": lambda s: _cost_of(s, sequence=2 * s.spec.sequence, positions=2 * s.spec.positions),
    "MLP width": lambda s: _cost_of(s, ffn=2 * s.spec.ffn) if s.spec.ffn else None,
    "vocabulary": lambda s: _cost_of(s, vocab=2 * s.spec.vocab),
    "batch": lambda s: _cost_of(s, s.plans.having({"global_batch": s.plans.global_batch + _pairs_of(s.plans)})),
    "hidden": lambda s: _cost_of(s, hidden=2 * s.spec.hidden, heads=2 * s.spec.heads, kv_heads=2 * s.spec.kv_heads),
    "micro-batch": lambda s: _cost_of(
        s, s.plans.having({"micro_batch": 2 * s.plans.micro_batch, "global_batch": 2 * s.plans.global_batch})
    ),
}  # fmt: skip


def _more_work(scene: Scene, work: str) -> _Changed | None:
    """What plans cost with more work; worked out once."""
    known = vars(scene).setdefault("_more_work", {})
    if work not in known:
        known[work] = _WORK[work](scene)
    return known[work]


def _faster_with(work: str) -> Callable[[Scene], Rows]:
    def broken(scene: Scene) -> Rows:
        more = _more_work(scene, work)
        if more is None:
            return _none(scene)
        rows = more.rows
        faster = ~(
            scene.cost.seconds[rows] <= more.cost.seconds * (1 + (ROUNDING if work in _COUNTS else _FITTED))
        )
        if work in _COUNTS:
            partly = scene.plans.recompute_layers > 0  # of more layers a smaller share
            uneven = scene.model.layer_count % (scene.plans.pp * scene.plans.virtual_stages) > 0
            kept = partly | uneven if work == "layers" else _none(scene)
            return _marked(scene, rows, faster) & (scene.train == "full") & ~_is_slowed(scene) & ~kept
        return _marked(scene, rows, faster) & _is_sum(scene) & ~_has_choice(scene)

    return broken


_COUNTS = ("layers", "batch")
"""work that is counted: more of the same passes"""
_FITTED = 0.01
"""share by which kernels that were measured may be faster at a larger size"""


def _is_slowed(scene: Scene) -> Rows:
    """Where weights or gradients on their way slow a pipeline; its longest path is found without them."""
    return (scene.plans.pp > 1) & (scene.plans.overlap_grad | (scene.plans.zero >= 2))


def _is_sum(scene: Scene) -> Rows:
    """Where a step is a sum of kernels. Paths of a pipeline are found for the arithmetic of a model, so that another
    model has others; unfused attention has one kernel for its softmax where heads are a multiple of four."""
    return (scene.plans.pp == 1) & np.asarray(scene.plans.flash).astype(bool)


def _smaller_with(work: str) -> Callable[[Scene], Rows]:
    def broken(scene: Scene) -> Rows:
        more = _more_work(scene, work)
        if more is None:
            return _none(scene)
        least = scene.cost.memory[more.rows] + np.minimum(more.working, 0.0)
        smaller = _marked(scene, more.rows, _less(least, more.cost.memory))
        return smaller & (
            scene.train == "full" or work != "layers"
        )  # others move what is trained to another stage

    return broken


def _marked(scene: Scene, rows: Rows, broken: Rows) -> Rows:
    marks = _none(scene)
    marks[rows] = broken
    return marks


def _states(cost: StepCost) -> Rows:
    """B of weights, gradients and optimizer."""
    return cost.kinds[:3].sum(axis=0)


def _memory(cost: StepCost) -> Rows:
    return cost.memory


def _without_buffers(cost: StepCost) -> Rows:
    return cost.memory - cost.kinds[KINDS.index("buffers")]


def _larger_with(
    change: Callable[[Plan], dict[str, Any]],
    of: Callable[[StepCost], Rows] = _states,
    where: Callable[[Scene], Rows] | None = None,
    before: Callable[[StepCost], Rows] | None = None,
) -> Callable[[Scene], Rows]:
    def broken(scene: Scene) -> Rows:
        less = _cost_of(scene, scene.plans.having(change(scene.plans)))
        if less is None:
            return _none(scene)
        most = (before or of)(scene.cost)[less.rows] + np.maximum(less.working, 0.0)
        larger = _less(of(less.cost), most) & (less.cost.memory > scene.cost.memory[less.rows])
        larger = _marked(scene, less.rows, larger)
        return larger if where is None else larger & where(scene)

    return broken


def _two_layers(scene: Scene) -> Rows:
    """Where each stage has two layers that are trained: it keeps their inputs, and one layer that is computed again."""
    return (scene.plans.pp * 2 <= scene.model.layer_count) & (scene.train == "full")


def _one_version(scene: Scene) -> Rows:
    """Where no stage keeps older weights, of which deeper pipelines have more, nor those that ZeRO 3 gathered for it.

    Layers that are trained may all be on the fullest of more stages, and so may a remainder of layers.
    """
    plans = scene.plans
    kept = np.isin(plans.schedule, (Schedule.PIPEDREAM, Schedule.PIPEDREAM_2BW)) | (plans.zero == 3)
    even = scene.model.layer_count % (2 * plans.pp * plans.virtual_stages) == 0
    return ~kept & even & (scene.train == "full")


_FALLS = "a step is sums and maxima of terms that fall with it"
_GROWS = "a step is sums and maxima of terms that grow with it"
_HOLDS = "the kinds of memory are sums of terms that grow with it"


def _laws_of(
    names: Iterable[str], name: str, why: str, broken: Callable[[str], Callable[[Scene], Rows]]
) -> tuple[Law, ...]:
    return tuple(Law(name=name.format(each), why=why, broken=broken(each)) for each in names)


LAWS: tuple[Law, ...] = (
    Law(name="finite", why="sums and maxima of finite terms that are not negative", broken=_not_finite),
    Law(name="parts add up", why="the parts are the terms of the step and of the memory", broken=_parts_differ),
    Law(name="peak", why="no GPU multiplies faster than its peak", broken=_beats_peak),
    Law(name="bytes", why="what is larger than the cache is read again", broken=_beats_memory),
    Law(name="links", why="what n ranks add up leaves each of them (n - 1) / n times", broken=_beats_links),
    Law(name="alone", why="a search costs a plan as a prediction does", broken=_differs_alone),
    *_laws_of(("memory bandwidth", "FLOPS", "memory", *_LINKS), "more {}", _FALLS, _slower_with),
    *_laws_of(_WORK, "more {} takes longer", _GROWS, _faster_with),
    *_laws_of(_WORK, "more {} holds more", _HOLDS, _smaller_with),
    Law(
        name="ZeRO holds less", why="each level divides one kind more on every stage, and may gather in buffers",
        broken=_larger_with(
            lambda p: {"zero": np.minimum(p.zero + 1, 3)}, _without_buffers, before=_memory,
            # the first level may keep sums of gradients
            where=lambda s: (s.plans.zero > 0) | (s.software.accumulator_memory == 0),
        ),
    ),
    Law(
        name="tp holds less", why="it divides; but what is exchanged may be kept",
        broken=_larger_with(
            lambda p: {"tp": p.tp * 2}, _memory,
            lambda s: (s.plans.recompute != 1) | (s.software.selective == "core"),
        ),
    ),
    Law(
        name="pp holds less", why="it divides layers",
        broken=_larger_with(lambda p: {"pp": p.pp * 2}, where=_one_version),
    ),
    Law(name="cp holds less", why="it divides tokens", broken=_larger_with(lambda p: {"cp": p.cp * 2}, _memory)),
    Law(name="ep holds less", why="it divides experts", broken=_larger_with(lambda p: {"ep": p.ep * 2})),
    Law(
        name="selective recomputation holds less", why="it leaves out the core of attention",
        broken=_larger_with(
            lambda p: {"recompute": np.where(p.recompute == 0, 1, p.recompute)},
            _memory,
            lambda s: np.full(s.plans.size, s.software.selective == "core"),
        ),
    ),
    Law(
        name="full recomputation holds less", why="it keeps the inputs of layers, and one layer",
        broken=_larger_with(
            lambda p: {"recompute": np.where(p.recompute == 0, 2, p.recompute)}, _memory, _two_layers
        ),
    ),
)  # fmt: skip


def broken_laws(scene: Scene, laws: Sequence[Law] = LAWS) -> list[str | None]:
    """For each plan of a scene, the laws that it breaks; None if it keeps all."""
    found: list[list[str]] = [[] for _ in range(scene.plans.size)]
    for law in laws:
        for row in np.flatnonzero(law.broken(scene)):
            found[row].append(law.name)
    return [f"{', '.join(names)}: {scene.say(row)}" if names else None for row, names in enumerate(found)]
