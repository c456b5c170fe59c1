"""The optimizers of `podsim train`: torch's AdamW and SGD, and LARS and LAMB for large batches.

    lars  v <- m v + rate q (g + d w),  w <- w - v,  q = t |w| / (|g| + d |w|)       You, Gitman and Ginsburg 2017, alg. 1
    lamb  u = m' / (sqrt(v') + e) + d w,  w <- w - rate |w| / |u| u                  You et al. 2020, alg. 2

Both scale the step of each tensor by its own length. Tensors of one dimension (biases, norms) move without that scale and
without decay, as in MLPerf's reference of LARS. Lengths are those of whole tensors, so tensors may not be divided.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from podsim.lab.wires import load_torch
from podsim.learning.batch_rules import warmed_rate


@dataclass(frozen=True, kw_only=True)
class OptimizerKind:
    """What the lab knows of an optimizer."""

    moments: tuple[str, ...]
    """The names under which torch keeps its moments."""
    rate: float
    """factor. The learning rate where none is given; it trains the catalog's small GPT."""
    settings: tuple[tuple[str, Any], ...]
    """The arguments of its class, without the learning rate."""
    is_layerwise: bool = False
    """Whether it needs the length of whole tensors."""


_ADAM = ("exp_avg", "exp_avg_sq")
OPTIMIZERS: dict[str, OptimizerKind] = {
    "adamw": OptimizerKind(
        moments=_ADAM, rate=3e-3, settings=(("betas", (0.9, 0.95)), ("weight_decay", 0.1), ("foreach", False))
    ),
    "sgd": OptimizerKind(
        moments=("momentum_buffer",), rate=0.1,
        settings=(("momentum", 0.9), ("weight_decay", 1e-4), ("foreach", False)),
    ),
    "lars": OptimizerKind(
        moments=("momentum_buffer",), rate=10.0, is_layerwise=True,
        settings=(("momentum", 0.9), ("weight_decay", 1e-4), ("trust", 1e-3)),
    ),
    "lamb": OptimizerKind(
        moments=_ADAM, rate=0.03, is_layerwise=True,
        settings=(("betas", (0.9, 0.999)), ("eps", 1e-6), ("weight_decay", 0.01)),
    ),
}  # fmt: skip
"""by the name that --optimizer takes"""


def optimizer_class(name: str) -> Any:
    """The class of an optimizer; torch's own where it has one."""
    torch = load_torch()
    return {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, **_layerwise_classes()}[name]


def make_optimizer(name: str, tensors: list[Any], rate: float) -> Any:
    """An optimizer of some tensors, with the settings of its kind."""
    return optimizer_class(name)(tensors, lr=rate, **dict(OPTIMIZERS[name].settings))


def moment_names(optimizer: Any) -> tuple[str, ...]:
    """The names of the moments of an optimizer."""
    (name,) = (name for name in OPTIMIZERS if type(optimizer) is optimizer_class(name))
    return OPTIMIZERS[name].moments


def set_rate(optimizer: Any, rate: float, step: int, warmup: int) -> None:
    """Give an optimizer the learning rate of a step."""
    for group in optimizer.param_groups:
        group["lr"] = warmed_rate(rate, step, warmup)


@lru_cache(maxsize=1)
def _layerwise_classes() -> dict[str, Any]:
    """LARS and LAMB as classes of torch; made when PyTorch is there."""
    torch = load_torch()
    base: Any = torch.optim.Optimizer

    class Layerwise(base):  # type: ignore[misc]
        """What both share: a step over all tensors."""

        def __init__(self, params: Any, **defaults: Any) -> None:
            super().__init__(params, defaults)

        @torch.no_grad()  # type: ignore[untyped-decorator]
        def step(self, closure: Any = None) -> Any:
            """Move every tensor that has a gradient."""
            loss = closure() if closure is not None else None
            for group in self.param_groups:
                for tensor in group["params"]:
                    if tensor.grad is not None:
                        self.move(tensor, tensor.grad, self.state[tensor], group)
            return loss

    class Lars(Layerwise):
        """See the module."""

        def move(self, tensor: Any, grad: Any, state: Any, group: Any) -> None:
            """One tensor's step."""
            decay, share = (group["weight_decay"] if tensor.ndim > 1 else 0.0), 1.0
            if tensor.ndim > 1:
                length, slope = float(tensor.norm()), float(grad.norm())
                below = slope + decay * length
                share = group["trust"] * length / below if length > 0 and below > 0 else 1.0
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(tensor)
            step = grad.add(tensor, alpha=decay).mul_(group["lr"] * share)
            tensor.sub_(state["momentum_buffer"].mul_(group["momentum"]).add_(step))

    class Lamb(Layerwise):
        """See the module."""

        def move(self, tensor: Any, grad: Any, state: Any, group: Any) -> None:
            """One tensor's step."""
            (first, second), decay = group["betas"], group["weight_decay"] if tensor.ndim > 1 else 0.0
            if "exp_avg" not in state:
                state |= {name: torch.zeros_like(tensor) for name in _ADAM} | {"step": torch.tensor(0.0)}
            state["step"] += 1
            count = float(state["step"])
            mean = state["exp_avg"].lerp_(grad, 1 - first) / (1 - first**count)
            square = state["exp_avg_sq"].mul_(second).addcmul_(grad, grad, value=1 - second) / (
                1 - second**count
            )
            step = (mean / square.sqrt_().add_(group["eps"])).add_(tensor, alpha=decay)
            length, size = float(tensor.norm()), float(step.norm())
            share = length / size if tensor.ndim > 1 and length > 0 and size > 0 else 1.0
            tensor.sub_(step, alpha=group["lr"] * share)

    return {"lars": Lars, "lamb": Lamb}
