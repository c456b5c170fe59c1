"""The space of a search: every legal plan, built field by field, and cut as early as possible.

What changes the numbers trained (precision, batch, sequence) is the user's choice and stays fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from podsim.axes import Shaped
from podsim.hardware.cluster import Cluster
from podsim.records import dataclass, replace
from podsim.training.abilities import is_available
from podsim.training.plan import Plan
from podsim.training.plan_values import Array, Ints, Recompute, Schedule
from podsim.training.rules import RULES, Facts, facts
from podsim.training.search_limits import Space
from podsim.training.software import Software
from podsim.workload.model import Model

LATER = {"zero", "shard", "recompute", "recompute_layers", "overlap_grad", "overlap_param"}
"""The fields that are tried on each layout."""
_SHORT = {"zero", "shard", "recompute_layers", "schedule", "virtual_stages"}
"""The fields whose values need one byte; products of the others need more."""
_ROW = "row"
"""The column that numbers combinations of all fields before those that are tried on each layout."""


def _divisors(number: int) -> Array:
    values = np.arange(1, number + 1, dtype=np.int32)
    return np.asarray(values[number % values == 0])


@dataclass(frozen=True, kw_only=True)
class _Choices:
    """The values that each field may take: the requested ones, or the default ones that the software has."""

    wanted: Space
    software: Software

    def of(self, field: str, default: Sequence[Any] | Array) -> Array:
        given = self.wanted.get(field, ())
        values = np.asarray(given if len(given) else default)
        if not len(given):
            values = values[is_available(field, values, self.software)]
        is_short = field in _SHORT and values.max(initial=0) <= np.iinfo(np.int8).max
        return values if values.dtype == bool else values.astype(np.int8 if is_short else np.int32)


@dataclass
class _Growth:
    """Combinations so far, one column a field, and what each rule has cut."""

    fixed: Plan
    facts: Facts
    columns: dict[str, Array]
    cut: dict[str, int]

    @property
    def size(self) -> int:
        return int(next(iter(self.columns.values())).size)

    @property
    def plan(self) -> Plan:
        """The combinations as plans."""
        return self.fixed.having({name: c for name, c in self.columns.items() if name != _ROW})

    def copy(self) -> _Growth:
        """The same combinations, to be cut in another way; what is cut counts for both."""
        return replace(self, columns=dict(self.columns))

    def add(self, name: str, values: Array, rules: Sequence[str] = ()) -> None:
        """Every combination with the values of one more field, except those that break the named rules."""
        count = self.size
        if values.size == 1:
            self.columns[name] = np.full(count, values[0])
        else:
            self.change(lambda column: np.repeat(column, values.size))
            self.columns[name] = np.tile(values, count)
        self.drop(rules)

    def change(self, each: Callable[[Array], Array]) -> None:
        """Change the columns one after the other, so that no two tables stand side by side."""
        for name in self.columns:
            self.columns[name] = each(self.columns[name])

    def drop(self, rules: Sequence[str]) -> None:
        """Keep what obeys the named rules."""
        for name, violated, _ in RULES:
            if name in rules:
                wrong = np.asarray(violated(self.plan, self.facts), dtype=bool)
                self.keep(name, ~np.broadcast_to(wrong, (self.size,)))

    def keep(self, reason: str, wanted: Array) -> None:
        """Keep where `wanted`; count the rest under a reason."""
        lost = int(wanted.size - np.count_nonzero(wanted))
        if lost:
            self.cut[reason] = self.cut.get(reason, 0) + lost
            index = np.flatnonzero(wanted)  # several times as quick as the mask itself
            self.change(lambda column: column.take(index))


@dataclass(frozen=True, kw_only=True)
class Division:
    """The rows of a space that are legal with one zero and one shard, ascending."""

    zero: int
    shard: int
    rows: Shaped[Array, "row"]


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """Every legal plan: rows, each with the divisions that list it and the modes that it may have."""

    rows: Plan
    """The combinations of all fields but zero, shard, recomputation and the overlaps of gradients and parameters."""
    divisions: tuple[Division, ...]
    modes: Shaped[Array, "recompute field"]
    """The values of recompute and recompute_layers."""
    cut: dict[str, int]
    """The number of combinations that each rule cut."""
    layers: int

    def columns(self, modes: Shaped[Array, "plan"]) -> dict[str, Array]:
        """The fields of modes, by their numbers."""
        return dict(zip(("recompute", "recompute_layers"), self.modes[modes].T, strict=True))

    def is_legal(self, pp: Ints) -> Shaped[Array, "row recompute"]:
        """Whether modes recompute fewer layers than a stage has."""
        return np.asarray(self.modes[:, 1] < -(-self.layers // np.asarray(pp))[..., None])


def space(
    model: Model, cluster: Cluster, fixed: Plan, gpus: int, wanted: Space, software: Software
) -> SearchSpace:
    """Every legal plan on exactly `gpus` GPUs, without costing any.

    `fixed` gives the global batch, the sequence, the precisions and the software.  The overlaps of gradients and
    parameters are left out: search() tries them on each plan.
    """
    choices = _Choices(wanted=wanted, software=software)
    known = facts(model, cluster, fixed.length(model))
    divisors = _divisors(gpus)
    grow = _Growth(fixed, known, {"tp": choices.of("tp", divisors)}, {})
    grow.drop(["heads", "kv heads", "mlp width"])
    grow.add("pp", choices.of("pp", divisors), ["layers"])
    grow.keep("gpus", gpus % (grow.columns["tp"] * grow.columns["pp"]) == 0)
    grow.add("cp", choices.of("cp", divisors[divisors <= 64]), ["context"])
    ranks = grow.columns["tp"] * grow.columns["pp"] * grow.columns["cp"]
    grow.keep("gpus", gpus % ranks == 0)
    grow.columns["dp"] = gpus // (grow.columns["tp"] * grow.columns["pp"] * grow.columns["cp"])
    grow.keep("dp", np.isin(grow.columns["dp"], choices.of("dp", grow.columns["dp"])))
    experts = _divisors(known.experts) if known.experts else np.ones(1, np.int32)
    ways = [0, 1] if known.experts and software.folds_experts else [0]
    grow.add("expert_tp", choices.of("expert_tp", ways), ["folded experts"])
    alike = grow.columns["expert_tp"] == grow.columns["tp"]
    grow.keep("experts divided as the rest", ~alike | bool(choices.wanted.get("expert_tp")))
    grow.add("ep", choices.of("ep", experts), ["expert groups"])
    spread = (grow.columns["ep"] > 1) | (grow.columns["expert_tp"] == 0)
    grow.keep("folding without expert groups", spread | bool(choices.wanted.get("expert_tp")))
    micro = np.arange(1, 33, dtype=np.int32)
    micro = micro[int(fixed.global_batch) % micro == 0]
    grow.add("micro_batch", choices.of("micro_batch", micro), ["batch"])
    _add_pipeline(grow, choices, known)
    flags = ["sequence parallel", "sequence split", "folded tokens"]
    grow.add("sequence_parallel", choices.of("sequence_parallel", [False, True]), flags)
    overlap = [False, True] if "overlap_tp" in software.can_overlap else [False]
    grow.add("overlap_tp", choices.of("overlap_tp", overlap))
    useless = (grow.columns["tp"] == 1) & (grow.columns["overlap_tp"] != choices.of("overlap_tp", overlap)[0])
    grow.keep("overlap_tp without a TP group", ~useless)
    grow.add("flash", choices.of("flash", [True, False]), ["flash"])
    for name in sorted(choices.wanted.keys() - grow.columns.keys() - LATER):
        grow.add(name, choices.of(name, ()))
    rows = grow.plan.arrays()
    grow.columns[_ROW] = np.arange(grow.size)
    divisions = _divisions(grow, choices, cluster)
    stages = np.asarray(rows.pp)
    least = min((int(stages[own.rows].min()) for own in divisions), default=known.layers)
    modes = _modes(choices, -(-known.layers // max(least, 1)))
    legal = SearchSpace(rows=rows, divisions=divisions, modes=modes, cut=grow.cut, layers=known.layers)
    illegal = (~legal.is_legal(stages)).sum(axis=1)
    if lost := sum(int(illegal[own.rows].sum()) for own in divisions):
        grow.cut["recomputing every layer is full recomputation"] = lost
    return legal


def _add_pipeline(grow: _Growth, choices: _Choices, known: Facts) -> None:
    chunk = _divisors(known.layers)
    grow.add("virtual_stages", choices.of("virtual_stages", chunk[chunk <= 16]))
    grow.add("schedule", choices.of("schedule", [Schedule.ONE_F_ONE_B, Schedule.INTERLEAVED, Schedule.GPIPE]))
    grow.drop(["virtual stages", "schedule's pipeline", "layers", "schedule's batches"])
    alone = (grow.columns["pp"] == 1) & (len(choices.wanted.get("schedule", ())) != 1)
    tried = choices.wanted.get("schedule", ()) or (Schedule.ONE_F_ONE_B,)
    plain = next((code for code in (Schedule.ONE_F_ONE_B, Schedule.GPIPE) if code in tried), tried[0])
    grow.keep("one stage has one schedule", ~alone | (grow.columns["schedule"] == plain))


def _divisions(grow: _Growth, choices: _Choices, cluster: Cluster) -> tuple[Division, ...]:
    node = cluster.gpus_per_node
    zeros = choices.of("zero", [0, 1, 2, 3])
    shards = choices.of("shard", [0, node] if cluster.gpus > node else [0])
    divisions = []
    for zero in np.unique(zeros):
        part = grow.copy()
        part.add("zero", zeros[zeros == zero][:1], ["zero", "zero 2 pipeline", "asynchronous zero"])
        ranks = part.columns["dp"] * part.columns["cp"]
        part.keep("zero needs two ranks to divide over", (ranks > 1) | (zero == 0))
        for shard in np.unique(shards):
            own = part.copy()
            own.add("shard", shards[shards == shard][:1])
            ranks = own.columns["dp"] * own.columns["cp"]
            useful = (zero == 3) & (ranks > shard) & (own.columns["tp"] == 1)
            own.keep(
                "hybrid sharding is for ZeRO 3 over several nodes",
                (shard == 0) | useful | bool(choices.wanted.get("shard")),
            )
            own.drop(["shard"])
            if own.size:
                divisions.append(Division(zero=int(zero), shard=int(shard), rows=own.columns[_ROW]))
    return tuple(divisions)


def _modes(choices: _Choices, most: int) -> Shaped[Array, "recompute field"]:
    """The ways to recompute stages of at most so many layers."""
    kinds = choices.of("recompute", [Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL])
    counts = choices.of("recompute_layers", [1, 2, 4, 8])
    modes = [(mode, 0) for mode in kinds]
    if Recompute.FULL in kinds:
        modes += [(Recompute.FULL, count) for count in counts if count]
    pairs = np.array(modes, dtype=np.int8)
    return pairs[pairs[:, 1] < max(most, 1)]
