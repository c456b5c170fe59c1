"""Convolutional networks as lists of convolutions: ResNet-50, for one image.

A convolution of a batch is a product of (batch x height x width) rows, `outputs` columns and depth inputs x kernel^2,
whose input is read once, not kernel^2 times (implicit GEMM).  Batch norms, ReLU and residual sums are folded in.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """One convolution, with what is folded into it."""

    name: str
    """The stage, block and position in the block."""
    inputs: int
    """The number of input channels."""
    outputs: int
    """The number of output channels."""
    kernel: int
    """The side of its window."""
    stride: int
    size: int
    """The side of its output."""
    residual: bool = False
    """Whether the residual sum is folded in; it reads one more tensor of the output's size."""

    @property
    def depth(self) -> int:
        """Multiply-adds for one output element."""
        return self.inputs * self.kernel**2

    @property
    def weight(self) -> int:
        """Parameters, the bias left out."""
        return self.depth * self.outputs

    @property
    def read(self) -> int:
        """Elements of the input that are read, each once: a 1 x 1 window with a stride skips the others."""
        side = self.size * (1 if self.kernel == 1 else self.stride)
        return self.inputs * side**2

    @property
    def flops(self) -> float:
        """FLOP, two to a multiply-add."""
        return 2.0 * self.size**2 * self.outputs * self.depth


@dataclass(frozen=True, kw_only=True)
class ConvNet:
    """A convolutional network for images of one size."""

    name: str
    image: int
    """The side of the image in pixels."""
    convolutions: tuple[Convolution, ...]
    pooled: tuple[tuple[int, int], ...]
    """The number of elements that each pooling reads and writes."""
    features: int
    """The width of the last linear layer."""
    classes: int
    """The number of classes of images."""
    source: str

    @property
    def parameters(self) -> int:
        """Of convolutions (with a folded scale and bias a channel: two) and of the last layer."""
        folded = sum(layer.weight + 2 * layer.outputs for layer in self.convolutions)
        return folded + (self.features + 1) * self.classes

    @property
    def flops(self) -> float:
        """FLOP of one image."""
        return sum(layer.flops for layer in self.convolutions) + 2.0 * self.features * self.classes


def resnet50(image: int = 224, classes: int = 1000) -> ConvNet:
    """ResNet-50 v1.5 (He et al. 2015, arXiv 1512.03385, table 1; the stride of a block stands in its 3 x 3 window)."""
    side = image // 2
    layers = [_layer("stem", 3, 64, 7, 2, side)]
    pooled = [(64 * side**2, 64 * (side // 2) ** 2)]
    side //= 2
    channels = 64
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), start=2):
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 2 else 1
            after = side // stride
            name = f"{stage}.{block}"
            layers.append(_layer(f"{name}.reduce", channels, width, 1, 1, side))
            layers.append(_layer(f"{name}.window", width, width, 3, stride, after))
            if block == 0:
                layers.append(_layer(f"{name}.project", channels, 4 * width, 1, stride, after))
            layers.append(_layer(f"{name}.expand", width, 4 * width, 1, 1, after, residual=True))
            channels, side = 4 * width, after
    pooled.append((channels * side**2, channels))
    return ConvNet(
        name="resnet-50", image=image, convolutions=tuple(layers), pooled=tuple(pooled), features=channels,
        classes=classes, source="arXiv 1512.03385, table 1",
    )  # fmt: skip


def _layer(
    name: str, inputs: int, outputs: int, kernel: int, stride: int, size: int, *, residual: bool = False
) -> Convolution:
    return Convolution(
        name=name, inputs=inputs, outputs=outputs, kernel=kernel, stride=stride, size=size, residual=residual
    )


CONVOLUTIONAL = {"resnet-50": resnet50, "resnet50": resnet50}
"""functions that make a network, by name"""
