"""Replicas that exchange weights after some steps of their own, instead of gradients after every step.

    local   weights become their mean                                        local SGD, Stich 2019, algorithm 1
    diloco  the mean of what the replicas moved is the gradient of an outer
            optimizer, SGD with Nesterov momentum                            DiLoCo, Douillard et al. 2023, algorithm 1

Each replica keeps the moments of its own optimizer.
"""

from __future__ import annotations

from podsim.lab.training.flat_tensors import fill, flattened
from podsim.lab.training.rank_layout import Layout
from podsim.lab.training.train_job import Training
from podsim.lab.wires import Wires

OUTER = {"local": (1.0, 0.0), "diloco": (0.7, 0.9)}
"""(rate, momentum) of the outer optimizer by exchange; a rate of 1 without momentum is the mean of the weights"""


class LocalSteps:
    """A replica's weights, and those that all replicas began the round with."""

    def __init__(self, job: Training, wires: Wires, layout: Layout) -> None:
        """All replicas hold the same weights."""
        self.job, self.wires = job, wires
        self.parameters = [parameter for _, parameter in layout.parameters()]
        self.rate, self.momentum = OUTER[job.exchange]
        self.common = flattened(self.parameters)
        self.speed = wires.torch.zeros_like(self.common)

    def exchange(self, step: int) -> None:
        """Exchange weights if the step, numbered from 0, ends a round or the run."""
        if (step + 1) % self.job.local_steps and step + 1 < self.job.steps:
            return
        mean = flattened(self.parameters)
        self.wires.torch.distributed.all_reduce(mean, group=self.wires.group)
        outer = self.common - mean.div_(self.wires.world)
        self.speed.mul_(self.momentum).add_(outer)
        self.common.sub_(outer.add_(self.speed, alpha=self.momentum), alpha=self.rate)
        fill(self.parameters, self.common)
