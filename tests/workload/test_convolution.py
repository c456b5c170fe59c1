"""ResNet-50 by hand: its table of layers, its size and its work."""

from __future__ import annotations

import pytest

from podsim.workload.convolution import Convolution, resnet50


def layer(**changes: int) -> Convolution:
    return Convolution(
        name="it", **{"inputs": 3, "outputs": 8, "kernel": 3, "stride": 2, "size": 10} | changes
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "read"),
    [({}, 3 * 20**2), ({"stride": 1}, 3 * 10**2), ({"kernel": 1}, 3 * 10**2), ({"stride": 3}, 3 * 30**2)],
)
def test_a_window_reads_each_input_once_and_a_window_of_one_skips(changes: dict[str, int], read: int) -> None:
    assert layer(**changes).read == read


def test_one_convolution() -> None:
    assert (layer().depth, layer().weight, layer().flops) == (27, 216, 2 * 100 * 8 * 27)


def test_resnet_50() -> None:
    """25,557,032 parameters (torchvision), and 4.09 G multiply-adds an image (torchvision's table of weights)."""
    network = resnet50()
    assert network.parameters == 25_557_032
    assert network.flops == pytest.approx(2 * 4.089e9, rel=1e-3)
    assert network.pooled == ((64 * 112**2, 64 * 56**2), (2048 * 7**2, 2048))
    sizes = {layer.name: (layer.inputs, layer.outputs, layer.kernel, layer.stride, layer.size, layer.residual)
             for layer in network.convolutions}  # fmt: skip
    assert len(sizes) == 1 + 3 * 16 + 4
    assert sizes["stem"] == (3, 64, 7, 2, 112, False)
    assert sizes["2.0.project"] == (64, 256, 1, 1, 56, False)
    assert sizes["3.0.reduce"] == (256, 128, 1, 1, 56, False)  # v1.5: the 3 x 3 window has the stride
    assert sizes["3.0.window"] == (128, 128, 3, 2, 28, False)
    assert sizes["3.0.project"] == (256, 512, 1, 2, 28, False)
    assert sizes["5.2.expand"] == (512, 2048, 1, 1, 7, True)
    assert resnet50(448, 10).parameters == 25_557_032 - 2049 * 990
