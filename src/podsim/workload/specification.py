"""The dimensions of a transformer: one specification for every family, with its rules."""

from __future__ import annotations

from typing import Any, Literal, get_args

from podsim.errors import ModelError
from podsim.records import dataclass, fields, replace
from podsim.workload.model import Captured

Norm = Literal["layernorm", "rmsnorm"]
Position = Literal["learned", "rope", "alibi", "relative", "none"]
QkNorm = Literal["none", "head", "full"]
Mixer = Literal["attention", "state", "both", "none"]
Changes = tuple[tuple[str, Any], ...]
"""fields of a specification that one layer has otherwise, as pairs"""


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """The shape of a transformer; a zero in a derived field means "as the others say" (see `resolve`).

    The defaults are those of a GPT in the style of GPT-2 and Megatron-LM. All widths are in elements.
    """

    name: str
    family: str = "gpt"
    source: str = ""

    layers: int
    """The number of decoder layers (of an encoder-only model: its layers)."""
    hidden: int
    heads: int
    kv_heads: int = 0
    """The number of key/value heads; 0 is `heads`."""
    head_dim: int = 0
    """The width of a query/key head; 0 is hidden / heads, or nope_dim + rope_dim for latent attention."""
    value_dim: int = 0
    """The width of a value head; 0 is head_dim."""
    ffn: int = 0
    """The inner width of the MLP; 0 is 4 hidden."""
    vocab: int
    sequence: int
    """The training sequence length in tokens."""

    gated: bool = False
    """Whether the MLP has a gate next to its up-projection (SwiGLU, GeGLU)."""
    activation: str = "gelu"
    norm: Norm = "layernorm"
    norm_scale: bool = True
    """Whether norms have a learned scale."""
    norm_bias: bool = True
    """Whether LayerNorms have a learned bias; an RMSNorm never has one."""
    qkv_bias: bool = True
    proj_bias: bool = True
    mlp_bias: bool = True
    head_bias: bool = False
    tied: bool = True
    """Whether the head multiplies by the embedding's table."""
    dropout: bool = False
    """Whether there is dropout after the embedding and after each branch of a layer."""

    position: Position = "learned"
    positions: int = 0
    """The number of rows of a learned position table; 0 is `sequence`."""
    relative_buckets: int = 0
    """The number of rows of a relative-position table (T5: one for the encoder, one for the decoder)."""
    token_types: int = 0
    """The number of rows of a token-type table (BERT)."""
    embedding_width: int = 0
    """The width of the embedding table if it is projected to `hidden` (OPT-350m); 0 is `hidden`."""
    embedding_norm: bool = False
    final_norm: bool = True

    parallel_residual: bool = False
    """Whether attention and MLP read the same input, and both are added to it."""
    shared_norm: bool = False
    """Whether one norm feeds both, with parallel_residual."""
    norm_first: bool = True
    """Whether norms stand before attention and MLP; otherwise after the residual sum (BERT)."""
    sandwich_norms: bool = False
    """Whether there is one more norm after attention and after the MLP, before the residual sum (Gemma 2, 3)."""
    qk_norm: QkNorm = "none"
    """The norm of queries and keys: over each head with one set of weights, or over their full width."""
    windows: tuple[int, ...] = ()
    """The sliding windows in tokens (0 is full attention), a pattern repeated over the layers."""

    experts: int = 0
    top_k: int = 0
    expert_ffn: int = 0
    """The inner width of one expert; 0 is `ffn`."""
    expert_hidden: int = 0
    """The width that the routed experts read and write, between two products; 0 is `hidden` (Nemotron 3 Super)."""
    shared_ffn: int = 0
    """The inner width of all shared experts together."""
    shared_experts: int = 0
    shared_gate: bool = False
    """Whether a learned scalar gates the shared experts' output (Qwen2-MoE)."""
    router_bias: bool = False
    """Whether there is a learned correction per expert (DeepSeek-V3)."""
    dense_layers: tuple[int, ...] = ()
    """The indices of the layers of a mixture that keep a plain MLP."""

    kv_rank: int = 0
    """The width of the compressed keys and values of latent attention (MLA); 0 is plain attention."""
    q_rank: int = 0
    """The width of the compressed query of latent attention; 0 leaves queries uncompressed."""
    nope_dim: int = 0
    """The part of a query/key head without rotary position, for latent attention."""
    rope_dim: int = 0
    """The part of a query/key head with rotary position, shared by the key heads, for latent attention."""

    rotary_base: int = 0
    """The base of the rotary frequencies; 0 is not known. No cost depends on it, but launch files state it."""
    router_score: str = ""
    """The function that turns a router's logits into scores: softmax, sigmoid, sqrtsoftplus; empty if not known."""
    router_groups: int = 0
    """The number of groups of experts, of which a token uses `router_top_groups`; 0 is one group."""
    router_top_groups: int = 0
    """The number of groups whose experts a token may use."""

    encoder_layers: int = 0
    """The number of layers of an encoder whose output the decoder attends to (T5)."""
    decoder_sequence: int = 0
    """The sequence length of the decoder in tokens, where an encoder has `sequence`; 0 is as many."""
    bidirectional: bool = False
    """Whether attention sees the whole sequence (BERT)."""
    lm_head: bool = True
    """Whether the model ends in logits over the vocabulary."""
    mtp: int = 0
    """The number of modules of multi-token prediction, each a layer that predicts one token further ahead."""
    mlm_transform: bool = False
    """Whether there is a dense layer, activation and norm before the logits (BERT)."""
    pooler: bool = False
    """Whether there is a dense layer on the first token (BERT)."""
    query_gate: int = 0
    """count. The gates on a head's output that are projected with the queries: head_dim, 1, or 0 for none."""
    sinks: bool = False
    """Whether each head has a learned logit that takes part in the softmax (gpt-oss)."""
    keys_are_values: bool = False
    """Whether keys serve as values, without a projection of their own (Gemma 4)."""
    shared_keys: bool = False
    """Whether keys and values are those of an earlier layer (Gemma 3n)."""
    proj_rank: int = 0
    """The width between the two products of attention's output, for each group of heads; 0 is one product."""
    proj_groups: int = 0
    """The number of those groups; 0 is one."""
    compress: int = 0
    """The number of tokens whose keys and values are compressed into one that all later queries may see; 0 is none."""
    index_heads: int = 0
    """The number of heads of the indexer that picks the keys of sparse attention (DeepSeek-V3.2); 0 is none."""
    index_dim: int = 0
    """The width of a head of the indexer."""
    index_keys: int = 0
    """The number of keys that a query attends to under sparse attention."""

    mixer: Mixer = "attention"
    """The mixer of tokens: attention, a state-space or linear-attention scan, both side by side, or nothing."""
    feed: bool = True
    """Whether the layer has an MLP or a mixture."""
    dense_beside: bool = False
    """Whether a dense MLP runs next to the experts, and both are added (Gemma 4, Arctic)."""
    state_input: int = 0
    """The width of a scan's input projection."""
    state_channels: int = 0
    """The number of channels of the short convolution before a scan."""
    state_taps: int = 0
    """The number of taps of that convolution."""
    state_bias: bool = False
    """Whether that convolution has a bias."""
    state_width: int = 0
    """The width of a scan's output, which its output projection reads."""
    state_dim: int = 0
    """The number of states of each of those channels."""
    state_chunk: int = 0
    """The length of the chunks within which a scan is a matrix product, in tokens; 0 scans step by step."""
    plain: int = 0
    """The number of a layer's parameters that no product reads: decays, scales, norms of a scan."""
    extras: tuple[tuple[str, int, int], ...] = ()
    """The further products of a layer: (name, inner width, output width)."""
    head_plain: int = 0
    """The number of parameters outside the layers that no product reads."""
    variations: tuple[Changes, ...] = ()
    """The fields that each layer has otherwise, layer by layer; empty where all are alike."""
    vision: Transformer | None = None
    """The encoder of images, whose output is part of the sequence."""
    image_percent: int = 25
    """The percentage of a sequence's tokens that come from images, where there is an encoder of them."""
    captured: Captured | None = None
    """The blocks of a class that was built, in place of all that the other fields say of layers."""
    assumptions: tuple[str, ...] = ()
    """The assumptions where the source says nothing."""
    doubts: tuple[str, ...] = ()
    """The parts of the source that may have been read wrongly."""
    classes: int = 0
    """The width of a classifier: on the pooled token if there is a pooler, otherwise on every token."""


