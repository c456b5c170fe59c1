"""The parts of a step: what it loses without some of its exchanges, and the passes of its busiest rank.

One rule divides the closed form and the simulation (podsim.simulation.replayed_parts).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from podsim.axes import Shaped
from podsim.training.layout import Groups, Layout, Sends, StepEnd
from podsim.training.plan_values import Array
from podsim.training.software import Software
from podsim.training.step import PASS_EXCHANGES, StepTimes, mean_of_ranks, step_times


def part_seconds(
    layout: Layout, times: StepTimes, end: StepEnd, software: Software, core_share: float
) -> Shaped[Array, "part plan"]:
    """Seconds of each part of a step (SPLIT), which add up to it: exposed_parts of the step and its passes."""
    bare = _without_sends(layout)
    settings = (software, _without_exchanges(end), core_share)
    steps = [times.step, *(step_times(less, layout.plan, *settings).step for less in (layout, bare))]
    passes = _of_busiest(layout, layout.passes.stage_parts, core_share)
    if layout.passes.exchanges is not None:
        free = step_times(_without_pass_exchanges(bare), layout.plan, *settings).step
        steps.append(np.where(layout.plan.paired, free, steps[-1] - passes[PASS_EXCHANGES].sum(axis=0)))
    host = np.full_like(layout.micro_batches, software.host_step)
    return exposed_parts(steps, passes, times.optimizer, host)


def exposed_parts(
    steps: Sequence[Array], passes: Shaped[Array, "part plan"], optimizer: Array, host: Array
) -> Shaped[Array, "part plan"]:
    """Seconds of each part of a step (SPLIT), by one rule for the closed form and the simulation.

        dp         = step - step without data-parallel exchanges
        pp         = step without these - step without sends, either
        tp, cp, ep = step without either - step without what passes exchange: in proportion
        bubble     = the rest of the step - passes of the busiest rank - optimizer - host

    `steps`: the seconds of these steps; without the fourth, exchanges of passes keep their own time. `passes`: those of
    the rank whose passes take longest, by part.
    """
    step, local, alone, *free = np.minimum.accumulate(steps)
    if free:
        exchanges = passes[PASS_EXCHANGES]
        scale = (alone - free[0]) / np.maximum(exchanges.sum(axis=0), 1e-30)
        passes = np.concatenate([passes[: PASS_EXCHANGES.start], exchanges * scale])
    bubble = np.maximum(alone - passes.sum(axis=0) - optimizer - host, 0.0)  # rounding
    return np.stack([*passes, local - alone, step - local, bubble, optimizer, host])


def _without_exchanges(end: StepEnd) -> StepEnd:
    """The end of a step whose data-parallel exchanges take no time."""
    free = np.zeros_like(end.last.optimizer)
    return StepEnd(
        last=Groups(
            reduce=free,
            gather=free,
            layer_gather=free,
            layer_reduce=free,
            reduce_layer_share=end.last.reduce_layer_share,
            gather_layer_share=end.last.gather_layer_share,
            stage_layers=end.last.stage_layers,
            embedding=free,
            optimizer=end.last.optimizer,
        ),
        first=None,
    )


def _without_sends(layout: Layout) -> Layout:
    """The layout of pipelines whose sends take no time."""
    paths, free = layout.paths, np.zeros_like(layout.charge_seconds)
    sent = paths.sends * layout.sends.near_seconds + paths.charges * layout.charge_seconds
    if layout.far_seconds is not None:
        sent = sent + layout.far_seconds
    alone = layout.sends.stages_per_node
    sends = Sends(near_seconds=free, further_seconds=free, stages_per_node=alone, mean_seconds=free)
    return replace(layout, path_seconds=layout.path_seconds - sent, charge_seconds=free, sends=sends)


def _without_pass_exchanges(layout: Layout) -> Layout:
    """The layout of plans whose passes exchange nothing within tensor-, context- and expert-parallel groups."""
    exchanges, paths = layout.passes.exchanges, layout.paths
    assert exchanges is not None
    forward, backward = exchanges.seconds
    sent = (paths.forward * forward).sum(axis=1) + (paths.backward * backward).sum(axis=1)
    free = np.zeros_like(exchanges.sync)
    passes = replace(
        layout.passes,
        forward=layout.passes.forward - forward,
        backward=layout.passes.backward - backward,
        exchanges=replace(exchanges, seconds=np.zeros_like(exchanges.seconds), sync=free, syncs=free),
    )
    return replace(layout, passes=passes, path_seconds=layout.path_seconds - sent)


def _of_busiest(
    layout: Layout, values: Shaped[Array, "part stage plan"], core_share: float
) -> Shaped[Array, "part plan"]:
    """The passes of a step on the rank whose passes take longest; where ranks share cores, the mean of all ranks."""
    if core_share < 1:
        return np.asarray(layout.micro_batches * mean_of_ranks(layout, values))
    busiest = layout.stage_seconds.argmax(axis=0)
    return np.asarray(layout.micro_batches * values[..., busiest, np.arange(busiest.size)])
