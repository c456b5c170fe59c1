"""Products of a network whose operands are rounded first, forward and backward, with sums in fp32.

Each rank rounds what it holds. Formats with blocks have them along the sum of each product, so a backward product rounds
its operands another way than the forward product did. The arithmetic is that of `podsim.learning`, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from podsim.lab.wires import load_part, load_torch
from podsim.learning.number_format import NumberFormat
from podsim.learning.number_format_blocks import BlockFormat, any_format, scaled_elements
from podsim.learning.number_format_recipes import Recipe
from podsim.learning.rounding import Carrier, rounded_values

_SEED = 0x5EED


@lru_cache(maxsize=1)
def carrier() -> Carrier:
    """float32 of torch."""
    torch = load_torch()
    return Carrier(
        mantissa=23, bias=127, floating=torch.float32, integer=torch.int32, where=torch.where, floor=torch.floor,
        nearest=torch.round, is_nan=torch.isnan,
    )  # fmt: skip


def round_tensor(tensor: Any, number: NumberFormat, *, draws: Any = None, is_scaled: bool = False) -> Any:
    """A float32 tensor rounded to a format: `podsim.learning.rounding.round_to`.

    is_scaled: with a power of two that brings the largest magnitude just into range.
    """
    if not is_scaled:
        return rounded_values(tensor, number, carrier(), overflow="inf", draws=draws)
    room = (number.largest / tensor.abs().amax()).clip(2.0**-126, 2.0**126)
    factor = (room.view(carrier().integer) & (-1 << 23)).view(carrier().floating)
    scaled = rounded_values(tensor * factor, number, carrier(), overflow="inf", draws=draws)
    return scaled / factor


def round_block_tensor(tensor: Any, number: BlockFormat, axis: int, *, draws: Any = None) -> Any:
    """A float32 tensor rounded in blocks along an axis: `podsim.learning.number_format_blocks.round_blocks`."""
    torch = load_torch()
    moved = tensor.transpose(axis, -1)
    width = moved.shape[-1]
    filled = torch.nn.functional.pad(moved, (0, -width % number.block)).contiguous()
    blocks = filled.view(*filled.shape[:-1], -1, number.block)
    largest = blocks.abs().amax(-1, keepdim=True)
    tensor_scale = torch.ones((), device=tensor.device)
    if number.has_tensor_scale:
        most = largest.amax()
        tensor_scale = torch.where(most > 0, most / (number.scale.largest * number.element.largest), 1.0)
    elements, scales = scaled_elements(
        blocks, largest, number, carrier(), rule="floor", tensor_scale=tensor_scale
    )
    random = None
    if draws is not None:
        random = torch.nn.functional.pad(draws.transpose(axis, -1), (0, -width % number.block)).reshape(
            blocks.shape
        )
    rounded = rounded_values(elements, number.element, carrier(), overflow="saturate", draws=random)
    values = (rounded * (scales * tensor_scale)).view(filled.shape)
    return values[..., :width].transpose(axis, -1)


class Rounder:
    """Rounds the operands of one rank's products, and counts what rounding loses."""

    def __init__(self, recipe: Recipe, seed: int, rank: int) -> None:
        """seed, rank: where stochastic rounding starts."""
        self.recipe, self.seed = recipe, (seed << 16) + rank
        self.formats = {
            name: any_format(name) for name in (recipe.forward, recipe.gradient, recipe.attention)
        }
        self.generator: Any = None
        self.largest: dict[str, Any] = {}
        self.lost: dict[str, Any] = {}
        self.totals: dict[str, list[float]] = {}

    def is_blocked(self, kind: str) -> bool:
        """Whether operands are rounded in blocks; `kind` as in `operand`."""
        return isinstance(self.formats[kind or self.recipe.forward], BlockFormat)

    def start(self, step: int) -> None:
        """A step begins: draws follow from seed, rank and step, so that a run that resumes draws the same."""
        self.generator = None
        self.step = step
        self.largest, self.lost = {}, {}

    def operand(self, tensor: Any, name: str, axis: int, *, is_gradient: bool = False, kind: str = "") -> Any:
        """An operand rounded for a product that sums over `axis`; the rank's own part of a divided tensor."""
        if hasattr(tensor, "to_local"):
            return self._divided(tensor, name, axis, is_gradient, kind)
        recipe = self.recipe
        number = self.formats[kind or (recipe.gradient if is_gradient else recipe.forward)]
        draws = self._draws(tensor) if is_gradient and recipe.has_random_gradients and not kind else None
        if isinstance(number, BlockFormat):
            rounded = round_block_tensor(tensor, number, axis, draws=draws)
        else:
            rounded = round_tensor(tensor, number, draws=draws, is_scaled=recipe.is_scaled and not kind)
        self._count(tensor, rounded, name, is_gradient)
        return rounded

    def _divided(self, tensor: Any, name: str, axis: int, is_gradient: bool, kind: str) -> Any:
        """An operand that is divided over ranks, rounded part by part; one that is still a sum is added up first."""
        if any(each.is_partial() for each in tensor.placements):
            summed = tuple(
                load_part("torch.distributed.tensor").Replicate() if each.is_partial() else each
                for each in tensor.placements
            )
            tensor = tensor.redistribute(placements=summed)
        local = self.operand(tensor.to_local(), name, axis, is_gradient=is_gradient, kind=kind)
        return type(tensor).from_local(
            local, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
        )  # fmt: skip

    def _draws(self, tensor: Any) -> Any:
        torch = load_torch()
        if self.generator is None:
            self.generator = torch.Generator(tensor.device)
            self.generator.manual_seed((self.seed * 1_000_003 + self.step * 8191 + _SEED) % 2**63)
        return torch.rand(tensor.shape, generator=self.generator, device=tensor.device)

    def _count(self, tensor: Any, rounded: Any, name: str, is_gradient: bool) -> None:
        largest = rounded.abs().amax() if rounded.numel() else rounded.sum()
        self.largest[name] = largest if name not in self.largest else self.largest[name] + largest
        if is_gradient:
            there = tensor != 0
            counts = load_torch().stack((((rounded == 0) & there).sum(), there.sum()))
            self.lost[name] = counts if name not in self.lost else self.lost[name] + counts

    def end(self) -> tuple[str, float]:
        """(the first operand of the step that was not finite, the share of gradients that became 0)."""
        torch = load_torch()
        lost = torch.stack(list(self.lost.values())).tolist() if self.lost else []
        for name, counts in zip(self.lost, lost, strict=True):
            total = self.totals.setdefault(name, [0.0, 0.0])
            total[0], total[1] = total[0] + counts[0], total[1] + counts[1]
        finite = torch.stack(list(self.largest.values())).isfinite().tolist() if self.largest else []
        bad = next((name for name, fine in zip(self.largest, finite, strict=True) if not fine), "")
        return bad, sum(counts[0] for counts in lost) / max(1, sum(counts[1] for counts in lost))

    def shares(self) -> Mapping[str, float]:
        """The share of each tensor's gradients that became 0, over all steps."""
        return {name: zero / count for name, (zero, count) in self.totals.items() if count}


