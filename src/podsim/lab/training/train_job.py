"""What is trained, as every rank gets it: a network, a plan, data, and where checkpoints go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from podsim.answers.lab import Emulated
from podsim.network.collectives.table import Table
from podsim.schedules.actions import ScheduleTable
from podsim.training.plan import Plan
from podsim.workload.specification import Transformer

SERVED = ("ps", "ssp", "async")
"""exchanges with a parameter server: in step; ahead by some steps; nobody waits"""
EXCHANGES = ("bsp", *SERVED, "local", "diloco")
"""how data-parallel replicas share what they learn: an all-reduce of gradients, a server, or weights after some steps"""


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training run."""

    network: Transformer | None
    """The GPT; None for a residual network."""
    changes: Mapping[str, str]
    """The fields of the network that were changed."""
    train: str = "full"
    """The trained part: full, lora:16, frozen:2."""
    precision: str = "fp32"
    """The name of the recipe that rounds the operands of products."""
    loss_scale: str = "none"
    """The factor on the loss: none, dynamic, or a number."""
    residual: str = ""
    """The name of the residual network."""
    plan: Plan
    cut: tuple[int, ...]
    """The layers of each part of the model."""
    schedule: ScheduleTable | None
    """The schedule of the pipeline; None without one."""
    all_reduce: Table | None
    """The way in which gradients are added up; None: the library's own."""
    exchange: str
    """One of EXCHANGES."""
    staleness: int | None
    """The number of steps that the fastest replica may be ahead of the slowest, for ssp."""
    slow: Mapping[int, float]
    """s. The rest of a replica in each step, by replica."""
    steps: int
    rate: float
    """factor. The learning rate after the warm-up."""
    optimizer: str = "adamw"
    warmup: int = 0
    """The number of steps in which the learning rate grows."""
    local_steps: int = 1
    """The number of steps of a replica between two exchanges of weights."""
    prune_at: int = 0
    """The number of steps after which weights are pruned 2:4; 0: never."""
    test_samples: int = 0
    """The number of samples on which accuracy is measured; 0: none."""
    noise_scale: bool = False
    """Whether the lengths of gradients are measured for the gradient noise scale."""
    seed: int
    data: str
    """The data: synthetic, or the path of a text file or of a folder of images."""
    image: int
    """The side of an image in pixels."""
    classes: int
    """The number of classes of synthetic images."""
    checkpoint: Path | None
    every: int
    """The number of steps between checkpoints; 0: one at the end."""
    keep: int
    """The number of checkpoints that are kept; 0: all."""
    resume: bool
    timeout: float
    backend: str
    emulated: Emulated | None

    @property
    def served(self) -> bool:
        """Whether one more process holds the weights as a parameter server."""
        return self.exchange in SERVED

    @property
    def is_checked(self) -> bool:
        """Whether gradients are checked for overflow in each step, because of a precision or a loss scale."""
        return self.precision != "fp32" or self.loss_scale != "none"

    @property
    def ranks(self) -> int:
        """Processes that train."""
        return int(self.plan.gpus)

    @property
    def nodes(self) -> int:
        """Processes: those that train, and the server."""
        return self.ranks + self.served

    @property
    def same(self) -> dict[str, Any]:
        """What stays the same where a run goes on, as plain values: network, batch, seed and data, not the layout."""
        network = asdict(self.network) if self.network else {"image": self.image, "classes": self.classes}
        values = {name: value for name, value in network.items() if name not in ("name", "source")}
        values |= {"precision": self.precision, "loss_scale": self.loss_scale}
        values |= {"residual": self.residual, "batch": self.plan.global_batch, "seed": self.seed}
        values |= {"optimizer": self.optimizer, "prune_at": self.prune_at}
        plain: dict[str, Any] = json.loads(json.dumps(values | {"data": Path(self.data).name}, default=int))
        return plain
