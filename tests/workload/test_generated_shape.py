"""Generated shapes: as large as they say by the count of all ops, and of usual proportions."""

from __future__ import annotations

import math

import pytest

from podsim.errors import ModelError
from podsim.workload.catalog import load_model
from podsim.workload.generated_shape import BASE, _aspect, _round_width, _shapes_near, shape_near


@pytest.mark.parametrize(
    ("parameters", "tied", "vocabulary", "grain"),
    [(2e7, True, 32000, 1), (4.5e8, True, 32000, 2), (8.5e8, True, 128256, 2), (2.5e9, True, 128256, 2),
     (3.7e9, False, 128256, 4), (2.2e11, False, 128256, 4), (5e12, False, 128256, 4)],
)  # fmt: skip
def test_a_generated_shape(parameters: float, tied: bool, vocabulary: int, grain: int) -> None:
    shape = shape_near(parameters)
    assert shape.model == BASE
    model = load_model(BASE, {key.removeprefix("model."): text for key, text in shape.overrides.items()})
    assert model.parameters == shape.parameters == pytest.approx(parameters, rel=0.06)
    assert (model.layer_count, model.hidden, model.vocab) == (shape.layers, shape.hidden, vocabulary)
    assert model.tied_embeddings is tied
    assert math.gcd(*(other.layers for other in _shapes_near(parameters))) == grain
    assert 1 / 3 <= shape.hidden / shape.layers / _aspect(parameters) <= 3
    assert shape.ffn == math.ceil(3.5 * shape.hidden / 256) * 256
    assert shape.heads * (64 if shape.hidden < 2048 else 128) == shape.hidden
    assert shape.heads % shape.kv_heads == 0
    assert shape.kv_heads <= 8


def test_a_model_of_the_catalog_within_eight_percent_comes_first() -> None:
    assert shape_near(8.0e9).overrides == {}
    assert shape_near(8.0e9).parameters == pytest.approx(8.0e9, rel=0.08)
    for wrong in (4.9e6, 2.1e13):
        with pytest.raises(ModelError, match="shapes have 5e\\+06 to 2e\\+13"):
            shape_near(wrong)


def test_widths_divide_over_gpus_and_grow_with_layers() -> None:
    assert [_round_width(width) for width in (10, 1000, 1983, 2049, 3000, 5000, 6200)] == [
        128, 1024, 1920, 2048, 3072, 5120, 6144
    ]  # fmt: skip
    assert [_aspect(size) for size in (1e6, 1e8, 1e12)] == [40.0, 64.0, 128.0]
    assert _aspect(8e9) == pytest.approx(128, rel=0.01)
