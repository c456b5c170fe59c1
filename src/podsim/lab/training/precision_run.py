"""Rounding and loss scale of a training run, as one rank keeps them: what is lost, what overflows, which steps count."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from podsim.lab.training.flat_tensors import local_part
from podsim.lab.training.precision import Rounder, use_precision
from podsim.lab.training.precision_scale import LossScale
from podsim.lab.training.rank_layout import Layout
from podsim.lab.training.train_job import Training
from podsim.lab.wires import Wires
from podsim.learning.number_format_recipes import read_recipe

_MOST_NAMES = 12
"""tensors whose losses are kept: those that lose most"""


class Numerics:
    """The state of a run's rounding and loss scale on one rank."""

    def __init__(self, job: Training, wires: Wires, layout: Layout) -> None:
        """Let the network's products round their operands."""
        self.job, self.wires = job, wires
        self.rounder: Rounder | None = None
        if job.precision != "fp32":
            self.rounder = Rounder(read_recipe(job.precision), job.seed, wires.rank)
            for module in layout.modules.values():
                use_precision(module, self.rounder)
        self.scale = LossScale(job.loss_scale)
        self.scales: list[float] = []
        self.lost: list[float] = []
        self.skipped: list[int] = []
        self.diverged: int | None = None
        self.overflow = ""

    def resume(self, history: Mapping[str, Any], step: int) -> None:
        """Take the scales and losses of the steps before a resumption."""
        self.scales, self.lost = history.get("scales", [])[:step], history.get("lost", [])[:step]
        self.skipped = [each for each in history.get("skipped", []) if each < step]
        self.scale = LossScale(self.job.loss_scale, self.scales, self.skipped)

    def start(self, step: int) -> None:
        """A step begins."""
        self.step = step
        if self.rounder is not None:
            self.rounder.start(step)

    def unscale(self, parameters: Sequence[Any]) -> None:
        """Take the loss scale out of the gradients."""
        if self.scale.value != 1.0:
            for parameter in parameters:
                if parameter.grad is not None:
                    local_part(parameter.grad).mul_(1.0 / self.scale.value)

    def accept(self, named: Sequence[tuple[str, Any]], loss: float | None) -> bool:
        """Whether the gradients may move the weights; every rank gives the same answer.

        Gradients that are not finite make a dynamic scale smaller. Otherwise, and where the loss is not finite, the run
        has diverged.
        """
        operand, share = ("", 0.0) if self.rounder is None else self.rounder.end()
        gradient = next(
            (
                name
                for name, parameter in named
                if parameter.grad is not None and not _is_finite(parameter.grad)
            ),
            "",
        )
        state = 2 if loss is not None and not math.isfinite(loss) else int(bool(gradient))
        state = self._worst(state)
        self.scales.append(self.scale.value)
        self.lost.append(share)
        if state:
            self.overflow = self.overflow or operand or (gradient and f"{gradient} gradient")
        if state == 2 or (state and (not self.scale.is_dynamic or self.scale.value <= 1.0)):
            self.diverged = self.step
        elif state:
            self.skipped.append(self.step)
        self.scale.update(overflowed=bool(state))
        return not state

    def _worst(self, state: int) -> int:
        """The largest state of all ranks."""
        if self.wires.world == 1:
            return state
        torch = self.wires.torch
        flag = torch.tensor(float(state), device=self.wires.device)
        torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
        return int(flag)

    @property
    def history(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"scales": self.scales, "lost": self.lost, "skipped": self.skipped}

    @property
    def report(self) -> dict[str, Any]:
        """What this rank tells at the end."""
        shares = {} if self.rounder is None else self.rounder.shares()
        most = sorted(filter(shares.get, shares), key=lambda name: -shares[name])[:_MOST_NAMES]
        return {
            "lost": self.lost,
            "lost_by": {name: shares[name] for name in most},
            "overflow": self.overflow,
        }


def merge_reports(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The reports of all ranks as one: the mean of what is lost, and the first name of an overflow."""
    lost = [sum(each) / len(each) for each in zip(*(report["lost"] for report in reports), strict=True)]
    by_name: dict[str, float] = {}
    for report in reports:
        for name, share in report["lost_by"].items():
            by_name[name] = max(share, by_name.get(name, 0.0))
    most = sorted(by_name, key=lambda name: (-by_name[name], name))[:_MOST_NAMES]
    overflow = next((report["overflow"] for report in reports if report["overflow"]), "")
    return {"lost": lost, "lost_by": {name: by_name[name] for name in most}, "overflow": overflow}


def _is_finite(tensor: Any) -> bool:
    return bool(local_part(tensor).isfinite().all())
