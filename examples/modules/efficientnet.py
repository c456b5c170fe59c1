"""EfficientNet B0 and B4 (Tan and Le 2019), V2-S (2021), and NVIDIA's wide-SE variants, for `podsim capture`.

podsim capture examples/modules/efficientnet.py:b0 --input 256x3x224x224 --out efficientnet_b0.json
podsim capture examples/modules/efficientnet.py:b4 --input 64x3x380x380 --out efficientnet_b4.json

A block is dropped for some samples while training: its output is multiplied by a mask and added to its input in one
op. Wide SE (NVIDIA DeepLearningExamples): the inner width of squeeze-and-excitation is a quarter of the expanded
channels, not of those that enter the block.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Stage(NamedTuple):
    """Blocks alike; only the first has the stride."""

    expand: int
    kernel: int
    stride: int
    channels: int
    blocks: int
    fused: bool = False
    """a full convolution in place of expansion and depth-wise one, and no squeeze (V2)"""


B0 = (
    Stage(1, 3, 1, 16, 1), Stage(6, 3, 2, 24, 2), Stage(6, 5, 2, 40, 2), Stage(6, 3, 2, 80, 3),
    Stage(6, 5, 1, 112, 3), Stage(6, 5, 2, 192, 4), Stage(6, 3, 1, 320, 1),
)  # fmt: skip
B4 = (
    Stage(1, 3, 1, 24, 2), Stage(6, 3, 2, 32, 4), Stage(6, 5, 2, 56, 4), Stage(6, 3, 2, 112, 6),
    Stage(6, 5, 1, 160, 6), Stage(6, 5, 2, 272, 8), Stage(6, 3, 1, 448, 2),
)  # fmt: skip
"""B0 with 1.4 times the width, rounded to 8, and 1.8 times the blocks, rounded up"""
V2_S = (
    Stage(1, 3, 1, 24, 2, True), Stage(4, 3, 2, 48, 4, True), Stage(4, 3, 2, 64, 4, True), Stage(4, 3, 2, 128, 6),
    Stage(6, 3, 1, 160, 9), Stage(6, 3, 2, 256, 15),
)  # fmt: skip
DROPPED = 0.2
"""of the samples, at the last block; in proportion before"""


def conv(
    channels: int, wide: int, kernel: int, stride: int = 1, groups: int = 1, active: bool = True
) -> nn.Module:
    """Convolution and norm, then SiLU."""
    layers = [
        nn.Conv2d(channels, wide, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(wide),
    ]
    return nn.Sequential(*layers, *([nn.SiLU(inplace=True)] if active else []))


class Squeeze(nn.Module):
    """Each channel times a weight that comes of the means of all."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.down = nn.Linear(channels, inner)
        self.up = nn.Linear(inner, channels)

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.sigmoid(self.up(nn.functional.silu(self.down(x.mean((2, 3))))))
        return x * scale.view(*scale.shape, 1, 1)


class Block(nn.Module):
    """Expansion, depth-wise convolution, squeeze, projection; beside the input where shapes agree."""

    def __init__(self, channels: int, stage: Stage, stride: int, wide_squeeze: bool, dropped: float) -> None:
        super().__init__()
        wide = channels * stage.expand
        layers: list[nn.Module] = []
        if stage.fused:
            alone = stage.expand == 1
            layers.append(conv(channels, stage.channels if alone else wide, stage.kernel, stride))
        else:
            alone = False
            if stage.expand > 1:
                layers.append(conv(channels, wide, 1))
            layers.append(conv(wide, wide, stage.kernel, stride, groups=wide))
            layers.append(Squeeze(wide, max(1, (wide if wide_squeeze else channels) // 4)))
        if not alone:
            layers.append(conv(wide, stage.channels, 1, active=False))
        self.body = nn.Sequential(*layers)
        self.beside = stride == 1 and channels == stage.channels
        self.kept = 1 - dropped

    def forward(self, x: Tensor) -> Tensor:
        out = self.body(x)
        if not self.beside:
            return out
        chance = torch.full((x.shape[0], 1, 1, 1), self.kept, device=x.device)
        return torch.addcmul(x, out, torch.bernoulli(chance), value=1 / self.kept)


class EfficientNet(nn.Module):
    """Images (batch, 3, size, size) to logits (batch, classes)."""

    def __init__(
        self,
        stages: tuple[Stage, ...],
        stem: int,
        head: int,
        wide_squeeze: bool = False,
        dropout: float = 0.2,
    ) -> None:
        super().__init__()
        self.stem = conv(3, stem, 3, 2)
        blocks: list[nn.Module] = []
        channels, count = stem, sum(stage.blocks for stage in stages)
        for stage in stages:
            for block in range(stage.blocks):
                stride = stage.stride if block == 0 else 1
                blocks.append(Block(channels, stage, stride, wide_squeeze, DROPPED * len(blocks) / count))
                channels = stage.channels
        self.blocks = nn.Sequential(*blocks)
        self.head = conv(channels, head, 1)
        self.dropout = nn.Dropout(dropout)
        self.classes = nn.Linear(head, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.classes(self.dropout(self.head(self.blocks(self.stem(x))).mean((2, 3))))


def b0() -> nn.Module:
    """EfficientNet-B0 as it is trained, on 224 pixels."""
    return EfficientNet(B0, 32, 1280).train()


def b4() -> nn.Module:
    """EfficientNet-B4 as it is trained, on 380 pixels."""
    return EfficientNet(B4, 48, 1792, dropout=0.4).train()


def widese_b0() -> nn.Module:
    """B0 with a wider squeeze."""
    return EfficientNet(B0, 32, 1280, wide_squeeze=True).train()


def widese_b4() -> nn.Module:
    """B4 with a wider squeeze."""
    return EfficientNet(B4, 48, 1792, wide_squeeze=True, dropout=0.4).train()


def v2_s() -> nn.Module:
    """EfficientNetV2-S as it is trained, on at most 300 pixels."""
    return EfficientNet(V2_S, 24, 1280).train()
