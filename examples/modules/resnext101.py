"""ResNeXt-101 32x4d (Xie et al. 2016), plain and with squeeze-and-excitation (Hu et al. 2017), for `podsim capture`.

podsim capture examples/modules/resnext101.py:training --input 128x3x224x224 --out resnext101.json

`squeezed` is SE-ResNeXt-101. The stride of a stage is in its grouped 3 x 3 convolution, the sum with the shortcut is
one fused multiply and add, as in NVIDIA's DeepLearningExamples.
"""

import torch
from torch import Tensor, nn

STAGES = ((128, 3, 1), (256, 4, 2), (512, 23, 2), (1024, 3, 2))
"""(width between the 1 x 1 convolutions, blocks, stride of the first block)"""
GROUPS, EXPANSION, REDUCTION = 32, 2, 16


class Squeeze(nn.Module):
    """A weight for each channel, from the means of all."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down = nn.Linear(channels, channels // REDUCTION)
        self.up = nn.Linear(channels // REDUCTION, channels)

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.sigmoid(self.up(torch.relu(self.down(x.mean((2, 3))))))
        return scale.view(*scale.shape, 1, 1)


class Block(nn.Module):
    """1 x 1 down, 3 x 3 in groups, 1 x 1 up, beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int, squeezed: bool) -> None:
        super().__init__()
        wide = width * EXPANSION
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride=stride, padding=1, groups=GROUPS, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
        )
        self.squeeze = Squeeze(wide) if squeezed else None
        self.shortcut: nn.Module | None = None
        if channels != wide or stride != 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, wide, 1, stride=stride, bias=False), nn.BatchNorm2d(wide)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = self.body(x)
        beside = x if self.shortcut is None else self.shortcut(x)
        out = out + beside if self.squeeze is None else torch.addcmul(beside, out, self.squeeze(out))
        return torch.relu_(out)


class ResNeXt101(nn.Module):
    """Images (batch, 3, 224, 224) to logits (batch, classes)."""

    def __init__(self, squeezed: bool, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        blocks: list[nn.Module] = []
        channels = 64
        for width, count, stride in STAGES:
            for block in range(count):
                blocks.append(Block(channels, width, stride if block == 0 else 1, squeezed))
                channels = width * EXPANSION
        self.blocks = nn.Sequential(*blocks)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.classes = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(torch.flatten(self.average(self.blocks(self.stem(x))), 1))


def training() -> nn.Module:
    """ResNeXt-101 32x4d as it is trained."""
    return ResNeXt101(squeezed=False).train()


def squeezed() -> nn.Module:
    """SE-ResNeXt-101 32x4d as it is trained."""
    return ResNeXt101(squeezed=True).train()
