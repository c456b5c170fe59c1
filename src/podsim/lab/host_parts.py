"""Small parts of a training step in eager PyTorch, forward and backward: what the kernel laws count in bytes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Make = Callable[[Any, Any, tuple[int, ...]], Callable[[], None]]
TOKENS, WIDTH, INNER, VOCABULARY = 512, 512, 2048, 4096
_TURNS = 4
"""of the same part, each with numbers of its own"""
FAR = 8
"""times as many tokens, whose operands the caches of a processor do not hold"""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What is timed."""

    kind: str
    shape: tuple[int, ...]
    make: Make
    """The function from (torch, device, shape) to the call."""


def _in_turn(calls: list[Callable[[], None]]) -> Callable[[], None]:
    """One call after the other, so that each finds in the caches what the others left, as the layers of a step do."""
    following = itertools.cycle(calls)

    def call() -> None:
        next(following)()

    return call


def _backward(
    torch: Any, device: Any, shape: tuple[int, ...], forward: Callable[[Any], Any]
) -> Callable[[], None]:
    """The call of a function and of its gradient."""

    def turn() -> Callable[[], None]:
        x = torch.randn(*shape, device=device, requires_grad=True)
        grad = torch.ones_like(forward(x))

        def call() -> None:
            x.grad = None
            forward(x).backward(grad)

        return call

    return _in_turn([turn() for _ in range(_TURNS)])


def linear(torch: Any, device: Any, shape: tuple[int, int, int], kind: Any) -> Callable[[], None]:
    """A linear layer of (tokens, outputs, inputs), forward and backward, as a step runs it: into new memory, in turn."""
    tokens, outputs, inputs = shape

    def turn() -> Callable[[], None]:
        layer = torch.nn.Linear(inputs, outputs, device=device, dtype=kind)
        x = torch.randn(tokens, inputs, device=device).to(kind).requires_grad_()
        grad = torch.ones(tokens, outputs, device=device, dtype=kind)

        def call() -> None:
            x.grad = layer.weight.grad = layer.bias.grad = None
            layer(x).backward(grad)

        return call

    return _in_turn([turn() for _ in range(_TURNS)])


def _norm(torch: Any, device: Any, shape: tuple[int, ...]) -> Callable[[], None]:
    return _backward(torch, device, shape, torch.nn.LayerNorm(shape[-1], device=device))


def _activation(torch: Any, device: Any, shape: tuple[int, ...]) -> Callable[[], None]:
    return _backward(torch, device, shape, torch.nn.functional.gelu)


def _residual(torch: Any, device: Any, shape: tuple[int, ...]) -> Callable[[], None]:
    other = torch.randn(*shape, device=device)
    return _backward(torch, device, shape, lambda x: x + other)


def _loss(torch: Any, device: Any, shape: tuple[int, ...]) -> Callable[[], None]:
    targets = torch.zeros(shape[0], dtype=torch.long, device=device)
    entropy = torch.nn.functional.cross_entropy
    return _backward(torch, device, shape, lambda x: entropy(x, targets))


def _attention(torch: Any, device: Any, shape: tuple[int, ...]) -> Callable[[], None]:
    mixed = torch.nn.functional.scaled_dot_product_attention
    given = [torch.randn(*shape, device=device, requires_grad=True) for _ in range(3)]
    grad = torch.ones_like(given[0])

    def call() -> None:
        for tensor in given:
            tensor.grad = None
        mixed(*given, is_causal=True).backward(grad)

    return call


def _optimizer(torch: Any, device: Any, _shape: tuple[int, ...]) -> Callable[[], None]:
    shapes = [(INNER, WIDTH), (WIDTH, INNER), (3 * WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH,), (INNER,)]
    weights = [torch.zeros(*shape, device=device, requires_grad=True) for shape in shapes]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer = torch.optim.AdamW(weights, lr=1e-4, foreach=False)
    step: Callable[[], None] = optimizer.step
    return step


_PARAMETERS = 2 * INNER * WIDTH + 4 * WIDTH * WIDTH + WIDTH + INNER
PARTS = (
    *(
        part
        for tokens in (TOKENS, FAR * TOKENS)
        for part in (
            Part(kind="norm", shape=(tokens, WIDTH), make=_norm),
            Part(kind="activation", shape=(tokens, INNER), make=_activation),
            Part(kind="residual", shape=(tokens, WIDTH), make=_residual),
        )
    ),
    Part(kind="loss", shape=(TOKENS, VOCABULARY), make=_loss),
    Part(kind="attention", shape=(4, 8, 128, 64), make=_attention),
    Part(kind="attention", shape=(1, 8, 512, 64), make=_attention),
    Part(kind="optimizer", shape=(_PARAMETERS,), make=_optimizer),
)
