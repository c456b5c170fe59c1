"""The order of a search's plans, and its message where none fits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from podsim.answers.prediction import PARTS, Prediction
from podsim.hardware.cluster import Cluster
from podsim.training.plan_values import Schedule
from podsim.training.search import SearchResult
from podsim.training.software import load_software, usable_bytes
from podsim.units import format_quantity

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
    plain = (
        np.broadcast_to(result.combinations.schedule, result.memory_bytes.shape)[combination]
        == Schedule.ONE_F_ONE_B
    )
    return np.asarray(head[np.lexsort((~plain, result.memory_bytes[combination], np.cumsum(jumps)))])


def first_of_each_layout(result: SearchResult, order: list[int], top: int) -> list[int]:
    """Positions of the first plan of each layout, in order, at most `top`."""
    seen: dict[tuple[int, ...], int] = {}
    for position in order:
        candidate = result.plan(position)
        seen.setdefault(tuple(int(getattr(candidate, name)) for name in LAYOUT_DEGREES), position)
        if len(seen) == top:
            break
    return list(seen.values())


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
