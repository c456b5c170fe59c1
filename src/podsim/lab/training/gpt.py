"""The GPT that is trained: the network that a Transformer specifies, as torch modules with the same names in every plan.

A pipeline stage holds some of the layers under the names that they have in the whole network, and each weight is drawn
from the seed and its own name. So every layout starts from the same weights, and its checkpoints fit any other.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from podsim.lab.training.experts import ExpertShare, mixture_class
from podsim.lab.wires import load_torch
from podsim.workload.specification import Transformer

_STD = 0.02
EVERY = ExpertShare()
"""all experts on one rank, with room for all tokens"""
_ACTIVATIONS = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What one pipeline stage holds of a network."""

    first: int
    last: int
    """The layer after its last one."""
    embedding: bool
    head: bool


def pieces(cut: tuple[int, ...]) -> tuple[Piece, ...]:
    """The pieces of a network, by their numbers of layers."""
    ends = [sum(cut[: k + 1]) for k in range(len(cut))]
    return tuple(
        Piece(first=end - size, last=end, embedding=k == 0, head=k == len(cut) - 1)
        for k, (size, end) in enumerate(zip(cut, ends, strict=True))
    )


def gpt_problems(spec: Transformer) -> list[str]:
    """The parts of a specification that this network lacks, each as a sentence; empty if it has all."""
    lacking = {
        "shared experts or dense layers beside its experts": bool(
            spec.experts and (spec.shared_ffn or spec.dense_beside or spec.dense_layers)
        ),
        "a corrected or grouped router": bool(spec.router_bias or spec.router_groups > 1),
        "latent attention": spec.kv_rank > 0, "windows": any(spec.windows),
        "an encoder": spec.encoder_layers > 0, "attention in both directions": spec.bidirectional,
        f"positions of kind {spec.position}": spec.position not in ("learned", "rope"),
        "parallel attention and MLP": spec.parallel_residual, "norms after the residual sum": not spec.norm_first,
        "sandwich norms": spec.sandwich_norms, "norms of queries and keys": spec.qk_norm != "none",
        "a norm of the embedding": spec.embedding_norm, "token types": spec.token_types > 0,
        "a projected embedding": spec.embedding_width not in (0, spec.hidden), "no final norm": not spec.final_norm,
        "multi-token prediction": spec.mtp > 0,
        "no head": not spec.lm_head, "a bias of the head": spec.head_bias, "norms without scale": not spec.norm_scale,
        "value heads of their own width": spec.value_dim not in (0, spec.head_dim),
        f"activation {spec.activation}": spec.activation not in ("relu", "silu", *_ACTIVATIONS),
    }  # fmt: skip
    names = [name for name, there in lacking.items() if there]
    problems = [f"{spec.name} has {', '.join(names)}, which podsim train does not build"] if names else []
    if spec.dropout:
        problems.append(
            f"{spec.name} has dropout, which no two layouts draw alike: add --set model.dropout=false"
        )
    return problems


def gpt(
    spec: Transformer, piece: Piece, *, seed: int, recompute: bool = False, share: ExpertShare = EVERY
) -> Any:
    """The module of a stage, on the CPU, with its first weights.

    recompute: layers run again in the backward pass; share: the experts of a mixture that this rank holds.
    """
    torch = load_torch()
    module = _stage_class()(spec, piece, recompute, share)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            draws = torch.Generator().manual_seed((seed << 32) + zlib.crc32(name.encode()))
            if parameter.ndim > 1:
                shrink = (2 * spec.layers) ** -0.5 if name.endswith(".out.weight") else 1.0
                parameter.normal_(0.0, _STD * shrink, generator=draws)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
    return module


def _norm(spec: Transformer) -> Any:
    """The norm that a network has."""
    nn = load_torch().nn
    if spec.norm == "rmsnorm":
        return nn.RMSNorm(spec.hidden, eps=1e-5)
    return nn.LayerNorm(spec.hidden, bias=spec.norm_bias)


