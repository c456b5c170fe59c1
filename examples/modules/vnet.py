r"""V-Net (Milletari et al. 2016) as NVIDIA trains it on crops of the hippocampus: 32 x 32 x 32 voxels, three classes.

Three halvings down and up, windows of 3, batch norms, learned pooling; 3 convolutions at every depth but the first and
the last, which have one. The count of parameters of NVIDIA's own code is not published; the one here is this file's.

podsim capture examples/modules/vnet.py:training --input 32x1x32x32x32 --input 32x32x32x32:int64
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES, FILTERS, DEPTH = 3, 16, 3


class Step(nn.Sequential):
    """Convolution (transposed if up), batch norm, ReLU; with a stride of 2 its window is 2."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, up: bool = False) -> None:
        window, padding = (2, 0) if stride == 2 else (3, 1)
        kind = nn.ConvTranspose3d if up else nn.Conv3d
        super().__init__(
            kind(inputs, outputs, window, stride=stride, padding=padding),
            nn.BatchNorm3d(outputs),
            nn.ReLU(inplace=True),
        )


class VNet(nn.Module):
    """Volumes (batch, 1, side, side, side) and their labels to a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Step(1, FILTERS)
        down = [(FILTERS * 2**level, FILTERS * 2 ** (level + 1)) for level in range(3)]
        self.pool = nn.ModuleList(Step(a, b, 2) for a, b in down)
        self.down = nn.ModuleList(nn.Sequential(*(Step(b, b) for _ in range(DEPTH))) for _, b in down)
        up = list(reversed([beside for beside, _ in down]))
        wide = [down[-1][1], *(2 * beside for beside in up[:-1])]
        self.grow = nn.ModuleList(
            Step(below, beside, 2, up=True) for below, beside in zip(wide, up, strict=True)
        )
        self.up = nn.ModuleList(
            nn.Sequential(*(Step(2 * beside, 2 * beside) for _ in range(DEPTH))) for beside in up[:-1]
        )
        self.last = Step(2 * FILTERS, 2 * FILTERS)
        self.classes = nn.Conv3d(2 * FILTERS, CLASSES, 1)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        x = self.first(x) + x
        levels = [x]
        for pool, down in zip(self.pool, self.down, strict=True):
            x = pool(x)
            x = down(x) + x
            levels.append(x)
        levels.pop()
        for grow, up in zip(self.grow, self.up, strict=False):
            x = torch.cat([grow(x), levels.pop()], dim=1)
            x = up(x) + x
        x = self.last(torch.cat([self.grow[-1](x), levels.pop()], dim=1))
        return functional.cross_entropy(self.classes(x), labels)


def training() -> nn.Module:
    """The module as it is trained."""
    return VNet().train()
