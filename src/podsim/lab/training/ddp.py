"""Steps of DistributedDataParallel with real communication and emulated compute: every layer pauses inside autograd.

Many processes can then share few cores. What is timed is whether the buckets' all-reduces overlap with the backward pass.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from podsim.answers.lab import Emulated
from podsim.answers.trained import MeasuredDdp, MeasuredPass
from podsim.lab import usage
from podsim.lab.measured_collectives import message_seconds
from podsim.lab.ranks import Note, Task
from podsim.lab.training.sums import Sums, hook_of
from podsim.lab.wires import Board, Wires, load_torch
from podsim.network.collectives.table import Table

SMALLEST = 1 << 20
"""B of the first bucket that DistributedDataParallel closes, by default; a layer above it is a bucket of its own"""
_FLOAT = 4
_WARM = 2
"""steps before those that are timed: the buckets are put in their order after the first"""


@dataclass(frozen=True, kw_only=True)
class Ddp:
    """What is measured."""

    ranks: int
    local: int
    """The number of ranks of a server."""
    layers: int
    size: int
    """The bytes of a layer's gradients."""
    forward: float
    """s. The pause of a layer's forward pass."""
    backward: float
    """s. The pause of a layer's backward pass."""
    overlap: bool
    """Whether gradients are added up during the backward pass."""
    table: Table | None
    """The table that adds them up; None: the library's own way."""
    steps: int
    timeout: float
    backend: str
    emulated: Emulated | None
    slow: Mapping[int, float] = field(default_factory=dict)
    """factor. The length of the pauses of slow ranks."""


def task_of(job: Ddp) -> Task:
    """The job as ranks run it."""
    return Task(
        work=partial(_measure, job), nodes=job.ranks, timeout=job.timeout,
        backend=job.backend, parts=("torch._dynamo",),
    )  # fmt: skip


def _measure(job: Ddp, wires: Wires, note: Note) -> MeasuredDdp | None:
    board, started = Board(wires), usage.now_text()
    ranks = board.gather(usage.this_process())
    message = message_seconds(wires, board)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about its own ways
        once = _step(job, wires)
        for _ in range(_WARM):
            once()
        before = usage.mark()
        seconds = []
        for step in range(job.steps):
            note(f"step {step}", done=step + 1)
            wires.barrier()
            time.sleep(job.emulated.pause if job.emulated else 0.0)
            wires.barrier()
            start = time.perf_counter()
            once()
            seconds.append(time.perf_counter() - start)
        used = usage.since(before)
    reports = board.gather({"seconds": seconds, "used": used})
    if ranks is None or reports is None:
        return None
    hosts = [each_rank["host"] for each_rank in ranks]
    cpu, others = usage.busiest([each_rank["used"] for each_rank in reports], ranks)
    slowest = [max(each) for each in zip(*(each_rank["seconds"] for each_rank in reports), strict=True)]
    return MeasuredDdp(
        layers=job.layers, size=float(job.size), forward=job.forward, backward=job.backward, overlap=job.overlap,
        all_reduce=job.table.name if job.table is not None else "library", ranks=job.ranks, local=job.local,
        backend=wires.backend, software=wires.software,
        hosts=tuple(hosts), cores=min(each_rank["cores"] for each_rank in ranks), emulated=job.emulated, message=message,
        started=started, cpu=cpu, others=others,
        rows=tuple(MeasuredPass(step=k, seconds=each_rank) for k, each_rank in enumerate(slowest)),
    )  # fmt: skip


def _step(job: Ddp, wires: Wires) -> Callable[[], None]:
    """A call that does one step."""
    torch = wires.torch
    slow = job.slow.get(wires.rank, 1.0)
    own = replace(job, forward=job.forward * slow, backward=job.backward * slow)
    module = _classes()(own).to(wires.device)
    sums = Sums(wires, job.table)
    wrapped = torch.nn.parallel.DistributedDataParallel(
        module, bucket_cap_mb=job.size / 2**20 / 2, gradient_as_bucket_view=True
    )
    if job.table is not None:
        wrapped.register_comm_hook(None, hook_of(sums))
    data = torch.ones(1, device=wires.device)

    def together() -> None:
        wrapped(data).sum().backward()
        wires.settle()

    def apart() -> None:
        with wrapped.no_sync():
            wrapped(data).sum().backward()
        for parameter in reversed(list(module.parameters())):
            sums.mean(parameter.grad.view(-1))
        wires.settle()

    return together if job.overlap else apart


@lru_cache(maxsize=1)
def _classes() -> Any:
    """The class of a network of pauses; made when PyTorch is there."""
    torch = load_torch()
    function: Any = torch.autograd.Function
    base: Any = torch.nn.Module

    class Pause(function):  # type: ignore[misc]
        """A layer: it pauses, and its weights have a gradient."""

        @staticmethod
        def forward(ctx: Any, x: Any, weights: Any, forward: float, backward: float) -> Any:
            ctx.save_for_backward(weights)
            ctx.pause = backward
            time.sleep(forward)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            (weights,) = ctx.saved_tensors
            time.sleep(ctx.pause)
            return gradient, torch.ones_like(weights), None, None

    class Network(base):  # type: ignore[misc]
        """Layers one after the other."""

        def __init__(self, job: Ddp) -> None:
            super().__init__()
            self.pauses = (job.forward, job.backward)
            count = job.size // _FLOAT
            self.weights = torch.nn.ParameterList(torch.zeros(count) for _ in range(job.layers))

        def forward(self, x: Any) -> Any:
            x = x.requires_grad_()
            for weights in self.weights:
                x = Pause.apply(x, weights, *self.pauses)
            return x

    return Network
