"""Ensembles of Triton: a directed graph of steps through which each request goes, simulated step by step.

A step is a model with a dynamic batcher, or work on processor cores before, between and after models. Models share the
GPUs: a GPU that is free takes a batch of the model whose oldest request waited longest, if it is full or its queue delay
is over. A request enters a step when all steps that it comes after are done. Triton passes tensors between the models of
an ensemble inside its own memory, which costs nothing here.

Source: counting and simulation. Known error: that of `batch_queue`, with which an ensemble of one model agrees. Limits:
batches of two models never run on a GPU at once; every request takes every step.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from podsim.axes import Floats
from podsim.serving.batch_queue import BatchServer


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of an ensemble."""

    name: str
    after: tuple[int, ...]
    """The positions of the steps before it."""
    server: BatchServer
    """The batches of its model, or the cores of its processor work as servers of single requests."""
    is_model: bool
    """Whether it runs on the GPUs, which all models share."""
    samples: int = 1
    """The samples of a request, as the crops of an image."""


@dataclass(frozen=True, kw_only=True)
class EnsembleTimes:
    """When requests were in which step."""

    latency: Floats
    """s. The time from arrival to the end of the last step; shape (requests,)."""
    spent: Floats
    """s. The mean time of a request in each step, with its wait; shape (steps,)."""
    batches: Floats
    """count. The mean batch of each step; shape (steps,)."""
    busy: float
    """share. The share of time in which GPUs compute."""


@dataclass
class _Queue:
    """Requests that wait for a step, and the oldest one's time."""

    seconds: list[float]
    """s. The time of a batch of each number of requests, from 0."""
    largest: int
    waiting: deque[tuple[float, int]] = field(default_factory=deque)
    batches: int = 0
    served: int = 0
    spent: float = 0.0

    def ready(self, now: float, delay: float) -> float:
        """s. The time from which a batch may start."""
        return now if len(self.waiting) >= self.largest else self.waiting[0][0] + delay


def run_ensemble(steps: Sequence[Step], gpus: int, arrivals: Floats) -> EnsembleTimes:
    """The run of requests that arrive at ascending times, through all steps."""
    return _Run(steps, gpus, arrivals).play()


class _Run:
    """The events of one run: a request arrives at a step, a batch ends, a queue delay is over."""

    def __init__(self, steps: Sequence[Step], gpus: int, arrivals: Floats) -> None:
        self.steps, self.arrivals = steps, arrivals
        self.queues = [_queue(step) for step in steps]
        self.free_cores = [step.server.servers for step in steps]
        self.free_gpus, self.gpus, self.busy = gpus, gpus, 0.0
        self.missing = np.tile([len(step.after) for step in steps], (len(arrivals), 1)).tolist()
        self.following = [
            [later for later, step in enumerate(steps) if position in step.after]
            for position in range(len(steps))
        ]
        self.left = [len(steps)] * len(arrivals)
        self.ends = np.zeros(len(arrivals))
        self.events: list[tuple[float, int, int, list[int]]] = []
        self.count = 0

    def play(self) -> EnsembleTimes:
        """Play all events."""
        first = [position for position, step in enumerate(self.steps) if not step.after]
        times = self.arrivals.tolist()
        coming = 0
        while coming < len(times) or self.events:
            if coming < len(times) and (not self.events or times[coming] <= self.events[0][0]):
                now = times[coming]
                while coming < len(times) and times[coming] == now:
                    for position in first:
                        self.queues[position].waiting.append((now, coming))
                    coming += 1
            else:
                now, _, position, requests = heapq.heappop(self.events)
                if requests:
                    self._end(now, position, requests)
            self._start(now)
        warm = len(times) // 10
        span = max(float(self.ends.max()) - times[0], 1e-12)
        return EnsembleTimes(
            latency=(self.ends - self.arrivals)[warm:],
            spent=np.array([queue.spent / max(queue.served, 1) for queue in self.queues]),
            batches=np.array([queue.served / max(queue.batches, 1) for queue in self.queues]),
            busy=min(self.busy / (self.gpus * span), 1.0),
        )  # fmt: skip

    def _end(self, now: float, position: int, requests: list[int]) -> None:
        """A batch of a step is done: its requests go on."""
        if self.steps[position].is_model:
            self.free_gpus += 1
        else:
            self.free_cores[position] += 1
        for request in requests:
            self.left[request] -= 1
            if not self.left[request]:
                self.ends[request] = now
            for later in self.following[position]:
                self.missing[request][later] -= 1
                if not self.missing[request][later]:
                    self.queues[later].waiting.append((now, request))

    def _start(self, now: float) -> None:
        """Start what can start; where a queue delay is not over yet, come back."""
        for position, step in enumerate(self.steps):
            while not step.is_model and self.queues[position].waiting and self.free_cores[position]:
                self.free_cores[position] -= 1
                self._batch(now, position)
        while self.free_gpus:
            waiting = [
                (self.queues[position].waiting[0][0], position)
                for position, step in enumerate(self.steps)
                if step.is_model and self.queues[position].waiting
            ]
            ready = [
                (oldest, position) for oldest, position in waiting
                if self.queues[position].ready(now, self.steps[position].server.delay) <= now + 1e-12
            ]  # fmt: skip
            if not ready:
                for oldest, position in waiting:
                    self._push(oldest + self.steps[position].server.delay, position, [])
                return
            self.free_gpus -= 1
            self.busy += self._batch(now, min(ready)[1])

    def _batch(self, now: float, position: int) -> float:
        """Start a batch of a step; give its seconds."""
        queue = self.queues[position]
        count = min(len(queue.waiting), queue.largest)
        taken = [queue.waiting.popleft() for _ in range(count)]
        seconds = queue.seconds[count]
        queue.batches += 1
        queue.served += count
        queue.spent += sum(now + seconds - since for since, _ in taken)
        self._push(now + seconds, position, [request for _, request in taken])
        return seconds

    def _push(self, time: float, position: int, requests: list[int]) -> None:
        self.count += 1
        heapq.heappush(self.events, (time, self.count, position, requests))


def _queue(step: Step) -> _Queue:
    """An empty queue of a step; a batch has at least one request, whose samples may be more than the largest batch."""
    largest = max(1, step.server.largest // step.samples)
    work = np.arange(0.0, largest + 1) * step.samples
    return _Queue(seconds=step.server.batch_seconds(work).tolist(), largest=largest)
