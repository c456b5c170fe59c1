"""Exchanges during compute: the waits of a step, and the exchanges that pairs of passes hide.

    exposed(x, b) = max(c x, x - b)

is the time that an exchange of x seconds adds to b seconds of compute. c is the share by which compute slows meanwhile
(Software.contention). Data-parallel ranks exchange layer by layer, on a stream of their own: the weights of a layer
arrive during the compute of the layer before it, and its gradients leave during the next one.

The simulation plays the same exchanges; these are their closed forms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from podsim.axes import Shaped
from podsim.records import dataclass
from podsim.training.layout import Groups, Layout, Passes
from podsim.training.plan import Plan
from podsim.training.plan_values import Array, Schedule, has_any
from podsim.training.software import Software


@dataclass(frozen=True)
class ByOverlap:
    """Seconds of plans with and without overlapping exchanges."""

    overlaps: Shaped[Array, "plan"]
    """Whether the exchanges of a plan overlap compute."""
    overlapped: Array | None
    """s. The time with overlap; None if no plan has it."""
    alone: Array | None
    """s. The time without overlap; None if all plans have it."""

    @classmethod
    def of(cls, overlaps: Array, seconds: Callable[[bool], Array]) -> ByOverlap:
        """Seconds with and without overlap, each only where some plan needs it."""
        overlapped = seconds(True) if has_any(overlaps) else None
        return cls(overlaps, overlapped, None if overlaps.all() else seconds(False))

    def of_plan(self, function: Callable[[Array], Array]) -> Array:
        """A function of each plan's own seconds."""
        if self.overlapped is None or self.alone is None:
            own = self.alone if self.overlapped is None else self.overlapped
            assert own is not None
            return function(own)
        return np.where(self.overlaps, function(self.overlapped), function(self.alone))


def of_longest(
    paths: Shaped[Array, "path plan"], values: Shaped[Array, "path plan"]
) -> Shaped[Array, "plan"]:
    """The value of each plan's longest path."""
    longest, value = paths[0], values[0]
    for path, other in zip(paths[1:], values[1:], strict=True):
        value = np.where(path > longest, other, value)
        longest = np.maximum(longest, path)
    return np.asarray(value)


