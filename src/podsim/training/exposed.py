"""What a step waits for of the exchanges among data-parallel ranks: closed forms of what the simulation plays.

Exchanges go layer by layer on a stream of their own: the weights of a layer arrive while the layer before it is
computed, its gradients leave while the next one is. Beside one layer's compute of b seconds an exchange of x seconds
costs max(c x, x - b), where c is the share of its speed that compute loses meanwhile (Software.contention).

Axes: J paths, S classes of stages, P plans.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsim.training.groups import Groups
from podsim.training.plan import Array, Plan, Schedule
from podsim.training.software import Software


@dataclass(frozen=True)
class Waits:
    """Seconds beyond the passes themselves."""

    plan: Plan
    software: Software
    groups: Groups
    layer_forward_P: Array
    """seconds of one layer's forward pass"""
    layer_backward_P: Array
    edge_forward_P: Array
    """of the embedding, which the first gather of a step runs beside"""
    edge_backward_P: Array
    """its backward pass, which the last reduction runs beside"""
    charge_P: Array
    """what a send or receive takes of the compute stream"""
    send_P: Array
    """of one send, the mean of all neighbours"""
    closing_P: Array
    """of one layer's last pass in a step, which its gradients leave beside: of the weights alone where those are apart"""

    def kept(self, seconds: Array) -> Array:
        """Of the waits of passes those of passes that exchange: if weights are gathered once, one micro-batch's."""
        plan = self.plan
        if not self.software.regather:
            once = (np.asarray(plan.pp) > 1) & (np.asarray(plan.zero) == 3)
            seconds = seconds * np.where(once, 1 / np.maximum(np.asarray(plan.micro_batches), 1), 1.0)
        return np.asarray(seconds)

    def _step(self, exchange_P: Array, compute_P: Array) -> Array:
        """Seconds an exchange beside the compute of a layer costs."""
        return np.asarray(np.maximum(self.software.contention * exchange_P, exchange_P - compute_P))

    def forward(self, actions: Array, layers: Array, beside: bool, *, hidden: Array | float = 0.0) -> Array:
        """Waits of so many forward passes through so many layers in all; `beside`: exchanges run beside compute.

        The first gathers of `hidden` passes arrive while their rank waits for something else.
        """
        full = np.asarray(self.plan.zero) == 3
        gather_P = self.groups.layer_gather_K
        if not beside:
            return np.asarray(np.where(full, (layers - hidden) * gather_P, 0.0))
        second = np.clip(layers / np.maximum(actions, 1e-9) - 1, 0.0, 1.0)
        more = (layers - actions - hidden * second) * self._step(gather_P, self.layer_forward_P)
        return np.asarray(np.where(full, (actions - hidden) * gather_P + more, 0.0))

    def backward(
        self, actions: Array, layers: Array, beside: bool, *, edges: Array, hidden: Array | float = 0.0
    ) -> Array:
        """The same of backward passes, `edges` of them through the embedding too.

        Nobody waits for the last reduction of `hidden` ones, nor for the first gather beside them.
        """
        full = np.asarray(self.plan.zero) == 3
        some = np.maximum(layers / np.maximum(actions, 1e-9), 1.0)
        last_P = np.where(full, self.groups.layer_reduce_K, self._bucket(self.groups.reduce_K))
        if full.all():
            every = self._full(some, beside)
        elif full.any():
            every = np.where(full, self._full(some, beside), self._each(some, beside))
        else:
            every = self._each(some, beside)
        if beside:
            queued = np.where(full, np.minimum(some - 1, 1.0), some - 1)
            free = last_P + queued * (self._step(last_P, self.layer_backward_P) - self._slowed(last_P))
            early_P = self.groups.layer_gather_K * (1 - self.software.late_gather)
            free = free + np.where(full, queued * self._step(early_P, self.layer_backward_P), 0.0)
            saved = edges * (last_P - self._step(last_P, self.edge_backward_P))
        else:
            free, saved = np.where(full, last_P, some * last_P), np.zeros(1)
        return np.asarray(
            np.where(np.asarray(self.plan.zero) >= 2, actions * every - hidden * free - saved, 0.0)
        )

    def exchanged(self, passes: Array, ahead: Array, back: Array) -> Array:
        """Seconds of all gathers and reductions of so many forward and as many backward passes (ZeRO 3).

        `ahead` and `back`: layers that they pass through; backwards, the weights of the last layer are still there.
        """
        late = self.software.late_gather
        gathers = ahead + (1 - late) * np.maximum(back - passes, 0.0)
        seconds = gathers * self.groups.layer_gather_K + back * self.groups.layer_reduce_K
        return np.asarray(np.where(np.asarray(self.plan.zero) == 3, seconds, 0.0))

    def _slowed(self, exchange_P: Array) -> Array:
        """Seconds by which an exchange slows the compute of a layer, if nobody waits for it."""
        share = self.software.contention
        return np.asarray(np.minimum(share * exchange_P, share / (1 - share) * self.layer_backward_P))

    def _full(self, some: Array, beside: bool) -> Array:
        """ZeRO 3: of one backward pass through `some` layers."""
        gather_P, reduce_P = self.groups.layer_gather_K, self.groups.layer_reduce_K
        late_P = gather_P * self.software.late_gather
        early_P, compute_P = gather_P - late_P, self.layer_backward_P + late_P
        ends_P = self._step(early_P, self.layer_backward_P) + self._step(reduce_P, compute_P)
        between_P = self._step(early_P + reduce_P, compute_P)
        more = (
            np.minimum(some - 1, 1.0) * ends_P + np.maximum(some - 2, 0.0) * between_P + (some - 1) * late_P
        )
        return np.asarray(reduce_P + more if beside else (some - 1) * gather_P + some * reduce_P)

    def _each(self, some: Array, beside: bool) -> Array:
        """ZeRO 2: gradients of every micro-batch are reduced."""
        bucket_P = self._bucket(self.groups.reduce_K)
        apart = bucket_P + (some - 1) * self._step(bucket_P, self.layer_backward_P)
        return np.asarray(apart if beside else some * bucket_P)

    def _bucket(self, whole_P: Array) -> Array:
        """Of one layer, of what the first stage exchanges."""
        return np.asarray(whole_P / np.maximum(self.groups.stage_layers_K, 1))

    def drained(self, part_layers: Array) -> Array:
        """What a stage's own exchanges slow its last backward pass, through which the last gradients come back.

        Of layers alone, without the embedding that the first stage reduces too.
        """
        return self._closing(np.maximum(part_layers - 1, 0.0) * self._slowed(self._layer_reduce()))

    def stayed(self, part_layers: Array, after: Array) -> Array:
        """What they slow the passes after it, where their rank goes on with `after` passes of another chunk."""
        share, layers = self.software.contention, np.maximum(part_layers, 1.0)
        beside_P = (layers - 1 + after * layers) * self.layer_backward_P
        whole_P = np.minimum(share * layers * self._layer_reduce(), share / (1 - share) * beside_P)
        return self._closing(np.maximum(whole_P - (layers - 1) * self._slowed(self._layer_reduce()), 0.0))

    def _layer_reduce(self) -> Array:
        """Seconds of the gradients of one layer."""
        return np.asarray(self._bucket(self.groups.reduce_K) * self.groups.reduce_share_K)

    def _closing(self, seconds: Array) -> Array:
        """Of what leaves once a step, not with every micro-batch."""
        return np.asarray(np.where(np.asarray(self.plan.zero) < 2, seconds, 0.0))

    def once(self, part_layers: Array, slowed_P: Array) -> Array:
        """Waits of a step's start and end; `part_layers`: layers in one model part of the first stage.

        `slowed_P`: what the gradients on their way slow the passes, which they have that much longer to hide behind.
        """
        plan, groups = self.plan, self.groups
        zero = np.asarray(plan.zero)
        gather_P, reduce_P = self._bucket(groups.gather_K), self._bucket(groups.reduce_K)
        more = np.maximum(part_layers - 1, 0.0)
        first_P = self._step(gather_P, self.edge_forward_P)
        ahead = first_P + more * self._step(gather_P, self.layer_forward_P)
        last_P = self._step(reduce_P, self.edge_backward_P)
        hidden = last_P + more * self._step(reduce_P, self.closing_P)
        if (np.asarray(plan.virtual_stages) > 1).any():
            ahead, hidden = self._chunks(ahead, hidden, first_P, slowed_P)
        opening = np.where(plan.overlap_param, ahead, groups.gather_K)
        closing = np.where(plan.overlap_grad, hidden, groups.reduce_K)
        last = np.where(zero == 3, groups.reduce_K, np.where(zero == 2, 0.0, closing))
        return np.asarray(np.where((zero == 1) | (zero == 2), opening, 0.0) + last + groups.embedding_K)

    def _chunks(self, ahead: Array, hidden: Array, first_P: Array, slowed_P: Array) -> tuple[Array, Array]:
        """The same where a rank's chunks take turns: weights that come, and gradients that go, too late for all of them.

        The last chunk's first pass needs all weights before it, and comes after so many passes of the chunks before; the
        first chunk's last gradients go after those of all others, which were ready so many backward passes before.
        """
        plan, groups = self.plan, self.groups
        schedule, v_P = np.asarray(plan.schedule), np.asarray(plan.virtual_stages, dtype=float)
        turn_P = np.where(schedule == Schedule.INTERLEAVED, plan.pp, plan.micro_batches)
        known = (schedule == Schedule.INTERLEAVED) | (schedule == Schedule.BREADTH_FIRST)
        layers_P = np.ceil(groups.stage_layers_K / v_P)
        forward_P = layers_P * self.layer_forward_P + self.charge_P
        backward_P = layers_P * self.layer_backward_P + self.charge_P
        behind_P = (v_P - 1) * turn_P
        before_P = groups.gather_K * (1 - (layers_P - 1) / np.maximum(groups.stage_layers_K, 1))
        late_P = before_P - behind_P * forward_P
        # until all weights are there, they slow whatever computes; sends of the first micro-batch they do not
        gather_P = groups.gather_K * groups.gather_share_K - self._bucket(groups.gather_K)
        sent_P = (np.asarray(plan.pp) - 1) * self.send_P
        late_P = np.maximum(late_P, first_P + self.software.contention * (gather_P - sent_P))
        beside_P = behind_P * backward_P + np.maximum(layers_P - 1, 0.0) * self.layer_backward_P
        left_P = groups.reduce_K - beside_P - slowed_P
        return np.where(known, np.maximum(ahead, late_P), ahead), np.where(
            known, np.maximum(hidden, left_P), hidden
        )
