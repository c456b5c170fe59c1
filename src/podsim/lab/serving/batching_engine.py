"""Continuous batching on a real network: the scheduler "vllm" of the simulator, a slot for each running request.

Running requests come first: each gets one token, or the next chunk of its prompt. Waiting ones join in their order, as
long as slots and the token budget of the step last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Network(Protocol):
    """A network with a cache."""

    def chunk(self, slot: int, tokens: Sequence[int], past: int) -> int: ...  # noqa: D102
    def decode(self, slots: Sequence[int], tokens: Sequence[int], pasts: Sequence[int]) -> list[int]: ...  # noqa: D102


class Engine(Protocol):
    """What a server runs."""

    waiting: deque[EngineRequest]

    @property
    def is_busy(self) -> bool: ...  # noqa: D102
    def step(self) -> EngineStep: ...  # noqa: D102


@dataclass(kw_only=True)
class EngineRequest:
    """A request on its way through the engine."""

    number: int
    prompt: list[int]
    output: int
    """The tokens of its answer."""
    slot: int = -1
    computed: int = 0
    """The tokens in the cache."""
    made: list[int] = field(default_factory=list)
    """The answer so far."""


@dataclass(frozen=True, kw_only=True)
class EngineStep:
    """What a step computed."""

    decoding: int
    """The number of decoding sequences."""
    context: float
    """The mean number of tokens in their caches."""
    prompts: int
    """The number of chunks."""
    new: int
    """The tokens of the chunks."""
    pairs: float
    """The sum over chunks of new x (past + new / 2), which their attention grows with."""
    tokens: tuple[tuple[int, int, bool], ...]
    """The tokens that it gave: (request, token, whether it is the last)."""


class BatchingEngine:
    """Requests in, steps out."""

    def __init__(self, network: Network, sequences: int, budget: int) -> None:
        """An engine without requests: at most `sequences` at once, and `budget` tokens in a step."""
        self.network, self.budget = network, budget
        self.free = list(range(sequences))[::-1]
        self.waiting: deque[EngineRequest] = deque()
        self.running: list[EngineRequest] = []

    @property
    def is_busy(self) -> bool:
        """Whether a step has something to do."""
        return bool(self.waiting or self.running)

    def step(self) -> EngineStep:
        """Compute one step."""
        decoding, chunks = self._plan()
        made: list[tuple[int, int, bool]] = []
        context = sum(request.computed for request in decoding) / max(len(decoding), 1)
        pairs = sum(count * (request.computed + count / 2) for request, count in chunks)
        if decoding:
            made += self._decode(decoding)
        for request, count in chunks:
            token = self.network.chunk(
                request.slot, request.prompt[request.computed : request.computed + count], request.computed
            )
            request.computed += count
            if request.computed == len(request.prompt):
                made.append(self._answer(request, token))
        self.running = [request for request in self.running if request.slot >= 0]
        return EngineStep(
            decoding=len(decoding), context=context, prompts=len(chunks), new=sum(count for _, count in chunks),
            pairs=pairs, tokens=tuple(made),
        )  # fmt: skip

    def _plan(self) -> tuple[list[EngineRequest], list[tuple[EngineRequest, int]]]:
        """(requests that decode, requests with the tokens of their next chunk)."""
        left, decoding, chunks = self.budget, [], []
        for request in self.running:
            if left and request.made:
                decoding.append(request)
                left -= 1
            elif left:
                chunks.append((request, min(left, len(request.prompt) - request.computed)))
                left -= chunks[-1][1]
        while left and self.waiting and self.free:
            request = self.waiting.popleft()
            request.slot = self.free.pop()
            self.running.append(request)
            chunks.append((request, min(left, len(request.prompt))))
            left -= chunks[-1][1]
        return decoding, chunks

    def _decode(self, decoding: list[EngineRequest]) -> list[tuple[int, int, bool]]:
        tokens = self.network.decode(
            [request.slot for request in decoding],
            [request.made[-1] for request in decoding],
            [request.computed for request in decoding],
        )
        for request in decoding:
            request.computed += 1
        return [self._answer(request, token) for request, token in zip(decoding, tokens, strict=True)]

    def _answer(self, request: EngineRequest, token: int) -> tuple[int, int, bool]:
        request.made.append(token)
        is_last = len(request.made) >= request.output
        if is_last:
            self.free.append(request.slot)
            request.slot = -1
        return request.number, token, is_last
