r"""U-shaped networks that label pixels or voxels, with the loss that they are trained on (cross entropy and Dice).

nnU-Net (Isensee et al. 2018) for brain tumours, in three dimensions and in two, and its like of MLPerf for kidneys
(KiTS19); the original U-Net (Ronneberger et al. 2015); the small one of NVIDIA's UNet Industrial.
Simplified: no deep supervision (heads at coarser resolutions), which NVIDIA's benchmarks leave out too. In the original
U-Net, loss and labels are those of the inner 388 x 388 pixels that unpadded convolutions leave.

podsim capture examples/modules/unet.py:nnunet_3d --input 2x4x128x128x128 --input 2x128x128x128:int64
podsim capture examples/modules/unet.py:nnunet_2d --input 64x4x192x160 --input 64x192x160:int64
podsim capture examples/modules/unet.py:kits --input 2x1x128x128x128 --input 2x128x128x128:int64
podsim capture examples/modules/unet.py:original --input 8x1x572x572 --input 8x388x388:int64
podsim capture examples/modules/unet.py:industrial --input 16x1x512x512 --input 16x512x512
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

CONVOLUTION = {2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
NORM = {2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}


def entropy_and_dice(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of (batch, classes, …) logits, plus one minus the overlap of each class."""
    guess = torch.softmax(logits, dim=1)
    truth = torch.zeros_like(logits).scatter(1, labels[:, None], 1.0)
    inside = tuple(range(2, logits.ndim))
    shared = (guess * truth).sum(dim=inside)
    both = guess.sum(dim=inside) + truth.sum(dim=inside)
    dice = 1 - ((2 * shared + 1e-5) / (both + 1e-5)).mean()
    return functional.cross_entropy(logits, labels) + dice


class Pair(nn.Sequential):
    """Twice: convolution of 3, instance norm, activation; a stride stands in the first."""

    def __init__(self, dims: int, inputs: int, outputs: int, stride: int, slope: float) -> None:
        steps: list[nn.Module] = []
        for channels, step in ((inputs, stride), (outputs, 1)):
            steps += [
                CONVOLUTION[dims](channels, outputs, 3, stride=step, padding=1, bias=False),
                NORM[dims](outputs, affine=True),
                nn.LeakyReLU(slope, inplace=True) if slope else nn.ReLU(inplace=True),
            ]
        super().__init__(*steps)


class NnUNet(nn.Module):
    """Images (batch, channels, …) and labels (batch, …) to a loss; each level halves the resolution."""

    def __init__(
        self, dims: int, channels: int, classes: int, filters: tuple[int, ...], slope: float
    ) -> None:
        super().__init__()
        wide = list(zip(filters[1:], filters[:-1], strict=True))
        self.first = Pair(dims, channels, filters[0], 1, slope)
        self.down = nn.ModuleList(Pair(dims, inner, outer, 2, slope) for outer, inner in wide)
        self.up = nn.ModuleList(TRANSPOSED[dims](outer, inner, 2, stride=2) for outer, inner in wide)
        self.after = nn.ModuleList(Pair(dims, 2 * inner, inner, 1, slope) for _, inner in wide)
        self.classes = CONVOLUTION[dims](filters[0], classes, 1)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        levels = [self.first(x)]
        for down in self.down:
            levels.append(down(levels[-1]))
        x = levels.pop()
        for up, after in zip(reversed(self.up), reversed(self.after), strict=True):
            x = after(torch.cat([up(x), levels.pop()], dim=1))
        return entropy_and_dice(self.classes(x), labels)


def _convolved(inputs: int, outputs: int, padding: int) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, outputs, 3, padding=padding),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=padding),
        nn.ReLU(inplace=True),
    ]


class UNet(nn.Module):
    """Images (batch, 1, side, side) to a loss: no norms, poolings between levels, dropout at the bottom.

    With `padding` 0 every convolution loses a border, and what is concatenated is cut to fit. `filters`: of each level
    on the way down; `upward`: of each level on the way up, from the bottom.
    """

    def __init__(self, filters: tuple[int, ...], upward: tuple[int, ...], classes: int, padding: int) -> None:
        super().__init__()
        sizes = zip((1, *filters[:-1]), filters, strict=True)
        self.down = nn.ModuleList(nn.Sequential(*_convolved(a, b, padding)) for a, b in sizes)
        self.pool = nn.MaxPool2d(2)
        self.dropout = nn.Dropout(0.5)
        rows = list(zip((filters[-1], *upward[:-1]), upward, reversed(filters[:-1]), strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(below, below // 2, 2, stride=2) for below, _, _ in rows)
        self.after = nn.ModuleList(
            nn.Sequential(*_convolved(below // 2 + beside, here, padding)) for below, here, beside in rows
        )
        self.classes = nn.Conv2d(upward[-1], classes, 1)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        levels = []
        for level, down in enumerate(self.down):
            x = down(x if level == 0 else self.pool(x))
            levels.append(x)
        x = self.dropout(levels.pop())
        for up, after in zip(self.up, self.after, strict=True):
            x = up(x)
            beside = levels.pop()
            border = (beside.shape[-1] - x.shape[-1]) // 2
            inner = slice(border, border + x.shape[-1])
            x = after(torch.cat([beside[:, :, inner, inner], x], dim=1))
        return self.loss(self.classes(x), labels)

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return entropy_and_dice(logits, labels)


class Industrial(UNet):
    """One class, a defect or none: binary cross entropy (batch, side, side)."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(logits[:, 0], labels)


def nnunet_3d() -> nn.Module:
    """nnU-Net for four modalities of 128 x 128 x 128 voxels, four classes."""
    return NnUNet(3, 4, 4, (32, 64, 128, 256, 320, 320), 0.01).train()


def nnunet_2d() -> nn.Module:
    """nnU-Net for slices of 192 x 160 pixels, four modalities and classes."""
    return NnUNet(2, 4, 4, (32, 64, 128, 256, 512, 512), 0.01).train()


def kits() -> nn.Module:
    """The 3D U-Net of MLPerf: one modality, three classes, ReLU."""
    return NnUNet(3, 1, 3, (32, 64, 128, 256, 320, 320), 0.0).train()


def original() -> nn.Module:
    """The U-Net of 2015: 572 x 572 pixels in, 388 x 388 out, two classes."""
    return UNet((64, 128, 256, 512, 1024), (512, 256, 128, 64), 2, 0).train()


def industrial() -> nn.Module:
    """The small U-Net for defects in surfaces of 512 x 512 pixels."""
    return Industrial((32, 32, 64, 128, 256), (128, 64, 32, 32), 1, 1).train()
