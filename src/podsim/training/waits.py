"""What a step waits for of the exchanges among data-parallel ranks, and what pairs of passes hide of their exchanges.

Exchanges go layer by layer on a stream of their own: the weights of a layer arrive while the layer before it is
computed, its gradients leave while the next one is. They slow compute meanwhile, by the share c (Software.contention):

    exposed seconds of an exchange of x seconds beside b seconds of compute = max(c x, x - b)

The simulation plays the same exchanges; these are their closed forms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from podsim.axes import Shaped
from podsim.training.layout import Groups, Layout, Passes, PassExchanges, Paths
from podsim.training.plan import Plan
from podsim.training.plan_values import Array, Schedule
from podsim.training.software import Software


@dataclass(frozen=True)
class ByOverlap:
    """Seconds of plans whose exchanges overlap compute, and of those whose exchanges do not."""

    overlaps: Shaped[Array, "plan"]
    """Whether the exchanges of a plan overlap compute."""
    overlapped: Array | None
    """s. With overlap; None where no plan has it."""
    alone: Array | None
    """s. Without overlap; None where all plans have it."""

    @classmethod
    def of(cls, overlaps: Array, seconds: Callable[[bool], Array]) -> ByOverlap:
        """Seconds with and without overlap, each only where some plan needs it."""
        overlapped = seconds(True) if overlaps.any() else None
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
    """Seconds beyond the passes themselves."""

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
    def _zero(self) -> Array:
        return np.asarray(self.plan.zero)

    @cached_property
    def _part_layers(self) -> Array:
        """Layers in one model part of the stage that ends the step."""
        return np.floor(self.groups.stage_layers / self.layout.parts)

    @property
    def paying_share(self) -> Array | float:
        """Share of micro-batches whose passes exchange: all, or one a step where weights are gathered once."""
        if self.software.regather:
            return 1.0
        once = (np.asarray(self.plan.pp) > 1) & (self._zero == 3)
        return np.where(once, 1 / np.maximum(np.asarray(self.plan.micro_batches), 1), 1.0)

    def _exposed_seconds(self, exchange: Array, compute: Array) -> Array:
        """exposed = max(c x, x - b): of an exchange of x seconds beside b seconds of compute."""
        return np.asarray(np.maximum(self.software.contention * exchange, exchange - compute))

    def _slowdown_seconds(self, exchange: Array) -> Array:
        """slowdown = min(c x, c / (1 - c) b): by what an exchange slows a layer's backward pass if none waits for it."""
        share = self.software.contention
        return np.asarray(np.minimum(share * exchange, share / (1 - share) * self.passes.layer_backward))

    def forward_seconds(
        self, passes: Array, layers: Array, overlapped: bool, *, hidden: Array | float = 0.0
    ) -> Array:
        """Waits of a number of forward passes through a number of layers in all (ZeRO 3).

            alone = (layers - hidden) gather
            overlapped = (passes - hidden) gather + (layers - passes - hidden) exposed(gather, forward of a layer)

        The first gathers of `hidden` passes arrive while their rank waits for something else.
        """
        full, gather = self._zero == 3, self.groups.layer_gather
        if not overlapped:
            return np.asarray(np.where(full, (layers - hidden) * gather, 0.0))
        second = np.clip(layers / np.maximum(passes, 1e-9) - 1, 0.0, 1.0)
        later = layers - passes - hidden * second
        exposed = later * self._exposed_seconds(gather, self.passes.layer_forward)
        return np.asarray(np.where(full, (passes - hidden) * gather + exposed, 0.0))

    def backward_seconds(
        self,
        passes: Array,
        layers: Array,
        overlapped: bool,
        *,
        embeddings: Array,
        hidden: Array | float = 0.0,
    ) -> Array:
        """Waits of a number of backward passes through a number of layers in all (ZeRO 2 and 3).

            waits = passes x those of one - hidden x those of its last reduction and first gather
                    - embeddings x what the backward pass of the embedding hides of the last reduction

        `embeddings` of the passes go through the embedding; none waits for the last reduction of `hidden` ones, nor for
        the first gather beside them.
        """
        full = self._zero == 3
        each = np.maximum(layers / np.maximum(passes, 1e-9), 1.0)
        last = np.where(full, self.groups.layer_reduce, self._bucket_seconds(self.groups.reduce))
        if overlapped:
            queued = np.where(full, np.minimum(each - 1, 1.0), each - 1)
            backward = self.passes.layer_backward
            free = last + queued * (self._exposed_seconds(last, backward) - self._slowdown_seconds(last))
            early = self.groups.layer_gather * (1 - self.software.late_gather)
            free = free + np.where(full, queued * self._exposed_seconds(early, backward), 0.0)
            saved = embeddings * (last - self._exposed_seconds(last, self.passes.backward[0]))
        else:
            free, saved = np.where(full, last, each * last), np.zeros(1)
        waits = passes * self._backward_pass_seconds(each, overlapped) - hidden * free - saved
        return np.asarray(np.where(self._zero >= 2, waits, 0.0))

    def _backward_pass_seconds(self, layers: Array, overlapped: bool) -> Array:
        """Waits of one backward pass through a number of layers."""
        full = self._zero == 3
        if full.all():
            return self._full_seconds(layers, overlapped)
        if not full.any():
            return self._gradient_seconds(layers, overlapped)
        return np.where(
            full, self._full_seconds(layers, overlapped), self._gradient_seconds(layers, overlapped)
        )

    def _full_seconds(self, layers: Array, overlapped: bool) -> Array:
        """Waits of one backward pass under ZeRO 3: weights are gathered and gradients reduced, layer by layer.

        alone = (layers - 1) gather + layers reduce
        overlapped = reduce + both ends, one at a time + what is between, two at a time + late gathers
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
        """Waits of one backward pass under ZeRO 2: the gradients of every micro-batch are reduced.

        alone = layers bucket
        overlapped = bucket + (layers - 1) exposed(bucket, backward of a layer)
        """
        bucket = self._bucket_seconds(self.groups.reduce)
        if not overlapped:
            return np.asarray(layers * bucket)
        return np.asarray(bucket + (layers - 1) * self._exposed_seconds(bucket, self.passes.layer_backward))

    def exchange_seconds(self, passes: Array, forward_layers: Array, backward_layers: Array) -> Array:
        """All gathers and reductions of a number of forward and as many backward passes (ZeRO 3).

        Backward passes find the weights of the last layer still there.
        """
        early = 1 - self.software.late_gather
        gathers = forward_layers + early * np.maximum(backward_layers - passes, 0.0)
        seconds = gathers * self.groups.layer_gather + backward_layers * self.groups.layer_reduce
        return np.asarray(np.where(self._zero == 3, seconds, 0.0))

    def _bucket_seconds(self, exchange: Array) -> Array:
        """One layer's share of what a stage exchanges."""
        return np.asarray(exchange / np.maximum(self.groups.stage_layers, 1))

    @cached_property
    def _layer_reduce_seconds(self) -> Array:
        """Reduction of the gradients of one layer, without the embedding's."""
        return np.asarray(self._bucket_seconds(self.groups.reduce) * self.groups.reduce_layer_share)

    def last_pass_slowdown_seconds(self) -> Array:
        """By what a stage's own gradients slow its last backward pass, through which the last ones come back.

        (layers - 1) slowdown(reduce of a layer)
        """
        slowdown = self._slowdown_seconds(self._layer_reduce_seconds)
        return self._once_a_step(np.maximum(self._part_layers - 1, 0.0) * slowdown)

    def later_pass_slowdown_seconds(self, passes: Array) -> Array:
        """By what they slow the `passes` of another chunk that their rank goes on with, at least."""
        share, layers = self.software.contention, np.maximum(self._part_layers, 1.0)
        beside = (layers - 1 + passes * layers) * self.passes.layer_backward
        most = np.minimum(share * layers * self._layer_reduce_seconds, share / (1 - share) * beside)
        before = (layers - 1) * self._slowdown_seconds(self._layer_reduce_seconds)
        return self._once_a_step(np.maximum(most - before, 0.0))

    def _once_a_step(self, seconds: Array) -> Array:
        """Seconds of gradients that leave once a step, not with every micro-batch."""
        return np.asarray(np.where(self._zero < 2, seconds, 0.0))

    def end_seconds(self, slowdown: Array) -> Array:
        """Waits of a step's start and end.

            start = exposed(first gather, embedding) + (layers - 1) exposed(gather, forward of a layer)
            end = exposed(last reduction, embedding) + (layers - 1) exposed(reduction, backward of a layer)

        `slowdown`: s by which gradients on their way slow the passes, which leaves them that much longer to hide.
        """
        plan, groups, passes = self.plan, self.groups, self.passes
        gather, reduce = self._bucket_seconds(groups.gather), self._bucket_seconds(groups.reduce)
        others = np.maximum(self._part_layers - 1, 0.0)
        first = self._exposed_seconds(gather, passes.forward[0])
        start = first + others * self._exposed_seconds(gather, passes.layer_forward)
        last = self._exposed_seconds(reduce, passes.backward[0])
        end = last + others * self._exposed_seconds(reduce, passes.layer_closing)
        if (np.asarray(plan.virtual_stages) > 1).any():
            start, end = self._chunk_end_seconds(start, end, first, slowdown)
        opening = np.where(plan.overlap_param, start, groups.gather)
        closing = np.where(plan.overlap_grad, end, groups.reduce)
        closing = np.where(self._zero == 3, groups.reduce, np.where(self._zero == 2, 0.0, closing))
        gathers = (self._zero == 1) | (self._zero == 2)
        return np.asarray(np.where(gathers, opening, 0.0) + closing + groups.embedding)

    def _chunk_end_seconds(
        self, start: Array, end: Array, first: Array, slowdown: Array
    ) -> tuple[Array, Array]:
        """The same where a rank's chunks take turns: weights that come, and gradients that go, too late for all of them.

        The last chunk's first pass needs all weights before it, and comes after a turn of each of the chunks before; the
        first chunk's last gradients go after those of all others, which were ready as many backward passes before.
        """
        plan, groups, passes = self.plan, self.groups, self.passes
        schedule, chunks = np.asarray(plan.schedule), np.asarray(plan.virtual_stages, dtype=float)
        turn = np.where(schedule == Schedule.INTERLEAVED, plan.pp, plan.micro_batches)
        known = (schedule == Schedule.INTERLEAVED) | (schedule == Schedule.BREADTH_FIRST)
        layers = np.ceil(groups.stage_layers / chunks)
        forward = layers * passes.layer_forward + self.layout.charge_seconds
        backward = layers * passes.layer_backward + self.layout.charge_seconds
        passes_before = (chunks - 1) * turn
        weights = groups.gather * (1 - (layers - 1) / np.maximum(groups.stage_layers, 1))
        late = weights - passes_before * forward
        # until all weights are there, they slow whatever computes; sends of the first micro-batch they do not
        gather = groups.gather * groups.gather_layer_share - self._bucket_seconds(groups.gather)
        sent = (np.asarray(plan.pp) - 1) * self.layout.sends.mean_seconds
        late = np.maximum(late, first + self.software.contention * (gather - sent))
        beside = passes_before * backward + np.maximum(layers - 1, 0.0) * passes.layer_backward
        left = groups.reduce - beside - slowdown
        return np.where(known, np.maximum(start, late), start), np.where(known, np.maximum(end, left), end)


