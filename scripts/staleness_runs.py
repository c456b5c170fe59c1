"""Measure how staleness slows learning, and write learning/staleness_runs.csv: python scripts/staleness_runs.py

A small GPT is trained in one process, while its workers' reads and writes come in the order that `podsim workers` plays:
bounds of 0, 1, 2, 4 and none, for several numbers of workers, with and without one that is three times slower; and local
SGD and DiLoCo. Each run sees the same data. A row is a loss on held-out sequences after some samples. Needs PyTorch and
some minutes; the table follows from the seeds, but for the rounding of another machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from podsim.lab.training.batches import Synthetic
from podsim.lab.training.gpt import gpt, pieces
from podsim.lab.training.local_steps import OUTER
from podsim.lab.training.optimizers import make_optimizer
from podsim.simulation.events import play
from podsim.simulation.workers import Exchange, lower_servers
from podsim.simulation.workers_outcome import server_moments, staleness_of
from podsim.simulation.workers_times import Pace, step_seconds
from podsim.whole_files import write_whole
from podsim.workload.catalog import load_specification
from podsim.workload.specification import resolve

TABLE = Path(__file__).parents[1] / "src" / "podsim" / "learning" / "staleness_runs.csv"
CHANGES = {"layers": "2", "sequence": "32"}
BATCH, ROUNDS, RATE, JITTER = 32, 240, 3e-3, 0.1
HELD_OUT, POINTS = 128, 16
WORKERS, BOUNDS, SLOW, SEEDS = (2, 4, 8), (0, 1, 2, 4, None), (1.0, 3.0), (0, 1)
LOCAL_STEPS = (4, 16)


class Run(NamedTuple):
    """What is varied."""

    exchange: str
    workers: int
    bound: int | None
    slow: float
    local_steps: int
    seed: int


class Network:
    """The network, its data, and its loss."""

    def __init__(self, seed: int) -> None:
        """The first weights follow from the seed."""
        specification = resolve(load_specification("gpt-tiny", CHANGES))
        self.module = gpt(specification, pieces((specification.layers,))[0], seed=seed)
        self.data = Synthetic(specification.vocab, specification.sequence, seed)
        self.held_out = self.data.batch(10**6, HELD_OUT)
        self.tensors = list(self.module.parameters())

    def loss(self, batch: Any) -> Any:
        """The mean loss of a batch."""
        inputs, targets = (torch.from_numpy(part.copy()) for part in batch)
        return torch.nn.functional.cross_entropy(self.module(inputs).flatten(0, 1), targets.flatten())

    def gradients(self, weights: list[Any], step: int, worker: int, workers: int) -> list[Any]:
        """The gradients of a worker's share of a round, at some weights."""
        each = BATCH // workers
        batch = tuple(part[worker * each : (worker + 1) * each] for part in self.data.batch(step, BATCH))
        with torch.no_grad():
            for tensor, weight in zip(self.tensors, weights, strict=True):
                tensor.copy_(weight)
        return list(torch.autograd.grad(self.loss(batch), self.tensors))

    def held_out_loss(self, weights: list[Any]) -> float:
        """The loss on sequences that no run is trained on."""
        with torch.no_grad():
            for tensor, weight in zip(self.tensors, weights, strict=True):
                tensor.copy_(weight)
            return float(self.loss(self.held_out))


def copied(weights: list[Any]) -> list[Any]:
    """Copies of some tensors."""
    return [weight.detach().clone() for weight in weights]


def moved(optimizer: Any, weights: list[Any], gradients: list[Any]) -> None:
    """Move weights by gradients, in place."""
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient
    optimizer.step()


def events_of(run: Run) -> tuple[list[tuple[bool, int, int]], float]:
    """((is a read, round, worker) in their order until the first worker is done, mean staleness in updates)."""
    pace = Pace(compute=1.0, jitter=JITTER, slow={0: run.slow})
    compute = step_seconds(pace, ROUNDS, run.workers, np.random.default_rng(run.seed))
    exchange = Exchange(
        gradients=1.0, weights=1.0, bandwidth=np.full(run.workers, 1e9), latency=0.0, servers=1, server_bandwidth=1e9,
        bound=run.bound,
    )  # fmt: skip
    rounds = lower_servers(compute, exchange, np.zeros_like(compute))
    moments = server_moments(rounds, play(rounds.ops))
    end = float(moments.done[-1].min())
    events = [
        (float(time[step, worker]), is_read, step, worker)
        for is_read, time in ((False, moments.written), (True, moments.read))
        for step, worker in product(range(ROUNDS), range(run.workers))
        if time[step, worker] <= end
    ]
    stale = staleness_of(moments.written, moments.read)[moments.written <= end]
    return [event[1:] for event in sorted(events)], float(stale.mean())


