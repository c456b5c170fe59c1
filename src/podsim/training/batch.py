"""One plan or a million: tables of distinct keys, gathered for each plan and passed to the law of a step.

A cost that depends on a few fields of a plan is evaluated for one plan of each distinct combination of them. Plans
come in chunks that fit the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from podsim.axes import Shaped
from podsim.errors import PodsimError
from podsim.hardware.cluster import Cluster
from podsim.memo import Memo
from podsim.records import dataclass, field, fields, is_dataclass
from podsim.training.groups import GROUP_KEY, SEND_KEY, end_table, send_table
from podsim.training.layers import LAYER_KEY, layer_table, passes_of
from podsim.training.layout import Layout, Paths, Sends, SplitLayers, Stages, StepEnd
from podsim.training.memory import (
    ACTIVATION_KEY,
    WEIGHT_KEY,
    Activations,
    Weights,
    activation_table,
    memory_kind_bytes,
    weight_table,
)
from podsim.training.paths import PATH_KEY, paths_table
from podsim.training.pipeline_stages import STAGE_KEY, stages_table
from podsim.training.plan import Plan
from podsim.training.plan_values import BESIDE, Array, Placement, has_any
from podsim.training.software import Software, load_software
from podsim.training.split_layers import own_layers, split_layers
from podsim.training.step import WAYS, charge_seconds, part_seconds, path_seconds
from podsim.workload.model import Model

T = TypeVar("T")
_SINGLE: Memo[Any] = Memo(8192)
"""The tables of single plans, which predictions of similar plans share."""
_FIRST = np.zeros(1, dtype=np.int64)
_SENDS = tuple(field.name for field in fields(Sends))
_DENSE = 1 << 22
"""The largest range of codes for which a lookup table beats sorting."""


class Codes:
    """Each column of a million plans as small numbers, computed once for all tables with that key."""

    def __init__(self) -> None:
        """Start with no columns."""
        self._known: dict[int, tuple[Array, Array, int]] = {}

    def of(self, column: Shaped[Array, "plan"]) -> tuple[Shaped[Array, "plan"], int]:
        """(position of each value among the distinct ones, how many there are)."""
        known = self._known.get(id(column))
        if known is None:
            value = column.astype(np.int64, copy=False)
            low, high = int(value.min()), int(value.max())
            if low == high:
                known = (column, np.zeros(1, dtype=np.int16), 1)
            else:
                seen = np.zeros(high - low + 1, dtype=bool)
                seen[value - low] = True
                count = np.cumsum(seen, dtype=np.int16 if seen.size < 1 << 15 else np.int32)
                known = (column, (count - 1)[value - low], int(count[-1]))
            self._known[id(column)] = known  # holds the column, too, so that its identity stays its own
        return known[1], known[2]


def distinct_keys(plan: Plan, names: Sequence[str], codes: Codes | None = None) -> tuple[Array, Array]:
    """(position of one plan for each distinct combination of fields, the combination of each plan).

    `plan` must hold 1-D arrays of one length (Plan.arrays()).
    """
    count, codes = plan.size, codes or Codes()
    code, span = np.zeros(count, dtype=np.int64), 1
    for name in names:
        rank, values = codes.of(np.asarray(getattr(plan, name)))
        if values > 1:
            code *= values
            code += rank
            span *= values
    if span > _DENSE:
        _, first, index = np.unique(code, return_index=True, return_inverse=True)
        return first, index
    position = np.full(span, -1, dtype=np.int64)
    position[code[::-1]] = np.arange(count - 1, -1, -1)
    present = np.flatnonzero(position >= 0)
    number = np.zeros(span, dtype=np.int32)
    number[present] = np.arange(present.size)
    return position[present], number[code]


class _Gathered:
    """A dataclass of columns for some plans, each gathered at its first use: a chunk of a search needs few of them."""

    def __init__(self, table: Any, index: Shaped[Array, "plan"]) -> None:
        """Start with no gathered columns."""
        self._table, self._index = table, index

    def take(self, index: Shaped[Array, "plan"]) -> _Gathered:
        """The columns for some of these plans."""
        return _Gathered(self._table, self._index[index])

    def __getattr__(self, name: str) -> Any:
        """A column for the chosen plans."""
        column = gather(getattr(self._table, name), self._index)
        setattr(self, name, column)
        return column


def gather(table: Any, index: Array) -> Any:
    """An array, tuple or dataclass with only these positions on the last axis of its arrays."""
    if isinstance(table, np.ndarray):
        return table.take(index, axis=-1)  # several times as quick as table[..., index]
    if isinstance(table, (Plan, _Gathered)):
        return table.take(index)
    if isinstance(table, tuple):
        return tuple(gather(part, index) for part in table)
    if is_dataclass(table) and not isinstance(table, type):
        return _Gathered(table, index)
    return table


@dataclass(frozen=True)
class Keyed(Generic[T]):
    """A table with one plan for each distinct key, and the position of each plan's key in it."""

    table: T
    index: Shaped[Array, "plan"]

    def of(self, part: slice | Array) -> T:
        """The table's values for some of the plans; a single key's broadcast."""
        gathered: T = self.table if self.index.size == 1 else gather(self.table, self.index[part])
        return gathered


