r"""HiFi-GAN V1 (Kong et al. 2020) as it is trained: a generator of waves and eight discriminators, both in every step.

Mel frames become a wave of 256 samples each. The discriminators see true and made waves twice a step: once for their
own update (what was made is detached), once for the generator's, whose loss compares their inner features too.
Simplified: weight norm also in the one discriminator that has spectral norm; the mel loss on the made wave is a plain
distance, without its Fourier transforms.

podsim capture examples/modules/hifigan.py:training --input 16x80x32 --input 16x1x8192
podsim capture examples/modules/hifigan.py:generator --input 16x80x32
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

BANDS, FIRST = 80, 512
UPWARD = ((16, 8), (16, 8), (4, 2), (4, 2))
"""(window, stride) of what makes the wave longer"""
WINDOWS, DILATIONS = (3, 7, 11), (1, 3, 5)
PERIODS = (2, 3, 5, 7, 11)
SCALES = (
    (128, 15, 1, 1),
    (128, 41, 2, 4),
    (256, 41, 2, 16),
    (512, 41, 4, 16),
    (1024, 41, 4, 16),
    (1024, 41, 1, 16),
    (1024, 5, 1, 1),
)
"""(filters, window, stride, groups) of a discriminator of scales"""


class Residual(nn.Module):
    """Three times: a dilated convolution and a plain one, beside what came in."""

    def __init__(self, channels: int, window: int) -> None:
        super().__init__()
        self.wide = nn.ModuleList(
            weight_norm(nn.Conv1d(channels, channels, window, padding=d * (window - 1) // 2, dilation=d))
            for d in DILATIONS
        )
        self.plain = nn.ModuleList(
            weight_norm(nn.Conv1d(channels, channels, window, padding=(window - 1) // 2)) for _ in DILATIONS
        )

    def forward(self, x: Tensor) -> Tensor:
        for wide, plain in zip(self.wide, self.plain, strict=True):
            x = plain(functional.leaky_relu(wide(functional.leaky_relu(x, 0.1)), 0.1)) + x
        return x


class Generator(nn.Module):
    """Mel frames (batch, bands, frames) to waves (batch, 1, 256 x frames)."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [FIRST // 2**level for level in range(len(UPWARD) + 1)]
        self.first = weight_norm(nn.Conv1d(BANDS, FIRST, 7, padding=3))
        self.longer = nn.ModuleList(
            weight_norm(nn.ConvTranspose1d(a, b, window, stride, padding=(window - stride) // 2))
            for a, b, (window, stride) in zip(sizes[:-1], sizes[1:], UPWARD, strict=True)
        )
        self.residual = nn.ModuleList(
            nn.ModuleList(Residual(size, window) for window in WINDOWS) for size in sizes[1:]
        )
        self.last = weight_norm(nn.Conv1d(sizes[-1], 1, 7, padding=3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for longer, residual in zip(self.longer, self.residual, strict=True):
            x = longer(functional.leaky_relu(x, 0.1))
            total = residual[0](x)
            for one in residual[1:]:
                total = total + one(x)
            x = total / len(WINDOWS)
        return torch.tanh(self.last(functional.leaky_relu(x)))


class Judge(nn.Module):
    """Waves (batch, 1, samples) to features of every layer; folded to rows of `period` samples, or as they are."""

    def __init__(self, period: int) -> None:
        super().__init__()
        self.period = period
        steps: list[nn.Module] = []
        before = 1
        if period > 1:
            for filters, stride in ((32, 3), (128, 3), (512, 3), (1024, 3), (1024, 1)):
                steps.append(nn.Conv2d(before, filters, (5, 1), (stride, 1), padding=(2, 0)))
                before = filters
            steps.append(nn.Conv2d(before, 1, (3, 1), padding=(1, 0)))
        else:
            for filters, window, stride, groups in SCALES:
                steps.append(nn.Conv1d(before, filters, window, stride, window // 2, groups=groups))
                before = filters
            steps.append(nn.Conv1d(before, 1, 3, padding=1))
        self.steps = nn.ModuleList(weight_norm(one) for one in steps)

    def forward(self, x: Tensor) -> list[Tensor]:
        if self.period > 1:
            x = functional.pad(x, (0, -x.shape[2] % self.period), mode="reflect")
            x = x.view(x.shape[0], 1, -1, self.period)
        found = []
        for step in self.steps[:-1]:
            x = functional.leaky_relu(step(x), 0.1)
            found.append(x)
        return [*found, self.steps[-1](x)]


class HifiGan(nn.Module):
    """Mel frames and the true wave (batch, 1, samples) to the sum of both losses."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = Generator()
        self.periods = nn.ModuleList(Judge(period) for period in PERIODS)
        self.scales = nn.ModuleList(Judge(1) for _ in range(3))
        self.pool = nn.AvgPool1d(4, 2, padding=2)

    def judged(self, x: Tensor) -> list[list[Tensor]]:
        found = [judge(x) for judge in self.periods]
        for level, judge in enumerate(self.scales):
            x = self.pool(x) if level else x
            found.append(judge(x))
        return found

    def forward(self, mel: Tensor, wave: Tensor) -> Tensor:
        made = self.generator(mel)
        loss = 45 * functional.l1_loss(made, wave)
        for true, false in zip(self.judged(wave), self.judged(made.detach()), strict=True):
            loss = loss + ((1 - true[-1]) ** 2).mean() + (false[-1] ** 2).mean()
        for true, false in zip(self.judged(wave), self.judged(made), strict=True):
            loss = loss + ((1 - false[-1]) ** 2).mean()
            for a, b in zip(true, false, strict=True):
                loss = loss + 2 * (a - b).abs().mean()
        return loss


def training() -> nn.Module:
    """Generator and discriminators as they are trained."""
    return HifiGan().train()


def generator() -> nn.Module:
    """The generator alone."""
    return Generator().train()