def _idle_seconds(paths: Paths, exchanges: PassExchanges) -> Shaped[Array, "path plan"]:
    """Seconds along each path in which neither pass of a pair computes.

        idle = sum over syncs but one a pair of max(sync - longest stretch of compute, 0)

    While one pass syncs, the other cannot, as both use one stream: it computes until its own next sync, no further.
    Of each pair one sync is left out, as the first stretch may have what a receive takes of the stream, too, and
    one where the forward pass goes through embedding or head.
    """
    share = np.maximum(1 - exchanges.stretch / np.maximum(exchanges.sync, 1e-12), 0.0)
    idle = (paths.paired_backward * exchanges.syncs * share).sum(axis=1)
    left_out = paths.paired_forward[:, 0] + paths.paired_forward[:, -1] + paths.pairs
    return np.asarray(np.maximum(idle - left_out * (exchanges.sync * share).max(axis=0), 0.0))


def pair_saving_seconds(layout: Layout, waits: Waits, *, overlapped: bool) -> Shaped[Array, "path plan"]:
    """Seconds by which the pairs along a path are shorter than their passes one after the other.

        pair = max(compute of both + what neither computes, exchanges of both, either pass alone,
                   gathers and reductions of both)

    Nothing is hidden that finds nothing to hide behind. The best order of a pair's kernels comes close to this bound.
    """
    paths, passes, exchanges = layout.paths, layout.passes, layout.passes.exchanges
    assert exchanges is not None
    counts = (paths.paired_forward, paths.paired_backward)
    alone = [
        (count * seconds).sum(axis=1)
        for count, seconds in zip(counts, (passes.forward, passes.backward), strict=True)
    ]
    sent = sum(
        (count * seconds).sum(axis=1) for count, seconds in zip(counts, exchanges.seconds, strict=True)
    )
    compute = sum(alone) - sent
    busy = np.zeros(1)
    if (np.asarray(waits.plan.zero) == 3).any():
        share = waits.paying_share
        layers, back_layers = (count[:, 1:-1].sum(axis=1) for count in counts)
        embeddings = paths.paired_backward[:, 0]
        alone[0] = alone[0] + share * waits.forward_seconds(paths.pairs, layers, overlapped)
        alone[1] = alone[1] + share * waits.backward_seconds(
            paths.pairs, back_layers, overlapped, embeddings=embeddings
        )
        busy = share * waits.exchange_seconds(paths.pairs, layers, back_layers)
    idle = _idle_seconds(paths, exchanges)
    # what is gathered and reduced slows only what is computed meanwhile
    slowed = compute + idle + waits.software.contention * np.maximum(busy - idle, 0.0)
    longest = np.maximum.reduce(np.broadcast_arrays(slowed, sent, *alone, busy))
    return np.asarray(alone[0] + alone[1] - longest)
