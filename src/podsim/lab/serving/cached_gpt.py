"""The GPT of `podsim train` with a cache of keys and values: prompts in chunks, and answers token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from podsim.lab.training.gpt import Piece, gpt
from podsim.lab.wires import load_torch
from podsim.workload.specification import Transformer


class CachedGpt:
    """A network with random weights, and the cache of as many sequences as it has slots. It runs on one thread."""

    def __init__(self, spec: Transformer, slots: int, longest: int) -> None:
        """Make the weights, and an empty cache for sequences of at most `longest` tokens."""
        self.torch = load_torch()
        self.torch.set_num_threads(1)
        piece = Piece(first=0, last=spec.layers, embedding=True, head=True)
        self.network = gpt(spec, piece, seed=0).eval()
        self.layers = list(self.network.layers.values())
        self.width, self.vocab, self.longest = spec.head_dim, spec.vocab, longest
        shape = (spec.layers, slots, spec.kv_heads, longest, spec.head_dim)
        self.keys, self.values = self.torch.zeros(shape), self.torch.zeros(shape)
        self.mix = self.torch.nn.functional.scaled_dot_product_attention

    def chunk(self, slot: int, tokens: Sequence[int], past: int) -> int:
        """The next token after a chunk of a prompt, `past` tokens of which are in the cache."""
        torch, count = self.torch, len(tokens)
        mask = None
        if past:
            rows, columns = torch.arange(count).unsqueeze(1), torch.arange(past + count).unsqueeze(0)
            mask = columns <= rows + past
        at = slice(past, past + count)

        def attend(layer: int, queries: Any, keys: Any, values: Any) -> Any:
            self.keys[layer, slot, :, at], self.values[layer, slot, :, at] = keys[0], values[0]
            known = (cache[layer, slot : slot + 1, :, : past + count] for cache in (self.keys, self.values))
            return self.mix(queries, *known, attn_mask=mask, is_causal=mask is None)

        with torch.inference_mode():
            x = self._embedded(torch.tensor([list(tokens)]), torch.arange(past, past + count))
            return int(self._logits(self._through(x, attend)[:, -1]).argmax())

    def decode(self, slots: Sequence[int], tokens: Sequence[int], pasts: Sequence[int]) -> list[int]:
        """The next token of each sequence, whose last token is not in the cache yet."""
        torch, most = self.torch, max(pasts) + 1
        rows, places = torch.tensor(slots), torch.tensor(pasts)
        mask = (torch.arange(most).unsqueeze(0) <= places.unsqueeze(1)).view(len(slots), 1, 1, most)

        def attend(layer: int, queries: Any, keys: Any, values: Any) -> Any:
            self.keys[layer, rows, :, places], self.values[layer, rows, :, places] = (
                keys[:, :, 0],
                values[:, :, 0],
            )
            known = (cache[layer, :, :, :most].index_select(0, rows) for cache in (self.keys, self.values))
            return self.mix(queries, *known, attn_mask=mask)

        with torch.inference_mode():
            x = self._embedded(torch.tensor(tokens).unsqueeze(1), places.unsqueeze(1))
            answer: list[int] = self._logits(self._through(x, attend)[:, 0]).argmax(-1).tolist()
            return answer

    def _embedded(self, tokens: Any, places: Any) -> Any:
        return self.network.tokens(tokens) + self.network.positions(places)

    def _through(self, x: Any, attend: Any) -> Any:
        """The activations after all layers; `attend` mixes the heads of one layer with its cache."""
        for number, layer in enumerate(self.layers):
            inner, part = layer.norm1(x), layer.attention
            heads = [
                made(inner).unflatten(-1, (-1, self.width)).transpose(1, 2)
                for made in (part.q, part.k, part.v)
            ]
            x = x + part.out(attend(number, *heads).transpose(1, 2).flatten(2))
            x = x + layer.mlp(layer.norm2(x))
        return x

    def _logits(self, x: Any) -> Any:
        return self.network.head(self.network.norm(x))
