"""The scores that choose a node for a request, smaller first, and the loop over requests. Axes as in packing."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsim.fleet.queue_state import Floats, Ints
from podsim.jit import kernel, njit

WHOLE = 1000
RANDOM, DOT, CLUSTERING, PACKING, BEST, FGD = range(6)
_SAME = 1e-9


class Wanted(NamedTuple):
    """The kinds of request; `kinds` are those for GPUs, `weight` the share of each among them."""

    cpu: Floats
    memory: Floats
    gpus: Ints
    share: Ints
    allowed_RM: NDArray[np.bool_]
    kinds: Ints
    weight: Floats


class NodesNow(NamedTuple):
    """The free resources. Scores are cached by kind and node until the node changes (its version rises)."""

    cpu: Floats
    memory: Floats
    free_NG: Ints
    """The free thousandths of each GPU; -1 beyond the GPUs of a node."""
    model: Ints
    most: Floats
    """The cores, memory and GPU thousandths of the largest node."""
    version: Ints
    seen_RN: Ints
    score_RN: Floats
    held_RN: Ints
    """The number of requests of a kind on a node."""
    spare: Ints
    """The buffer for a node's GPUs, [G]."""


@kernel
def _has_room(wanted: Wanted, now: NodesNow, r: int, n: int) -> bool:
    """Whether a request of kind r fits node n."""
    if wanted.cpu[r] > now.cpu[n] or wanted.memory[r] > now.memory[n]:
        return False
    if wanted.gpus[r] == 0:
        return True
    if not wanted.allowed_RM[r, now.model[n]]:
        return False
    count = 0
    for g in range(now.free_NG.shape[1]):
        count += now.free_NG[n, g] >= wanted.share[r]
    return bool(count >= wanted.gpus[r])


@kernel
def fragmentation(wanted: Wanted, now: NodesNow, n: int) -> float:
    """The free GPU thousandths of a node that are useless to a request, in the mean over requests for GPUs.

    All free thousandths are useless to a request that does not fit the node. For one that fits, those on GPUs with less
    room than it needs are useless.
    """
    total = 0.0
    for position in range(len(wanted.kinds)):
        r = wanted.kinds[position]
        fits, lost = _has_room(wanted, now, r, n), 0
        for g in range(now.free_NG.shape[1]):
            free = now.free_NG[n, g]
            if free > 0 and (not fits or free < wanted.share[r]):
                lost += free
        total += wanted.weight[position] * lost
    return total


@kernel
def _fullest_gpu(wanted: Wanted, now: NodesNow, r: int, n: int) -> int:
    """The GPU with the least room, but enough for a request of a part of a GPU."""
    best = -1
    for g in range(now.free_NG.shape[1]):
        if now.free_NG[n, g] >= wanted.share[r] and (best < 0 or now.free_NG[n, g] < now.free_NG[n, best]):
            best = g
    return best


@kernel
def _take_resources(wanted: Wanted, now: NodesNow, r: int, n: int, gpu: int) -> None:
    """Take the resources of a request from a node: a part of `gpu`, or the first full GPUs."""
    now.cpu[n] -= wanted.cpu[r]
    now.memory[n] -= wanted.memory[r]
    if wanted.gpus[r] == 1:
        now.free_NG[n, gpu] -= wanted.share[r]
        return
    need = wanted.gpus[r]
    for g in range(now.free_NG.shape[1]):
        if need > 0 and now.free_NG[n, g] >= wanted.share[r]:
            now.free_NG[n, g] -= wanted.share[r]
            need -= 1


@kernel
def _growth(wanted: Wanted, now: NodesNow, r: int, n: int, gpu: int) -> float:
    """The growth of a node's fragmentation with a request."""
    before = fragmentation(wanted, now, n)
    cpu, memory = now.cpu[n], now.memory[n]
    for g in range(len(now.spare)):
        now.spare[g] = now.free_NG[n, g]
    _take_resources(wanted, now, r, n, gpu)
    after = fragmentation(wanted, now, n)
    now.cpu[n], now.memory[n] = cpu, memory
    for g in range(len(now.spare)):
        now.free_NG[n, g] = now.spare[g]
    return after - before


@kernel
def _gpu_for(wanted: Wanted, now: NodesNow, r: int, n: int, packer: int, chance: float) -> int:
    """The GPU of a node for a request of a part of a GPU: the fullest, a random one, or by least growth."""
    if wanted.gpus[r] != 1:
        return -1
    if packer == RANDOM:
        count, last = 0, -1
        for g in range(now.free_NG.shape[1]):
            count += now.free_NG[n, g] >= wanted.share[r]
        for g in range(now.free_NG.shape[1]):
            if now.free_NG[n, g] >= wanted.share[r]:
                last = g
                chance -= 1.0 / count
                if chance <= 0.0:
                    break
        return last
    if packer != FGD:
        return _fullest_gpu(wanted, now, r, n)
    best, least = -1, inf
    for g in range(now.free_NG.shape[1]):
        if now.free_NG[n, g] >= wanted.share[r]:
            grown = _growth(wanted, now, r, n, g)
            if grown < least - _SAME:
                best, least = g, grown
    return best