def keyed_table(
    plan: Plan, names: Sequence[str], function: Callable[[Plan], T], codes: Codes | None = None
) -> Keyed[T]:
    """Call `function` on one plan per distinct combination of the named fields.

    `function` must not depend on other fields of its plans, which are arbitrary. A single plan must be `wide`.
    """
    if plan.size == 1:
        return Keyed(function(plan), np.zeros(1, dtype=np.int64))
    first, index = distinct_keys(plan, names, codes)
    return Keyed(function(plan.take(first).wide()), index)


def chunks(size: int, length: int = 8192) -> Iterator[slice]:
    """Slices that fit the caches."""
    for start in range(0, size, length):
        yield slice(start, min(start + length, size))


@dataclass(frozen=True, kw_only=True)
class PlanTables:
    """The tables that some plans need, each made at its first use."""

    model: Model
    cluster: Cluster
    software: Software
    plan: Plan
    is_search: bool = False
    """Whether the seconds of layers are summed over parts where they can be."""
    core_share: float = 1.0
    """The cores of a rank of a measured machine (podsim.hardware.measured_host.Host); 1 for others."""
    codes: Codes = field(default_factory=Codes)

    @cached_property
    def layers(self) -> Keyed[Array]:
        """Seconds of a micro-batch through a layer of each block."""
        is_summed = self.is_search and not has_any(
            self.plan.loose_end
        )  # launches of half a pass need the parts

        def of_plans(sub: Plan) -> Array:
            few = (sub.take(np.arange(sub.size)[part]) for part in chunks(sub.size))  # to save memory
            parts = few if sub.size > 1 else [sub]
            tables = (layer_table(self.model, self.cluster, part, self.software) for part in parts)
            return np.concatenate([t.sum(axis=1, keepdims=True) if is_summed else t for t in tables], axis=-1)

        return self._of_key(("layers", is_summed, self.cluster, self.software), LAYER_KEY, of_plans)

    @cached_property
    def split(self) -> Keyed[SplitLayers] | None:
        """The differences of layers with weight gradients apart; None where no schedule has such."""
        has_split = has_any(self.plan.loose_end)
        return self._of_machine("split", LAYER_KEY, split_layers) if has_split else None

    @cached_property
    def ends(self) -> Keyed[StepEnd]:
        """The ends of steps; a search has them by division."""
        return self._of_machine("ends", GROUP_KEY, end_table)

    @cached_property
    def sends(self) -> Keyed[Sends]:
        """Sends between stages."""
        return self._of_machine("sends", SEND_KEY, send_table)

    @cached_property
    def stages(self) -> Keyed[Stages]:
        """Classes of equal stages."""
        return self._of_key(("stages",), STAGE_KEY, lambda sub: stages_table(self.model, sub))

    @cached_property
    def paths(self) -> Keyed[Paths]:
        """Counts along the paths of pipelines."""
        return self._of_key(("paths",), PATH_KEY, lambda sub: paths_table(self.model, sub))

    @cached_property
    def weights(self) -> Keyed[Weights]:
        """Parameters that ranks hold."""
        return self._of_key(("weights",), WEIGHT_KEY, lambda sub: weight_table(self.model, sub))

    @cached_property
    def activations(self) -> Keyed[Activations]:
        """Bytes that a micro-batch leaves."""
        key = "activations", self.software
        return self._of_key(key, ACTIVATION_KEY, lambda sub: activation_table(self.model, sub, self.software))

    def _of_machine(
        self, kind: str, names: Sequence[str], table: Callable[[Model, Cluster, Plan, Software], T]
    ) -> Keyed[T]:
        key = kind, self.cluster, self.software
        return self._of_key(key, names, lambda sub: table(self.model, self.cluster, sub, self.software))

    def _of_key(self, kind: tuple[Any, ...], names: Sequence[str], function: Callable[[Plan], T]) -> Keyed[T]:
        """A table of plans that differ in some fields; that of a single plan is kept by what decides it."""
        plan = self.plan
        if plan.size > 1:
            return keyed_table(plan, names, function, self.codes)
        return Keyed(_SINGLE.of((kind, self.model, plan.single_key(names)), lambda: function(plan)), _FIRST)


def prepare(
    model: Model, cluster: Cluster, plan: Plan, *, search: bool = False, software: Software | None = None
) -> PlanTables:
    """Tables of plans; for a `search`, with the seconds of layers summed over parts.

    `software` replaces the catalog's entry of the plan's name, as a fit of its constants does.
    """
    if cluster.gpu.streams_weights:
        raise PodsimError(f"{cluster.name}: its weights stream; only predict, plan and study answer for it")
    arrays = plan.arrays()
    return PlanTables(
        model=model,
        cluster=cluster,
        software=software or load_software(plan.software, cluster.gpu, plan.precision),
        plan=arrays.wide() if arrays.size == 1 else arrays,
        is_search=search,
        core_share=cluster.host.share if cluster.host is not None else 1.0,
    )


