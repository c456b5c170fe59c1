"""The values of a plan: scalars, or arrays with one entry for each plan of a search.

Ranks lie in one grid, tensor parallelism innermost, then context, data, and pipeline outermost (Megatron-LM's order):
groups are slices of it, so a TP group fills a node before it leaves it. In layers of experts the ranks of a stage lie in
a grid of their own, expert_tp innermost, then ep, then replicas (arXiv 2504.14960, parallel folding).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from podsim.errors import PlanError
from podsim.options.plan_options import RECOMPUTATIONS, SCHEDULES, LayoutFields, TrainedFields
from podsim.options.question import like, options_of
from podsim.records import dataclass, fields, replace
from podsim.workload.model import Model

BESIDE = (2, 4, 8, 16)
"""pipeline stages that may share a node of a pipeline over several nodes, besides one"""

Array: TypeAlias = NDArray[Any]
Ints: TypeAlias = int | NDArray[Any]


class Recompute(IntEnum):
    """Which activations are computed again in the backward pass."""

    NONE = 0
    SELECTIVE = 1
    """the attention core (arXiv 2205.05198)"""
    FULL = 2
    """whole layers, from their input"""


class Schedule(IntEnum):
    """In which order a pipeline stage runs its micro-batches."""

    GPIPE = 0
    ONE_F_ONE_B = 1
    INTERLEAVED = 2
    ZB_H1 = 3
    ZB_H2 = 4
    ZB_V = 5
    DUALPIPE = 6
    DUALPIPE_V = 7
    BREADTH_FIRST = 8
    PIPEDREAM = 9
    PIPEDREAM_2BW = 10


SCHEDULE_CODES = dict(zip(SCHEDULES, Schedule, strict=True))
"""by name; `podsim.schedules` has what each is"""


class Placement(IntEnum):
    """Which model parts a pipeline rank holds. Arrays are several times as quick to compare with its `int`."""

    LOOP = 0
    """rank r parts r, r + p, ..."""
    VEE = 1
    """rank r parts r and 2 p - 1 - r"""
    TWO_WAYS = 2
    """rank r parts r and p - 1 - r, for half of the micro-batches each"""


SPLIT_BACKWARD = (Schedule.ZB_H1, Schedule.ZB_H2, Schedule.ZB_V, Schedule.DUALPIPE, Schedule.DUALPIPE_V)
"""schedules that compute gradients of weights apart"""
# the same by code, which is quicker to look up than to compare: of one plan as of a million
_SPLIT = np.array([code in SPLIT_BACKWARD for code in Schedule])
_PAIRED = np.array([code in (Schedule.DUALPIPE, Schedule.DUALPIPE_V) for code in Schedule])
_PLACEMENTS = np.full(len(Schedule), int(Placement.LOOP))
_PLACEMENTS[[Schedule.ZB_V, Schedule.DUALPIPE_V]] = Placement.VEE
_PLACEMENTS[Schedule.DUALPIPE] = Placement.TWO_WAYS


@dataclass(frozen=True, kw_only=True)
class PlanValues(TrainedFields, LayoutFields):
    """The values of one plan, or of many. Integer and boolean fields may be numpy arrays that broadcast together.

    `podsim.options.plan_options` declares the fields; those that follow from others have here what they are without them.
    """

    dp: Ints = like(LayoutFields, "dp", default=1)
    expert_tp: Ints = like(LayoutFields, "expert_tp", default=0)
    global_batch: Ints = 1
    """The number of sequences of one step."""
    schedule: Ints | str = like(LayoutFields, "schedule", default=Schedule.ONE_F_ONE_B)
    flash: Ints = like(LayoutFields, "flash", default=True)
    overlap_grad: Ints = like(LayoutFields, "overlap_grad", default=True)
    overlap_param: Ints = like(LayoutFields, "overlap_param", default=True)
    precision: str = like(TrainedFields, "precision", default="bf16")
    software: str = like(TrainedFields, "software", default="megatron-core")
    sequence: int = like(TrainedFields, "sequence", default=0)

    def __post_init__(self) -> None:
        """Turn names into codes."""
        if isinstance(self.recompute, str):
            object.__setattr__(self, "recompute", _code("recompute", self.recompute, _RECOMPUTES))
        if isinstance(self.schedule, str):
            object.__setattr__(self, "schedule", _code("schedule", self.schedule, SCHEDULE_CODES))

    @property
    def gpus(self) -> Ints:
        """GPUs it occupies."""
        return self.tp * self.pp * self.dp * self.cp

    @property
    def micro_batches(self) -> Ints:
        """Micro-batches each pipeline runs in a step."""
        return self.global_batch // (self.dp * self.micro_batch)

    @property
    def exchange_level(self) -> Array:
        """The ZeRO level by whose law ranks exchange: 1 for 2 in a pipeline, whose gradients leave once a round."""
        zero = np.asarray(self.zero)
        return np.asarray(zero - ((zero == 2) & (np.asarray(self.pp) > 1)))

    @cached_property
    def placement(self) -> Array:
        """Which model parts a pipeline rank holds, a Placement."""
        return np.asarray(_PLACEMENTS[self.schedule])

    @cached_property
    def paired(self) -> Array:
        """Whether its schedule has simultaneous passes, so that one hides the exchanges of the other."""
        return _PAIRED[self.schedule] & (np.asarray(self.pp) > 1)

    @cached_property
    def loose_end(self) -> Array:
        """Whether another rank than the first may run the last pass of a step: schedules with weight gradients apart."""
        return _SPLIT[self.schedule] & (np.asarray(self.pp) > 1)

    @cached_property
    def schedule_codes(self) -> list[int]:
        """The schedules that some plan has."""
        return np.flatnonzero(np.bincount(np.ravel(self.schedule))).tolist()

    @property
    def shard_ranks(self) -> Ints:
        """Ranks over which ZeRO divides what it divides."""
        replicas = self.dp * self.cp
        return np.where(np.asarray(self.shard) > 0, np.minimum(self.shard, replicas), np.asarray(replicas))

    @cached_property
    def expert_ranks(self) -> Array:
        """Ranks that divide each expert's matrices: `expert_tp`, or the TP group where that is 0."""
        return np.asarray(np.where(np.asarray(self.expert_tp) > 0, self.expert_tp, self.tp))

    @property
    def expert_gather(self) -> Array:
        """Tokens that the ranks of an expert gather, over those of the TP group."""
        return np.asarray(self.expert_ranks / np.asarray(self.tp, dtype=float))

    def expert_copies(self, ranks: Ints) -> Array:
        """Of data and context ranks, with their TP groups, those that hold the same part of the same experts."""
        return np.asarray(np.maximum(ranks * np.asarray(self.tp) // (self.ep * self.expert_ranks), 1))

    def length(self, model: Model) -> int:
        """Tokens of a sequence."""
        return self.sequence or model.sequence

    @cached_property
    def size(self) -> int:
        """Number of plans it holds (1 for a scalar plan)."""
        return int(np.broadcast(*(np.asarray(getattr(self, name)) for name in ARRAY_FIELDS)).size)

    def arrays(self) -> Self:
        """The same plan with every numeric field a 1-D array of one common length."""
        known = [getattr(self, name) for name in ARRAY_FIELDS]
        if any(isinstance(value, np.ndarray) for value in known):
            values = list(np.broadcast_arrays(*map(np.atleast_1d, known)))
        else:  # as one array, which is several times as quick
            wide = zip(ARRAY_FIELDS, np.array(known, dtype=np.int64)[:, None], strict=True)
            values = [value.astype(bool) if name in _BOOLEAN else value for name, value in wide]
        return self.having(dict(zip(ARRAY_FIELDS, values, strict=True)))

    def having(self, columns: Mapping[str, Any]) -> Self:
        """The same plan with other values of some fields."""
        return replace(self, **columns)

    def wide(self) -> Self:
        """The plan as arrays of 64-bit whole numbers, which products of degrees and sizes need; flags as they are."""
        columns = {name: np.asarray(getattr(self, name)) for name in ARRAY_FIELDS}
        if not all(column.ndim for column in columns.values()):
            return self.arrays().wide()
        narrow = {name: v for name, v in columns.items() if v.dtype not in _WIDE}
        return self.having({name: v.astype(np.int64) for name, v in narrow.items()}) if narrow else self

    def rows(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Values of some fields or properties, plan by plan."""
        columns = (np.atleast_1d(getattr(self, name)) for name in names)
        wide = (c if c.size == self.size else np.broadcast_to(c, self.size) for c in columns)
        return list(zip(*(column.tolist() for column in wide), strict=True))

    def single_key(self, names: Sequence[str]) -> tuple[Any, ...]:
        """What a table of one plan, as arrays of one element, depends on: some fields, and what is trained."""
        values = self._single_values
        return tuple([values[name] for name in (*_TRAINED, *names)])

    @cached_property
    def _single_values(self) -> dict[str, Any]:
        """The fields of one plan, as arrays of one element, and what tables know of it besides."""
        arrays = (*ARRAY_FIELDS, "gpus", "placement", "loose_end")
        numbers = {name: getattr(self, name).item() for name in arrays}
        return {name: getattr(self, name) for name in _TRAINED} | numbers

    def take(self, index: Any) -> Self:
        """The plans at an index (an int gives a scalar plan, anything else an array plan)."""
        chosen: dict[str, Any] = {}
        for name in ARRAY_FIELDS:
            value = np.asarray(getattr(self, name))
            picked = value if value.ndim == 0 else _values_at(value, index)
            chosen[name] = _scalar(name, picked) if np.ndim(picked) == 0 else picked
        return self.having(chosen)

    def describe(self) -> dict[str, object]:
        """Names and values of a scalar plan, with codes spelled out."""
        values = ((name, read, getattr(self, name)) for name, read in _READERS.items())
        return {name: read(value) for name, read, value in values if value or name not in FACTOR_FIELDS}


def _values_at(column: Array, index: Any) -> Array:
    """The values at an index; `take` is several times as quick, and knows no masks and no slices."""
    is_index = isinstance(index, np.ndarray) and index.dtype != bool
    if is_index and column.strides == (0,):  # one value for all: `take` would first write it out for each
        return np.broadcast_to(column[:1], index.shape)
    return np.asarray(column.take(index) if is_index else column[index])


FACTOR_FIELDS = tuple(name for name, known in options_of(TrainedFields).items() if known.kind is float)
"""factors of what is trained that no search varies; a description leaves them out where they are 0"""
_TRAINED = ("precision", "optimizer_precision", "sequence", *FACTOR_FIELDS)
_RECOMPUTES = dict(zip(RECOMPUTATIONS, Recompute, strict=True))
_BOOLEAN = tuple(name for name, known in options_of(PlanValues).items() if known.kind is bool)
_WIDE = (np.dtype(np.int64), np.dtype(bool))
ARRAY_FIELDS = tuple(
    field.name for field in fields(PlanValues) if field.name not in options_of(TrainedFields)
)
SHARED_FIELDS = tuple(field.name for field in fields(PlanValues) if field.name not in ARRAY_FIELDS)
"""the fields that plans of one evaluation share"""
Values = TypeVar("Values", bound=PlanValues)


def beside(plans: Sequence[Values]) -> Values:
    """Scalar plans that differ in numbers and flags alone, as one."""
    if len(plans) == 1:
        return plans[0]
    return plans[0].having({name: np.array([getattr(plan, name) for plan in plans]) for name in ARRAY_FIELDS})


_READERS: dict[str, Callable[[Any], object]] = {
    name: bool if name in _BOOLEAN else int if name in ARRAY_FIELDS else lambda value: value
    for name in (field.name for field in fields(PlanValues))
} | {"recompute": lambda code: RECOMPUTATIONS[int(code)], "schedule": lambda code: SCHEDULES[int(code)]}
"""how a description has the value of each field"""


def has_any(flags: Array | bool) -> bool:
    """Whether some flag holds: of one plan several times as quick as `flags.any()`."""
    return bool(np.count_nonzero(flags))


def _code(field: str, text: str, codes: dict[str, Any]) -> int:
    if text.lower() not in codes:
        raise PlanError([f"{field}={text!r} is unknown; {field} may be {', '.join(codes)}"])
    return int(codes[text.lower()])


def _scalar(name: str, value: Any) -> int | bool:
    return bool(value) if name in _BOOLEAN else int(value)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Where the members of each group lie: how many of them share a node.

    The stride of a group in the rank grid decides: members of a group of `size` ranks, `stride` apart, share a node
    of G GPUs in runs of G / stride. Where groups do not tile nodes some lie across two, and a step waits for the
    one with fewest members on a node of its own.
    """

    gpus_per_node: int
    plan: PlanValues
    """The plan whose groups lie in the grid."""

    def per_node(self, size: Ints, stride: Ints) -> Array:
        """Members on a node of the group that is spread most: 2 of six ranks side by side, on nodes of eight.

        All of them, where one node has room for the plan.
        """
        size, stride = np.asarray(size), np.asarray(stride)
        room = np.gcd(size * stride, self.gpus_per_node)  # groups begin and end at multiples of it in a node
        spread = np.minimum(np.maximum(room // stride, 1), size)
        return np.asarray(np.where(np.asarray(self.plan.gpus) <= self.gpus_per_node, size, spread))

    @property
    def tp(self) -> Array:
        """TP members on a node."""
        return self.per_node(self.plan.tp, 1)

    @property
    def cp(self) -> Array:
        """CP members on a node."""
        return self.per_node(self.plan.cp, self.plan.tp)

    @property
    def ep(self) -> Array:
        """EP members on a node."""
        return self.per_node(self.plan.ep, self.plan.expert_ranks)

    def data(self, size: Ints) -> Array:
        """Members on a node of a group of `size` data and context ranks."""
        return self.per_node(size, self.plan.tp)

    @property
    def _stage(self) -> Array:
        """GPUs from one pipeline stage to the next."""
        return np.asarray(self.plan.tp * self.plan.cp * self.plan.dp)

    @property
    def stages(self) -> Array:
        """The number of neighbouring pipeline stages that share a node, for a pipeline over several nodes: 1, or one
        of BESIDE.
        """
        room = np.maximum(self.gpus_per_node // self._stage, 1)
        return np.asarray(np.take((1, *BESIDE), np.searchsorted(BESIDE, room, side="right")))

    @property
    def pipeline_crosses(self) -> Array:
        """Whether first and last pipeline stage lie on different nodes."""
        return np.asarray(self._stage * np.asarray(self.plan.pp) > self.gpus_per_node)
