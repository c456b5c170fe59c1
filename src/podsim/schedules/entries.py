"""Schedules without a flush: the pipeline never drains, and weights that a micro-batch uses are older than the newest.

Sources: PipeDream, Narayanan et al. 2019 (SOSP); PipeDream-2BW, Narayanan et al. 2021, arXiv 2006.09503.

The schedules there are: what builds each, for which sizes it exists, what it keeps, and where it is from.

A new schedule is one entry: the tests of tables, the rules of plans, the search and the command line run over them.
Letters: p pipeline ranks, v chunks of a rank, m micro-batches, r a rank; F, I, W seconds of a chunk's forward, input
and weight gradient, B = I + W, F&B a forward and a backward side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from podsim.errors import ScheduleError, check_name, raise_all
from podsim.records import dataclass, replace
from podsim.schedules.actions import ScheduleTable, Work, updates_before
from podsim.schedules.classic import breadth_first, gpipe, interleaved, one_f_one_b
from podsim.schedules.dualpipe import dualpipe, dualpipe_v
from podsim.schedules.zero_bubble import zb_h1, zb_h2, zb_v


def pipedream(p: int, v: int, m: int) -> ScheduleTable:
    """1F1B without a flush, weights updated after every backward; a backward takes the weights of its forward.

    Rank r has p - r micro-batches in flight, and as many versions of its weights: the gradient of a micro-batch is
    p - r - 1 updates old when it is applied (weight stashing; staleness differs from rank to rank).
    """
    table = replace(one_f_one_b(p, v, m), name="pipedream", flush=False, update=1)
    newest = updates_before(table)
    versions = np.zeros((table.stages, m), np.int64)  # [stage, micro]
    forward = table.work == Work.FORWARD
    versions[table.stage[forward], table.micro[forward]] = newest[forward]
    return replace(table, version=versions[table.stage, table.micro])


def pipedream_2bw(p: int, v: int, m: int) -> ScheduleTable:
    """The same order, weights updated once in p micro-batches (the fewest it allows), two versions on every rank.

    All ranks run a batch with the weights of two batches ago: staleness is one update everywhere.
    """
    table = replace(one_f_one_b(p, v, m), name="pipedream-2bw", flush=False, update=p)
    return replace(table, version=np.maximum(table.micro // p - 1, 0))


@dataclass(frozen=True, kw_only=True)
class SizeRule:
    """What a schedule demands of (p, v, m)."""

    of: str
    """The size that it is mostly about: "virtual stages", "pipeline" or "batches"."""
    needs: str
    """The rule in words: "virtual_stages of 2 or more"."""
    broken: Callable[[Any, Any, Any], Any]
    """The function from (p, v, m) to where the rule is broken; it broadcasts over whole numbers from 1."""


@dataclass(frozen=True, kw_only=True)
class ScheduleEntry:
    """One schedule."""

    name: str
    build: Callable[[int, int, int], ScheduleTable]
    """The function from (p, v, m) to the table."""
    rules: tuple[SizeRule, ...]
    activations: Callable[[Any, Any, Any, Any], Any]
    """The function from (p, v, m, r) to the peak of activations, in units of a micro-batch in one part. It broadcasts.
    It equals `held` if weight gradients free all that split backward passes hold and, without a flush, once the
    pipeline is full."""
    copies: Callable[[Any, Any, Any, Any], Any] = lambda p, v, m, r: 1
    """The function from (p, v, m, r) to the copies of a rank's share of the weights; equal to `weight_copies`."""
    idle: str
    """The published wait of a rank in a step of equal stages, for the durations that the source states."""
    flush: bool = True
    """Whether the pipeline drains; False: asynchronous."""
    placement: str
    """The placement of parts: "loop" (part s on rank s mod p), "vee" (down the ranks and up again), "two ways" (each
    twice)."""
    source: str

    def problems(self, p: int, v: int, m: int) -> list[str]:
        """Every rule that sizes break, worded."""
        sizes = {"pp": p, "virtual_stages": v, "micro_batches": m}
        wrong = [f"{name}={value}" for name, value in sizes.items() if value < 1]
        if wrong:
            return [f"{', '.join(wrong)}: sizes of a schedule are whole numbers from 1"]
        return [self.say(rule, p, v, m) for rule in self.rules if bool(rule.broken(p, v, m))]

    def say(self, rule: SizeRule, p: int, v: int, m: int) -> str:
        """A broken rule in words, with the sizes."""
        return (
            f"schedule={self.name} with pp={p}, virtual_stages={v}, {m} micro-batches; it needs {rule.needs}"
        )


