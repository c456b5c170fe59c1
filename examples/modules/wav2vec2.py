r"""wav2vec 2.0 as it is pre-trained (Baevski et al. 2020): masked stretches of speech are told from 100 distractors.

Waves of 16 kHz; a convolutional encoder gives 50 frames a second, about 49 % of which are masked. Which, and which
distractors, come in as numbers of places. Simplified: no layer is dropped (5 % are, in the base model), the penalty on
unused codes is left out. The codes are looked up as the authors' code does it: a product with every code, then a sum.

podsim capture examples/modules/wav2vec2.py:base --input 8x196800 --input 8x301:int64 --input 8x30100:int64
podsim capture examples/modules/wav2vec2.py:large --input 4x196800 --input 4x301:int64 --input 4x30100:int64
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

CONVOLUTIONS = ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2))
"""(window, stride)"""
FEATURES, GROUPS, CODES, DISTRACTORS = 512, 2, 320, 100


class Heard(nn.Module):
    """Convolution, norm, GELU: the base model norms each channel over time, once; the large one all channels, always."""

    def __init__(self, inputs: int, window: int, stride: int, norm: str) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, FEATURES, window, stride, bias=norm == "frame")
        self.over_time = nn.GroupNorm(FEATURES, FEATURES) if norm == "channel" else None
        self.over_channels = nn.LayerNorm(FEATURES) if norm == "frame" else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        if self.over_time is not None:
            x = self.over_time(x)
        if self.over_channels is not None:
            x = self.over_channels(x.transpose(1, 2)).transpose(1, 2)
        return functional.gelu(x)


class Layer(nn.Module):
    """Attention and feed-forward; the norms stand before them, or after their sums."""

    def __init__(self, hidden: int, heads: int, *, before: bool, dropout: float) -> None:
        super().__init__()
        self.heads, self.before = heads, before
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(dropout)

    def attention(self, x: Tensor) -> Tensor:
        batch, frames, hidden = x.shape
        heads = (batch, frames, self.heads, hidden // self.heads)
        q, k, v = (one(x).view(heads).transpose(1, 2) for one in (self.query, self.key, self.value))
        scores = (q * (hidden // self.heads) ** -0.5) @ k.transpose(2, 3)
        mixed = self.dropout(torch.softmax(scores, dim=-1)) @ v
        return self.output(mixed.transpose(1, 2).reshape(batch, frames, hidden))

    def wide(self, x: Tensor) -> Tensor:
        return self.down(functional.gelu(self.up(x)))

    def forward(self, x: Tensor) -> Tensor:
        if self.before:
            x = x + self.dropout(self.attention(self.norm1(x)))
            return x + self.dropout(self.wide(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x)))
        return self.norm2(x + self.dropout(self.wide(x)))


class Quantizer(nn.Module):
    """Frames (batch, frames, features) to one code of each group, drawn (Gumbel softmax) and set side by side."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.choose = nn.Linear(FEATURES, GROUPS * CODES)
        self.codes = nn.Parameter(torch.empty(1, GROUPS * CODES, width // GROUPS))

    def forward(self, x: Tensor) -> Tensor:
        batch, frames, _ = x.shape
        logits = self.choose(x).view(batch * frames * GROUPS, CODES)
        drawn = functional.gumbel_softmax(logits, hard=True).view(batch * frames, GROUPS * CODES, 1)
        return (drawn * self.codes).view(batch * frames, GROUPS, CODES, -1).sum(dim=2).view(batch, frames, -1)


class Wav2Vec2(nn.Module):
    """Waves (batch, samples), places of masked frames and of each one's distractors, to a loss."""

    def __init__(self, hidden: int, layers: int, heads: int, width: int, *, large: bool) -> None:
        super().__init__()
        norms = ["frame" if large else "none"] * len(CONVOLUTIONS)
        norms[0] = "frame" if large else "channel"
        inputs = [1, *[FEATURES] * (len(CONVOLUTIONS) - 1)]
        steps = zip(inputs, CONVOLUTIONS, norms, strict=True)
        self.hears = nn.Sequential(
            *(Heard(one, window, stride, norm) for one, (window, stride), norm in steps)
        )
        self.norm = nn.LayerNorm(FEATURES)
        self.widen = nn.Linear(FEATURES, hidden)
        self.masked = nn.Parameter(torch.empty(hidden))
        self.places = nn.utils.parametrizations.weight_norm(
            nn.Conv1d(hidden, hidden, 128, padding=64, groups=16), dim=2
        )
        self.before = large
        self.first = nn.LayerNorm(hidden)
        dropout = 0.0 if large else 0.1
        self.dropout = nn.Dropout(dropout)
        self.quiet = nn.Dropout(0.1)
        self.layers = nn.Sequential(
            *(Layer(hidden, heads, before=large, dropout=dropout) for _ in range(layers))
        )
        self.quantizer = Quantizer(width)
        self.target = nn.Linear(width, width)
        self.guess = nn.Linear(hidden, width)

    def forward(self, waves: Tensor, masked: Tensor, others: Tensor) -> Tensor:
        heard = self.norm(self.hears(waves[:, None]).transpose(1, 2))
        x = self.quiet(self.widen(heard))
        hidden = torch.zeros_like(x[:, :, 0]).scatter(1, masked, 1.0) > 0
        x = torch.where(hidden[:, :, None], self.masked, x)
        near = self.places(x.transpose(1, 2))[:, :, :-1]
        x = x + functional.gelu(near).transpose(1, 2)
        x = self.layers(self.dropout(x if self.before else self.first(x)))
        x = self.first(x) if self.before else x
        return self.loss(chosen(x, masked), chosen(self.quiet(heard), masked), others)

    def loss(self, x: Tensor, heard: Tensor, others: Tensor) -> Tensor:
        """Each masked frame's own code is to be nearest among its distractors."""
        batch, frames, _ = x.shape
        codes = self.target(self.quantizer(heard))
        wrong = chosen(codes, others).view(batch, frames, DISTRACTORS, -1)
        all_codes = torch.cat([codes[:, :, None], wrong], dim=2)
        logits = torch.cosine_similarity(self.guess(x)[:, :, None], all_codes, dim=-1) / 0.1
        first = torch.zeros(batch * frames, dtype=torch.int64, device=x.device)
        return functional.cross_entropy(logits.view(batch * frames, DISTRACTORS + 1), first)


def chosen(x: Tensor, places: Tensor) -> Tensor:
    """Rows of (batch, frames, width) by their places (batch, rows)."""
    return x.gather(1, places[:, :, None].expand(-1, -1, x.shape[2]))


def base() -> nn.Module:
    """12 layers of 768."""
    return Wav2Vec2(768, 12, 12, 256, large=False).train()


def large() -> nn.Module:
    """24 layers of 1,024, norms first."""
    return Wav2Vec2(1024, 24, 16, 768, large=True).train()
