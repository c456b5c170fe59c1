r"""BART-large as it is pre-trained (Lewis et al. 2019, arxiv.org/abs/1910.13461), for `podsim capture`.

podsim capture examples/modules/bart.py:training --input 32x512:int64 --input 32x512:int64 --input 32x512:int64 \
    --out bart.json

Inputs are the noised text, the text one word late, and the text; the loss is cross-entropy over all words of the
vocabulary at each place. Its layers are those of the Transformer in translation.py, with GELU.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from translation import HIDDEN, Layer

LAYERS, WORDS, POSITIONS = 12, 50_265, 1026


class Half(nn.Module):
    """Encoder or decoder: words and learned positions, a norm, and the layers."""

    def __init__(self, words: nn.Embedding, decoder: bool) -> None:
        super().__init__()
        self.words = words
        self.positions = nn.Embedding(POSITIONS, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)
        self.dropout = nn.Dropout(0.1)
        self.layers = nn.ModuleList(Layer(decoder, functional.gelu) for _ in range(LAYERS))

    def forward(self, words: Tensor, seen: Tensor | None, mask: Tensor | None) -> Tensor:
        places = torch.arange(2, words.shape[1] + 2, device=words.device)
        x = self.dropout(self.norm(self.words(words) + self.positions(places)))
        for layer in self.layers:
            x = layer(x, seen, mask)
        return x


class Bart(nn.Module):
    """Noised text and text to the loss; one table of words for both halves and for the logits."""

    def __init__(self) -> None:
        super().__init__()
        words = nn.Embedding(WORDS, HIDDEN)
        self.encoder, self.decoder = Half(words, False), Half(words, True)

    def forward(self, noised: Tensor, before: Tensor, words: Tensor) -> Tensor:
        tokens = before.shape[1]
        later = torch.full((tokens, tokens), -torch.inf, device=noised.device).triu(1)
        x = self.decoder(before, self.encoder(noised, None, None), later)
        logits = functional.linear(x, self.decoder.words.weight)
        return functional.cross_entropy(logits.view(-1, WORDS), words.view(-1))


def training() -> nn.Module:
    """The module as it is trained."""
    return Bart().train()
