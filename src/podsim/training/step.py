"""The law of a training step: its seconds, from the seconds of passes, sends, exchanges and optimizer.

    step    = through + waits at both ends + optimizer + host
    through = max(longest path, work of the busiest rank + its sends, sends on a wire - waits at both ends)
    path    = passes of each kind through each block + sends + exchanges - what pairs of passes hide

Every function broadcasts over its last axis, plan: one plan, or all of a search. `podsim.training.batch` works out
what several plans share once and gathers it for each. `podsim.training.waits` has the exchanges during compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from podsim.axes import Shaped
from podsim.training.layout import Groups, Layout, Passes, Paths, Sends, StepEnd
from podsim.training.plan import Plan
from podsim.training.plan_values import Array, Schedule, has_any
from podsim.training.software import Software
from podsim.training.waits import ByOverlap, Waits, of_longest, pair_saving_seconds

SPLIT = ("compute", "memory", "launch", "tp", "cp", "ep", "pp", "dp", "bubble", "optimizer", "host")
"""The parts of a step, in the order of exposed_parts."""
WAYS = np.array([[1.0, 1.0], [0.0, 1.0], [0.0, 0.0]])
"""The steps that parts are differences of, [way, what counts]: the exchanges of data-parallel ranks, and sends."""
_SHARED = ("reduce", "gather", "layer_gather", "layer_reduce", "embedding")
"""The exchanges of data-parallel ranks, as fields of Groups."""
_GROUPS = tuple(field.name for field in fields(Groups))
_FORWARD_FIRST = np.array([code in (Schedule.GPIPE, Schedule.BREADTH_FIRST) for code in Schedule])


def step_seconds(
    layout: Layout, plan: Plan, software: Software, end: StepEnd, core_share: float
) -> Shaped[Array, "plan"]:
    """Seconds of the step of plans of a layout; `core_share`: the cores of a rank, 1 where it has one to itself."""
    waits = Waits(plan=plan, software=software, layout=layout, groups=end.last)
    closing = _closing_seconds(layout, waits)
    slowdown = of_longest(layout.path_seconds + closing, closing)
    overlaps = np.where(np.asarray(plan.zero) == 3, plan.overlap_param, plan.overlap_grad).astype(bool)
    paths = ByOverlap.of(
        overlaps,
        lambda overlapped: layout.path_seconds + _path_exchange_seconds(layout, waits, closing, overlapped),
    )
    stages = ByOverlap.of(
        overlaps, lambda overlapped: layout.stage_seconds + _stage_exchange_seconds(layout, waits, overlapped)
    )
    longest = paths.of_plan(lambda path: path.max(axis=0))
    busiest = work = layout.micro_batches * stages.of_plan(lambda stage: stage.max(axis=0))
    sends = 2 * layout.micro_batches * layout.chunks * layout.charge_seconds
    if core_share < 1:
        work = layout.micro_batches * stages.of_plan(lambda stage: _mean_of_ranks(layout, stage))
        through = shared_through_seconds(core_share, plan.pp, longest, busiest, work, sends)
    else:
        through = through_seconds(longest, busiest, sends)
    ends = waits.end_seconds(slowdown)
    if end.first is not None:
        first = paths.of_plan(lambda path: np.where(layout.paths.ends_first, path, 0.0).max(axis=0))
        first_ends = replace(waits, groups=end.first).end_seconds(slowdown)
        total, least = np.maximum(through + ends, first + first_ends), work + sends
        # the rank with the embedding may end last, though it works less than the busiest
        through = np.where(through + ends < first + first_ends, np.maximum(first, least), through)
        ends = total - through
    through = np.maximum(through, wire_seconds(layout) - ends)
    return np.asarray(through + ends + end.last.optimizer + software.host_step)


def through_seconds(longest: Array, busiest: Array, sends: Array) -> Shaped[Array, "plan"]:
    """through = max(longest path, work of the busiest rank + its sends)."""
    return np.asarray(np.maximum(longest, busiest + sends))


def wire_seconds(layout: Layout) -> Shaped[Array, "plan"]:
    """wire = micro-batches x chunks x send, twice where the backward passes begin after all forward passes.

    What passes one after the other from a rank to its neighbour on the slowest link of a pipeline. Paths have sends
    that do not wait for each other.
    """
    first = _FORWARD_FIRST[np.asarray(layout.plan.schedule)]
    send = layout.sends.near_seconds + layout.sends.further_seconds
    return np.asarray(layout.micro_batches * layout.chunks * send * np.where(first, 2.0, 1.0))


def shared_through_seconds(
    core_share: float, pp: Array | int, longest: Array, busiest: Array, mean: Array, sends: Array
) -> Shaped[Array, "plan"]:
    """Seconds from the first pass to the last where ranks share cores: a rank that waits leaves its own to others.

        through = max(mean work, share x work of the busiest) + sends + idle
        idle    = bubble x share x max(pp x share - 1, 0) / (pp - 1)
        bubble  = longest path - work of the busiest - sends

    Every rank's seconds were measured while all ranks were busy, so they are those of a `core_share` of a core. Cores
    are idle only while fewer stages work than fill them, pp x share. A pipeline of that many stages has that bubble,
    and its passes then run on whole cores. With one core for each rank, share 1, that is the pipeline's own bubble.
    """
    bubble = np.maximum(longest - busiest - sends, 0.0)
    stages = np.asarray(pp, dtype=float)
    idle = bubble * core_share * np.maximum(stages * core_share - 1, 0.0) / np.maximum(stages - 1, 1.0)
    return np.asarray(np.maximum(mean, core_share * busiest) + sends + idle)


def charge_seconds(sends: Sends, software: Software) -> Shaped[Array, "plan"]:
    """charge = host_send + pipeline_exposed x send: what a send or receive takes of the compute stream."""
    return np.asarray(sends.mean_seconds * software.pipeline_exposed + software.host_send)


def path_seconds(
    paths: Paths, passes: Passes, sends: Sends, charge: Array, far: Array | None
) -> Shaped[Array, "path plan"]:
    """path = sends x send + charges x charge + sum over blocks of (forward + backward + weight gradients).

    `far`: s beyond that of the sends to other nodes.
    """
    path = paths.sends * sends.near_seconds + paths.charges * charge
    if far is not None:
        path += far
    for block, forward in enumerate(passes.forward):
        path += paths.forward[:, block] * forward
        path += paths.backward[:, block] * passes.backward[block]
        if paths.weight is not None:
            path += paths.weight[:, block] * passes.weight[block]
    return np.asarray(path)


def _closing_seconds(layout: Layout, waits: Waits) -> Shaped[Array, "path plan"]:
    """closing = last passes x their slowdown + those that stay on their rank x slowdown of what follows there.

    Seconds by which gradients on their way slow each path.
    """
    if (waits.zero >= 2).all():
        return np.zeros_like(layout.path_seconds)
    paths = layout.paths
    closing = paths.closing * waits.last_pass_slowdown_seconds()
    if has_any(layout.chunks > 1):
        later = paths.staying * waits.later_pass_slowdown_seconds(paths.passes_after)
        closing = closing + np.where(layout.chunks > 1, later, 0.0)
    return closing


def _path_exchange_seconds(
    layout: Layout, waits: Waits, closing: Array, overlapped: bool
) -> Shaped[Array, "path plan"]:
    """exchanges = closing + waits of forward and backward passes - what pairs of passes hide, along each path."""
    paths = layout.paths
    total = closing if overlapped else np.zeros_like(closing)
    if layout.passes.exchanges is not None:
        total = total - pair_saving_seconds(layout, waits, overlapped=overlapped)
    if not has_any(waits.zero >= 2):
        return total
    ahead = waits.paying_path_share(paths.forward_passes)
    forward = waits.forward_seconds(
        ahead * paths.forward_passes,
        ahead * paths.forward_layers,
        overlapped,
        hidden=np.minimum(paths.forward_sends, ahead * paths.forward_passes),
    )
    back = waits.paying_path_share(paths.backward_passes)
    backward = waits.backward_seconds(
        back * paths.backward_passes,
        back * paths.backward_layers,
        overlapped,
        embeddings=np.where(back < 1, np.minimum(paths.backward_embeddings, 1.0), paths.backward_embeddings),
        hidden=np.minimum(paths.backward_sends, back * paths.backward_passes),
    )
    return np.asarray(total + forward + backward)


def _stage_exchange_seconds(
    layout: Layout, waits: Waits, overlapped: bool
) -> Shaped[Array, "stage plan"] | float:
    """exchanges = waits of the forward and backward passes of one micro-batch, on each class of stages.

    In a pipeline the first gather and the last reduction of a pass may hide behind waiting.
    """
    if not has_any(waits.zero >= 2):
        return 0.0
    chunks, layers = layout.chunks, layout.passes.layers
    hidden = np.where(np.asarray(layout.plan.pp) > 1, chunks, 0.0)
    embeddings = layout.stages.blocks[:, 0] * (hidden == 0)
    forward = waits.forward_seconds(chunks, layers, overlapped, hidden=hidden)
    backward = waits.backward_seconds(chunks, layers, overlapped, embeddings=embeddings, hidden=hidden)
    return np.asarray(waits.paying_share * (forward + backward) * ~layout.plan.paired)


def _mean_of_ranks(layout: Layout, stages: Shaped[Array, "... stage plan"]) -> Shaped[Array, "... plan"]:
    """mean = sum over classes of stages (value x stages in the class) / stages."""
    count = layout.stages.count
    return np.asarray(np.where(count > 0, stages * count, 0.0).sum(axis=-2) / count.sum(axis=0))


def part_seconds(
    layout: Layout, end: StepEnd, software: Software, core_share: float, shared: Shaped[Array, "row"]
) -> tuple[Shaped[Array, "plan"], Shaped[Array, "part plan"]]:
    """(s of the step, s of its parts): exposed_parts of the step, and of the rank whose passes take longest.

    The rows of layout and end are the plans under each of WAYS, in turn; `shared`: whether their exchanges count.
    """
    first = None if end.first is None else _counted(end.first, shared)
    ends = StepEnd(last=_counted(end.last, shared), first=first)
    steps = step_seconds(layout, layout.plan, software, ends, core_share).reshape(len(WAYS), -1)
    plans = slice(steps.shape[1])
    parts, busiest = layout.passes.stage_parts[..., plans], layout.stage_seconds[:, plans].argmax(axis=0)
    own = parts[..., busiest, np.arange(busiest.size)]
    if core_share < 1:
        own = _mean_of_ranks(layout, layout.passes.stage_parts)[..., plans]
    host = np.full_like(steps[0], software.host_step)
    return steps[0], exposed_parts(steps, layout.micro_batches[plans] * own, end.last.optimizer[plans], host)


def _counted(groups: Groups, shared: Shaped[Array, "row"]) -> Groups:
    """Exchanges of a step's end, where they count."""
    columns = {name: getattr(groups, name) for name in _GROUPS}
    return Groups(**columns | {name: columns[name] * shared for name in _SHARED})


def exposed_parts(
    steps: Sequence[Array] | Array, passes: Shaped[Array, "part plan"], optimizer: Array, host: Array
) -> Shaped[Array, "part plan"]:
    """Seconds of each part of a step (SPLIT), by one rule for the closed form and the simulation.

        dp     = step - step without data-parallel exchanges
        pp     = step without these - step without sends, either
        bubble = step without either - passes of the busiest rank - optimizer - host
    `steps`: the seconds of these three; `passes`: those of the rank whose passes take longest, by part.
    """
    step, local, alone = np.minimum.accumulate(steps)
    rest = alone - passes.sum(axis=0) - optimizer - host
    bubble = np.where(rest > 1e-12 * alone, rest, 0.0)  # less is rounding
    return np.array([*passes, local - alone, step - local, bubble, optimizer, host])
