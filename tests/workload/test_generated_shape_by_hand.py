"""Generated shapes: their counts by the model they name, and the rules of their sizes."""

from __future__ import annotations

import math

import pytest

from podsim.errors import ModelError
from podsim.workload.catalog import load_model
from podsim.workload.generated_shape import _aspect, _round_width, catalog_shapes, shape_near


@pytest.mark.parametrize(
    ("parameters", "grain", "is_tied", "vocabulary"),
    [
        (6e6, 1, True, 32000), (9e7, 1, True, 32000), (2e8, 2, True, 32000), (4.4e8, 2, True, 32000),
        (8e8, 2, True, 128256), (2.4e9, 2, True, 128256), (4.4e9, 4, False, 128256), (2.7e10, 4, False, 128256),
        (1e12, 4, False, 128256),
    ],
)  # fmt: skip
def test_a_generated_shape_is_the_model_that_it_names(
    parameters: float, grain: int, is_tied: bool, vocabulary: int
) -> None:
    shape = shape_near(parameters)
    assert shape.overrides, "no model of the catalog is as near"
    model = load_model(shape.model, {name.removeprefix("model."): v for name, v in shape.overrides.items()})
    assert model.parameters == shape.parameters == pytest.approx(parameters, rel=0.03)
    assert (model.layer_count, model.hidden, model.vocab) == (shape.layers, shape.hidden, vocabulary)
    assert model.tied_embeddings == is_tied
    assert shape.layers % grain == 0
    width = 128 if shape.hidden >= 2048 else 64
    assert shape.hidden == width * shape.heads
    assert shape.kv_heads == math.gcd(shape.heads, 8)
    assert 3.5 * shape.hidden <= shape.ffn < 3.5 * shape.hidden + 256
    assert shape.ffn % 256 == 0
    assert 0.4 < shape.hidden / shape.layers / _aspect(parameters) < 2.5


def test_a_near_model_of_the_catalog_goes_first() -> None:
    assert shape_near(6e8).model == "qwen3-0.6b"
    assert shape_near(175e9).overrides, "GPT-3 has no gate, as networks of today do"
    near = shape_near(8.03e9)
    assert not near.overrides
    assert near.parameters == pytest.approx(8.03e9, rel=0.08)
    assert all(shape.layers > 0 and shape.ffn > shape.hidden / 2 for shape in catalog_shapes())


@pytest.mark.parametrize(
    ("wanted", "width"),
    [(1, 128), (191, 128), (193, 256), (1990, 2048), (2190, 2304), (2170, 2048), (4600, 4096), (4700, 5120)],
)
def test_widths_divide_over_heads_and_gpus(wanted: float, width: int) -> None:
    """Multiples of 128, of 256 from 2,048 and of 1,024 from 4,096 on."""
    assert _round_width(wanted) == width


def test_the_usual_aspect_is_64_at_a_hundred_million_and_at_most_128() -> None:
    assert _aspect(1e8) == 64
    assert _aspect(1e9) == pytest.approx(64 * 10**0.158)
    assert (_aspect(1e12), _aspect(1e6)) == (128, 40)


@pytest.mark.parametrize("parameters", [4.9e6, 2.1e13])
def test_out_of_reach(parameters: float) -> None:
    with pytest.raises(ModelError, match=r"shapes have 5e[+]06 to 2e[+]13"):
        shape_near(parameters)
