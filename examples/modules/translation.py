r"""Translation: Transformer-big (Vaswani et al. 2017) and GNMT (Wu et al. 2016), for `podsim capture`.

podsim capture examples/modules/translation.py:transformer_big --input 160x32:int64 --input 160x32:int64 \
    --input 160x32:int64 --out transformer.json

Inputs are sentences, their translations one word late, and the translations. The loss is the label-smoothed one that both
are trained with: -(1 - s) log p(word) - s mean(log p). GNMT is the second version of DeepLearningExamples and MLPerf:
the first decoder layer's states ask for attention at all words at once, and every later layer sees what it gives.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, LAYERS, HEADS, WIDTH = 1024, 6, 16, 4096
WORDS = 33_712
"""of the Transformer: 32 k pairs of bytes of both languages together, padded"""
GNMT_WORDS = 32_320


def smoothed(logits: Tensor, words: Tensor) -> Tensor:
    """The label-smoothed loss over all words."""
    scores = torch.log_softmax(logits, -1)
    right = scores.gather(-1, words[:, :, None]).squeeze(-1)
    return -(0.9 * right + 0.1 * scores.mean(-1)).sum()


class Attention(nn.Module):
    """Heads of 64 of one sequence over another, or over itself."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(HIDDEN, HIDDEN) for _ in range(4))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, other: Tensor, mask: Tensor | None) -> Tensor:
        batch, tokens, _ = x.shape
        q, k, v = (
            one(source).view(batch, -1, HEADS, HIDDEN // HEADS).transpose(1, 2)
            for one, source in ((self.query, x), (self.key, other), (self.value, other))
        )
        scores = (q * (HIDDEN // HEADS) ** -0.5) @ k.transpose(2, 3)
        if mask is not None:
            scores = scores + mask
        mixed = self.dropout(torch.softmax(scores, -1)) @ v
        return self.output(mixed.transpose(1, 2).reshape(batch, tokens, HIDDEN))


class Layer(nn.Module):
    """Attention to itself, in the decoder to the encoder, and feed-forward; the norm after each sum."""

    def __init__(self, decoder: bool, activation: Callable[[Tensor], Tensor] = functional.relu) -> None:
        super().__init__()
        self.activation = activation
        self.own = Attention()
        self.cross = Attention() if decoder else None
        self.up = nn.Linear(HIDDEN, WIDTH)
        self.down = nn.Linear(WIDTH, HIDDEN)
        self.norms = nn.ModuleList(nn.LayerNorm(HIDDEN) for _ in range(3 if decoder else 2))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor, seen: Tensor | None, mask: Tensor | None) -> Tensor:
        x = self.norms[0](x + self.dropout(self.own(x, x, mask)))
        if self.cross is not None and seen is not None:
            x = self.norms[1](x + self.dropout(self.cross(x, seen, None)))
        return self.norms[-1](x + self.dropout(self.down(self.activation(self.up(x)))))


class Transformer(nn.Module):
    """Sentences and translations to the loss; one table of words for both and for the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)
        self.encoder = nn.ModuleList(Layer(False) for _ in range(LAYERS))
        self.decoder = nn.ModuleList(Layer(True) for _ in range(LAYERS))
        self.dropout = nn.Dropout(0.1)

    def embed(self, words: Tensor) -> Tensor:
        tokens = words.shape[1]
        waves = torch.zeros(tokens, HIDDEN, device=words.device)
        return self.dropout(self.words(words) * math.sqrt(HIDDEN) + waves)

    def forward(self, source: Tensor, before: Tensor, words: Tensor) -> Tensor:
        seen, x = self.embed(source), self.embed(before)
        for layer in self.encoder:
            seen = layer(seen, None, None)
        later = torch.full((x.shape[1], x.shape[1]), -math.inf, device=x.device).triu(1)
        for layer in self.decoder:
            x = layer(x, seen, later)
        return smoothed(functional.linear(x, self.words.weight), words)


class Gnmt(nn.Module):
    """Four layers of LSTM that read, the first both ways, and four that write; sentences and translations to the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(GNMT_WORDS, HIDDEN)
        self.both = nn.LSTM(HIDDEN, HIDDEN, batch_first=True, bidirectional=True)
        self.encoder = nn.ModuleList(
            nn.LSTM(width, HIDDEN, batch_first=True) for width in (2 * HIDDEN, HIDDEN, HIDDEN)
        )
        self.first = nn.LSTM(HIDDEN, HIDDEN, batch_first=True)
        self.asking = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.asked = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.direction = nn.Parameter(torch.zeros(HIDDEN))
        self.scale = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(torch.zeros(HIDDEN))
        self.decoder = nn.ModuleList(nn.LSTM(2 * HIDDEN, HIDDEN, batch_first=True) for _ in range(3))
        self.classes = nn.Linear(HIDDEN, GNMT_WORDS)
        self.dropout = nn.Dropout(0.2)

    def attend(self, asking: Tensor, seen: Tensor) -> Tensor:
        """Normalised Bahdanau attention: tanh of each sum of an asking and a seen state, along one direction."""
        sums = self.asking(asking)[:, :, None] + self.asked(seen)[:, None] + self.bias
        direction = self.direction / self.direction.norm() * self.scale
        return torch.softmax(torch.tanh(sums) @ direction, -1) @ seen

    def forward(self, source: Tensor, before: Tensor, words: Tensor) -> Tensor:
        seen = self.both(self.dropout(self.words(source)))[0]
        seen = self.encoder[0](self.dropout(seen))[0]
        for layer in list(self.encoder)[1:]:
            seen = seen + layer(self.dropout(seen))[0]
        x = self.first(self.dropout(self.words(before)))[0]
        found = self.attend(x, seen)
        x = self.decoder[0](torch.cat((self.dropout(x), found), 2))[0]
        for layer in list(self.decoder)[1:]:
            x = x + layer(torch.cat((self.dropout(x), found), 2))[0]
        return smoothed(self.classes(self.dropout(x)), words)


def transformer_big() -> nn.Module:
    """The Transformer's big configuration."""
    return Transformer().train()


def gnmt() -> nn.Module:
    """GNMT of four layers of 1024."""
    return Gnmt().train()
