"""The order of a search's plans, and its message where none fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.answers.prediction import PARTS, Prediction
from podsim.hardware.cluster import Cluster
from podsim.training.batch import chunks
from podsim.training.plan import Plan
from podsim.training.plan_values import Schedule
from podsim.training.search import SearchResult
from podsim.training.software import load_software, usable_bytes
from podsim.units import format_quantity
from podsim.workload.model import Model

LAYOUT_DEGREES = ("tp", "pp", "cp", "ep", "dp")


def no_plan_fits(result: SearchResult, cluster: Cluster, gpus: int) -> str:
    """The message of a search without a plan that fits: the smallest plan, and remedies."""
    least = int(result.memory_bytes.argmin())
    need = format_quantity(float(result.memory_bytes[least]), "B")
    software = load_software(result.combinations.software, cluster.gpu)
    room = format_quantity(usable_bytes(cluster.gpu, software), "B")
    shown = result.combinations.take(least).describe()
    layout = ", ".join(
        f"{name}={shown[name]}" for name in (*LAYOUT_DEGREES, "micro_batch", "zero", "recompute")
    )
    partly = "" if result.complete else "interrupted: "
    return (
        f"{partly}none of {result.evaluated:,} plans on {gpus} GPUs fits: the smallest needs {need} of {room} a GPU "
        f"({layout}); more GPUs, GPUs with more memory or a shorter sequence would help"
    )


_TIED = 1e-9
"""share of a step within which two times are the same: they differ by the order of a sum"""


def fastest_plans(result: SearchResult) -> NDArray[np.int64]:
    """Positions of the fastest plans, those with headroom first; of equally fast ones first those with less memory.

    Then plain 1F1B.
    """
    head = result.roomy_first()[0][:100_000]
    seconds = result.seconds_of(head)
    is_other = (seconds[1:] > seconds[:-1] * (1 + _TIED)) | (seconds[1:] < seconds[:-1])
    jumps = np.concatenate([[False], is_other])
    combination = head % result.memory_bytes.size
    plain = np.asarray(result.combinations.schedule)[combination] == Schedule.ONE_F_ONE_B
    return np.asarray(head[np.lexsort((~plain, result.memory_bytes[combination], np.cumsum(jumps)))])


def first_of_each_layout(result: SearchResult, order: NDArray[np.int64], top: int) -> list[int]:
    """Positions of the first plan of each layout, in order, at most `top`."""
    known: dict[tuple[int, ...], int] = {}
    for part in chunks(order.size, 1024):
        plans = result.combinations.take(order[part] % result.memory_bytes.size)
        for position, degrees in zip(order[part].tolist(), plans.rows(LAYOUT_DEGREES), strict=True):
            known.setdefault(degrees, position)
        if len(known) >= top:
            break
    return list(known.values())[:top]


def ranking_reason(prediction: Prediction, best: Prediction, index: int) -> str:
    """Why a plan stands where it does: against the first, or for the first its bottleneck."""
    if index == 0:
        return prediction.bottleneck
    slower, room = prediction.step_time / best.step_time - 1, prediction.memory / best.memory - 1
    memory = f"{room:+.0%} memory" if abs(room) >= 0.005 else "the same memory"
    deltas = sorted(
        ((prediction.parts[name] - best.parts[name], name) for name in prediction.parts),
        key=lambda d: -abs(d[0]),
    )
    changes = [
        f"{delta / best.step_time:+.1%} {PARTS[name]}"
        for delta, name in deltas[:3]
        if abs(delta) > 5e-4 * best.step_time
    ]
    time_ = f"{slower:+.1%} time" if abs(slower) >= 5e-4 else "the same time"
    return (
        f"{time_} and {memory} as the first" if not changes else f"{time_} ({', '.join(changes)}), {memory}"
    )


def tight_words(prediction: Prediction, result: SearchResult) -> str:
    """The beginning of the reason of a plan whose memory has no headroom."""
    if prediction.memory <= result.roomy_bytes:
        return ""
    left = prediction.memory_limit / prediction.memory - 1
    return f"tight: {left:.1%} of its memory is left, of {prediction.memory_limit / result.roomy_bytes - 1:.0%}; "


class _Unusual(NamedTuple):
    """What hardly any published run has."""

    holds: Callable[[Plan, Model, Cluster], Any]
    """Whether plans have it."""
    said: str
    """What a plan with it does, by the fields of the plan, the model and the cluster."""


_LONG = 8192
"""tokens. Shorter sequences are hardly ever divided over ranks; below half of it that loses time (arXiv 2504.14960)"""
_MANY = 64
"""experts that hardly any run leaves together"""
_UNUSUAL = (
    _Unusual(
        lambda p, m, c: np.asarray(p.tp) > c.gpus_per_node,
        "tp={plan.tp} leaves the node of {cluster.gpus_per_node} GPUs",
    ),
    _Unusual(
        lambda p, m, c: (np.asarray(p.cp) > 1) & (m.sequence < _LONG),
        "cp={plan.cp} divides sequences of {model.sequence:,} tokens",
    ),
    _Unusual(
        lambda p, m, c: (np.asarray(p.ep) == 1) & (max(block.experts for block in m.layers) >= _MANY),
        "ep=1 divides no experts over ranks",
    ),
)


def unusual_notes(result: SearchResult, model: Model, cluster: Cluster) -> tuple[str, ...]:
    """The gain of the fastest plan over the fastest without it, for each thing that hardly any published run has."""
    best, notes = int(fastest_plans(result)[0]), []
    plan, seconds = result.plan(best), result.seconds(best)
    for unusual in _UNUSUAL:
        if not unusual.holds(plan, model, cluster):
            continue
        rare = np.broadcast_to(unusual.holds(result.combinations, model, cluster), result.memory_bytes.shape)
        others = result.order[~rare[result.order % rare.size]]
        gain = "no other plan comes near"
        if others.size:
            gain = f"the best plan without takes {result.seconds(int(others[0])) / seconds - 1:+.1%} time"
        said = unusual.said.format(plan=plan, model=model, cluster=cluster)
        notes.append(f"unlike published runs, {said}; {gain}")
    return tuple(notes)
