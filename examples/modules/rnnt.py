r"""RNN-T as MLPerf trains it (Graves 2012; the benchmark's own sizes): LSTM layers over speech and over words so far.

Frames of 30 ms (three of 80 mel bands side by side) pass two LSTM layers, two and two frames are joined, three more
follow; word pieces pass two. Every frame meets every piece in the joint network, whose log probabilities are the loss'.
Simplified: the sum over all paths, a kernel of its own that reads those probabilities once, is left out; every
utterance has the mean length, where NVIDIA's code packs unequal ones without padding.

podsim capture examples/modules/rnnt.py:training --input 16x410x240 --input 16x55:int64
"""

import torch
from torch import Tensor, nn

FEATURES, HIDDEN, PREDICTED, JOINED, PIECES = 240, 1024, 512, 512, 1024


class Rnnt(nn.Module):
    """Features (batch, frames, 240) and word pieces (batch, pieces) to log probabilities of every frame and piece."""

    def __init__(self) -> None:
        super().__init__()
        self.hears = nn.LSTM(FEATURES, HIDDEN, 2, batch_first=True, dropout=0.1)
        self.listens = nn.LSTM(2 * HIDDEN, HIDDEN, 3, batch_first=True, dropout=0.1)
        self.pieces = nn.Embedding(PIECES - 1, PREDICTED)
        self.predicts = nn.LSTM(PREDICTED, PREDICTED, 2, batch_first=True, dropout=0.3)
        self.heard = nn.Linear(HIDDEN, JOINED)
        self.said = nn.Linear(PREDICTED, JOINED)
        self.dropout = nn.Dropout(0.3)
        self.chances = nn.Linear(JOINED, PIECES)

    def forward(self, x: Tensor, pieces: Tensor) -> Tensor:
        x, _ = self.hears(x)
        batch, frames, width = x.shape
        x, _ = self.listens(x.reshape(batch, frames // 2, 2 * width))
        before, _ = self.predicts(self.pieces(pieces))
        both = self.heard(x)[:, :, None] + self.said(before)[:, None]
        return torch.log_softmax(self.chances(self.dropout(torch.relu(both))), dim=-1)


def training() -> nn.Module:
    """The module as it is trained."""
    return Rnnt().train()