@dataclass(frozen=True, kw_only=True)
class Waits:
    """Seconds that the exchanges among data-parallel ranks add to the passes."""

    plan: Plan
    software: Software
    layout: Layout
    groups: Groups
    """The exchanges of the stage that ends the step."""

    @property
    def passes(self) -> Passes:
        """Seconds of the passes of a micro-batch."""
        return self.layout.passes

    @cached_property
    def zero(self) -> Shaped[Array, "plan"]:
        """The ZeRO level by whose law ranks exchange."""
        return self.plan.exchange_level

    @property
    def _round_seconds(self) -> Shaped[Array, "plan"]:
        """(rounds - 1) exposed(reduce, backward passes of a round): reductions of a pipeline before its last."""
        plan, reduce = self.plan, self.groups.reduce
        by_round = np.asarray(plan.zero) - self.zero
        compute = np.asarray(plan.pp) * self.groups.stage_layers * self.passes.layer_backward
        rounds = np.ceil(np.asarray(plan.micro_batches) / np.asarray(plan.pp))
        exposed = np.where(plan.overlap_grad, self._exposed_seconds(reduce, compute), reduce)
        return np.asarray(by_round * (rounds - 1) * exposed)

    @cached_property
    def _part_layers(self) -> Shaped[Array, "plan"]:
        """The number of layers in one model part of the stage that ends the step."""
        return np.floor(self.groups.stage_layers / self.layout.parts)

    @property
    def _gathers_once(self) -> Shaped[Array, "plan"]:
        """Whether a pipeline gathers weights and reduces gradients once a step, not with every micro-batch."""
        once = (np.asarray(self.plan.pp) > 1) & (self.zero == 3)
        return np.asarray(once & (not self.software.regather))

    @property
    def paying_share(self) -> Shaped[Array, "plan"]:
        """The share of a stage's micro-batches whose passes exchange: all, or one a step."""
        return np.where(self._gathers_once, 1 / np.maximum(np.asarray(self.plan.micro_batches), 1), 1.0)

    def paying_path_share(self, passes: Shaped[Array, "path plan"]) -> Shaped[Array, "path plan"]:
        """The share of the passes along a path that exchange: all, or those of one micro-batch, one on each stage.

        A path begins with the forward passes of the first micro-batch through all stages, where weights are gathered, and
        ends with the backward passes of the last.
        """
        stages = np.asarray(self.plan.pp) * self.layout.parts
        return np.where(self._gathers_once, np.minimum(stages / np.maximum(passes, 1.0), 1.0), 1.0)

    def _exposed_seconds(self, exchange: Array, compute: Array) -> Array:
        """exposed(x, b) = max(c x, x - b): an exchange of x seconds during b seconds of compute."""
        return np.asarray(np.maximum(self.software.contention * exchange, exchange - compute))

    def _slowdown_seconds(self, exchange: Array) -> Array:
        """slowdown(x) = min(c x, c / (1 - c) b): what a hidden exchange adds to b, the backward pass of a layer."""
        share = self.software.contention
        return np.asarray(np.minimum(share * exchange, share / (1 - share) * self.passes.layer_backward))

    def forward_seconds(
        self, passes: Array, layers: Array, overlapped: bool, *, hidden: Array | float = 0.0
    ) -> Array:
        """Seconds that forward passes wait for weights (ZeRO 3), from the numbers of passes and of their layers.

            alone      = (layers - hidden) gather
            overlapped = (passes - hidden) gather + (layers - passes - hidden) exposed(gather, forward of a layer)

        The first gathers of `hidden` passes arrive while their rank waits for something else.
        """
        is_full, gather = self.zero == 3, self.groups.layer_gather
        if not overlapped:
            return np.asarray(np.where(is_full, (layers - hidden) * gather, 0.0))
        has_second = np.clip(layers / np.maximum(passes, 1e-9) - 1, 0.0, 1.0)
        later = layers - passes - hidden * has_second
        exposed = later * self._exposed_seconds(gather, self.passes.layer_forward)
        return np.asarray(np.where(is_full, (passes - hidden) * gather + exposed, 0.0))

    def backward_seconds(
        self,
        passes: Array,
        layers: Array,
        overlapped: bool,
        *,
        embeddings: Array,
        hidden: Array | float = 0.0,
    ) -> Array:
        """Seconds that backward passes wait for weights and gradients (ZeRO 2 and 3), from the same numbers.

            waits = passes x waits of one - hidden x (its last reduction + its first gather)
                    - embeddings x (last reduction - exposed(last reduction, backward of the embedding))

        `embeddings` of the passes go through the embedding. Nothing waits for the last reduction of `hidden` passes, nor
        for the first gather that runs with it.
        """
        is_full = self.zero == 3
        pass_layers = np.maximum(layers / np.maximum(passes, 1e-9), 1.0)
        last = np.where(is_full, self.groups.layer_reduce, self._bucket_seconds(self.groups.reduce))
        if overlapped:
            queued = np.where(is_full, np.minimum(pass_layers - 1, 1.0), pass_layers - 1)
            backward = self.passes.layer_backward
            free = last + queued * (self._exposed_seconds(last, backward) - self._slowdown_seconds(last))
            early = self.groups.layer_gather * (1 - self.software.late_gather)
            free = free + np.where(is_full, queued * self._exposed_seconds(early, backward), 0.0)
            saved = embeddings * (last - self._exposed_seconds(last, self.passes.backward[0]))
        else:
            free, saved = np.where(is_full, last, pass_layers * last), np.zeros(1)
        waits = passes * self._backward_pass_seconds(pass_layers, overlapped) - hidden * free - saved
        return np.asarray(np.where(self.zero >= 2, waits, 0.0))

    def _backward_pass_seconds(self, layers: Array, overlapped: bool) -> Array:
        """Seconds that one backward pass through `layers` layers waits."""
        is_full = self.zero == 3
        if is_full.all():
            return self._weight_seconds(layers, overlapped)
        gradients = self._gradient_seconds(layers, overlapped)
        return (
            np.where(is_full, self._weight_seconds(layers, overlapped), gradients)
            if has_any(is_full)
            else gradients
        )

    def _weight_seconds(self, layers: Array, overlapped: bool) -> Array:
        """The same under ZeRO 3: weights are gathered and gradients reduced, layer by layer.

        alone      = (layers - 1) gather + layers reduce
        overlapped = reduce + exposed(early, backward) + exposed(reduce, compute)
                     + (layers - 2) exposed(early + reduce, compute) + (layers - 1) late
        early      = gather - late: what is gathered ahead;  compute = backward of a layer + late
        """
        gather, reduce = self.groups.layer_gather, self.groups.layer_reduce
        if not overlapped:
            return np.asarray((layers - 1) * gather + layers * reduce)
        backward = self.passes.layer_backward
        late = gather * self.software.late_gather
        early, compute = gather - late, backward + late
        ends = self._exposed_seconds(early, backward) + self._exposed_seconds(reduce, compute)
        between = self._exposed_seconds(early + reduce, compute)
        inner = np.minimum(layers - 1, 1.0) * ends + np.maximum(layers - 2, 0.0) * between
        return np.asarray(reduce + (inner + (layers - 1) * late))

    def _gradient_seconds(self, layers: Array, overlapped: bool) -> Array:
        """The same under ZeRO 2: the gradients of every micro-batch are reduced, a bucket a layer.

        alone      = layers bucket
        overlapped = bucket + (layers - 1) exposed(bucket, backward of a layer)
        """
        bucket = self._bucket_seconds(self.groups.reduce)
        if not overlapped:
            return np.asarray(layers * bucket)
        return np.asarray(bucket + (layers - 1) * self._exposed_seconds(bucket, self.passes.layer_backward))

    def exchange_seconds(self, passes: Array, forward_layers: Array, backward_layers: Array) -> Array:
        """exchanges = (forward layers + early share x (backward layers - passes)) gather + backward layers x reduce.

        The gathers and reductions of equal numbers of forward and backward passes (ZeRO 3). The weights of the last layer
        stay for the backward pass.
        """
        early = 1 - self.software.late_gather
        gathers = forward_layers + early * np.maximum(backward_layers - passes, 0.0)
        seconds = gathers * self.groups.layer_gather + backward_layers * self.groups.layer_reduce
        return np.asarray(np.where(self.zero == 3, seconds, 0.0))

    def _bucket_seconds(self, exchange: Array) -> Array:
        """bucket = exchange of a stage / its layers."""
        return np.asarray(exchange / np.maximum(self.groups.stage_layers, 1))

    @cached_property
    def _layer_reduce_seconds(self) -> Shaped[Array, "plan"]:
        """Seconds to reduce the gradients of one layer, without the embedding's."""
        return np.asarray(self._bucket_seconds(self.groups.reduce) * self.groups.reduce_layer_share)

    def last_pass_slowdown_seconds(self) -> Shaped[Array, "plan"]:
        """(layers - 1) slowdown(reduce of a layer): what a stage's own gradients add to its last backward pass.

        The last gradients come back through that pass.
        """
        slowdown = self._slowdown_seconds(self._layer_reduce_seconds)
        return self._once_a_step_seconds(np.maximum(self._part_layers - 1, 0.0) * slowdown)

    def later_pass_slowdown_seconds(self, passes: Shaped[Array, "path plan"]) -> Shaped[Array, "path plan"]:
        """What they add to the next `passes` on the same rank, which are of another chunk.

            later = min(c layers reduce, c / (1 - c) compute) - slowdown of the last pass

        with the compute of all but one layer of the last pass, and of the passes that follow.
        """
        share, layers = self.software.contention, np.maximum(self._part_layers, 1.0)
        compute = (layers - 1 + passes * layers) * self.passes.layer_backward
        most = np.minimum(share * layers * self._layer_reduce_seconds, share / (1 - share) * compute)
        before = (layers - 1) * self._slowdown_seconds(self._layer_reduce_seconds)
        return self._once_a_step_seconds(np.maximum(most - before, 0.0))

    def _once_a_step_seconds(self, seconds: Array) -> Array:
        """Seconds of gradients that leave once a step (ZeRO 0 and 1), not with every micro-batch."""
        return np.asarray(np.where(self.zero < 2, seconds, 0.0))

    def end_seconds(self, slowdown: Shaped[Array, "plan"]) -> Shaped[Array, "plan"]:
        """Seconds that a step waits at its start for weights, and at its end for gradients.

            start = exposed(gather, embedding) + (layers - 1) exposed(gather, forward of a layer)
            end   = exposed(reduce, embedding) + (layers - 1) exposed(reduce, backward of a layer)

        with the gathers and reductions of one layer. `slowdown`: the seconds by which gradients on their way slow the
        passes, which leaves them that much longer to hide.
        """
        plan, groups, passes = self.plan, self.groups, self.passes
        gather, reduce = self._bucket_seconds(groups.gather), self._bucket_seconds(groups.reduce)
        others = np.maximum(self._part_layers - 1, 0.0)
        first = self._exposed_seconds(gather, passes.forward[0])
        start = first + others * self._exposed_seconds(gather, passes.layer_forward)
        last = self._exposed_seconds(reduce, passes.backward[0])
        end = last + others * self._exposed_seconds(reduce, passes.layer_closing)
        if has_any(np.asarray(plan.virtual_stages) > 1):
            start, end = self._chunk_end_seconds(start, end, first, slowdown)
        opening = np.where(plan.overlap_param, start, groups.gather)
        closing = np.where(plan.overlap_grad, end, groups.reduce)
        closing = np.where(self.zero == 3, groups.reduce, np.where(self.zero == 2, 0.0, closing))
        has_gather = (self.zero == 1) | (self.zero == 2)
        if has_any(np.asarray(plan.zero) != self.zero):
            closing = closing + self._round_seconds
        return np.asarray(np.where(has_gather, opening, 0.0) + closing + groups.embedding)

    def _chunk_end_seconds(
        self, start: Array, end: Array, first: Array, slowdown: Array
    ) -> tuple[Shaped[Array, "plan"], Shaped[Array, "plan"]]:
        """(start, end) where the chunks of a rank take turns; `first`: the exposed seconds of the first gather.

            start = max(start, weights before the last layer - passes before x forward of a chunk,
                        first + c (gather of layers - sends of the first micro-batch))
            end   = max(end, reduce - passes before x backward of a chunk - (layers - 1) backward - slowdown)

        The first pass of the last chunk needs all weights before it, and follows a turn of each other chunk. The last
        gradients of the first chunk leave after those of all others, which had those passes to leave in.
        """
        plan, groups, passes = self.plan, self.groups, self.passes
        schedule, chunks = np.asarray(plan.schedule), np.asarray(plan.virtual_stages, dtype=float)
        is_interleaved = schedule == Schedule.INTERLEAVED
        takes_turns = (is_interleaved | (schedule == Schedule.BREADTH_FIRST)) & (chunks > 1)
        passes_before = (chunks - 1) * np.where(is_interleaved, plan.pp, plan.micro_batches)
        layers = np.ceil(groups.stage_layers / chunks)
        forward = layers * passes.layer_forward + self.layout.charge_seconds
        backward = layers * passes.layer_backward + self.layout.charge_seconds
        weights = groups.gather * (1 - (layers - 1) / np.maximum(groups.stage_layers, 1))
        late = weights - passes_before * forward
        # until all weights are there, they slow all compute, but not the sends of the first micro-batch
        gather = groups.gather * groups.gather_layer_share - self._bucket_seconds(groups.gather)
        sends = (np.asarray(plan.pp) - 1) * self.layout.sends.mean_seconds
        late = np.maximum(late, first + self.software.contention * (gather - sends))
        compute = passes_before * backward + np.maximum(layers - 1, 0.0) * passes.layer_backward
        left = groups.reduce - compute - slowdown
        return (
            np.where(takes_turns, np.maximum(start, late), start),
            np.where(takes_turns, np.maximum(end, left), end),
        )


