"""Networks for images hold the arithmetic of the papers and libraries that published them."""

from __future__ import annotations

import pytest

from podsim.graphs.networks import load_network
from podsim.graphs.op_graph import KINDS


@pytest.mark.parametrize(
    ("name", "multiply_adds"),
    [
        ("resnet50", 4.09e9),  # torchvision's table of weights, _ops
        ("resnext101-32x4d", 8.0e9),  # Xie et al. 2016, table 1 (ResNet-101's)
        ("se-resnext101-32x4d", 8.0e9),  # Hu et al. 2017, table 2
        ("efficientnet-b0", 0.39e9),  # Tan and Le 2019, table 2
        ("efficientnet-b4", 4.39e9),  # torchvision's table of weights, _ops
        ("efficientdet-d0", 2.5e9),  # Tan et al. 2019, table 2
    ],
)
def test_arithmetic_of_an_image(name: str, multiply_adds: float) -> None:
    assert load_network(name, 32).flops.sum() / 32 / 2 == pytest.approx(multiply_adds, rel=0.02)


@pytest.mark.parametrize(("plain", "wide"), [("efficientnet-b0", "efficientnet-widese-b0")])
def test_a_wider_squeeze_adds_weights_and_hardly_arithmetic(plain: str, wide: str) -> None:
    narrow, wider = load_network(plain, 8), load_network(wide, 8)
    assert wider.parameters.sum() > 1.5 * narrow.parameters.sum()
    assert narrow.flops.sum() < wider.flops.sum() < 1.02 * narrow.flops.sum()


def test_boxes_of_ssd() -> None:
    """8732 boxes an image on maps of 38 to 1 (Liu et al. 2015), 6 at each place of five maps of a pyramid."""
    ssd = load_network("ssd300-resnet50", 2)
    assert ssd.shapes[-1] == (2, 81, 8732)
    places = 6 * sum(side**2 for side in (40, 20, 10, 5, 3))
    assert load_network("ssd320-resnet50-fpn", 2).shapes[-1] == (2, 91 * places)


def test_mask_rcnn_trains_no_stem_and_no_norm() -> None:
    graph = load_network("maskrcnn-resnet50-fpn", 2)
    assert KINDS.index("norm") not in graph.kind
    convolutions = graph.kind == KINDS.index("conv")
    frozen = convolutions & ~graph.gradient.any(axis=1)
    assert frozen.sum() == 1 + 3 * 3 + 1  # the stem, three blocks, their shortcut
    masks = graph.flops[convolutions][-6:]  # four of 3 x 3 on 14 x 14, one transposed, one of 1 x 1
    assert masks[0] == 2 * 2 * 128 * 14**2 * 9 * 256**2
