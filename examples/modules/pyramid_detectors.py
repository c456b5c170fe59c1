"""Mask R-CNN (He et al. 2017) and SSD with a feature pyramid (Lin et al. 2017, RetinaNet), for `podsim capture`.

podsim capture examples/modules/pyramid_detectors.py:mask_rcnn --input 4x3x800x1344 --input 4x512x4 --out maskrcnn.json
podsim capture examples/modules/pyramid_detectors.py:ssd320 --input 32x3x320x320 --out ssd320.json

Both stand on ResNet-50 v1, whose stages have their stride in the first 1 x 1 convolution. Mask R-CNN is that of
NVIDIA's DeepLearningExamples and of MLPerf Training: norms are constants, the stem and the first stage are not trained,
512 regions an image are classified (the second input, corners from -1 to 1), and the first 128 get a mask. A captured
graph does not depend on values, so a quarter of the regions is taken from each map. Left out: the choice of regions
(sorting, overlaps) and the losses, which are many small kernels. `ssd320` is ssd_resnet50_v1_fpn of TensorFlow's object
detection API, without its loss.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

EXPANSION, PYRAMID = 4, 256
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""(width, blocks)"""
REGIONS, MASKED, CLASSES = 512, 128, 81


class Constant(nn.Module):
    """A norm that is not trained: a product and a sum."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(channels, 1, 1))
        self.register_buffer("shift", torch.zeros(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale + self.shift


class Block(nn.Module):
    """1 x 1 down with the stride, 3 x 3, 1 x 1 up, beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int, norm: type[nn.Module]) -> None:
        super().__init__()
        wide = width * EXPANSION
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, stride=stride, bias=False),
            norm(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            norm(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, wide, 1, bias=False),
            norm(wide),
        )
        self.shortcut: nn.Module | None = None
        if channels != wide:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, wide, 1, stride=stride, bias=False), norm(wide))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu_(self.body(x) + (x if self.shortcut is None else self.shortcut(x)))


class Backbone(nn.Module):
    """Images to the maps of four stages, at a stride of 4 to 32."""

    def __init__(self, norm: type[nn.Module]) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
            norm(64),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        channels, stages = 64, []
        for number, (width, count) in enumerate(STAGES):
            blocks = []
            for place in range(count):
                blocks.append(Block(channels, width, 2 if number and place == 0 else 1, norm))
                channels = width * EXPANSION
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.ModuleList(stages)

    def forward(self, x: Tensor) -> list[Tensor]:
        maps = [self.stem(x)]
        for stage in self.stages:
            maps.append(stage(maps[-1]))
        return maps[1:]


def regions(maps: list[Tensor], corners: Tensor, size: int) -> Tensor:
    """RoIAlign: the mean of 2 x 2 samples for each of size x size places of a region; (regions, channels, size, size)."""
    steps = (torch.arange(2 * size, device=corners.device) + 0.5) / (2 * size)
    found = []
    for one, part in zip(maps, corners.chunk(len(maps), 1), strict=True):
        low, high = part[..., :2, None], part[..., 2:, None]
        x, y = (low + (high - low) * steps).unbind(2)
        count = part.shape[1]
        square = (-1, count, 2 * size, 2 * size)
        grid = torch.stack([x[:, :, None, :].expand(square), y[..., None].expand(square)], -1)
        grid = grid.view(-1, count * 2 * size, 2 * size, 2)
        taken = functional.avg_pool2d(functional.grid_sample(one, grid, align_corners=False), 2)
        taken = taken.reshape(*taken.shape[:2], count, size, size).transpose(1, 2)
        found.append(taken.reshape(-1, one.shape[1], size, size))
    return torch.cat(found)