@lru_cache(maxsize=1)
def _layer_class() -> Any:
    """The class of a layer; made when PyTorch is there."""
    torch = load_torch()
    nn, functional = torch.nn, torch.nn.functional
    base: Any = nn.Module

    class Attention(base):  # type: ignore[misc]
        """Causal self-attention; under tensor parallelism over the heads that this rank has."""

        def __init__(self, spec: Transformer) -> None:
            super().__init__()
            self.width, self.rotary = spec.head_dim, spec.position == "rope"
            queries, keys = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
            self.q = nn.Linear(spec.hidden, queries, bias=spec.qkv_bias)
            self.k = nn.Linear(spec.hidden, keys, bias=spec.qkv_bias)
            self.v = nn.Linear(spec.hidden, keys, bias=spec.qkv_bias)
            self.out = nn.Linear(queries, spec.hidden, bias=spec.proj_bias)
            self.mix = partial(functional.scaled_dot_product_attention, is_causal=True)

        def forward(self, x: Any) -> Any:
            q, k, v = (
                part.unflatten(-1, (-1, self.width)).transpose(1, 2)
                for part in (self.q(x), self.k(x), self.v(x))
            )
            if self.rotary:
                q, k = _rotated(torch, q), _rotated(torch, k)
            if len(k[0]) < len(q[0]):
                k, v = (heads.repeat_interleave(len(q[0]) // len(heads[0]), dim=1) for heads in (k, v))
            return self.out(self.mix(q, k, v).transpose(1, 2).flatten(2))

    class Mlp(base):  # type: ignore[misc]
        """Up, activation (with an optional gate), down."""

        def __init__(self, spec: Transformer) -> None:
            super().__init__()
            self.kind = spec.activation
            self.up = nn.Linear(spec.hidden, spec.ffn, bias=spec.mlp_bias)
            self.gate = nn.Linear(spec.hidden, spec.ffn, bias=spec.mlp_bias) if spec.gated else None
            self.out = nn.Linear(spec.ffn, spec.hidden, bias=spec.mlp_bias)

        def forward(self, x: Any) -> Any:
            inner = self.up(x) if self.gate is None else self.gate(x)
            if self.kind in _ACTIVATIONS:
                inner = functional.gelu(inner, approximate=_ACTIVATIONS[self.kind])
            else:
                inner = getattr(functional, self.kind)(inner)
            return self.out(inner if self.gate is None else inner * self.up(x))

    mixture = mixture_class(Mlp)

    class Layer(base):  # type: ignore[misc]
        """Attention and MLP, each after a norm, each added to what came in."""

        def __init__(self, spec: Transformer, share: ExpertShare) -> None:
            super().__init__()
            self.norm1, self.attention = _norm(spec), Attention(spec)
            self.norm2, self.mlp = _norm(spec), mixture(spec, share) if spec.experts else Mlp(spec)

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    return Layer


@lru_cache(maxsize=1)
def _stage_class() -> Any:
    """The class of a stage; made when PyTorch is there."""
    torch, layer_class = load_torch(), _layer_class()
    nn = torch.nn
    base: Any = nn.Module

    class Stage(base):  # type: ignore[misc]
        """Tokens or activations in, activations or logits out."""

        def __init__(self, spec: Transformer, piece: Piece, recompute: bool, share: ExpertShare) -> None:
            super().__init__()
            self.recompute = recompute
            learned = piece.embedding and spec.position == "learned"
            self.tokens: Any = nn.Embedding(spec.vocab, spec.hidden) if piece.embedding else None
            self.positions = nn.Embedding(spec.positions, spec.hidden) if learned else None
            self.layers = nn.ModuleDict(
                {str(k): layer_class(spec, share) for k in range(piece.first, piece.last)}
            )
            self.norm: Any = _norm(spec) if piece.head else None
            self.head: Any = nn.Linear(spec.hidden, spec.vocab, bias=False) if piece.head else None
            if spec.tied and self.head is not None and self.tokens is not None:
                self.head.weight = self.tokens.weight

        def forward(self, x: Any) -> Any:
            length = x.shape[1]
            if self.tokens is not None:
                places = torch.arange(length, device=x.device).unsqueeze(0)
                x = self.tokens(x)
                if self.positions is not None:
                    x = x + self.positions(places)
            for layer in self.layers.values():
                x = (
                    torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
                    if self.recompute
                    else layer(x)
                )
            return x if self.head is None else self.head(self.norm(x))

    return Stage


def _rotated(torch: Any, x: Any) -> Any:
    """Queries or keys turned by their positions (Su et al. 2021), halves paired."""
    length, half = x.shape[-2], x.shape[-1] // 2
    speed = 10000.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    angle = torch.arange(length, device=x.device, dtype=torch.float32).unsqueeze(1) * speed
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half : 2 * half]
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
