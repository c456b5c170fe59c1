"""ResNet-101 and ResNet-152 v1.5 (He et al. 2015) and VGG-16 (Simonyan and Zisserman 2014), for `podsim capture`.

podsim capture examples/modules/deep_resnets.py:resnet101 --input 64x3x224x224 --out resnet101.json
"""

import torch
from torch import Tensor, nn

WIDTHS, EXPANSION = (64, 128, 256, 512), 4
MAPS = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
"""The channels of VGG's convolutions; 0 halves the sides."""


class Bottleneck(nn.Module):
    """1 x 1 down, 3 x 3 with the stride, 1 x 1 up, next to a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        wide = width * EXPANSION
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
        )
        self.shortcut: nn.Module | None = None
        if channels != wide or stride != 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, wide, 1, stride=stride, bias=False), nn.BatchNorm2d(wide)
            )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu_(self.body(x) + (x if self.shortcut is None else self.shortcut(x)))


def resnet(*counts: int) -> nn.Module:
    """A ResNet of four stages with these numbers of blocks."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    channels = 64
    for stage, (width, count) in enumerate(zip(WIDTHS, counts, strict=True)):
        for block in range(count):
            layers.append(Bottleneck(channels, width, 2 if stage and block == 0 else 1))
            channels = width * EXPANSION
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000)]
    return nn.Sequential(*layers).train()


def resnet101() -> nn.Module:
    """ResNet-101 as it is trained."""
    return resnet(3, 4, 23, 3)


def resnet152() -> nn.Module:
    """ResNet-152 as it is trained."""
    return resnet(3, 8, 36, 3)


def vgg16() -> nn.Module:
    """VGG-16 without norms, as it is trained."""
    layers: list[nn.Module] = []
    channels = 3
    for width in MAPS:
        if width:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        else:
            layers.append(nn.MaxPool2d(2))
    layers += [nn.Flatten(), nn.Linear(512 * 49, 4096), nn.ReLU(inplace=True), nn.Dropout()]
    layers += [nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers).train()