def plans_of(tables: PlanTables, part: slice | Array, changes: Mapping[str, Array] | None = None) -> Plan:
    """Some of the plans; `changes` are other values of fields that no table depends on."""
    is_single = tables.plan.size == 1 and not changes
    return tables.plan if is_single else tables.plan.take(part).having(changes or {}).wide()


def layout_of(
    tables: PlanTables,
    part: slice | Array,
    changes: Mapping[str, Array] | None = None,
    *,
    sent: Array | None = None,
) -> Layout:
    """The layouts of some of the plans, with `changes` as in plans_of; `sent`: 0 where sends take no time, else 1."""
    plan, software = plans_of(tables, part, changes), tables.software
    stages, sends, paths = tables.stages.of(part), tables.sends.of(part), tables.paths.of(part)
    layers, hidden = tables.layers.of(part), None
    if tables.split is not None:
        split = tables.split.of(part)
        layers, hidden = own_layers(plan, layers, split), split.hidden if has_any(plan.paired) else None
    passes = passes_of(tables.model, plan, stages, layers, hidden)
    piped = np.asarray(plan.pp) > 1
    chunks = np.where(piped, plan.virtual_stages, 1.0)
    charge = np.where(piped, charge_seconds(sends, software), 0.0)
    if sent is not None:
        sends, charge = Sends(**{name: getattr(sends, name) * sent for name in _SENDS}), charge * sent
    far = _far_seconds(paths, sends)
    return Layout(
        plan=plan,
        stages=stages,
        paths=paths,
        passes=passes,
        sends=sends,
        micro_batches=np.asarray(plan.micro_batches, dtype=float),
        chunks=chunks,
        parts=np.where(plan.placement == int(Placement.TWO_WAYS), 2.0, chunks),
        far_seconds=far,
        charge_seconds=charge,
        path_seconds=path_seconds(paths, passes, sends, charge, far),
        stage_seconds=np.where(stages.count > 0, passes.stage_parts.sum(axis=0), 0.0),
    )


def _far_seconds(paths: Paths, sends: Sends) -> Shaped[Array, "path plan"] | None:
    """What sends to other nodes add to each path, where some stages share a node and others do not."""
    if not has_any(sends.further_seconds):
        return None
    sharing = np.searchsorted(BESIDE, sends.stages_per_node)
    far = np.take_along_axis(paths.far_sends, sharing[None, None], axis=0)[0]
    return np.asarray(far * sends.further_seconds)


@dataclass(frozen=True, kw_only=True)
class StepCost:
    """Seconds and bytes of plans."""

    seconds: Shaped[Array, "plan"]
    """s. The step."""
    parts: Shaped[Array, "part plan"]
    """s. The parts of the step (SPLIT), which add up to it."""
    memory: Shaped[Array, "plan"]
    """B. The memory of the fullest stage."""
    kinds: Shaped[Array, "kind plan"]
    """B. The kinds of memory (KINDS) of the fullest stage."""
    stages: Shaped[Array, "kind stage plan"]
    """B. The kinds of memory of each class of stages; only for a single plan."""


def step_cost(model: Model, cluster: Cluster, plan: Plan, *, software: Software | None = None) -> StepCost:
    """Seconds and bytes of every plan, with the split into parts."""
    tables = prepare(model, cluster, plan, software=software)
    costs = [cost_slice(tables, part) for part in chunks(tables.plan.size, 8192 // len(WAYS))]
    if len(costs) == 1:
        return costs[0]
    return StepCost(
        **{
            field.name: np.concatenate([getattr(cost, field.name) for cost in costs], axis=-1)
            for field in fields(StepCost)
        }
    )


def cost_slice(tables: PlanTables, part: slice, *, stages: bool = False) -> StepCost:
    """Seconds and bytes of a slice of the plans, with the split into parts; with `stages` the memory of each class."""
    own, software = np.arange(tables.layers.index.size)[part], tables.software
    rows, (shared, sent) = np.concatenate([own] * len(WAYS)), np.repeat(WAYS, own.size, axis=0).T
    layout = layout_of(tables, rows, sent=sent)
    step, parts = part_seconds(layout, tables.ends.of(rows), software, tables.core_share, shared)
    held = tables.stages.of(part), tables.weights.of(part), tables.activations.of(part)
    bytes_of_kinds = memory_kind_bytes(plans_of(tables, part), software, *held)
    is_stage = held[0].count > 0
    kinds = np.empty((len(bytes_of_kinds), *is_stage.shape))
    for kind, size in zip(kinds, bytes_of_kinds, strict=True):
        kind[:] = size
    total = np.where(is_stage, kinds.sum(axis=0), 0.0)
    fullest = total.argmax(axis=0)
    column = np.arange(fullest.size)
    return StepCost(
        seconds=step,
        parts=parts,
        memory=total[fullest, column],
        kinds=kinds[:, fullest, column],
        stages=kinds if stages or fullest.size == 1 else kinds[:, :0],
    )
