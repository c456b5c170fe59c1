"""Block formats against torchao's codes (scripts/block_vectors.py), and tensors of torch against arrays of numpy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from podsim.errors import PodsimError
from podsim.learning.number_format import FORMATS
from podsim.learning.number_format_blocks import BLOCK_FORMATS, any_format, quantize, round_blocks
from podsim.learning.number_format_recipes import RECIPES, read_loss_scale, read_recipe
from podsim.learning.rounding import round_to

VECTORS: dict[str, Any] = json.loads(Path(__file__).with_name("block_vectors.json").read_text())


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: f"{case['format']}-{case['rule']}")
def test_blocks_are_those_of_torchao(case: dict[str, Any]) -> None:
    blocks = quantize(VECTORS["values"], BLOCK_FORMATS[case["format"]], rule=case["rule"])
    assert blocks.scales.tolist() == case["scales"]
    assert blocks.elements.tolist() == case["codes"]


def test_nvfp4_is_that_of_torchao() -> None:
    case = VECTORS["nvfp4"]
    blocks = quantize(case["values"], BLOCK_FORMATS["nvfp4"])
    assert blocks.tensor_scale == case["tensor_scale"]
    assert blocks.scales.tolist() == case["scales"]
    assert blocks.elements.tolist() == case["codes"]


@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_values_of_blocks(name: str) -> None:
    """What a block holds comes back; errors are at most half of the distance of the largest elements."""
    number = BLOCK_FORMATS[name]
    values = np.random.default_rng(1).standard_normal((3, 41)).astype(np.float32)
    held = round_blocks(values, number)
    assert held.shape == values.shape
    if not number.has_tensor_scale:
        assert np.array_equal(round_blocks(held, number), held)
    top = np.abs(values).max()
    assert np.abs(held - values).max() <= top * number.element.epsilon
    assert not round_blocks(np.zeros((2, 3)), number).any()
    assert np.isnan(round_blocks(np.array([1.0, np.nan]), number)).any()


@pytest.mark.torch
@pytest.mark.parametrize("name", [*FORMATS, *BLOCK_FORMATS])
@pytest.mark.parametrize("is_random", [False, True])
def test_tensors_are_rounded_as_arrays(name: str, is_random: bool) -> None:
    torch = pytest.importorskip("torch")
    from podsim.lab.training.precision import round_block_tensor, round_tensor

    generator = np.random.default_rng(2)
    values = generator.standard_normal((64, 96)) * 10.0 ** generator.integers(-12, 6, (64, 96))
    single = np.concatenate((values, [[0.0] * 48 + [np.inf] * 48])).astype(np.float32)
    draws = generator.random(single.shape, np.float32) if is_random else None
    tensor, random = torch.from_numpy(single), None if draws is None else torch.from_numpy(draws)
    number = any_format(name)
    if name in BLOCK_FORMATS:
        if is_random:
            pytest.skip("arrays are rounded to nearest in blocks")
        single = single[:64]
        for axis in (-1, 0):
            mine = np.swapaxes(round_blocks(np.swapaxes(single, axis, -1), number), axis, -1)
            theirs = round_block_tensor(torch.from_numpy(single), number, axis).numpy()
            assert np.array_equal(mine.view(np.uint32), np.ascontiguousarray(theirs).view(np.uint32))
    else:
        mine, theirs = (
            round_to(single, number, draws=draws),
            round_tensor(tensor, number, draws=random).numpy(),
        )
        assert np.array_equal(mine, theirs, equal_nan=True)
        there = ~np.isnan(mine)
        assert np.array_equal(mine.view(np.uint32)[there], theirs.view(np.uint32)[there])


def test_recipes_name_formats() -> None:
    for recipe in RECIPES.values():
        for name in (recipe.forward, recipe.gradient, recipe.attention):
            any_format(name)
    assert read_recipe("FP8").gradient == "e5m2"
    assert (read_loss_scale("none"), read_loss_scale("2^16"), read_loss_scale("dynamic")) == (
        1.0,
        65536.0,
        None,
    )
    for text in ("0", "-1", "nan", "2^99", "x", "(-1)^0.5"):
        with pytest.raises(PodsimError, match="factor on the loss"):
            read_loss_scale(text)
    with pytest.raises(PodsimError, match="unknown number format 'mxfp9'"):
        any_format("mxfp9")
    with pytest.raises(PodsimError, match="rule of scales"):
        quantize(np.ones(4), BLOCK_FORMATS["mxfp4"], rule="up")