def served_curve(run: Run) -> Iterator[tuple[int, float, float]]:
    """(samples, held-out loss, mean staleness) of a run over a server."""
    network = Network(run.seed)
    weights = [torch.nn.Parameter(each) for each in copied(network.tensors)]
    if run.bound == 0:
        optimizer = make_optimizer("adamw", weights, RATE)
        for step in range(ROUNDS):
            moved(optimizer, weights, network.gradients(weights, step, 0, 1))
            yield BATCH * (step + 1), 0.0, network.held_out_loss(weights) if is_point(step) else 0.0
        return
    optimizer = make_optimizer("adamw", weights, RATE / run.workers)
    held = [copied(weights) for _ in range(run.workers)]
    events, stale = events_of(run)
    updates = 0
    for is_read, step, worker in events:
        if is_read:
            held[worker] = copied(weights)
            continue
        moved(optimizer, weights, network.gradients(held[worker], step, worker, run.workers))
        updates += 1
        if updates % run.workers == 0:
            done = updates // run.workers
            yield BATCH * done, stale, network.held_out_loss(weights) if is_point(done - 1) else 0.0


def local_curve(run: Run) -> Iterator[tuple[int, float, float]]:
    """(samples, 0, held-out loss) of local SGD, or of DiLoCo."""
    network = Network(run.seed)
    held = [[torch.nn.Parameter(each) for each in copied(network.tensors)] for _ in range(run.workers)]
    optimizers = [make_optimizer("adamw", weights, RATE) for weights in held]
    rate, momentum = OUTER[run.exchange]
    common = copied(network.tensors)
    speed = [torch.zeros_like(each) for each in common]
    for step in range(ROUNDS):
        for worker, weights in enumerate(held):
            moved(optimizers[worker], weights, network.gradients(weights, step, worker, run.workers))
        if (step + 1) % run.local_steps == 0:
            with torch.no_grad():
                for weight, velocity, *parts in zip(common, speed, *held, strict=True):
                    outer = weight - torch.stack(list(parts)).mean(dim=0)
                    velocity.mul_(momentum).add_(outer)
                    weight.sub_(outer + momentum * velocity, alpha=rate)
                    for part in parts:
                        part.copy_(weight)
            yield BATCH * (step + 1), 0.0, network.held_out_loss(held[0])


def is_point(step: int) -> bool:
    """Whether the loss is measured after a step."""
    return (step + 1) % (ROUNDS // POINTS) == 0


def all_runs() -> Iterator[Run]:
    """All runs, those of a seed together."""
    for seed in SEEDS:
        yield Run("server", 1, 0, 1.0, 1, seed)
        for workers, bound, slow in product(WORKERS, BOUNDS, SLOW):
            if bound != 0:
                yield Run("server", workers, bound, slow, 1, seed)
        for exchange, workers, steps in product(OUTER, WORKERS, LOCAL_STEPS):
            yield Run(exchange, workers, 0, 1.0, steps, seed)


def main() -> int:
    """Run all, and write the table."""
    torch.set_num_threads(1)
    lines = [["exchange", "workers", "bound", "slow", "local_steps", "seed", "staleness", "samples", "loss"]]
    for run in all_runs():
        curve = local_curve(run) if run.local_steps > 1 else served_curve(run)
        bound = "none" if run.bound is None else str(run.bound)
        for samples, stale, loss in curve:
            if loss and samples % (BATCH * ROUNDS // POINTS) == 0:
                names = [
                    run.exchange,
                    str(run.workers),
                    bound,
                    f"{run.slow:g}",
                    str(run.local_steps),
                    str(run.seed),
                ]
                lines.append([*names, f"{stale:.3g}", str(samples), f"{loss:.4f}"])
        print(*lines[-1], flush=True)
    write_whole(TABLE, "".join(",".join(line) + "\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