class MaskRCNN(nn.Module):
    """Images (batch, 3, height, width) and regions (batch, 512, 4) to what the heads say."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone(Constant)
        for part in (self.backbone.stem, self.backbone.stages[0]):
            part.requires_grad_(False)
        self.sides = nn.ModuleList(nn.Conv2d(width * EXPANSION, PYRAMID, 1) for width, _ in STAGES)
        self.smooth = nn.ModuleList(nn.Conv2d(PYRAMID, PYRAMID, 3, padding=1) for _ in STAGES)
        self.look = nn.Conv2d(PYRAMID, PYRAMID, 3, padding=1)
        self.objects = nn.Conv2d(PYRAMID, 3, 1)
        self.moves = nn.Conv2d(PYRAMID, 12, 1)
        self.flat = nn.Sequential(
            nn.Linear(PYRAMID * 49, 1024), nn.ReLU(inplace=True), nn.Linear(1024, 1024), nn.ReLU(inplace=True)
        )
        self.classes = nn.Linear(1024, CLASSES)
        self.boxes = nn.Linear(1024, 4 * CLASSES)
        layers: list[nn.Module] = []
        for _ in range(4):
            layers += [nn.Conv2d(PYRAMID, PYRAMID, 3, padding=1), nn.ReLU(inplace=True)]
        layers += [nn.ConvTranspose2d(PYRAMID, PYRAMID, 2, stride=2), nn.ReLU(inplace=True)]
        self.masks = nn.Sequential(*layers, nn.Conv2d(PYRAMID, CLASSES, 1))

    def pyramid(self, x: Tensor) -> list[Tensor]:
        sides = [side(one) for side, one in zip(self.sides, self.backbone(x), strict=True)]
        for level in range(len(sides) - 2, -1, -1):
            coarse = functional.interpolate(sides[level + 1], size=sides[level].shape[2:], mode="nearest")
            sides[level] = sides[level] + coarse
        return [layer(one) for layer, one in zip(self.smooth, sides, strict=True)]

    def forward(self, x: Tensor, corners: Tensor) -> tuple[Tensor, ...]:
        maps = self.pyramid(x)
        seen = [torch.relu_(self.look(one)) for one in [*maps, functional.max_pool2d(maps[-1], 1, stride=2)]]
        batch = x.shape[0]
        objects = torch.cat([self.objects(one).view(batch, -1) for one in seen], 1)
        moves = torch.cat([self.moves(one).view(batch, -1) for one in seen], 1)
        flat = self.flat(regions(maps, corners, 7).flatten(1))
        masks = self.masks(regions(maps, corners[:, :MASKED], 14))
        return objects, moves, self.classes(flat), self.boxes(flat), masks


class Tower(nn.Module):
    """Four convolutions and a last one that all maps share, with norms of their own."""

    def __init__(self, numbers: int, levels: int) -> None:
        super().__init__()
        self.mix = nn.ModuleList(nn.Conv2d(PYRAMID, PYRAMID, 3, padding=1, bias=False) for _ in range(4))
        self.norms = nn.ModuleList(
            nn.ModuleList(nn.BatchNorm2d(PYRAMID) for _ in range(4)) for _ in range(levels)
        )
        self.last = nn.Conv2d(PYRAMID, numbers, 3, padding=1)

    def forward(self, maps: list[Tensor]) -> Tensor:
        found = []
        for one, norms in zip(maps, self.norms, strict=True):
            x = one
            for mix, norm in zip(self.mix, norms, strict=True):
                x = functional.relu6(norm(mix(x)))
            found.append(self.last(x).flatten(1))
        return torch.cat(found, 1)


def smoothed(stride: int = 1) -> nn.Module:
    """3 x 3, norm, ReLU6."""
    conv = nn.Conv2d(PYRAMID, PYRAMID, 3, stride=stride, padding=1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(PYRAMID), nn.ReLU6(inplace=True))


class PyramidSSD(nn.Module):
    """Images (batch, 3, 320, 320) to boxes and logits of 6 anchors at each place of five maps."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone(nn.BatchNorm2d)
        self.sides = nn.ModuleList(nn.Conv2d(width * EXPANSION, PYRAMID, 1) for width, _ in STAGES[1:])
        self.smooth = nn.ModuleList(smoothed() for _ in range(2))
        self.coarse = nn.ModuleList(smoothed(2) for _ in range(2))
        self.boxes = Tower(6 * 4, 5)
        self.classes = Tower(6 * 91, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        sides = [side(one) for side, one in zip(self.sides, self.backbone(x)[1:], strict=True)]
        for level in (1, 0):
            sides[level] = sides[level] + functional.interpolate(
                sides[level + 1], scale_factor=2, mode="nearest"
            )
        maps = [*(layer(one) for layer, one in zip(self.smooth, sides, strict=False)), sides[-1]]
        for layer in self.coarse:
            maps.append(layer(maps[-1]))
        return self.boxes(maps), self.classes(maps)


def mask_rcnn() -> nn.Module:
    """Mask R-CNN over ResNet-50 with a pyramid as it is trained."""
    return MaskRCNN().train()


def ssd320() -> nn.Module:
    """SSD over ResNet-50 with a pyramid as it is trained, on 320 pixels."""
    return PyramidSSD().train()
