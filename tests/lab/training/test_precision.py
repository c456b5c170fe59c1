"""Training whose products round their operands: the products themselves, loss scales, layouts, runs side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

import podsim
from podsim.errors import PodsimError
from podsim.lab.training.precision_scale import GROWTH, START, LossScale
from podsim.learning.number_format import FORMATS
from podsim.learning.number_format_blocks import BLOCK_FORMATS, round_blocks
from podsim.learning.number_format_recipes import read_recipe
from podsim.learning.rounding import round_to

SMALL: dict[str, Any] = {
    "sequence": 16, "backend": "gloo", "timeout": 120.0, "overrides": {"model.layers": "1"}, "batch": 8,
}  # fmt: skip


def test_a_dynamic_scale_halves_and_doubles() -> None:
    scale = LossScale("dynamic")
    assert scale.value == START
    scale.update(overflowed=True)
    assert scale.value == START / 2
    for _ in range(GROWTH):
        scale.update(overflowed=False)
    assert scale.value == START
    resumed = LossScale("dynamic", [START, START / 2], [0])
    assert (resumed.value, resumed.clean) == (START / 2, 1)
    fixed = LossScale("2^10")
    fixed.update(overflowed=True)
    assert fixed.value == 1024


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", ["bf16", "mxfp8", "fp8"])
def test_all_three_products_round_their_operands(name: str) -> None:
    """Forward and backward through a linear layer, against numpy: blocks lie along the sum of each product."""
    import torch

    from podsim.lab.training.precision import Rounder, use_precision

    generator = np.random.default_rng(3)
    x, w, g = (generator.standard_normal(shape).astype(np.float32) for shape in ((6, 40), (5, 40), (6, 5)))
    module = torch.nn.Sequential(torch.nn.Linear(40, 5, bias=False))
    with torch.no_grad():
        module[0].weight.copy_(torch.from_numpy(w))
    recipe = read_recipe(name)
    rounder = Rounder(recipe, 0, 0)
    use_precision(module, rounder)
    rounder.start(0)
    inputs = torch.from_numpy(x).requires_grad_()
    output = module(inputs)
    output.backward(torch.from_numpy(g))

    def rounded(values: Any, axis: int, kind: str) -> Any:
        if kind in BLOCK_FORMATS:
            return np.swapaxes(round_blocks(np.swapaxes(values, axis, -1), BLOCK_FORMATS[kind]), axis, -1)
        factor = 1.0
        if recipe.is_scaled:
            factor = 2.0 ** np.floor(np.log2(np.float32(FORMATS[kind].largest) / np.abs(values).max()))
        return round_to(values * np.float32(factor), FORMATS[kind]) / np.float32(factor)

    ways = (recipe.forward, recipe.gradient)
    truth = rounded(x, 1, ways[0]) @ rounded(w, 1, ways[0]).T
    for_x = rounded(g, 1, ways[1]) @ rounded(w, 0, ways[0])
    for_w = rounded(g, 0, ways[1]).T @ rounded(x, 0, ways[0])
    assert np.allclose(output.detach().numpy(), truth, rtol=1e-5, atol=1e-5)
    assert np.allclose(inputs.grad.numpy(), for_x, rtol=1e-5, atol=1e-5)
    assert np.allclose(module[0].weight.grad.numpy(), for_w, rtol=1e-5, atol=1e-5)
    assert not np.allclose(truth, x @ w.T, rtol=1e-5, atol=1e-5)
    assert rounder.end() == ("", 0.0)


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_convolutions_are_products_of_patches() -> None:
    import torch

    from podsim.lab.training.precision import Rounder, use_precision
    from podsim.lab.training.residual import residual_network

    images = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    plain, rounding = (residual_network("resnet-8", classes=4, seed=0) for _ in range(2))
    rounder = Rounder(read_recipe("tf32"), 0, 0)
    use_precision(rounding, rounder)
    rounder.start(0)
    one, two = plain(images), rounding(images)
    assert torch.allclose(one, two, rtol=1e-2, atol=1e-2)
    assert not torch.equal(one, two)


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_layouts_round_alike() -> None:
    """Tensor and data parallel ranks give the losses of one process, in blocks, too."""
    alone, divided = (
        podsim.train("gpt-tiny", precision="mxfp8", steps=2, **(SMALL | layout))
        for layout in ({}, {"tp": 2, "dp": 2, "zero": 3})
    )
    assert [row.loss for row in divided.rows] == pytest.approx([row.loss for row in alone.rows], rel=1e-4)
    assert divided.precision == "mxfp8"


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_precisions_side_by_side(podsim: Callable[..., Result], tmp_path: Path) -> None:
    """fp16 loses gradients that a scale keeps; tf32 differs by less than two seeds do."""
    picture = tmp_path / "losses.svg"
    given = ("--batch", 32, "--set", "model.layers=1", "--backend", "gloo", "--steps", 3, "--seeds", 2)
    result = podsim(
        "train",
        *given,
        "--precision",
        "fp32,tf32,fp16",
        "--loss-scale",
        "none,dynamic",
        "--plot",
        picture,
        "--json",
    )
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    rows = {(row["precision"], row["loss_scale"]): row for row in answer["rows"]}
    assert list(rows) == [("fp32", "none"), ("tf32", "none"), ("fp16", "none"), ("fp16", "dynamic")]
    assert rows["tf32", "none"]["verdict"] == "within seed noise"
    assert 0 < abs(rows["tf32", "none"]["difference"]) < answer["noise"]
    assert rows["fp16", "none"]["lost"] > 0.05 > 5 * rows["fp16", "dynamic"]["lost"]
    assert len(answer["curves"]) == 8
    assert b"<svg" in picture.read_bytes()


@pytest.mark.torch
@pytest.mark.usefixtures("torch")
def test_overflow_is_named(podsim: Callable[..., Result]) -> None:
    given = ("--batch", 8, "--set", "model.layers=1", "--backend", "gloo", "--steps", 2)
    result = podsim("train", *given, "--precision", "fp16", "--loss-scale", "2^40")
    assert result.exit_code == 1
    assert "diverged at step 0: head gradient is not finite" in result.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"precision": "fp9"}, "unknown precision"),
        ({"loss_scale": "big"}, "factor on the loss"),
        ({"loss_scale": "dynamic", "exchange": "ps", "dp": 2}, "could not agree"),
        ({"loss_scale": "8", "noise_scale": True}, "norms are of gradients"),
    ],
)
def test_what_makes_no_sense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(PodsimError, match=words):
        podsim.train("gpt-tiny", steps=1, **SMALL, **options)
    with pytest.raises(PodsimError, match="single run"):
        podsim.train_precisions("gpt-tiny", precision="fp32,bf16", checkpoint=Path("run"), **SMALL)
