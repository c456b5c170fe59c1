"""A mixture of experts on real ranks: tokens go to the ranks of their experts and back by two all-to-alls.

Expert e lies on rank e // (experts / ep) of its group of ep neighbouring replicas. Each expert has room for `capacity`
times its mean share of the tokens of every sample; what is beyond is dropped (Lepikhin et al. 2020, GShard, section 2.2).
Without a capacity nothing is. As groups are samples, what is dropped does not depend on the layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from podsim.lab.training.sums import Sums
from podsim.lab.wires import Wires, load_part, load_torch
from podsim.workload.specification import Transformer


@dataclass(frozen=True, kw_only=True)
class ExpertShare:
    """The experts of one rank."""

    ranks: int = 1
    """The number of ranks that the experts are divided over."""
    position: int = 0
    """The position of this rank among them."""
    group: Any = None
    """The process group of these ranks."""
    replicas: Any = None
    """The wires of the ranks that hold the same experts."""
    capacity: float = 0.0
    """The room of an expert over its mean share of tokens; 0: for all."""


def expert_share(wires: Wires, replicas: int, ranks: int, capacity: float) -> ExpertShare:
    """This rank's experts; every rank of the job calls it."""
    if ranks == 1:
        return ExpertShare(capacity=capacity)
    new_group = wires.torch.distributed.new_group
    near = [tuple(range(first, first + ranks)) for first in range(0, replicas, ranks)]
    far = [tuple(range(position, replicas, ranks)) for position in range(ranks)]
    groups = {members: new_group(list(members)) for members in (*near, *far)}
    members, same = near[wires.rank // ranks], far[wires.rank % ranks]
    return ExpertShare(
        ranks=ranks, position=wires.rank % ranks, group=groups[members], replicas=wires.part(same, groups[same]),
        capacity=capacity,
    )  # fmt: skip


def mixture_class(mlp: Callable[[Transformer], Any]) -> Any:
    """The class of a router with the experts of a rank; `mlp` makes one of them."""
    torch = load_torch()
    nn = torch.nn
    base: Any = nn.Module

    class Mixture(base):  # type: ignore[misc]
        """Top-k of a softmax, renormalised as Mixtral does."""

        def __init__(self, spec: Transformer, share: ExpertShare) -> None:
            super().__init__()
            self.count, self.top, self.share = spec.experts, spec.top_k, share
            here = spec.experts // share.ranks
            first = share.position * here
            self.router = nn.Linear(spec.hidden, spec.experts, bias=False)
            one_of_them = replace(spec, ffn=spec.expert_ffn or spec.ffn)
            self.experts = nn.ModuleDict({str(e): mlp(one_of_them) for e in range(first, first + here)})
            for parameter in self.experts.parameters():
                parameter.is_expert = True
            self.loads = torch.zeros(spec.experts)
            self.dropped = 0

        def forward(self, x: Any) -> Any:
            samples, length, hidden = x.shape
            weights, chosen = self.router(x).softmax(-1).topk(self.top)
            weights = weights / weights.sum(-1, keepdim=True)
            mask = nn.functional.one_hot(chosen.flatten(1), self.count)
            behind = (mask.cumsum(1) - 1) * mask
            mean = length * self.top / self.count
            capacity = self.share.capacity
            room = min(length, max(1, math.ceil(capacity * mean))) if capacity else length
            kept = mask * (behind < room)
            with torch.no_grad():
                self.loads, self.dropped = mask.sum((0, 1)), int((mask - kept).sum())
            slots = nn.functional.one_hot(behind.clamp(max=room - 1), room).to(x.dtype) * kept.unsqueeze(-1)
            copies = x.repeat_interleave(self.top, dim=1)
            given = torch.einsum("sted,sth->esdh", slots, copies).flatten(1, 2)
            made = self._exchanged(given, lambda rows: self._computed(rows, hidden))
            made = made.view(self.count, samples, room, hidden)
            back = torch.einsum("sted,esdh->sth", slots, made) * weights.flatten(1).unsqueeze(-1)
            return back.view(samples, length, self.top, hidden).sum(2)

        def _computed(self, rows: Any, hidden: int) -> Any:
            return torch.stack([expert(own) for expert, own in zip(self.experts.values(), rows, strict=True)])

        def _exchanged(self, given: Any, compute: Callable[[Any], Any]) -> Any:
            """Rows of all experts to their ranks, through the experts, and back."""
            ranks = self.share.ranks
            if ranks == 1:
                return compute(given)
            send = load_part("torch.distributed.nn.functional").all_to_all_single
            here, rows = self.count // ranks, given.shape[1]
            there = send(torch.empty_like(given), given.contiguous(), group=self.share.group)
            there = there.view(ranks, here, rows, -1).transpose(0, 1).flatten(1, 2)
            made = compute(there).view(here, ranks, rows, -1).transpose(0, 1).flatten(0, 1).contiguous()
            return send(torch.empty_like(made), made, group=self.share.group)

    return Mixture


class ExpertSums(Sums):
    """Means over all replicas for weights that they share, and sums over those with the same experts for experts."""

    def __init__(self, wires: Wires, share: ExpertShare) -> None:
        """wires: of all replicas."""
        super().__init__(wires, None)
        self.share = share

    def gradients(self, parameters: list[Any]) -> None:
        """Replace the gradients by those of the mean loss over all replicas."""
        experts = [parameter for parameter in parameters if getattr(parameter, "is_expert", False)]
        super().gradients(
            [parameter for parameter in parameters if not getattr(parameter, "is_expert", False)]
        )
        Sums(self.share.replicas, None).gradients(experts)
        for parameter in experts:
            parameter.grad.div_(self.share.ranks)


def routing_of(modules: Iterable[Any]) -> dict[str, Any]:
    """The tokens of the last micro-batch by layer and expert, and those dropped, on one rank; empty without experts."""
    mixtures = [mixture for module in modules for mixture in module.modules() if hasattr(mixture, "router")]
    if not mixtures:
        return {}
    return {
        "loads": [mixture.loads.tolist() for mixture in mixtures],
        "dropped": sum(mixture.dropped for mixture in mixtures),
    }


def merged_routing(reports: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of all ranks: imbalance, the tokens of the busiest expert over the mean, and dropped, the share of tokens."""
    filled = [report for report in reports if report]
    if not filled:
        return {}
    layers = [
        [sum(counts) for counts in zip(*rows, strict=True)]
        for rows in zip(*(r["loads"] for r in filled), strict=True)
    ]
    routed = sum(map(sum, layers))
    busiest = [max(loads) * len(loads) / sum(loads) for loads in layers]
    return {
        "imbalance": sum(busiest) / len(busiest), "dropped": sum(r["dropped"] for r in filled) / routed,
    }  # fmt: skip
