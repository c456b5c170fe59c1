"""One run of the real server: a process on its own core answers what a load generator on another core sends."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from podsim.errors import LabError
from podsim.lab import usage
from podsim.lab.processes import fork, kill, stopped_by_signals
from podsim.lab.serving.batching_engine import BatchingEngine
from podsim.lab.serving.cached_gpt import CachedGpt
from podsim.lab.serving.load_generator import SentRequest, Server, fetch_steps, send_requests
from podsim.lab.serving.stream_server import StreamServer
from podsim.lab.wires import load_torch
from podsim.workload.specification import Transformer

_WARM_UP = 20
"""requests before those that count"""


@dataclass(frozen=True, kw_only=True)
class ServerJob:
    """The network, and the limits of the engine."""

    spec: Transformer
    sequences: int
    budget: int
    """The tokens of a step."""


@dataclass(frozen=True, kw_only=True)
class SentLoad:
    """The requests of a run."""

    prompts: Sequence[int]
    """The tokens of each prompt."""
    outputs: Sequence[int]
    times: Sequence[float] | None = None
    """s. The time at which each is sent; None: clients in a loop."""
    clients: int = 0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class ServerRun:
    """What the clients saw, and what the server computed."""

    requests: list[SentRequest]
    steps: list[list[float]]
    """The steps: (end, s, decoding sequences, mean context, chunks, new tokens, pairs)."""
    others: float
    """share. The part of the processors' time that other programs took."""
    stopped: bool = False
    """Whether a signal ended it before its last request."""


def run_server(
    job: ServerJob, load: SentLoad, progress: Callable[[int], None] = lambda _done: None
) -> ServerRun:
    """Start a server of a GPT, send the requests, and end it. Raises LabError where it fails, or a request does."""
    rng = np.random.default_rng(load.seed)
    prompts = [rng.integers(0, job.spec.vocab, count).tolist() for count in load.prompts]

    def make() -> StreamServer:
        network = CachedGpt(job.spec, job.sequences, job.spec.sequence)
        return StreamServer(
            BatchingEngine(network, job.sequences, job.budget), job.spec.sequence, job.spec.vocab
        )

    return run_requests(make, prompts, load, progress)


def run_requests(
    make: Callable[[], StreamServer], prompts: Sequence[Sequence[int]], load: SentLoad,
    progress: Callable[[int], None] = lambda _done: None,
) -> ServerRun:  # fmt: skip
    """Requests with these prompts to the server that `make` gives in a process of its own, as `run_server`."""
    load_torch().set_num_threads(1)
    before = usage.clocks()
    with stopped_by_signals(), _server(make) as (port, pid), _pinned(0):
        server = Server(host="127.0.0.1", port=port)
        count = min(_WARM_UP, len(prompts))
        _, stopped = send_requests(server, prompts[:count], load.outputs[:count], clients=2)
        if stopped:
            raise KeyboardInterrupt
        rows, stopped = send_requests(
            server, prompts, load.outputs, times=load.times, clients=load.clients, progress=progress
        )
        if stopped and not rows:
            raise KeyboardInterrupt
        steps = fetch_steps(server)
        os.waitpid(pid, 0)
    if (failed := [row.error for row in rows if row.error]) and not stopped:
        raise LabError(f"{len(failed)} of {len(rows)} requests failed: {failed[0]}")
    first = _first_step(steps)
    kept = [row for row in rows if not row.error]
    return ServerRun(requests=kept, steps=steps[first:], others=usage.others_since(before), stopped=stopped)


def _first_step(steps: Sequence[Sequence[float]]) -> int:
    """The first step after the warm-up, at whose end the generator pauses for 50 ms."""
    gaps = [later[0] - later[1] - sooner[0] for sooner, later in pairwise(steps)]
    return next((k + 1 for k, gap in enumerate(gaps) if gap > 0.03), 0)


@contextmanager
def _server(make: Callable[[], StreamServer]) -> Iterator[tuple[int, int]]:
    """(port, pid) of a server in a process of its own, which is gone after the block."""
    reader, writer = os.pipe()

    def work() -> int:
        os.close(reader)
        _pin(-1)
        server = make()
        os.write(writer, str(server.port).encode())
        os.close(writer)
        server.run()
        return 0

    pid = fork(work)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as pipe:
            text = pipe.read()
        if not text:
            raise LabError("the server did not start")
        yield int(text), pid
    finally:
        with suppress(ChildProcessError):
            kill([pid])


def _pin(position: int) -> None:
    """Stay on one of the machine's cores."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[position]})


@contextmanager
def _pinned(position: int) -> Iterator[None]:
    """Stay on one core in the block."""
    if sys.platform != "linux":
        yield
        return
    cores = os.sched_getaffinity(0)
    try:
        _pin(position)
        yield
    finally:
        os.sched_setaffinity(0, cores)