def use_precision(module: Any, rounder: Rounder) -> None:
    """Let every product of a network round its operands: linear layers, convolutions, attention, adapters."""
    for name, part in module.named_modules():
        if hasattr(part, "in_features"):
            part.times = partial(_product().apply, rounder, name, "")
            part.forward = partial(_linear, part)
        elif hasattr(part, "kernel_size"):
            part.times = partial(_product().apply, rounder, name, "")
            part.forward = partial(_convolution, part)
        elif hasattr(part, "mix"):
            products = (
                partial(_product().apply, rounder, f"{name} {which}", rounder.recipe.attention)
                for which in ("scores", "values")
            )
            part.mix = partial(_attention, *products)


def _linear(layer: Any, values: Any) -> Any:
    flat = layer.times(values.flatten(0, -2), layer.weight.t())
    output = flat.unflatten(0, values.shape[:-1])
    return output if layer.bias is None else output + layer.bias


def _convolution(layer: Any, images: Any) -> Any:
    """A convolution as the product of patches and weights, so that blocks lie along its sum."""
    unfold = load_torch().nn.functional.unfold
    patches = unfold(images, layer.kernel_size, padding=layer.padding, stride=layer.stride)
    sides = [
        (side + 2 * pad - size) // stride + 1
        for side, pad, size, stride in zip(images.shape[2:], layer.padding, layer.kernel_size, layer.stride, strict=True)
    ]  # fmt: skip
    rows = patches.transpose(1, 2)
    output = layer.times(rows.flatten(0, 1), layer.weight.flatten(1).t())
    return output.unflatten(0, rows.shape[:2]).transpose(1, 2).unflatten(2, sides)


def _attention(
    scores_of: Callable[[Any, Any], Any],
    mixed: Callable[[Any, Any], Any],
    queries: Any,
    keys: Any,
    values: Any,
) -> Any:
    """Causal attention whose two products round their operands; softmax in fp32."""
    torch = load_torch()
    scores = scores_of(queries, keys.transpose(-1, -2)) * queries.shape[-1] ** -0.5
    length = scores.shape[-1]
    later = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
    return mixed(scores.masked_fill(later, float("-inf")).softmax(-1), values)


@lru_cache(maxsize=1)
def _product() -> Any:
    """The class of a product; made when PyTorch is there."""
    torch = load_torch()
    function: Any = torch.autograd.Function

    class Product(function):  # type: ignore[misc]
        """The product of two matrices, or of two stacks of them, whose operands are rounded in all three products."""

        @staticmethod
        def forward(ctx: Any, rounder: Rounder, name: str, kind: str, left: Any, right: Any) -> Any:
            ctx.rest = (rounder, name, kind)
            first = rounder.operand(left, f"{name} input", -1, kind=kind)
            second = rounder.operand(right, f"{name} weight", -2, kind=kind)
            ctx.is_blocked = rounder.is_blocked(kind)
            ctx.save_for_backward(*((left, right) if ctx.is_blocked else (first, second)))
            return first @ second

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            (left, right), (rounder, name, kind) = ctx.saved_tensors, ctx.rest
            first = rounder.operand(gradient, f"{name} gradient", -1, is_gradient=True, kind=kind)
            second = first
            if ctx.is_blocked:  # other blocks, along the other product's sum
                right = rounder.operand(right, f"{name} weight", -1, kind=kind)
                left = rounder.operand(left, f"{name} input", -2, kind=kind)
                second = rounder.operand(gradient, f"{name} gradient", -2, is_gradient=True, kind=kind)
            needed = ctx.needs_input_grad
            for_left = first @ right.transpose(-1, -2) if needed[3] else None
            for_right = left.transpose(-1, -2) @ second if needed[4] else None
            return None, None, None, for_left, for_right

    return Product
