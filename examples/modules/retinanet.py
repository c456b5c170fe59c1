r"""RetinaNet (Lin et al. 2017) over ResNeXt-50, for `podsim capture`.

podsim capture examples/modules/retinanet.py:training --input 16x3x800x800 --input 16x120087:int64 --input 16x120087x4 \
    --out retinanet.json

The network of MLPerf Training from v2.0 on, there called ssd: images of OpenImages of 800 x 800 pixels, 264 classes,
norms that are constants, and a stem and a first stage that are not trained. Its other inputs are the class and the box
that each anchor should have.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

STAGES = ((128, 3, 1), (256, 4, 2), (512, 6, 2), (1024, 3, 2))
"""(width between the 1 x 1 convolutions, blocks, stride of the first block)"""
GROUPS, EXPANSION, PYRAMID, CLASSES, ANCHORS = 32, 2, 256, 264, 9


class Constant(nn.Module):
    """A norm that is not trained: a product and a sum."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(channels, 1, 1))
        self.register_buffer("shift", torch.zeros(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.shift


class Block(nn.Module):
    """1 x 1 down, 3 x 3 in groups with the stride, 1 x 1 up, next to a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        wide = width * EXPANSION
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False),
            Constant(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride=stride, padding=1, groups=GROUPS, bias=False),
            Constant(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, wide, 1, bias=False),
            Constant(wide),
        )
        self.shortcut: nn.Module | None = None
        if channels != wide or stride != 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, wide, 1, stride=stride, bias=False), Constant(wide)
            )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu_(self.body(x) + (x if self.shortcut is None else self.shortcut(x)))


def stage(channels: int, width: int, count: int, stride: int) -> nn.Module:
    """The blocks of one stage."""
    wide = width * EXPANSION
    return nn.Sequential(Block(channels, width, stride), *(Block(wide, width, 1) for _ in range(count - 1)))


class Tower(nn.Module):
    """Four convolutions and a last one that all maps share."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.numbers = numbers
        layers: list[nn.Module] = []
        for _ in range(4):
            layers += [nn.Conv2d(PYRAMID, PYRAMID, 3, padding=1), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers, nn.Conv2d(PYRAMID, ANCHORS * numbers, 3, padding=1))

    def forward(self, maps: list[Tensor]) -> Tensor:
        outputs = [self.body(level).permute(0, 2, 3, 1).flatten(1) for level in maps]
        return torch.cat(outputs, 1).unflatten(1, (-1, self.numbers))


class RetinaNet(nn.Module):
    """Images (batch, 3, 800, 800), the class and the box of each anchor to the losses of both."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
            Constant(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        inputs = (64, *(width * EXPANSION for width, _, _ in STAGES[:-1]))
        self.stages = nn.ModuleList(
            stage(channels, *shape) for channels, shape in zip(inputs, STAGES, strict=True)
        )
        for part in (self.stem, self.stages[0]):
            part.requires_grad_(False)
        self.sides = nn.ModuleList(nn.Conv2d(width * EXPANSION, PYRAMID, 1) for width, _, _ in STAGES[1:])
        self.smooth = nn.ModuleList(nn.Conv2d(PYRAMID, PYRAMID, 3, padding=1) for _ in STAGES[1:])
        self.coarse = nn.ModuleList(nn.Conv2d(PYRAMID, PYRAMID, 3, stride=2, padding=1) for _ in range(2))
        self.classes, self.boxes = Tower(CLASSES), Tower(4)

    def maps(self, x: Tensor) -> list[Tensor]:
        x, sides = self.stages[0](self.stem(x)), []
        for part, side in zip(self.stages[1:], self.sides, strict=True):
            x = part(x)
            sides.append(side(x))
        for level in (1, 0):
            coarse = functional.interpolate(sides[level + 1], scale_factor=2, mode="nearest")
            sides[level] = sides[level] + coarse
        maps = [layer(level) for layer, level in zip(self.smooth, sides, strict=True)]
        maps.append(self.coarse[0](maps[-1]))
        maps.append(self.coarse[1](torch.relu(maps[-1])))
        return maps

    def forward(self, x: Tensor, classes: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        maps = self.maps(x)
        logits = self.classes(maps)
        wanted = (classes[..., None] == torch.arange(CLASSES, device=x.device)).to(logits.dtype)
        entropy = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        missed = torch.sigmoid(logits) - wanted
        return (entropy * missed * missed).sum(), functional.l1_loss(self.boxes(maps), boxes)


def training() -> nn.Module:
    """RetinaNet as MLPerf trains it."""
    return RetinaNet().train()
