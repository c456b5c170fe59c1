r"""Convolutions over time that hear speech: Jasper DR 10x5 (Li et al. 2019) and QuartzNet 15x5 (Kriman et al. 2019).

Frames of 10 ms, 64 mel bands each, to 29 letters every 20 ms. What lies past the end of an utterance is set to zero
before every convolution, as NVIDIA's code does. Simplified: the spectrogram and the CTC loss are left out; both are
small beside the convolutions.

podsim capture examples/modules/jasper.py:jasper --input 32x64x1230 --input 32:int64
podsim capture examples/modules/jasper.py:quartznet --input 32x64x1230 --input 32:int64
"""

import torch
from torch import Tensor, nn

BANDS, LETTERS = 64, 29
JASPER = ((256, 11, 0.2), (384, 13, 0.2), (512, 17, 0.2), (640, 21, 0.3), (768, 25, 0.3))
"""(filters, width of the window, dropout) of two blocks each"""
QUARTZNET = ((256, 33), (256, 39), (512, 51), (512, 63), (512, 75))
"""(filters, width of the window) of three blocks each"""


class Convolved(nn.Module):
    """A convolution over time of what is not past the end, and a batch norm; `apart`: each channel, then their mix."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        window: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        apart: bool = False,
    ) -> None:
        super().__init__()
        padding = dilation * (window - 1) // 2
        self.stride = stride
        self.each: nn.Module | None = None
        if apart:
            self.each = nn.Conv1d(
                inputs, inputs, window, stride, padding, dilation, groups=inputs, bias=False
            )
            self.mix = nn.Conv1d(inputs, outputs, 1, bias=False)
        else:
            self.mix = nn.Conv1d(inputs, outputs, window, stride, padding, dilation, bias=False)
        self.norm = nn.BatchNorm1d(outputs, eps=1e-3)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        if self.each is not None:
            x = self.each(silenced(x, lengths))
            lengths = (lengths + self.stride - 1) // self.stride
            return self.norm(self.mix(silenced(x, lengths))), lengths
        x = self.norm(self.mix(silenced(x, lengths)))
        return x, (lengths + self.stride - 1) // self.stride


def silenced(x: Tensor, lengths: Tensor) -> Tensor:
    """(batch, channels, frames) with zeros past the end of each."""
    past = torch.arange(x.shape[2], device=x.device)[None, :] >= lengths[:, None]
    return x.masked_fill(past[:, None, :], 0.0)


class Block(nn.Module):
    """Five convolutions; what came in (from every block before, where dense) is added before the last activation."""

    def __init__(
        self, before: list[int], filters: int, window: int, dropout: float, *, apart: bool = False
    ) -> None:
        super().__init__()
        inputs = [before[-1], *[filters] * 4]
        self.convolved = nn.ModuleList(Convolved(one, filters, window, apart=apart) for one in inputs)
        self.shortcuts = nn.ModuleList(Convolved(one, filters, 1) for one in before)
        self.relu = nn.ReLU(inplace=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, earlier: list[Tensor], lengths: Tensor) -> Tensor:
        x = earlier[-1]
        for convolved in self.convolved[:-1]:
            x = self.dropout(self.relu(convolved(x, lengths)[0]))
        x = self.convolved[-1](x, lengths)[0]
        for shortcut, one in zip(self.shortcuts, earlier, strict=True):
            x = x + shortcut(one, lengths)[0]
        return self.dropout(self.relu(x))


class Listener(nn.Module):
    """Spectrograms (batch, bands, frames) and their lengths to log probabilities (batch, frames / 2, letters)."""

    def __init__(
        self, first: Convolved, blocks: list[Block], last: list[tuple[Convolved, float]], *, dense: bool
    ) -> None:
        super().__init__()
        self.first, self.blocks, self.dense = first, nn.ModuleList(blocks), dense
        self.last = nn.ModuleList(one for one, _ in last)
        self.relu = nn.ReLU(inplace=True)
        self.dropout = nn.Dropout(0.2 if dense else 0.0)
        self.quiet = nn.ModuleList(nn.Dropout(share) for _, share in last)
        self.letters = nn.Conv1d(1024, LETTERS, 1)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        x, lengths = self.first(x, lengths)
        earlier = [self.dropout(self.relu(x))]
        for block in self.blocks:
            out = block(earlier, lengths)
            earlier = [*earlier, out] if self.dense else [out]
        x = earlier[-1]
        for convolved, quiet in zip(self.last, self.quiet, strict=True):
            x = quiet(self.relu(convolved(x, lengths)[0]))
        return torch.log_softmax(self.letters(x).transpose(1, 2), dim=-1)


def jasper() -> nn.Module:
    """Ten blocks of five, each joined to all before it."""
    before, blocks = [256], []
    for filters, window, dropout in [row for row in JASPER for _ in range(2)]:
        blocks.append(Block(list(before), filters, window, dropout))
        before.append(filters)
    last = [(Convolved(768, 896, 29, dilation=2), 0.4), (Convolved(896, 1024, 1), 0.4)]
    return Listener(Convolved(BANDS, 256, 11, stride=2), blocks, last, dense=True).train()


def quartznet() -> nn.Module:
    """Fifteen blocks of five, each channel filtered apart; no dropout."""
    before, blocks = 256, []
    for filters, window in [row for row in QUARTZNET for _ in range(3)]:
        blocks.append(Block([before], filters, window, 0.0, apart=True))
        before = filters
    last = [(Convolved(512, 512, 87, dilation=2, apart=True), 0.0), (Convolved(512, 1024, 1), 0.0)]
    first = Convolved(BANDS, 256, 33, stride=2, apart=True)
    return Listener(first, blocks, last, dense=False).train()
