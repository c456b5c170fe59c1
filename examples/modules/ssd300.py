"""SSD on 300 pixels (Liu et al. 2015) over ResNet-50 and over ResNet-34, for `podsim capture`.

podsim capture examples/modules/ssd300.py:resnet50 --input 64x3x300x300 --out ssd300.json

Backbones end after their third stage, whose stride is 1. `resnet50` is that of NVIDIA's DeepLearningExamples, with
norms in the layers after the backbone; `resnet34` that of MLPerf Training to v1.1, without. Left out: the loss, which
takes 8732 boxes of 85 numbers an image (1 % of the bytes of a step) and sorts them.
"""

import torch
from resnet50 import EXPANSION, Bottleneck
from torch import Tensor, nn

CLASSES = 81
BOXES = (4, 6, 6, 6, 4, 4)
"""boxes at each place of each map"""
MAPS = (512, 512, 256, 256, 256)
"""channels of the maps after the backbone's"""
INNER = (256, 256, 128, 128, 128)


class Basic(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut: nn.Module | None = None
        if channels != width or stride != 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu_(self.body(x) + (x if self.shortcut is None else self.shortcut(x)))


def backbone(block: type[nn.Module], expansion: int, counts: tuple[int, int, int]) -> tuple[nn.Module, int]:
    """Three stages of a ResNet, the last with stride 1, and the channels they give."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    channels = 64
    for width, count, stride in zip((64, 128, 256), counts, (1, 2, 1), strict=True):
        for place in range(count):
            layers.append(block(channels, width, stride if place == 0 else 1))
            channels = width * expansion
    return nn.Sequential(*layers), channels


def smaller(channels: int, inner: int, wide: int, halved: bool, norm: bool) -> nn.Module:
    """From one map to the next, of half the size, or of two less."""
    layers: list[nn.Module] = []
    for source, out, kernel, stride in ((channels, inner, 1, 1), (inner, wide, 3, 2 if halved else 1)):
        layers.append(
            nn.Conv2d(source, out, kernel, stride, 1 if kernel == 3 and halved else 0, bias=not norm)
        )
        layers += [nn.BatchNorm2d(out)] if norm else []
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


class SSD(nn.Module):
    """Images (batch, 3, 300, 300) to places (batch, 4, boxes) and logits (batch, classes, boxes)."""

    def __init__(self, features: nn.Module, channels: int, norm: bool) -> None:
        super().__init__()
        self.features = features
        wide = (channels, *MAPS)
        self.smaller = nn.ModuleList(
            smaller(wide[i], INNER[i], wide[i + 1], halved=i < 3, norm=norm) for i in range(len(MAPS))
        )
        self.places = nn.ModuleList(
            nn.Conv2d(c, 4 * n, 3, padding=1) for c, n in zip(wide, BOXES, strict=True)
        )
        self.logits = nn.ModuleList(
            nn.Conv2d(c, CLASSES * n, 3, padding=1) for c, n in zip(wide, BOXES, strict=True)
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        maps = [self.features(x)]
        for layer in self.smaller:
            maps.append(layer(maps[-1]))
        batch = x.shape[0]
        places = [head(one).view(batch, 4, -1) for head, one in zip(self.places, maps, strict=True)]
        logits = [head(one).view(batch, CLASSES, -1) for head, one in zip(self.logits, maps, strict=True)]
        return torch.cat(places, 2), torch.cat(logits, 2)


def resnet50() -> nn.Module:
    """SSD300 over ResNet-50 as it is trained."""
    return SSD(*backbone(Bottleneck, EXPANSION, (3, 4, 6)), norm=True).train()


def resnet34() -> nn.Module:
    """SSD300 over ResNet-34 as it is trained."""
    return SSD(*backbone(Basic, 1, (3, 4, 6)), norm=False).train()
