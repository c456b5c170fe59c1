"""ResNet-50 by hand, and against what torchvision prints of it."""

from __future__ import annotations

import pytest

from podsim.workload.convolution import CONVOLUTIONAL, resnet50

NET = resnet50()
LAYERS = {layer.name: layer for layer in NET.convolutions}


def test_counts_are_torchvisions() -> None:
    """25,557,032 parameters and 4.09 G multiply-adds; 53 convolutions, and 16 blocks that each add a residual."""
    assert (NET.parameters, len(LAYERS), sum(layer.residual for layer in NET.convolutions)) == (
        25_557_032,
        53,
        16,
    )
    assert NET.flops == 2 * 4_089_184_256
    assert resnet50(classes=10).parameters == 25_557_032 - 990 * 2049
    assert CONVOLUTIONAL["resnet50"] is CONVOLUTIONAL["resnet-50"] is resnet50


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "kernel", "stride", "size", "read"),
    [
        ("stem", 3, 64, 7, 2, 112, 3 * 224**2),
        ("2.0.project", 64, 256, 1, 1, 56, 64 * 56**2),
        ("3.0.reduce", 256, 128, 1, 1, 56, 256 * 56**2),
        ("3.0.window", 128, 128, 3, 2, 28, 128 * 56**2),
        (
            "3.0.project",
            256,
            512,
            1,
            2,
            28,
            256 * 28**2,
        ),  # one by one, every other: a quarter of the elements
        ("3.1.window", 128, 128, 3, 1, 28, 128 * 28**2),
        ("5.2.expand", 512, 2048, 1, 1, 7, 512 * 7**2),
    ],
)
def test_a_layer_by_hand(
    name: str, inputs: int, outputs: int, kernel: int, stride: int, size: int, read: int
) -> None:
    layer = LAYERS[name]
    assert (layer.inputs, layer.outputs, layer.kernel, layer.stride) == (inputs, outputs, kernel, stride)
    assert (layer.size, layer.read) == (size, read)
    assert layer.depth == inputs * kernel**2
    assert layer.weight == outputs * inputs * kernel**2
    assert layer.flops == 2 * size**2 * outputs * inputs * kernel**2


def test_two_poolings_and_the_last_layer() -> None:
    assert NET.pooled == ((64 * 112**2, 64 * 56**2), (2048 * 7**2, 2048))
    assert (NET.features, NET.classes, NET.image) == (2048, 1000, 224)
    assert resnet50(448).pooled[1] == (2048 * 14**2, 2048)