# largest value that is still believed, per field: an order of magnitude above anything published
LIMITS: dict[str, int] = {
    "layers": 10_000, "hidden": 2**20, "heads": 2**14, "kv_heads": 2**14, "head_dim": 2**16,
    "value_dim": 2**16, "ffn": 2**24, "vocab": 2**26, "sequence": 2**27, "positions": 2**27,
    "relative_buckets": 2**16,
    "token_types": 2**16, "embedding_width": 2**20, "experts": 2**16, "top_k": 2**16, "expert_ffn": 2**24,
    "expert_hidden": 2**20,
    "shared_ffn": 2**24, "shared_experts": 2**16, "kv_rank": 2**20, "q_rank": 2**20, "nope_dim": 2**16,
    "rope_dim": 2**16, "encoder_layers": 10_000, "decoder_sequence": 2**27, "classes": 2**26,
    "proj_rank": 2**20, "proj_groups": 2**14, "compress": 2**20, "query_gate": 2**16, "index_heads": 2**14,
    "index_dim": 2**16, "index_keys": 2**27, "state_input": 2**24, "state_channels": 2**24, "state_taps": 2**10,
    "state_width": 2**24, "state_dim": 2**20, "state_chunk": 2**20, "plain": 2**40, "head_plain": 2**40,
    "image_percent": 100, "mtp": 64, "rotary_base": 2**40, "router_groups": 2**16, "router_top_groups": 2**16,
}  # fmt: skip
_ESSENTIAL = ("layers", "hidden", "heads", "vocab", "sequence")
_FLAGS = tuple(f.name for f in fields(Transformer) if f.type == "bool")
_CHOICES = {"norm": get_args(Norm), "position": get_args(Position), "qk_norm": get_args(QkNorm),
            "mixer": get_args(Mixer)}  # fmt: skip


