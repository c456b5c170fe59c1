r"""Transformer-XL on WikiText-103 (Dai et al. 2019, arxiv.org/abs/1901.02860), base and large, for `podsim capture`.

podsim capture examples/modules/transformer_xl.py:base --input 16x192:int64 --input 16x192:int64 \
    --input 16x192x512 --out xl.json

Base and large as NVIDIA's DeepLearningExamples train them: 192 tokens that also see 192 of the segment before, and 384
that see 384. Inputs are words, the words that follow, and the hidden states of the segment before, which serve every
layer alike (they are read and have no gradient). How many words of a sequence fall among the rare ones, whose logits are
computed for them alone, depends on the text; here it is a 32nd, a 32nd and a 192nd, which a word's frequency falling
with the power 1.7 of its rank gives (from 250 at rank 20,000 to 3, the least that WikiText-103 keeps, at 267,735).
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

HEAD = 64
WORDS = (19_997, 20_000, 160_000, 67_738)
"""words of each frequency class, 267,735 in all; with the other classes the first has 20,000 logits"""
RARE = (32, 32, 192)
"""of so many tokens one is of the second, third and fourth class"""


class Attention(nn.Module):
    """Attention over this segment and the one before, by content and by distance."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.heads = hidden // HEAD
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.distance = nn.Linear(hidden, hidden, bias=False)
        self.output = nn.Linear(hidden, hidden, bias=False)
        self.dropout, self.weak = nn.Dropout(0.1), nn.Dropout(0.0)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: Tensor, memory: Tensor, far: Tensor, mask: Tensor, u: Tensor, v: Tensor) -> Tensor:
        batch, tokens, hidden = x.shape
        both = torch.cat((memory, x), 1)
        keys = both.shape[1]
        q, k, value = self.qkv(both).chunk(3, -1)
        q = q[:, -tokens:].reshape(batch, tokens, self.heads, HEAD)
        k, value = (one.view(batch, keys, self.heads, HEAD).transpose(1, 2) for one in (k, value))
        r = self.distance(far).view(keys, self.heads, HEAD)
        content = (q + u).transpose(1, 2) @ k.transpose(2, 3)
        place = torch.einsum("bind,jnd->bnij", q + v, r)
        # the shift: each query's distances begin one later
        shifted = functional.pad(place, (1, 0)).view(batch, self.heads, keys + 1, tokens)[:, :, 1:]
        scores = (content + shifted.reshape(batch, self.heads, tokens, keys)) * HEAD**-0.5
        mixed = self.weak(torch.softmax(scores.masked_fill(mask, -65504.0), -1)) @ value
        mixed = mixed.transpose(1, 2).reshape(batch, tokens, hidden)
        return self.norm(x + self.dropout(self.output(mixed)))


class FeedForward(nn.Module):
    """Up, ReLU, down; the norm follows the sum."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)
        self.dropout = nn.Dropout(0.1)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.dropout(self.down(self.dropout(functional.relu(self.up(x))))))


class TransformerXL(nn.Module):
    """Words, next words and the segment before to the loss; rarer words are embedded narrower, each class by `divide`."""

    def __init__(self, hidden: int, layers: int, tokens: int, divide: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.rare = tuple(max(1, tokens // part) for part in RARE)
        widths = [hidden // divide**i for i in range(len(WORDS))]
        classes = list(zip(WORDS, widths, strict=True)) if divide > 1 else [(sum(WORDS), hidden)]
        self.tables = nn.ModuleList(nn.Embedding(count, width) for count, width in classes)
        self.up = nn.ModuleList(nn.Linear(width, hidden, bias=False) for _, width in classes if divide > 1)
        self.biases = nn.ParameterList(torch.zeros(count) for count in WORDS)
        self.clusters = nn.Linear(hidden, len(WORDS) - 1)
        self.dropout = nn.Dropout(0.1)
        self.u, self.v = (nn.Parameter(torch.zeros(hidden // HEAD, HEAD)) for _ in range(2))
        self.attention = nn.ModuleList(Attention(hidden) for _ in range(layers))
        self.feed = nn.ModuleList(FeedForward(hidden) for _ in range(layers))

    def embed(self, words: Tensor) -> Tensor:
        """All words by the table of the common ones; the few rare ones by their own tables besides."""
        if len(self.tables) == 1:
            return self.tables[0](words) * math.sqrt(self.hidden)
        x = self.up[0](self.tables[0](words))
        parts = []
        for table, up, count in zip(list(self.tables)[1:], list(self.up)[1:], self.rare, strict=True):
            parts.append(up(table(words[:, :count])))
        rare = torch.cat(parts, 1)
        return torch.cat((rare, x[:, rare.shape[1] :]), 1) * math.sqrt(self.hidden)

    def logits(self, x: Tensor, which: int) -> Tensor:
        """Logits of the words of one class; those of the first end with one for each other class."""
        if len(self.tables) == 1:
            begin = sum(WORDS[:which])
            weight = self.tables[0].weight[begin : begin + WORDS[which]]
        else:
            weight, x = self.tables[which].weight, x @ self.up[which].weight
        bias = self.biases[which]
        if which == 0:
            if len(self.tables) > 1:
                return torch.cat((functional.linear(x, weight, bias), self.clusters(x)), -1)
            weight = torch.cat((weight, self.clusters.weight))
            bias = torch.cat((bias, self.clusters.bias))
        return functional.linear(x, weight, bias)

    def loss(self, x: Tensor, which: int, after: Tensor) -> Tensor:
        scores = torch.log_softmax(self.logits(x, which), -1)
        return scores.gather(-1, after[:, :, None]).sum()

    def forward(self, words: Tensor, after: Tensor, memory: Tensor) -> Tensor:
        tokens, keys = words.shape[1], words.shape[1] + memory.shape[1]
        x = self.dropout(self.embed(words))
        # one mask and one set of waves for all layers and samples
        mask = torch.ones(tokens, keys, dtype=torch.bool, device=x.device).triu(1 + memory.shape[1])
        places = torch.arange(keys, device=x.device, dtype=x.dtype)[:, None]
        angles = places * torch.arange(0, self.hidden, 2, device=x.device, dtype=x.dtype)
        far = self.dropout(torch.cat((angles.sin(), angles.cos()), -1))
        for attention, feed in zip(self.attention, self.feed, strict=True):
            x = feed(attention(x, memory, far, mask, self.u, self.v))
        x = self.dropout(x)
        loss = self.loss(x, 0, after)
        for which, count in enumerate(self.rare, 1):
            loss = loss + self.loss(x[:, :count], which, after[:, :count])
        return loss


def base() -> nn.Module:
    """16 layers of 512, 192 tokens after 192."""
    return TransformerXL(512, 16, 192, 1).train()


def large() -> nn.Module:
    """18 layers of 1024, 384 tokens after 384, rare words embedded in 256, 64 and 16 numbers."""
    return TransformerXL(1024, 18, 384, 4).train()