_ONE = SizeRule(
    of="virtual stages",
    needs="virtual_stages of 1 (interleaved needs 2 or more)",
    broken=lambda p, v, m: np.asarray(v) != 1,
)
_TWO = SizeRule(
    of="virtual stages",
    needs="virtual_stages of 2, one on the way down the ranks and one up",
    broken=lambda p, v, m: np.asarray(v) != 2,
)
_MORE = SizeRule(
    of="virtual stages", needs="virtual_stages of 2 or more", broken=lambda p, v, m: np.asarray(v) < 2
)
_PIPE = SizeRule(of="pipeline", needs="pp of 2 or more", broken=lambda p, v, m: np.asarray(p) < 2)
_PAIRS = SizeRule(of="pipeline", needs="an even pp", broken=lambda p, v, m: np.asarray(p) % 2 != 0)
_HALVES = SizeRule(
    of="batches",
    needs="an even number of micro-batches, half from each end",
    broken=lambda p, v, m: np.asarray(m) % 2 != 0,
)
_ROUNDS = SizeRule(
    of="batches",
    needs="micro-batches in a multiple of pp",
    broken=lambda p, v, m: np.asarray(m) % np.maximum(p, 1) != 0,
)
_FULL = SizeRule(
    of="batches",
    needs="2 x pp micro-batches or more",
    broken=lambda p, v, m: np.asarray(m) < 2 * np.asarray(p),
)

_ENTRIES = (
    ScheduleEntry(
        name="gpipe",
        build=gpipe,
        rules=(_ONE,),
        activations=lambda p, v, m, r: m,
        idle="(p - 1) (F + B)",
        placement="loop",
        source="Huang et al. 2019, arXiv 1811.06965",
    ),
    ScheduleEntry(
        name="1f1b",
        build=one_f_one_b,
        rules=(_ONE,),
        activations=lambda p, v, m, r: np.minimum(p - r, m),
        idle="(p - 1) (F + B)",
        placement="loop",
        source="Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1",
    ),
    ScheduleEntry(
        name="interleaved",
        build=interleaved,
        rules=(_MORE, _PIPE, _ROUNDS),
        activations=lambda p, v, m, r: np.minimum(2 * (p - r - 1) + (v - 1) * p + 1, m * v),
        idle="(p - 1) (F + B)",
        placement="loop",
        source="Narayanan et al. 2021, arXiv 2104.04473, section 2.2.2; the order is Megatron-LM's",
    ),
    ScheduleEntry(
        name="zb-h1",
        build=zb_h1,
        rules=(_ONE,),
        activations=lambda p, v, m, r: np.minimum(p, m),
        idle="(p - 1) (F + I - W)",
        placement="loop",
        source="Qi et al. 2023, arXiv 2401.10241, section 2",
    ),
    ScheduleEntry(
        name="zb-h2",
        build=zb_h2,
        rules=(_ONE,),
        activations=lambda p, v, m, r: np.minimum(2 * p - 1, m),
        idle="(p - 1) (F + I - 2 W)",
        placement="loop",
        source="Qi et al. 2023, arXiv 2401.10241, section 2",
    ),
    ScheduleEntry(
        name="zb-v",
        build=zb_v,
        rules=(_TWO, _PIPE),
        activations=lambda p, v, m, r: np.minimum(2 * np.minimum(p, m), m + r + 1),
        idle="0 if F = I = W",
        placement="vee",
        source="Qi et al. 2023, arXiv 2401.10241, section 6",
    ),
    ScheduleEntry(
        name="dualpipe",
        build=dualpipe,
        rules=(_ONE, _PAIRS, _HALVES, _FULL),
        activations=lambda p, v, m, r: p + 1,
        copies=lambda p, v, m, r: 2,
        idle="(p/2 - 1) (F&B + B - 3 W)",
        placement="two ways",
        source="DeepSeek-AI 2024, arXiv 2412.19437, section 3.2.1; github.com/deepseek-ai/DualPipe",
    ),
    ScheduleEntry(
        name="dualpipe-v",
        build=dualpipe_v,
        rules=(_TWO, _PIPE, _FULL),
        activations=lambda p, v, m, r: 2 * p + 1,
        idle="(p - 1) (F&B + B - 3 W)",
        placement="vee",
        source="github.com/deepseek-ai/DualPipe, DualPipeV",
    ),
    ScheduleEntry(
        name="breadth-first",
        build=breadth_first,
        rules=(),
        activations=lambda p, v, m, r: m * v,
        idle="(p - 1) (F + B) from p micro-batches on",
        placement="loop",
        source="Lamy-Poirier 2023, arXiv 2211.05953",
    ),
    ScheduleEntry(
        name="pipedream",
        build=pipedream,
        rules=(_ONE,),
        activations=lambda p, v, m, r: p - r,
        copies=lambda p, v, m, r: p - r,
        idle="0",
        flush=False,
        placement="loop",
        source="Narayanan et al. 2019, SOSP, PipeDream with weight stashing",
    ),
    ScheduleEntry(
        name="pipedream-2bw",
        build=pipedream_2bw,
        rules=(_ONE, _ROUNDS),
        activations=lambda p, v, m, r: p - r,
        copies=lambda p, v, m, r: 2,
        idle="0",
        flush=False,
        placement="loop",
        source="Narayanan et al. 2021, arXiv 2006.09503",
    ),
)
SCHEDULES: dict[str, ScheduleEntry] = {entry.name: entry for entry in _ENTRIES}
"""by name"""


def build(name: str, p: int, v: int, m: int) -> ScheduleTable:
    """The table of a schedule for p ranks, v chunks of each and m micro-batches; ScheduleError says what would work."""
    check_name("schedule", name, SCHEDULES, ScheduleError)
    wrong = SCHEDULES[name].problems(p, v, m)
    raise_all(wrong, ScheduleError)
    return SCHEDULES[name].build(p, v, m)