def pair_saving_seconds(layout: Layout, waits: Waits, *, overlapped: bool) -> Shaped[Array, "path plan"]:
    """saving = forward + backward - pair: what the pairs along a path save against their passes in turn.

        pair = max(compute of both, exchanges of both, either pass alone, gathers and reductions of both)

    Exchanges take turns, those too that hide behind their own pass. The best order of a pair's kernels comes close to
    this bound.
    """
    paths, passes, exchanges = layout.paths, layout.passes, layout.passes.exchanges
    assert exchanges is not None
    forward = (paths.paired_forward * passes.forward).sum(axis=1)
    backward = (paths.paired_backward * passes.backward).sum(axis=1)
    sent, hidden = (
        (paths.paired_forward * ahead).sum(axis=1) + (paths.paired_backward * back).sum(axis=1)
        for ahead, back in (exchanges.seconds, exchanges.hidden)
    )
    compute = forward + backward - sent
    data = np.zeros(1)
    if has_any(np.asarray(waits.plan.zero) == 3):
        share, pairs = waits.paying_share, paths.pairs
        layers = paths.paired_forward[:, 1:-1].sum(axis=1)
        back_layers, embeddings = paths.paired_backward[:, 1:-1].sum(axis=1), paths.paired_backward[:, 0]
        forward = forward + share * waits.forward_seconds(pairs, layers, overlapped)
        backward = backward + share * waits.backward_seconds(
            pairs, back_layers, overlapped, embeddings=embeddings
        )
        data = share * waits.exchange_seconds(pairs, layers, back_layers)
    slowed = compute + waits.software.contention * data
    pair = np.maximum.reduce(np.broadcast_arrays(slowed, sent + hidden, forward, backward, data))
    return np.asarray(forward + backward - pair)
