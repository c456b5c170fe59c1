r"""BERT, large and base, pre-trained and fine-tuned (Devlin et al. 2018), for `podsim capture`.

podsim capture examples/modules/bert_large.py:training --input 32x512:int64 --input 32x512:int64 \
    --input 32x80:int64 --out bert.json

Pre-training predicts masked words, at the places of the third input alone, and whether sentences follow each other;
questions() gives start and end of an answer (SQuAD), tags() a class for each word (named entities). `padded` adds six
words to the vocabulary, to a multiple of eight, as frameworks do for tensor cores. Losses are left out: they see a few
words a sequence.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

WORDS, PADDED, POSITIONS, HEAD = 30522, 30528, 512, 64
LARGE, BASE = (1024, 24), (768, 12)
"""(width, layers)"""


class Layer(nn.Module):
    """Attention and feed-forward, each followed by a norm of its sum with its input."""

    def __init__(self, hidden: int, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.output = nn.Linear(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden, eps=1e-12)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden, eps=1e-12)
        self.dropout = nn.Dropout(0.1)

    def attention(self, x: Tensor) -> Tensor:
        batch, tokens, hidden = x.shape
        heads = (batch, tokens, hidden // HEAD, HEAD)
        q, k, v = (one(x).view(heads).transpose(1, 2) for one in (self.query, self.key, self.value))
        if self.fused:
            mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
        else:
            scores = q @ k.transpose(2, 3) / HEAD**0.5
            mixed = self.dropout(torch.softmax(scores, dim=-1)) @ v
        return mixed.transpose(1, 2).reshape(batch, tokens, hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.dropout(self.output(self.attention(x))))
        return self.norm2(x + self.dropout(self.down(functional.gelu(self.up(x)))))


class Bert(nn.Module):
    """Words and segments, both (batch, tokens), to the hidden states of the last layer."""

    def __init__(self, hidden: int, layers: int, *, words: int = WORDS, fused: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(words, hidden)
        self.positions = nn.Embedding(POSITIONS, hidden)
        self.segments = nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.Sequential(*(Layer(hidden, fused) for _ in range(layers)))

    def forward(self, words: Tensor, segments: Tensor) -> Tensor:
        places = torch.arange(words.shape[1], device=words.device)
        x = self.words(words) + self.positions(places) + self.segments(segments)
        return self.layers(self.dropout(self.norm(x)))


class Pretraining(nn.Module):
    """Words, segments and the places of masked words to logits of words and sentences."""

    def __init__(self, hidden: int, layers: int, *, words: int = WORDS, fused: bool = False) -> None:
        super().__init__()
        self.bert = Bert(hidden, layers, words=words, fused=fused)
        self.pooler = nn.Linear(hidden, hidden)
        self.transform = nn.Linear(hidden, hidden)
        self.transform_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.decoder = nn.Linear(hidden, words)
        self.decoder.weight = self.bert.words.weight
        self.next_sentence = nn.Linear(hidden, 2)

    def forward(self, words: Tensor, segments: Tensor, masked: Tensor) -> tuple[Tensor, Tensor]:
        x = self.bert(words, segments)
        chosen = x.gather(1, masked[:, :, None].expand(-1, -1, x.shape[2]))
        guess = self.decoder(self.transform_norm(functional.gelu(self.transform(chosen))))
        return guess, self.next_sentence(torch.tanh(self.pooler(x[:, 0])))


class FineTuning(nn.Module):
    """Words and segments to a few logits for each word."""

    def __init__(
        self, hidden: int, layers: int, classes: int, *, words: int = WORDS, drop: float = 0.0
    ) -> None:
        super().__init__()
        self.bert = Bert(hidden, layers, words=words)
        self.drop = nn.Dropout(drop)
        self.classes = nn.Linear(hidden, classes)

    def forward(self, words: Tensor, segments: Tensor) -> Tensor:
        return self.classes(self.drop(self.bert(words, segments)))


def training() -> nn.Module:
    """BERT-large as it is pre-trained, attention written out."""
    return Pretraining(*LARGE).train()


def fused() -> nn.Module:
    """The same with PyTorch's fused attention."""
    return Pretraining(*LARGE, fused=True).train()


def padded() -> nn.Module:
    """BERT-large as it is pre-trained, its vocabulary padded to a multiple of eight."""
    return Pretraining(*LARGE, words=PADDED).train()


def padded_base() -> nn.Module:
    """BERT-base likewise."""
    return Pretraining(*BASE, words=PADDED).train()


def questions() -> nn.Module:
    """BERT-large with start and end of an answer for each word, as fine-tuned for SQuAD."""
    return FineTuning(*LARGE, 2).train()


def tags() -> nn.Module:
    """BERT-base with seven classes for each word, as fine-tuned for named entities."""
    return FineTuning(*BASE, 7, drop=0.1).train()


def base_questions() -> nn.Module:
    """BERT-base with start and end of an answer for each word."""
    return FineTuning(*BASE, 2).train()


def six_layers() -> nn.Module:
    """A distilled BERT of base's width with six layers, for questions."""
    return FineTuning(768, 6, 2).train()


def four_layers() -> nn.Module:
    """A distilled BERT of four layers of 312, for questions; its layers up are four times as wide, not 1,200."""
    return FineTuning(320, 4, 2).train()
