"""ResNet-50 v1.5 (He et al. 2015; the stride of a stage in its 3 x 3 convolution), for `podsim capture`.

podsim capture examples/modules/resnet50.py:training --input 256x3x224x224 --out resnet50.json
"""

import torch
from torch import Tensor, nn

STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
"""(width, blocks, stride of the first block)"""
EXPANSION = 4


class Bottleneck(nn.Module):
    """1 x 1 down, 3 x 3, 1 x 1 up, beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        wide = width * EXPANSION
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, wide, 1, bias=False)
        self.norm3 = nn.BatchNorm2d(wide)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut: nn.Module | None = None
        if channels != wide or stride != 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, wide, 1, stride=stride, bias=False), nn.BatchNorm2d(wide)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.relu(self.norm2(self.conv2(out)))
        out = self.norm3(self.conv3(out))
        return self.relu(out + (x if self.shortcut is None else self.shortcut(x)))


class ResNet50(nn.Module):
    """Images (batch, 3, 224, 224) to logits (batch, classes)."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        blocks: list[nn.Module] = []
        channels = 64
        for width, count, stride in STAGES:
            for block in range(count):
                blocks.append(Bottleneck(channels, width, stride if block == 0 else 1))
                channels = width * EXPANSION
        self.blocks = nn.Sequential(*blocks)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.classes = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.relu(self.norm(self.conv(x))))
        return self.classes(torch.flatten(self.average(self.blocks(x)), 1))


def training() -> nn.Module:
    """The module as it is trained."""
    return ResNet50().train()


def inference() -> nn.Module:
    """The module as it is served."""
    return ResNet50().eval().requires_grad_(False)
