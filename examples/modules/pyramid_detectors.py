r"""Mask R-CNN (He et al. 2017) and SSD with a feature pyramid (Lin et al. 2017, RetinaNet), for `podsim capture`.

podsim capture examples/modules/pyramid_detectors.py:mask_rcnn --input 4x3x800x1344 --input 4x8x4 --input 4x128x28x28 \
    --out maskrcnn.json
podsim capture examples/modules/pyramid_detectors.py:ssd320 --input 32x3x320x320 --out ssd320.json

Both stand on ResNet-50 v1, whose stages have their stride in the first 1 x 1 convolution. Mask R-CNN is that of
NVIDIA's DeepLearningExamples and of MLPerf Training: norms are constants, the stem and the first stage are not trained,
512 regions an image are classified and the first 128 get a mask. Its other inputs are the boxes of 8 true objects an
image (COCO has 7 on average) and the masks that are wanted. A captured graph does not depend on values, so a quarter of
the regions is taken from each map. Regions are chosen for all images at once; left out is the suppression of those that
overlap, which goes through them one after the other. `ssd320` is ssd_resnet50_v1_fpn of TensorFlow's object detection
API, without its loss.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

EXPANSION, PYRAMID = 4, 256
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""(width, blocks)"""
REGIONS, MASKED, CLASSES = 512, 128, 81
BEFORE, AFTER, LOOKED, ANCHORS = 2000, 1000, 256, 3
"""regions of a map, and of all maps, that may be chosen; places that the loss of objects looks at; boxes of a place"""


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


def overlap(boxes: Tensor, true: Tensor) -> Tensor:
    """Shared area over joint area of (batch, boxes, 4) and (batch, objects, 4)."""
    one, other = boxes[:, :, None], true[:, None]
    sides = (torch.minimum(one[..., 2:], other[..., 2:]) - torch.maximum(one[..., :2], other[..., :2])).clamp(
        min=0
    )
    shared = sides[..., 0] * sides[..., 1]
    return shared / (area(one) + area(other) - shared)


def area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def moved(boxes: Tensor, by: Tensor) -> Tensor:
    """Boxes moved by shares of their size, and scaled."""
    size = boxes[..., 2:] - boxes[..., :2]
    centre = boxes[..., :2] + size / 2 + by[..., :2] * size
    half = size * torch.exp(by[..., 2:].clamp(max=4)) / 2
    return torch.cat([centre - half, centre + half], -1).clamp(-1, 1)


def moves_to(boxes: Tensor, true: Tensor) -> Tensor:
    """What moves boxes to others."""
    size, wanted = boxes[..., 2:] - boxes[..., :2], true[..., 2:] - true[..., :2]
    shift = (true[..., :2] + wanted / 2 - boxes[..., :2] - size / 2) / size
    return torch.cat([shift, torch.log(wanted / size)], -1)


def picked(values: Tensor, places: Tensor) -> Tensor:
    """Rows of (batch, rows, width) at (batch, chosen)."""
    return values.gather(1, places[..., None].expand(-1, -1, values.shape[2]))


def matched(boxes: Tensor, true: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """(places of `count` boxes drawn at random, good ones first; the object of each; 1 where it fits one)."""
    best, which = overlap(boxes, true).max(2)
    good = (best > 0.5).float()
    places = (good + torch.rand_like(good)).topk(count, 1)[1]
    return places, picked(true, which.gather(1, places)), good.gather(1, places)


def regions(maps: list[Tensor], corners: Tensor, size: int) -> Tensor:
    """RoIAlign: the mean of 2 x 2 samples for each of size x size places of a region of corners -1 to 1."""
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
    """Images (batch, 3, height, width), true boxes (batch, 8, 4) and masks (batch, 128, 28, 28) to losses."""

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

    def chosen(self, objects: list[Tensor], moves: list[Tensor]) -> Tensor:
        """The boxes most likely to be objects, (batch, AFTER, 4)."""
        found, scores = [], []
        for said, by in zip(objects, moves, strict=True):
            anchors = torch.zeros(1, said.shape[1], 4, device=said.device).expand(said.shape[0], -1, -1)
            best, places = torch.sigmoid(said).topk(min(BEFORE, said.shape[1]), 1)
            found.append(moved(picked(anchors, places), picked(by, places)))
            scores.append(best)
        return picked(torch.cat(found, 1), torch.cat(scores, 1).topk(AFTER, 1)[1])

    def forward(self, x: Tensor, true: Tensor, wanted: Tensor) -> tuple[Tensor, ...]:
        maps, batch = self.pyramid(x), x.shape[0]
        seen = [torch.relu_(self.look(one)) for one in [*maps, functional.max_pool2d(maps[-1], 1, stride=2)]]
        objects = [self.objects(one).permute(0, 2, 3, 1).reshape(batch, -1) for one in seen]
        moves = [self.moves(one).permute(0, 2, 3, 1).reshape(batch, -1, 4) for one in seen]
        corners = self.chosen([one.detach() for one in objects], [one.detach() for one in moves])
        all_objects, all_moves = torch.cat(objects, 1), torch.cat(moves, 1)
        anchors = torch.zeros(1, all_objects.shape[1], 4, device=x.device).expand(batch, -1, -1)
        places, near, good = matched(anchors, true, LOOKED)
        first = functional.binary_cross_entropy_with_logits(all_objects.gather(1, places), good)
        first = first + functional.smooth_l1_loss(
            picked(all_moves, places), moves_to(picked(anchors, places), near)
        )
        corners = torch.cat([corners, true], 1)
        places, near, good = matched(corners, true, REGIONS)
        corners = picked(corners, places)
        flat = self.flat(regions(maps, corners, 7).flatten(1))
        labels = good.flatten().long()
        second = functional.cross_entropy(self.classes(flat), labels)
        by = self.boxes(flat).view(-1, CLASSES, 4)[:, 0]
        second = second + functional.smooth_l1_loss(by, moves_to(corners, near).view(-1, 4))
        masks = self.masks(regions(maps, corners[:, :MASKED], 14))
        third = functional.binary_cross_entropy_with_logits(masks[:, 0], wanted.flatten(0, 1))
        return first, second, third


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
