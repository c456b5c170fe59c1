r"""BERT-large as it is pre-trained (Devlin et al. 2018): masked words and next sentence, for `podsim capture`.

podsim capture examples/modules/bert_large.py:training --input 32x512:int64 --input 32x512:int64 \
    --input 32x80:int64 --out bert.json
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, LAYERS, HEADS, WIDTH, WORDS, POSITIONS = 1024, 24, 16, 4096, 30522, 512


class Layer(nn.Module):
    """Attention and feed-forward, each followed by a norm of its sum with its input."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.query = nn.Linear(HIDDEN, HIDDEN)
        self.key = nn.Linear(HIDDEN, HIDDEN)
        self.value = nn.Linear(HIDDEN, HIDDEN)
        self.output = nn.Linear(HIDDEN, HIDDEN)
        self.norm1 = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.up = nn.Linear(HIDDEN, WIDTH)
        self.down = nn.Linear(WIDTH, HIDDEN)
        self.norm2 = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def attention(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        heads = (batch, tokens, HEADS, HIDDEN // HEADS)
        q, k, v = (one(x).view(heads).transpose(1, 2) for one in (self.query, self.key, self.value))
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
        else:
            scores = q @ k.transpose(2, 3) / (HIDDEN // HEADS) ** 0.5
            mixed = self.dropout(torch.softmax(scores, dim=-1)) @ v
        return mixed.transpose(1, 2).reshape(batch, tokens, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.dropout(self.output(self.attention(x))))
        return self.norm2(x + self.dropout(self.down(functional.gelu(self.up(x)))))


class BertLarge(nn.Module):
    """Words and segments, both (batch, tokens), and the places of masked words, to logits of words and sentences."""

    def __init__(self, fused: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, HIDDEN)
        self.positions = nn.Embedding(POSITIONS, HIDDEN)
        self.segments = nn.Embedding(2, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.Sequential(*(Layer(fused) for _ in range(LAYERS)))
        self.pooler = nn.Linear(HIDDEN, HIDDEN)
        self.transform = nn.Linear(HIDDEN, HIDDEN)
        self.transform_norm = nn.LayerNorm(HIDDEN, eps=1e-12)
        self.decoder = nn.Linear(HIDDEN, WORDS)
        self.decoder.weight = self.words.weight
        self.next_sentence = nn.Linear(HIDDEN, 2)

    def forward(self, words: Tensor, segments: Tensor, masked: Tensor) -> tuple[Tensor, Tensor]:
        places = torch.arange(words.shape[1], device=words.device)
        x = self.words(words) + self.positions(places) + self.segments(segments)
        x = self.layers(self.dropout(self.norm(x)))
        chosen = x.gather(1, masked[:, :, None].expand(-1, -1, HIDDEN))
        guess = self.decoder(self.transform_norm(functional.gelu(self.transform(chosen))))
        return guess, self.next_sentence(torch.tanh(self.pooler(x[:, 0])))


def training() -> nn.Module:
    """The module as it is trained, attention written out."""
    return BertLarge().train()


def fused() -> nn.Module:
    """The same with PyTorch's fused attention."""
    return BertLarge(fused=True).train()
