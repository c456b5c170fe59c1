r"""FastPitch 1.1 (Lancucki 2021, with the aligner of Badlani et al. 2021): symbols to mel frames, the times learned too.

Two stacks of convolutional transformer layers, one over symbols and one over frames, and small predictors of durations,
pitch and energy. Attention of symbols and frames is a squared distance of every pair, as NVIDIA's code computes it.
Simplified: the best path through it (found on the CPU) comes in as an input, its CTC loss (a loop over utterances) is
left out.

podsim capture examples/modules/fastpitch.py:training --input 16x154:int64 --input 16x80x870 --input 16x870x154 \
    --input 16x1x154 --input 16x1x154
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

SYMBOLS, BANDS, HIDDEN, WIDTH, HEAD, LAYERS = 148, 80, 384, 1536, 64, 6


class Layer(nn.Module):
    """One head of attention, then two convolutions over time; norms after their sums, what is padded set to zero."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.Linear(HIDDEN, 3 * HEAD)
        self.output = nn.Linear(HEAD, HIDDEN, bias=False)
        self.norm1 = nn.LayerNorm(HIDDEN)
        self.up = nn.Conv1d(HIDDEN, WIDTH, 3, padding=1)
        self.down = nn.Conv1d(WIDTH, HIDDEN, 3, padding=1)
        self.norm2 = nn.LayerNorm(HIDDEN)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.heads(x).chunk(3, dim=2)
        scores = (q @ k.transpose(1, 2)) * HEAD**-0.5
        scores = scores.masked_fill(mask.transpose(1, 2) == 0, float("-inf"))
        mixed = self.dropout(torch.softmax(scores, dim=2)) @ v
        x = self.norm1(x + self.dropout(self.output(mixed))) * mask
        wide = self.dropout(functional.relu(self.up(x.transpose(1, 2))))
        return self.norm2(x + self.dropout(self.down(wide).transpose(1, 2))) * mask


class Stack(nn.Module):
    """Places are added, then the layers follow."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        at = torch.arange(x.shape[1], device=x.device)[:, None] * torch.ones(HIDDEN // 2, device=x.device)
        x = self.dropout(x + torch.cat([at.sin(), at.cos()], dim=1) * mask)
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Predictor(nn.Module):
    """Two convolutions with norms, then one number a symbol."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv1d(size, 256, 3, padding=1) for size in (HIDDEN, 256))
        self.norms = nn.ModuleList(nn.LayerNorm(256) for _ in range(2))
        self.dropout = nn.Dropout(0.1)
        self.out = nn.Linear(256, 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x * mask
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = self.dropout(norm(functional.relu(conv(x.transpose(1, 2))).transpose(1, 2)))
        return self.out(x * mask).transpose(1, 2)


class Aligner(nn.Module):
    """Symbols (batch, symbols, hidden) and frames (batch, bands, frames): how near each is to each, as a distribution."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = nn.Sequential(
            nn.Conv1d(HIDDEN, 2 * HIDDEN, 3, padding=1), nn.ReLU(), nn.Conv1d(2 * HIDDEN, BANDS, 1)
        )
        self.queries = nn.Sequential(
            nn.Conv1d(BANDS, 2 * BANDS, 3, padding=1),
            nn.ReLU(),
            nn.Conv1d(2 * BANDS, BANDS, 1),
            nn.ReLU(),
            nn.Conv1d(BANDS, BANDS, 1),
        )

    def forward(self, symbols: Tensor, frames: Tensor, prior: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        keys, queries = self.keys(symbols.transpose(1, 2)), self.queries(frames)
        far = (queries[:, :, :, None] - keys[:, :, None]) ** 2
        near = -0.0005 * far.sum(dim=1)
        near = torch.log_softmax(near, dim=2) + torch.log(prior + 1e-8)
        return torch.softmax(near.masked_fill(mask.transpose(1, 2) == 0, float("-inf")), dim=2), near


class FastPitch(nn.Module):
    """Symbols, mel frames, the hard alignment (batch, frames, symbols), pitch and energy of symbols, to a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, HIDDEN)
        self.encoder, self.decoder = Stack(), Stack()
        self.aligner = Aligner()
        self.durations, self.pitch, self.energy = Predictor(), Predictor(), Predictor()
        self.pitched = nn.Conv1d(1, HIDDEN, 3, padding=1)
        self.powered = nn.Conv1d(1, HIDDEN, 3, padding=1)
        self.bands = nn.Linear(HIDDEN, BANDS)

    def forward(self, symbols: Tensor, mel: Tensor, hard: Tensor, pitch: Tensor, energy: Tensor) -> Tensor:
        said = (symbols != 0).float()[:, :, None]
        words = self.symbols(symbols)
        x = self.encoder(words, said)
        soft, near = self.aligner(words, mel, hard, said)
        lasting = hard.sum(dim=1, keepdim=True)
        loss = functional.mse_loss(self.durations(x, said), torch.log(lasting + 1))
        loss = loss + functional.mse_loss(self.pitch(x, said), pitch)
        x = x + self.pitched(pitch).transpose(1, 2)
        loss = loss + functional.mse_loss(self.energy(x, said), energy)
        x = x + self.powered(energy).transpose(1, 2)
        ends = lasting.cumsum(dim=2)
        at = torch.arange(mel.shape[2], device=mel.device)[:, None]
        chosen = ((at >= ends - lasting) & (at < ends)).float()
        heard = chosen.sum(dim=2, keepdim=True)
        out = self.bands(self.decoder(chosen @ x, heard))
        loss = (
            loss
            + (functional.mse_loss(out, mel.transpose(1, 2), reduction="none") * heard).sum() / heard.sum()
        )
        binary = torch.log(torch.clamp(soft, min=1e-12)) * hard
        return loss - binary.sum() / hard.sum() + near.mean()


def training() -> nn.Module:
    """The module as it is trained."""
    return FastPitch().train()


class Speech(nn.Module):
    """Symbols and the share of each in the frames (batch, frames, symbols), to mel frames: what synthesis computes."""

    def __init__(self) -> None:
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, HIDDEN)
        self.encoder, self.decoder = Stack(), Stack()
        self.durations, self.pitch, self.energy = Predictor(), Predictor(), Predictor()
        self.pitched = nn.Conv1d(1, HIDDEN, 3, padding=1)
        self.powered = nn.Conv1d(1, HIDDEN, 3, padding=1)
        self.bands = nn.Linear(HIDDEN, BANDS)

    def forward(self, symbols: Tensor, chosen: Tensor) -> Tensor:
        said = (symbols != 0).float()[:, :, None]
        x = self.encoder(self.symbols(symbols), said)
        lasting = torch.exp(self.durations(x, said))
        x = x + self.pitched(self.pitch(x, said)).transpose(1, 2)
        x = x + self.powered(self.energy(x, said)).transpose(1, 2) + 0.0 * lasting.transpose(1, 2)
        return self.bands(self.decoder(chosen @ x, chosen.sum(dim=2, keepdim=True)))


def speech() -> nn.Module:
    """The module as it speaks."""
    return Speech().eval()
