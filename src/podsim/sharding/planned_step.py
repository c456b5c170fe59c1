"""The step of a transformer's sharding: that of the nearest plan, and what divides otherwise by the law of graphs.

    part   = the plan's part x the graph's part of the sharding / the graph's part of the plan's own annotations
    step   = compute + exposed collectives + update
    memory = the plan's + the graph's of the sharding - the graph's of the plan's own annotations

A sharding that a plan can say has exactly the plan's step (podsim.training.step), ZeRO, micro-batches and recomputation
included. The law of graphs (podsim.sharding.sharded_step) counts only for what no plan can say. The nearest plan has the
sharding's degrees, the fastest of its kind that fits. Known error: that of the step's law, and what the law of graphs
is off in a ratio of its own steps, which nothing measured shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from podsim.errors import PlanError
from podsim.sharding.layer_graph import layer_graph
from podsim.sharding.mesh import Given, Mesh
from podsim.sharding.plan_annotations import Degrees, mesh_degrees, plan_annotations, plan_mesh
from podsim.sharding.propagation import Sharding, propagate
from podsim.sharding.sharded_step import ShardCase, ShardedStep, sharded_step
from podsim.training.plan import Plan
from podsim.training.plan_values import Recompute
from podsim.training.predict import predict_plan
from podsim.training.search import SearchResult, search
from podsim.training.search_limits import Space
from podsim.training.search_order import fastest_plans
from podsim.workload.model import Model

_SAME = 1e-9
"""share of a step within which the law of graphs cannot tell two shardings apart"""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedSharding:
    """A plan as a sharding, by both laws."""

    plan: Plan
    mesh: Mesh
    given: Given
    case: ShardCase
    """One micro-batch as a graph."""
    step: ShardedStep
    """The step that `podsim predict` says."""
    own: ShardedStep
    """The step by the law of graphs, with Adam."""

    def distance(self, other: ShardedStep) -> float:
        """How far a sharding is from the plan by the law of graphs: shares of its seconds and of its memory."""
        return abs(other.seconds / self.own.seconds - 1) + abs(other.memory / self.own.memory - 1)

    def otherwise(self, other: ShardedStep) -> ShardedStep:
        """The step of another sharding: the plan's, in the proportion of both by the law of graphs."""
        if self.distance(other) < _SAME:
            return replace(self.step, ops=other.ops)
        parts = {name: self._part(other, name) for name in ("compute", "exposed", "update")}
        seconds = sum(parts.values())
        return ShardedStep(
            seconds=seconds, **parts, hidden=other.hidden, ops=other.ops, plan=self.plan,
            memory=self.step.memory + other.memory - self.own.memory, beyond=seconds - self.step.seconds,
        )  # fmt: skip

    def _part(self, other: ShardedStep, name: str) -> float:
        law, own, new = (getattr(step, name) for step in (self.step, self.own, other))
        return float(law * new / own if own else law + new)


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedCase(ShardCase):
    """A transformer's step, whose shardings are compared with plans; its graph has the whole batch."""

    model: Model
    fixed: Plan
    """The fields of plans that no search chooses."""
    limits: Space
    """The values that a field of plans may have."""
    capacity: float
    """The room of an expert over its mean share of tokens."""
    known: dict[Degrees, list[PlannedSharding]] = field(default_factory=dict)

    def step(self, mesh: Mesh, given: Given) -> tuple[Sharding, ShardedStep]:
        """The divisions that follow from annotations, and the step. Raises ContradictionError, and PlanError."""
        sharding = propagate(self.graph, mesh, given)
        shapes = self._nearest_shapes(mesh_degrees(self.graph, sharding, mesh))
        steps = []
        for shape in shapes:
            case = replace(shape.case, optimizer=self.optimizer)
            other = sharded_step(case, propagate(case.graph, mesh, given), mesh)
            steps.append((shape.distance(other), shape.otherwise(other)))
        return sharding, min(steps, key=lambda pair: pair[0])[1]

    def best_plans(self, top: int) -> list[PlannedSharding]:
        """The fastest plan of each layout without a pipeline, in order; the smallest one where none fits.

        Raises PlanError where no plan has a mesh.
        """
        first: dict[Degrees, Plan] = {}
        for plan in _ranked(self._searched({})):
            first.setdefault(Degrees(int(plan.tp), int(plan.cp), int(plan.ep)), plan)
            if len(first) == top:
                break
        if not first:
            raise PlanError(
                ["no plan within these limits has a mesh: shard its weights over all ranks (shard=0)"]
            )
        return [self._planned(plan) for plan in first.values()]

    def _nearest_shapes(self, degrees: Degrees) -> list[PlannedSharding]:
        """Plans of some degrees, or of the nearest smaller ones that are legal."""
        if degrees in self.known:
            return self.known[degrees]
        problem: PlanError | None = None
        for tried in _smaller(degrees):
            try:
                shapes = self._shapes(tried)
            except PlanError as error:
                problem = problem or error
                continue
            if shapes:
                self.known[degrees] = shapes
                return shapes
        assert problem is not None
        raise problem

    def _shapes(self, degrees: Degrees) -> list[PlannedSharding]:
        """Of each kind of sharding with these degrees, by sequence parallelism and FSDP, the fastest plan that fits."""
        wanted = {name: (value,) for name, value in degrees._asdict().items()}
        for name, (value,) in wanted.items():
            if value not in self.limits.get(name, (value,)):
                allowed = ", ".join(map(str, self.limits[name]))
                raise PlanError([f"these annotations divide as {name}={value}, and --limit allows {allowed}"])
        result = self._searched(wanted, every=True)
        first: dict[tuple[bool, bool], Plan] = {}
        for plan in _ranked(result):
            first.setdefault((bool(plan.sequence_parallel), plan.zero == 3), plan)
            if len(first) == 4:
                break
        return [self._planned(plan) for plan in first.values()]

    def _searched(self, wanted: Space, *, every: bool = False) -> SearchResult:
        asked = {**self.limits, **wanted, "pp": (1,)}
        return search(self.model, self.cluster, self.fixed, wanted=asked, every=every)

    def _planned(self, plan: Plan) -> PlannedSharding:
        """A plan that has a mesh, as a sharding."""
        mesh = plan_mesh(plan)
        assert mesh is not None
        batch = int(plan.micro_batch * plan.dp)
        graph = layer_graph(self.model, batch, self.software, capacity=self.capacity)
        case = ShardCase(
            graph=graph, cluster=self.cluster, precision=self.precision, software=self.software, optimizer="adam",
            room=self.room, micro_batches=int(plan.micro_batches), recomputes=plan.recompute == Recompute.FULL,
        )  # fmt: skip
        given = plan_annotations(graph, self.model, plan, mesh)
        own = sharded_step(case, propagate(graph, mesh, given), mesh)
        step = replace(self._law_step(plan), ops=own.ops, hidden=own.hidden)
        return PlannedSharding(plan=plan, mesh=mesh, given=given, case=case, step=step, own=own)

    def _law_step(self, plan: Plan) -> ShardedStep:
        """The step of a plan, as `podsim predict` says it."""
        law = predict_plan(self.model, self.cluster, plan)
        parts = law.parts
        compute = sum(parts[name] for name in ("compute", "memory", "launch", "host"))
        exposed = sum(parts[name] for name in ("tp", "cp", "ep", "pp", "dp", "bubble"))
        return ShardedStep(
            seconds=law.step_time, compute=compute, exposed=exposed, hidden=0.0, update=parts["optimizer"],
            memory=law.memory, plan=plan,
        )  # fmt: skip


def _ranked(result: SearchResult) -> Iterator[Plan]:
    """The plans that fit and have a mesh, fastest first; where none fits, that with the least memory."""
    order = fastest_plans(result) if result.order.size else result.memory_bytes.argsort()[:1]
    return (plan for plan in map(result.plan, order.tolist()) if plan_mesh(plan) is not None)


def _smaller(degrees: Degrees) -> Iterator[Degrees]:
    """Degrees, the same ones first, then smaller ones that divide them."""
    for tp in range(degrees.tp, 0, -1):
        if degrees.tp % tp == 0:
            for cp in dict.fromkeys((degrees.cp, 1)):
                for ep in dict.fromkeys((degrees.ep, 1)):
                    yield Degrees(tp, cp, ep)