def shown(value: object) -> str:
    """Short text of any value for a message, never an error itself."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return f"a number of {value.bit_length()} bits"
    if value is None or isinstance(value, (bool, int, float, str)):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return f"a {type(value).__name__}"


def resolve(spec: Transformer) -> Transformer:
    """The same transformer with every derived width filled in; raises ModelError with all broken rules."""
    problems = _wrong_values(spec)
    if not problems:
        problems = _head_problems(spec)
        spec = _fill_widths(spec)
        problems += _broken_rules(spec)
    if problems:
        raise ModelError(f"model {shown(spec.name)}: " + "; ".join(problems))
    return spec


def _wrong_values(spec: Transformer) -> list[str]:
    problems = []
    for name, most in LIMITS.items():
        least = 1 if name in _ESSENTIAL else 0
        value = getattr(spec, name)
        if type(value) is not int or not least <= value <= most:
            problems.append(f"{name}={shown(value)} must be a whole number from {least} to {most}")
    for name in _FLAGS:
        if type(getattr(spec, name)) is not bool:
            problems.append(f"{name}={shown(getattr(spec, name))} must be true or false")
    for name in ("name", "family", "source", "activation", "router_score"):
        if type(getattr(spec, name)) is not str:
            problems.append(f"{name}={shown(getattr(spec, name))} must be text")
    for name, choices in _CHOICES.items():
        if getattr(spec, name) not in choices:
            problems.append(f"{name}={shown(getattr(spec, name))} must be one of {', '.join(choices)}")
    for name, most in (("windows", LIMITS["sequence"]), ("dense_layers", LIMITS["layers"])):
        values = getattr(spec, name)
        if type(values) is not tuple or any(type(x) is not int or not 0 <= x <= most for x in values):
            problems.append(f"{name} must be whole numbers from 0 to {most}")
    return problems


def _head_problems(spec: Transformer) -> list[str]:
    if spec.head_dim or spec.kv_rank or spec.hidden % spec.heads == 0:
        return []
    known = _divisors(spec.hidden)
    return [f"heads={spec.heads} does not divide hidden={spec.hidden}; give head_dim, or heads among {known}"]


def _fill_widths(spec: Transformer) -> Transformer:
    head_dim = spec.head_dim or (spec.nope_dim + spec.rope_dim if spec.kv_rank else spec.hidden // spec.heads)
    ffn = spec.ffn or 4 * spec.hidden
    return replace(
        spec,
        kv_heads=spec.kv_heads or spec.heads,
        head_dim=head_dim,
        value_dim=spec.value_dim or head_dim,
        ffn=ffn,
        positions=(spec.positions or spec.sequence) if spec.position == "learned" else 0,
        embedding_width=spec.embedding_width or spec.hidden,
        expert_ffn=(spec.expert_ffn or ffn) if spec.experts else 0,
        proj_groups=max(spec.proj_groups, 1),
    )


def _broken_rules(spec: Transformer) -> list[str]:
    problems = []
    if spec.heads % spec.kv_heads:
        known = _divisors(spec.heads)
        problems.append(f"kv_heads={spec.kv_heads} does not divide heads={spec.heads}; it may be {known}")
    if spec.position == "learned" and spec.sequence > spec.positions:
        problems.append(
            f"sequence={spec.sequence} is longer than the position table, positions={spec.positions}; "
            f"shorten the sequence or set positions={spec.sequence}"
        )
    if spec.mixer in ("state", "both") and not (spec.state_input and spec.state_width):
        problems.append(f"mixer={spec.mixer} needs state_input and state_width")
    if spec.variations and len(spec.variations) != spec.layers:
        stated = len(spec.variations)
        problems.append(
            f"layers={spec.layers} cannot change: the config describes {stated} layers one by one"
        )
    if spec.experts and not 1 <= spec.top_k <= spec.experts:
        problems.append(f"top_k={spec.top_k} must be from 1 to experts={spec.experts}")
    if not spec.experts and (spec.top_k or spec.shared_ffn):
        problems.append(f"top_k={spec.top_k}, shared_ffn={spec.shared_ffn} need experts, but experts=0")
    if spec.kv_rank and not (spec.nope_dim + spec.rope_dim == spec.head_dim and spec.kv_heads == spec.heads):
        problems.append(
            "latent attention needs nope_dim + rope_dim = head_dim and kv_heads = heads; got "
            f"nope_dim={spec.nope_dim}, rope_dim={spec.rope_dim}, head_dim={spec.head_dim}, "
            f"kv_heads={spec.kv_heads}, heads={spec.heads}"
        )
    if spec.decoder_sequence > spec.sequence or (spec.decoder_sequence and not spec.encoder_layers):
        problems.append(
            f"decoder_sequence={spec.decoder_sequence} needs an encoder of at least as many tokens; "
            f"got encoder_layers={spec.encoder_layers}, sequence={spec.sequence}"
        )
    if spec.mtp and (spec.encoder_layers or spec.captured or not spec.lm_head):
        problems.append(f"mtp={spec.mtp} needs a decoder alone, with logits over the vocabulary")
    if spec.encoder_layers and (spec.experts or spec.kv_rank or spec.parallel_residual):
        problems.append("an encoder with experts, latent attention or parallel residual is not supported")
    return problems


def _divisors(number: int) -> str:
    small = [d for d in range(1, min(number, 512) + 1) if number % d == 0]
    return ", ".join(map(str, small[:12])) + (", …" if len(small) > 12 else "")