@kernel
def _free_thousandths(now: NodesNow, n: int) -> float:
    """The free GPU thousandths of a node."""
    total = 0.0
    for g in range(now.free_NG.shape[1]):
        total += max(now.free_NG[n, g], 0)
    return total


@kernel
def _dot_product(wanted: Wanted, now: NodesNow, r: int, n: int) -> float:
    """The product of free and requested resources, each as a share of the largest node's."""
    asked = float(wanted.gpus[r] * wanted.share[r])
    return float(
        now.cpu[n] * wanted.cpu[r] / now.most[0] ** 2
        + now.memory[n] * wanted.memory[r] / now.most[1] ** 2
        + _free_thousandths(now, n) * asked / now.most[2] ** 2
    )


@kernel
def _left_score(wanted: Wanted, now: NodesNow, r: int, n: int) -> float:
    """The sum of the remaining resources of the node, each as a share of the largest node's."""
    asked = wanted.gpus[r] * wanted.share[r]
    return float(
        (now.cpu[n] - wanted.cpu[r]) / now.most[0]
        + (now.memory[n] - wanted.memory[r]) / now.most[1]
        + (_free_thousandths(now, n) - asked) / now.most[2]
    )


@kernel
def _unlike_score(wanted: Wanted, now: NodesNow, r: int, n: int) -> float:
    """A score that falls with the node's requests of the same GPU share; among equals the best fit."""
    alike = 0
    for other in range(len(wanted.gpus)):
        if wanted.gpus[other] == wanted.gpus[r] and wanted.share[other] == wanted.share[r]:
            alike += now.held_RN[other, n]
    return _left_score(wanted, now, r, n) - 4.0 * alike  # the remaining resources sum to less than 3


@kernel
def _unused_score(wanted: Wanted, now: NodesNow, r: int, n: int) -> float:
    """0 if a GPU in use has room, 1 if the node is in use, 2 if it is idle; then by idle GPUs."""
    idle, gpus, shared = 0, 0, False
    for g in range(now.free_NG.shape[1]):
        gpus += now.free_NG[n, g] >= 0
        idle += now.free_NG[n, g] == WHOLE
        shared = shared or (now.free_NG[n, g] < WHOLE and now.free_NG[n, g] >= wanted.share[r])
    tier = 0.0 if shared and wanted.gpus[r] == 1 else (1.0 if idle < gpus else 2.0)
    return tier * 100.0 + idle


@kernel
def _score(wanted: Wanted, now: NodesNow, r: int, n: int, packer: int) -> float:  # noqa: PLR0911 - one for each
    """The score of a node by the packer's position in PACKERS, smaller first; infinite if it does not fit."""
    if not _has_room(wanted, now, r, n):
        return inf
    if packer == DOT:
        return _dot_product(wanted, now, r, n)
    if packer == CLUSTERING:
        return _unlike_score(wanted, now, r, n)
    if packer == PACKING:
        return _unused_score(wanted, now, r, n)
    if packer == BEST:
        return _left_score(wanted, now, r, n)
    if packer == FGD:
        return _growth(wanted, now, r, n, _gpu_for(wanted, now, r, n, FGD, 0.0))
    return 0.0


@kernel
def _choose(wanted: Wanted, now: NodesNow, r: int, packer: int, chance: float) -> int:
    """The node with the smallest score, a random one among equals; -1 if none has room."""
    least, equals = inf, 0
    for n in range(len(now.cpu)):
        if now.seen_RN[r, n] != now.version[n]:
            now.score_RN[r, n] = _score(wanted, now, r, n, packer)
            now.seen_RN[r, n] = now.version[n]
        score = now.score_RN[r, n]
        if score < least - _SAME:
            least, equals = score, 1
        elif score <= least + _SAME and score < inf:
            equals += 1
    if equals == 0:
        return -1
    turn = int(chance * equals)
    for n in range(len(now.cpu)):
        if now.score_RN[r, n] <= least + _SAME:
            turn -= 1
            if turn < 0:
                return n
    return -1


@njit
def pack_all(
    wanted: Wanted, now: NodesNow, arrivals: Ints, packer: int, chance: Floats
) -> tuple[NDArray[np.bool_], float]:
    """(whether each request was placed, useless GPU thousandths at the end)."""
    given = np.zeros(len(arrivals), np.bool_)
    for position in range(len(arrivals)):
        r = arrivals[position]
        n = _choose(wanted, now, r, packer, chance[2 * position])
        if n < 0:
            continue
        _take_resources(wanted, now, r, n, _gpu_for(wanted, now, r, n, packer, chance[2 * position + 1]))
        given[position] = True
        now.version[n] += 1
        now.held_RN[r, n] += 1
    broken = 0.0
    for n in range(len(now.cpu)):
        broken += fragmentation(wanted, now, n)
    return given, broken
