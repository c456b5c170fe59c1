"""Recipes of training in a number format: which format the operands of each product are rounded to."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.errors import PodsimError, unknown_name
from podsim.learning.number_format import FORMATS, NumberFormat
from podsim.learning.number_format_blocks import any_format


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The formats of operands. Sums are fp32, and so are master weights, norms, softmax and the optimizer."""

    name: str
    forward: str
    """The format of activations and weights, in the forward pass and both products of the backward pass."""
    gradient: str
    """The format of the gradients in both products of the backward pass."""
    attention: str
    """The format of both operands of attention's products."""
    is_scaled: bool = False
    """Whether a power of two for each tensor brings its largest magnitude just into range."""
    has_random_gradients: bool = False
    """Whether gradients are rounded stochastically."""
    source: str = ""

    @property
    def has_scale(self) -> bool:
        """Whether gradients may underflow without a loss scale: fewer exponents than fp32, and no scale of their own."""
        number = any_format(self.gradient)
        return isinstance(number, NumberFormat) and number.bias < FORMATS["fp32"].bias and not self.is_scaled


def _same(name: str, source: str) -> Recipe:
    return Recipe(name=name, forward=name, gradient=name, attention=name, source=source)


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        _same("fp32", "no rounding"),
        _same("tf32", "NVIDIA A100 white paper: operands of products, fp32 sums"),
        _same("bf16", "arxiv.org/abs/1905.12322"),
        _same("fp16", "arxiv.org/abs/1710.03740"),
        Recipe(
            name="fp8", forward="e4m3", gradient="e5m2", attention="bf16", is_scaled=True,
            source="arxiv.org/abs/2209.05433, with the scale of the tensor at hand",
        ),
        Recipe(name="mxfp8", forward="mxfp8", gradient="mxfp8", attention="bf16", source="arxiv.org/abs/2506.08027"),
        Recipe(name="mxfp6", forward="mxfp6", gradient="mxfp6_e3m2", attention="bf16", source="arxiv.org/abs/2310.10537"),
        Recipe(
            name="mxfp4", forward="mxfp4", gradient="mxfp4", attention="bf16", has_random_gradients=True,
            source="arxiv.org/abs/2502.20586, without its Hadamard transform",
        ),
        Recipe(
            name="nvfp4", forward="nvfp4", gradient="nvfp4", attention="bf16", has_random_gradients=True,
            source="arxiv.org/abs/2509.25149, without its Hadamard transform and its layers in bf16",
        ),
    )
}  # fmt: skip
"""by name"""
DYNAMIC = "dynamic"
"""a loss scale that halves where gradients overflow, and doubles after many steps without"""


def read_recipe(name: str) -> Recipe:
    """The recipe of a name. Raises PodsimError for an unknown one."""
    if name.strip().lower() not in RECIPES:
        raise PodsimError(unknown_name("precision", name, RECIPES))
    return RECIPES[name.strip().lower()]


def read_loss_scale(text: str) -> float | None:
    """The factor on the loss: 1 for "none", None for "dynamic". Raises PodsimError for text that is none of them."""
    word = text.strip().lower()
    if word in ("none", DYNAMIC):
        return 1.0 if word == "none" else None
    try:
        base, _, power = word.partition("^")
        value = float(base) ** float(power) if power else float(word)
    except (ValueError, OverflowError, ZeroDivisionError):
        value = 0.0
    if isinstance(value, complex) or not 2.0**-60 <= value <= 2.0**60:
        raise PodsimError(
            f"--loss-scale {text[:40]!r}: a factor on the loss as 1024 or 2^16, dynamic, or none; 2^-60 to 2^60"
        )
    return value
