"""EfficientDet-D0 (Tan et al. 2019) with its focal loss, for `podsim capture`.

podsim capture examples/modules/efficientdet.py:d0 --input 32x3x512x512 --input 32x49104x90 --out efficientdet.json

The second input is what each of 49,104 anchors should say of each of 90 classes. The loss of classes counts as one
fused kernel each way; the loss of boxes, of 4 numbers an anchor, is left out.
"""

from itertools import pairwise

import torch
from efficientnet import B0, EfficientNet
from torch import Tensor, nn
from torch.nn import functional

CHANNELS, CELLS, REPEATS, LEVELS = 64, 3, 3, 5
"""of the pyramid; cells of it; layers of a head; maps, at a stride of 8 and more"""
ANCHORS, CLASSES = 9, 90
ENDS = (5, 11, 16)
"""blocks of B0 that come before maps of a stride of 8, 16 and 32"""


def apart(channels: int, wide: int, bias: bool = False) -> nn.Module:
    """A depth-wise convolution, then one of 1 x 1."""
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False),
        nn.Conv2d(channels, wide, 1, bias=bias),
    )


def norm(channels: int) -> nn.Module:
    return nn.BatchNorm2d(channels, momentum=0.01, eps=1e-3)


def fitted(channels: int) -> nn.Module:
    """To the channels of the pyramid."""
    return nn.Sequential(nn.Conv2d(channels, CHANNELS, 1), norm(CHANNELS))


class Merge(nn.Module):
    """A weighted mean of maps, then a convolution."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(count))
        self.mix = nn.Sequential(apart(CHANNELS, CHANNELS, bias=True), norm(CHANNELS))

    def forward(self, maps: list[Tensor]) -> Tensor:
        weights = torch.relu(self.weights)
        total = weights.sum() + 1e-4
        shares = [one * weights[i] / total for i, one in enumerate(maps)]
        return self.mix(functional.silu(torch.stack(shares, -1).sum(-1)))


class Cell(nn.Module):
    """From coarse to fine and back; the first cell takes the maps of the backbone."""

    def __init__(self, first: tuple[int, ...]) -> None:
        super().__init__()
        self.down = nn.ModuleList(Merge(2) for _ in range(LEVELS - 1))
        self.up = nn.ModuleList(Merge(2 if level == LEVELS - 1 else 3) for level in range(1, LEVELS))
        self.first = bool(first)
        self.taken = nn.ModuleList(fitted(c) for c in first)
        self.again = nn.ModuleList(fitted(c) for c in first[1:])

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        taken = [layer(one) for layer, one in zip(self.taken, maps, strict=False)]
        maps_in = taken + maps[len(taken) :]
        again = [layer(one) for layer, one in zip(self.again, maps[1:], strict=False)]
        beside = [maps_in[0], *again, *maps_in[1 + len(again) :]]
        down = [maps_in[-1]]
        for merge, one in zip(self.down, reversed(maps_in[:-1]), strict=True):
            down.append(merge([one, functional.interpolate(down[-1], scale_factor=2, mode="nearest")]))
        down.reverse()
        out = [down[0]]
        for level, merge in enumerate(self.up, 1):
            finer = functional.max_pool2d(out[-1], 3, stride=2, padding=1)
            last = level == LEVELS - 1
            out.append(merge([beside[level], finer] if last else [beside[level], down[level], finer]))
        return out


class Head(nn.Module):
    """Convolutions that all maps share, with norms of their own."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.mix = nn.ModuleList(apart(CHANNELS, CHANNELS, bias=True) for _ in range(REPEATS))
        self.norms = nn.ModuleList(
            nn.ModuleList(norm(CHANNELS) for _ in range(REPEATS)) for _ in range(LEVELS)
        )
        self.last = apart(CHANNELS, ANCHORS * numbers, bias=True)
        self.numbers = numbers

    def forward(self, maps: list[Tensor]) -> Tensor:
        found = []
        for one, norms in zip(maps, self.norms, strict=True):
            x = one
            for mix, each in zip(self.mix, norms, strict=True):
                x = functional.silu(each(mix(x)))
            found.append(self.last(x).permute(0, 2, 3, 1).reshape(one.shape[0], -1, self.numbers))
        return torch.cat(found, 1)


class EfficientDet(nn.Module):
    """Images (batch, 3, 512, 512) and wanted classes (batch, anchors, classes) to boxes and the loss of classes."""

    def __init__(self) -> None:
        super().__init__()
        whole = EfficientNet(B0, 32, 1280)
        self.stem = whole.stem
        ends = (0, *ENDS)
        self.stages = nn.ModuleList(whole.blocks[a:b] for a, b in pairwise(ends))
        self.coarse = nn.Sequential(fitted(320), nn.MaxPool2d(3, stride=2, padding=1))
        self.cells = nn.ModuleList(Cell((40, 112, 320) if i == 0 else ()) for i in range(CELLS))
        self.classes = Head(CLASSES)
        self.boxes = Head(4)

    def forward(self, x: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        maps = [self.stem(x)]
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        maps = [*maps[1:], self.coarse(maps[-1])]
        maps.append(functional.max_pool2d(maps[-1], 3, stride=2, padding=1))
        for cell in self.cells:
            maps = cell(maps)
        said = self.classes(maps)
        return self.boxes(maps), functional.binary_cross_entropy_with_logits(said, wanted)


def d0() -> nn.Module:
    """EfficientDet-D0 as it is trained, on 512 pixels."""
    return EfficientDet().train()
