"""Small parts of a training step in eager PyTorch, forward and backward: what the kernel laws count in bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["PARTS", "Part", "linear"]

Make = Callable[[Any, Any], Callable[[], None]]
TOKENS, WIDTH, INNER, VOCABULARY = 512, 512, 2048, 4096


@dataclass(frozen=True, kw_only=True)
class Part:
    """What is timed."""

    kind: str
    shape: tuple[int, ...]
    make: Make
    """(torch, device) to the call"""


def _backward(
    torch: Any, device: Any, shape: tuple[int, ...], forward: Callable[[Any], Any]
) -> Callable[[], None]:
    """The call of a function and of its gradient."""
    x = torch.randn(*shape, device=device, requires_grad=True)
    grad = torch.ones_like(forward(x))

    def call() -> None:
        x.grad = None
        forward(x).backward(grad)

    return call


def linear(torch: Any, device: Any, shape: tuple[int, int, int], kind: Any) -> Callable[[], None]:
    """A linear layer of (tokens, outputs, inputs), forward and backward, as a step runs it: into new memory."""
    tokens, outputs, inputs = shape
    layer = torch.nn.Linear(inputs, outputs, device=device, dtype=kind)
    x = torch.randn(tokens, inputs, device=device).to(kind).requires_grad_()
    grad = torch.ones(tokens, outputs, device=device, dtype=kind)

    def call() -> None:
        x.grad = layer.weight.grad = layer.bias.grad = None
        layer(x).backward(grad)

    return call


def _norm(torch: Any, device: Any) -> Callable[[], None]:
    layer = torch.nn.LayerNorm(WIDTH, device=device)
    return _backward(torch, device, (TOKENS, WIDTH), layer)


def _activation(torch: Any, device: Any) -> Callable[[], None]:
    return _backward(torch, device, (TOKENS, INNER), torch.nn.functional.gelu)


def _residual(torch: Any, device: Any) -> Callable[[], None]:
    other = torch.randn(TOKENS, WIDTH, device=device)
    return _backward(torch, device, (TOKENS, WIDTH), lambda x: x + other)


def _loss(torch: Any, device: Any) -> Callable[[], None]:
    targets = torch.zeros(TOKENS, dtype=torch.long, device=device)
    entropy = torch.nn.functional.cross_entropy
    return _backward(torch, device, (TOKENS, VOCABULARY), lambda x: entropy(x, targets))


def _attention(batch: int, heads: int, tokens: int, width: int) -> Make:
    def make(torch: Any, device: Any) -> Callable[[], None]:
        mixed = torch.nn.functional.scaled_dot_product_attention
        given = [
            torch.randn(batch, heads, tokens, width, device=device, requires_grad=True) for _ in range(3)
        ]
        grad = torch.ones_like(given[0])

        def call() -> None:
            for one in given:
                one.grad = None
            mixed(*given, is_causal=True).backward(grad)

        return call

    return make


def _optimizer(torch: Any, device: Any) -> Callable[[], None]:
    shapes = [(INNER, WIDTH), (WIDTH, INNER), (3 * WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH,), (INNER,)]
    weights = [torch.zeros(*shape, device=device, requires_grad=True) for shape in shapes]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    made = torch.optim.AdamW(weights, lr=1e-4, foreach=False)
    step: Callable[[], None] = made.step
    return step


_PARAMETERS = 2 * INNER * WIDTH + 4 * WIDTH * WIDTH + WIDTH + INNER
PARTS = (
    Part(kind="norm", shape=(TOKENS, WIDTH), make=_norm),
    Part(kind="activation", shape=(TOKENS, INNER), make=_activation),
    Part(kind="residual", shape=(TOKENS, WIDTH), make=_residual),
    Part(kind="loss", shape=(TOKENS, VOCABULARY), make=_loss),
    Part(kind="attention", shape=(4, 8, 128, 64), make=_attention(4, 8, 128, 64)),
    Part(kind="attention", shape=(1, 8, 512, 64), make=_attention(1, 8, 512, 64)),
    Part(kind="optimizer", shape=(_PARAMETERS,), make=_optimizer),
)
